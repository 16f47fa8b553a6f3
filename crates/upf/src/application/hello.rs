//! Whom a connection is to: the server's name in a TLS hello, or host and path of an HTTP request.
//!
//! On a packet's way, between its session and its PDR, for segments of UEs whose sessions have
//! applications, and for hellos that [`quic`](super::quic) has put together. What ends before the
//! name is [`Seen::Incomplete`]. Specification: RFC 8446 4.1.2, RFC 6066 3, RFC 9112 3.

/// What the data of a connection say at their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// Nothing that tells whom it is to.
    Nothing,
    /// The beginning of something that may.
    Incomplete,
    /// A hello or a request that names nobody: what an earlier one said is over.
    Nameless,
    /// A TLS client's hello to the server with this name.
    Tls(&'a [u8]),
    /// An HTTP request: host without port, and target.
    Http(&'a [u8], &'a [u8]),
}

const METHODS: [&[u8]; 7] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
];
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// Looks at what begins with a segment's data.
pub fn look(data: &[u8]) -> Seen<'_> {
    if data.first() == Some(&HANDSHAKE) {
        return hello(data);
    }
    match METHODS.iter().find(|method| data.starts_with(method)) {
        Some(method) => request(&data[method.len()..]),
        None => Seen::Nothing,
    }
}

/// Bytes that may end before what is in them.
struct Rest<'a> {
    bytes: &'a [u8],
}

impl<'a> Rest<'a> {
    /// Takes so many; none if they are not there.
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self, count: usize) -> Option<usize> {
        let bytes = self.take(count)?;
        Some(
            bytes
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte)),
        )
    }

    /// Passes over what is behind its length.
    fn skip(&mut self, count: usize) -> Option<()> {
        let len = self.number(count)?;
        self.take(len).map(drop)
    }
}

fn hello(data: &[u8]) -> Seen<'_> {
    match data {
        [_, 3, _, _, _, CLIENT_HELLO, ..] => {}
        [_] | [_, 3] | [_, 3, _] | [_, 3, _, _] | [_, 3, _, _, _] => return Seen::Incomplete,
        _ => return Seen::Nothing,
    }
    let record = 5 + (usize::from(data[3]) << 8 | usize::from(data[4]));
    // A hello of several records is looked at as far as the first one goes.
    let is_whole = data.len() >= record;
    let bytes = &data[..record.min(data.len())];
    // A record that says that it is shorter than a hello's header has nothing behind it.
    named(bytes.get(6..).unwrap_or_default(), is_whole)
}

/// Looks at the beginning of a handshake that has no records around it, as QUIC's.
pub fn look_at_handshake(data: &[u8]) -> Seen<'_> {
    match data {
        [CLIENT_HELLO, high, middle, low, ..] => {
            let len = [*high, *middle, *low].into_iter();
            let len = len.fold(0, |all, byte| all << 8 | usize::from(byte));
            named(&data[1..], data.len() >= 4 + len)
        }
        [] | [CLIENT_HELLO, ..] => Seen::Incomplete,
        _ => Seen::Nothing,
    }
}

/// The name in a hello, from behind its type on.
fn named(bytes: &[u8], is_whole: bool) -> Seen<'_> {
    match name_in(&mut Rest { bytes }) {
        Some(Some(name)) if !name.is_empty() => Seen::Tls(name),
        Some(_) => Seen::Nameless,
        None if is_whole => Seen::Nothing,
        None => Seen::Incomplete,
    }
}

/// The name, or that there is none; nothing if it ends before that is known.
fn name_in<'a>(rest: &mut Rest<'a>) -> Option<Option<&'a [u8]>> {
    // Length, version and random bytes.
    rest.take(3 + 2 + 32)?;
    // Session, ciphers, compression.
    rest.skip(1)?;
    rest.skip(2)?;
    rest.skip(1)?;
    let mut left = rest.number(2)?;
    while left >= 4 {
        let kind = rest.number(2)?;
        let len = rest.number(2)?;
        let bytes = rest.take(len)?;
        left = left.saturating_sub(4 + len);
        if kind == usize::from(SERVER_NAME) {
            // One name of the list is a host's (RFC 6066, 3).
            let [_, _, 0, high, low, name @ ..] = bytes else {
                return Some(None);
            };
            let len = usize::from(*high) << 8 | usize::from(*low);
            return Some(name.get(..len));
        }
    }
    Some(None)
}

/// What is behind the method of a request.
fn request(rest: &[u8]) -> Seen<'_> {
    let Some(end) = rest.iter().position(|byte| matches!(byte, b' ' | b'\r')) else {
        return Seen::Incomplete;
    };
    let (target, mut rest) = rest.split_at(end);
    loop {
        let Some(at) = rest.windows(2).position(|two| two == b"\r\n") else {
            return Seen::Incomplete;
        };
        rest = &rest[at + 2..];
        if rest.starts_with(b"\r\n") {
            return Seen::Nameless;
        }
        let Some((name, value)) = rest.split_at_checked(5) else {
            return Seen::Incomplete;
        };
        if !name.eq_ignore_ascii_case(b"host:") {
            continue;
        }
        let Some(end) = value.iter().position(|byte| *byte == b'\r') else {
            return Seen::Incomplete;
        };
        let host = value[..end].trim_ascii();
        // The port is behind the last colon, unless that is one of an IPv6 address.
        let colon = host.iter().rposition(|byte| *byte == b':');
        let host = match colon {
            Some(at) if !host.ends_with(b"]") => &host[..at],
            _ => host,
        };
        return match host.is_empty() {
            true => Seen::Nameless,
            false => Seen::Http(host, target),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::smf::tcp::client_hello;

    #[test]
    fn a_hello_names_its_server_wherever_it_ends() {
        let hello = client_hello("www.example.com", 700);
        assert_eq!(look(&hello), Seen::Tls(b"www.example.com"));
        for len in 1..hello.len() {
            assert_eq!(look(&hello[..len]), Seen::Incomplete, "{len}");
        }
        let mut answer = hello.clone();
        answer[5] = 2;
        assert_eq!(look(&answer), Seen::Nothing);
        assert_eq!(look(&client_hello("", 0)), Seen::Nameless);
    }

    #[test]
    fn a_record_may_say_any_length() {
        let mut hello = client_hello("www.example.com", 0);
        for len in (0..64).chain([0x3fff, 0xffff_u16]) {
            hello[3..5].copy_from_slice(&len.to_be_bytes());
            for end in 0..hello.len() {
                let _ = look(&hello[..end]);
            }
        }
        assert_eq!(look(&[22, 3, 1, 0, 0, CLIENT_HELLO]), Seen::Nothing);
    }

    #[test]
    fn a_request_names_its_host_and_target() {
        let text = b"GET /a?b HTTP/1.1\r\nUser-Agent: x\r\nhOST:  example.com:8080 \r\n\r\n";
        assert_eq!(look(text), Seen::Http(b"example.com", b"/a?b"));
        for len in 4..text.len() - 4 {
            assert_eq!(look(&text[..len]), Seen::Incomplete, "{len}");
        }
        assert_eq!(
            look(b"GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n"),
            Seen::Http(b"[2001:db8::1]", b"/")
        );
        assert_eq!(look(b"GET / HTTP/1.1\r\nA: b\r\n\r\n"), Seen::Nameless);
        assert_eq!(look(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), Seen::Nameless);
        assert_eq!(look(b"HTTP/1.1 200 OK\r\n"), Seen::Nothing);
        assert_eq!(look(b""), Seen::Nothing);
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(mut bytes: Vec<u8>, at in 0usize..300, byte: u8) {
            look(&bytes);
            bytes.splice(0..0, *b"GET ");
            look(&bytes);
            let mut hello = client_hello("a.example", 100);
            let at = at % hello.len();
            hello[at] = byte;
            look(&hello);
        }
    }
}
