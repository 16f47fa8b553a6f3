//! What a host name or a URL has to be like: text as it stands, or a regular expression.
//!
//! Beside a packet's life: made when PFDs come, and asked for each TLS hello and HTTP request of a
//! session that has applications. An expression becomes an automaton whose states are the bits of a
//! word, so that a byte costs as much as there are states, whatever the expression. Of regular
//! expressions there are literals, `.`, `[a-z]`, `[^a-z]`, `\d`, `\w`, `\.`, groups, `|`, `*`, `+`,
//! `?`, and `^` and `$` around the whole. Limits: [`STATE_COUNT_MAX`] characters and classes, and
//! groups 16 deep.

/// Most characters and classes of an expression: bits of a word.
pub const STATE_COUNT_MAX: usize = 128;
const DEPTH_MAX: usize = 16;

type Set = u128;

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class([u64; 4]);

impl Class {
    fn add(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    fn of(low: u8, high: u8) -> Self {
        let mut class = Self::default();
        class.add(low, high);
        class
    }

    fn not(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    const fn holds(&self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] >> (byte & 63) & 1 != 0
    }
}

/// An automaton: one state for each character of the expression, which is entered by it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Automaton {
    classes: Vec<Class>,
    follow: Vec<Set>,
    first: Set,
    last: Set,
    is_nullable: bool,
}

/// A part of an expression.
#[derive(Clone, Copy)]
struct Part {
    first: Set,
    last: Set,
    is_nullable: bool,
}

const EMPTY: Part = Part {
    first: 0,
    last: 0,
    is_nullable: true,
};

struct Parser<'a> {
    rest: &'a [u8],
    depth: usize,
    classes: Vec<Class>,
    follow: Vec<Set>,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn follow(&mut self, from: Set, to: Set) {
        for (state, follow) in self.follow.iter_mut().enumerate() {
            if from >> state & 1 != 0 {
                *follow |= to;
            }
        }
    }

    fn either(&mut self) -> Option<Part> {
        let mut all = self.sequence()?;
        while self.rest.first() == Some(&b'|') {
            self.next();
            let one = self.sequence()?;
            all = Part {
                first: all.first | one.first,
                last: all.last | one.last,
                is_nullable: all.is_nullable || one.is_nullable,
            };
        }
        Some(all)
    }

    fn sequence(&mut self) -> Option<Part> {
        let mut all = EMPTY;
        while !matches!(self.rest.first(), None | Some(b'|' | b')')) {
            let one = self.repeated()?;
            self.follow(all.last, one.first);
            let and_before = |is_nullable, set| if is_nullable { set } else { 0 };
            all = Part {
                first: all.first | and_before(all.is_nullable, one.first),
                last: one.last | and_before(one.is_nullable, all.last),
                is_nullable: all.is_nullable && one.is_nullable,
            };
        }
        Some(all)
    }

    fn repeated(&mut self) -> Option<Part> {
        let mut part = self.single()?;
        while let Some(times @ (b'*' | b'+' | b'?')) = self.rest.first().copied() {
            self.next();
            if times != b'?' {
                self.follow(part.last, part.first);
            }
            part.is_nullable |= times != b'+';
        }
        Some(part)
    }

    fn single(&mut self) -> Option<Part> {
        let class = match self.next()? {
            b'(' => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return None;
                }
                // Groups are not told apart.
                self.rest = self.rest.strip_prefix(b"?:").unwrap_or(self.rest);
                let part = self.either()?;
                self.depth -= 1;
                return (self.next()? == b')').then_some(part);
            }
            b'[' => self.class()?,
            b'.' => Class::default().not(),
            b'\\' => escaped(self.next()?)?,
            b'*' | b'+' | b'?' | b')' | b']' | b'{' | b'}' | b'^' | b'$' => return None,
            byte => Class::of(byte, byte),
        };
        let state = self.classes.len();
        if state == STATE_COUNT_MAX {
            return None;
        }
        self.classes.push(class);
        self.follow.push(0);
        Some(Part {
            first: 1 << state,
            last: 1 << state,
            is_nullable: false,
        })
    }

    fn class(&mut self) -> Option<Class> {
        let is_not = self.rest.first() == Some(&b'^');
        if is_not {
            self.next();
        }
        let mut class = Class::default();
        loop {
            let low = match self.next()? {
                b']' if class != Class::default() => break,
                b'\\' => {
                    let one = escaped(self.next()?)?;
                    for (all, one) in class.0.iter_mut().zip(one.0) {
                        *all |= one;
                    }
                    continue;
                }
                low => low,
            };
            match self.rest {
                [b'-', high, ..] if *high != b']' => {
                    let high = *high;
                    self.rest = &self.rest[2..];
                    if high < low || high == b'\\' {
                        return None;
                    }
                    class.add(low, high);
                }
                _ => class.add(low, low),
            }
        }
        Some(if is_not { class.not() } else { class })
    }
}

fn escaped(byte: u8) -> Option<Class> {
    let mut class = Class::default();
    match byte {
        b'd' => class.add(b'0', b'9'),
        b'w' => {
            class.add(b'0', b'9');
            class.add(b'a', b'z');
            class.add(b'A', b'Z');
            class.add(b'_', b'_');
        }
        byte if byte.is_ascii_alphanumeric() => return None,
        byte => class.add(byte, byte),
    }
    Some(class)
}

impl Automaton {
    fn new(expression: &[u8]) -> Option<Self> {
        let expression = expression.strip_prefix(b"^").unwrap_or(expression);
        let is_escaped = expression.ends_with(b"\\$");
        let expression = match expression.strip_suffix(b"$") {
            Some(rest) if !is_escaped => rest,
            _ => expression,
        };
        let mut parser = Parser {
            rest: expression,
            depth: 0,
            classes: Vec::new(),
            follow: Vec::new(),
        };
        let part = parser.either()?;
        // One of nothing says nothing.
        let is_whole = parser.rest.is_empty() && !parser.classes.is_empty();
        is_whole.then_some(Self {
            classes: parser.classes,
            follow: parser.follow,
            first: part.first,
            last: part.last,
            is_nullable: part.is_nullable,
        })
    }

    fn fits(&self, text: impl Iterator<Item = u8>) -> bool {
        let (mut states, mut reach) = (0, self.first);
        let mut is_empty = true;
        for byte in text {
            is_empty = false;
            let (mut left, mut next) = (reach, 0);
            (states, reach) = (0, 0);
            while left != 0 {
                let state = left.trailing_zeros() as usize;
                left &= left - 1;
                if self.classes[state].holds(byte) {
                    states |= 1 << state;
                    next |= self.follow[state];
                }
            }
            reach |= next;
            if states == 0 {
                return false;
            }
        }
        match is_empty {
            true => self.is_nullable,
            false => states & self.last != 0,
        }
    }
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A name as it stands.
    Name(Vec<u8>),
    /// All names that end so, with a dot in front.
    Below(Vec<u8>),
    /// All URLs that begin so.
    Begin(Vec<u8>),
    /// Text that fits as a whole.
    Expression(Automaton),
}

fn is_plain(text: &[u8], others: &[u8]) -> bool {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || others.contains(byte);
    !text.is_empty() && text.iter().all(is_known)
}

/// An expression whose letters stand for names in small letters; `\D` stays what it is.
fn lowered(text: &[u8]) -> Vec<u8> {
    let mut is_escaped = false;
    let bytes = text.iter().map(|byte| {
        let was_escaped = is_escaped;
        is_escaped = *byte == b'\\' && !was_escaped;
        match was_escaped {
            true => *byte,
            false => byte.to_ascii_lowercase(),
        }
    });
    bytes.collect()
}

impl Pattern {
    /// A domain name: `example.com` as it stands, `*.example.com` for all below it, or a regular
    /// expression for all of the name. None of what is neither.
    pub fn of_name(text: &[u8]) -> Option<Self> {
        let whole = text;
        let text = text.to_ascii_lowercase();
        let name = text.strip_suffix(b".").unwrap_or(&text);
        if is_plain(name, b"-_.") && !name.starts_with(b".") {
            return Some(Self(Kind::Name(name.to_vec())));
        }
        if let Some(rest) = name.strip_prefix(b"*").unwrap_or(name).strip_prefix(b".")
            && is_plain(rest, b"-_.")
        {
            return Some(Self(Kind::Below(rest.to_vec())));
        }
        Automaton::new(&lowered(whole)).map(|one| Self(Kind::Expression(one)))
    }

    /// A URL: what it begins with, with or without its scheme, or a regular expression for all of
    /// it. None of what is neither, and of a path behind `https`, which nobody sees.
    pub fn of_url(text: &[u8]) -> Option<Self> {
        if !is_plain(text, b"-_.~:/@!&',;=%#") {
            return Automaton::new(text).map(|one| Self(Kind::Expression(one)));
        }
        let mut url = text.to_vec();
        let lower = url.to_ascii_lowercase();
        let host_at = lower.windows(3).position(|part| part == b"://");
        let host_at = host_at.map_or(0, |at| at + 3);
        let path_at = url[host_at..].iter().position(|byte| *byte == b'/');
        let path_at = path_at.map_or(url.len(), |at| host_at + at);
        url[..path_at].make_ascii_lowercase();
        let has_path = url.len() > path_at + 1;
        let is_unseen = url.starts_with(b"https://") && has_path;
        (!is_unseen && path_at > host_at).then_some(Self(Kind::Begin(url)))
    }

    /// Whether a host's name, in whatever case, fits.
    pub fn fits_name(&self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b".").unwrap_or(name);
        match &self.0 {
            Kind::Name(own) => name.eq_ignore_ascii_case(own),
            Kind::Below(own) => {
                let at = name.len().checked_sub(own.len() + 1);
                at.is_some_and(|at| {
                    at > 0 && name[at] == b'.' && name[at + 1..].eq_ignore_ascii_case(own)
                })
            }
            Kind::Begin(_) => false,
            Kind::Expression(own) => own.fits(name.iter().map(u8::to_ascii_lowercase)),
        }
    }

    /// Whether the URL of these parts fits; the host in whatever case.
    pub fn fits_url(&self, scheme: &[u8], host: &[u8], target: &[u8]) -> bool {
        let host = host.iter().map(u8::to_ascii_lowercase);
        let behind = host.chain(target.iter().copied());
        let url = scheme.iter().copied().chain(behind.clone());
        match &self.0 {
            Kind::Begin(own) => {
                let begins = |mut text: &mut dyn Iterator<Item = u8>| {
                    own.iter().all(|byte| text.next() == Some(*byte)) && is_end(own, &mut text)
                };
                begins(&mut url.clone()) || begins(&mut behind.clone())
            }
            Kind::Expression(own) => own.fits(url) || own.fits(behind),
            Kind::Name(_) | Kind::Below(_) => false,
        }
    }
}

/// Whether a host ends where the text of one without a path does.
fn is_end(own: &[u8], rest: &mut dyn Iterator<Item = u8>) -> bool {
    let host_at = own.windows(3).position(|part| part == b"://");
    let host = &own[host_at.map_or(0, |at| at + 3)..];
    host.contains(&b'/') || matches!(rest.next(), None | Some(b'/' | b'?' | b':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(pattern: &str, name: &str) -> bool {
        let pattern = Pattern::of_name(pattern.as_bytes()).expect(pattern);
        pattern.fits_name(name.as_bytes())
    }

    #[test]
    fn a_class_that_is_not_known_is_no_other_one() {
        assert!(Pattern::of_name(br"\d+").is_some());
        assert!(Pattern::of_name(br"\D+").is_none());
        assert!(Pattern::of_name(br"\W").is_none());
    }

    #[test]
    fn names_fit_as_they_stand_below_a_name_or_by_an_expression() {
        for (pattern, right, wrong) in [
            ("Example.com", "eXample.com.", "www.example.com"),
            ("*.example.com", "a.b.example.com", "example.com"),
            (".example.com", "www.example.com", "wwwexample.com"),
            (r"^(.+\.)?video\.com$", "video.com", "avideo.com"),
            (r"(.+\.)?video\.com", "a.b.video.com", "video.com.evil"),
            (
                r"r\d+---sn-[a-z0-9]+\.cdn\.net",
                "r12---sn-4g5e.cdn.net",
                "r---sn-4.cdn.net",
            ),
            (r"a(b|cd)*e", "abcdbe", "abce"),
            (r"[^a]+", "bcd", "bad"),
            (r"WWW\d", "www1", "wwwd"),
            (r"x?y+", "yy", "x"),
        ] {
            assert!(name(pattern, right), "{pattern} {right}");
            assert!(!name(pattern, wrong), "{pattern} {wrong}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let long = "ab".repeat(65) + "+";
        let deep = "(".repeat(17) + "a" + &")".repeat(17);
        for text in [
            "", "^$", "(", "a)", "[", "[]", "a{2}", r"\", r"\z", "[z-a]", "a^b", &long, &deep,
        ] {
            assert_eq!(Pattern::of_name(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn urls_fit_from_their_beginning() {
        let fits = |pattern: &str, scheme: &str, host: &str, target: &str| {
            let pattern = Pattern::of_url(pattern.as_bytes()).expect(pattern);
            let [scheme, host, target] = [scheme, host, target].map(str::as_bytes);
            pattern.fits_url(scheme, host, target)
        };
        assert!(fits("http://a.com/video", "http://", "A.com", "/video/1"));
        assert!(fits("a.com/video", "http://", "a.com", "/video/1"));
        assert!(!fits("a.com/video", "http://", "a.com", "/Video/1"));
        assert!(!fits("a.com", "http://", "a.com.evil", "/"));
        assert!(fits("a.com", "http://", "a.com", "/x"));
        assert!(fits("https://a.com", "https://", "a.com", "/"));
        assert!(!fits("https://a.com", "http://", "a.com", "/"));
        assert!(fits(
            r"http://[^/]+/(live|vod)/.*",
            "http://",
            "b.tv",
            "/vod/7"
        ));
        assert_eq!(
            Pattern::of_url(b"https://a.com/video"),
            None,
            "nobody sees it"
        );
        assert_eq!(Pattern::of_url(b"/video"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text: Vec<u8>,
            other: Vec<u8>,
            expression in "[a-c().*+?|\\[\\]^$-]{0,20}",
        ) {
            for text in [&text, expression.as_bytes()] {
                let both = [Pattern::of_name(text), Pattern::of_url(text)];
                for pattern in both.into_iter().flatten() {
                    pattern.fits_name(&other);
                    pattern.fits_url(b"http://", &other, &other);
                }
            }
        }
    }
}
