//! Writes SVG elements into a string, always in the same way.

use std::fmt::Write as _;

/// Text with the five characters replaced that mean something in HTML, XML and attributes, and
/// without the control characters that XML forbids.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            _ if character.is_control() => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A coordinate with at most two decimals: a hundredth of a pixel is more than can be seen.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return String::from("0");
    }
    let mut text = format!("{value:.2}");
    while text.contains('.') && (text.ends_with('0') || text.ends_with('.')) {
        text.pop();
    }
    if text == "-0" {
        text.remove(0);
    }
    text
}

/// A point on a grid of tenths of a pixel, which is finer than a line is seen.
fn on_grid((x, y): (f64, f64)) -> (i64, i64) {
    // What is not finite becomes 0.
    ((x * 10.0).round() as i64, (y * 10.0).round() as i64)
}

/// A coordinate of the grid, with a decimal if it has one.
fn tenths(value: i64) -> String {
    number(value as f64 / 10.0)
}

/// The commands of a line through points. Steps along an axis name one coordinate only, and points
/// that are the same on the grid are named once: curves are most of a report.
fn path_data(points: &[(f64, f64)]) -> String {
    let mut data = String::new();
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in points.iter().copied().map(on_grid) {
        // Writing to a string cannot fail.
        let _ = match last {
            None => write!(data, "M{} {}", tenths(x), tenths(y)),
            Some(last) if last == (x, y) => Ok(()),
            Some((_, last)) if last == y => write!(data, "H{}", tenths(x)),
            Some((last, _)) if last == x => write!(data, "V{}", tenths(y)),
            Some(_) => write!(data, "L{} {}", tenths(x), tenths(y)),
        };
        last = Some((x, y));
    }
    data
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn class(self) -> &'static str {
        match self {
            Self::Start => "",
            Self::Middle => " m",
            Self::End => " e",
        }
    }
}

/// An SVG element under construction.
#[derive(Debug, Default)]
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// Opens the outer element; `title` is what readers of the screen hear.
    pub(super) fn open(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self::default();
        let (w, h) = (number(width), number(height));
        svg.push(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {w} {h}\" \
             width=\"{w}\" height=\"{h}\" role=\"img\">"
        ));
        svg.push(&format!("<title>{}</title>\n", escape(title)));
        svg.rect((0.0, 0.0, width, height), "paper", "");
        svg
    }

    pub(super) fn close(mut self) -> String {
        self.push("</svg>");
        self.text
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// What follows is not drawn outside `(left, top, width, height)`, until [`Self::end_clip`].
    pub(super) fn begin_clip(&mut self, (left, top, width, height): (f64, f64, f64, f64)) {
        let [x, y, w, h] = [left, top, width, height].map(number);
        self.push(&format!(
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">\n"
        ));
    }

    pub(super) fn end_clip(&mut self) {
        self.push("</svg>\n");
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    /// A rectangle `(left, top, width, height)`; a tip, if not empty, shows under the pointer.
    pub(super) fn rect(&mut self, at: (f64, f64, f64, f64), class: &str, tip: &str) {
        let [x, y, w, h] = [at.0, at.1, at.2, at.3].map(number);
        let open =
            format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"");
        self.push(&open);
        if tip.is_empty() {
            self.push("/>\n");
        } else {
            self.push(&format!("><title>{}</title></rect>\n", escape(tip)));
        }
    }

    pub(super) fn circle(&mut self, at: (f64, f64), radius: f64, class: &str) {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        self.push(&format!(
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>\n"
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let [x, y] = [at.0, at.1].map(number);
        let class = format!("{class}{}", anchor.class());
        self.push(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n",
            escape(text)
        ));
    }

    /// A text turned by `degrees` clockwise about its point.
    pub(super) fn turned_text(
        &mut self,
        at: (f64, f64),
        degrees: f64,
        anchor: Anchor,
        class: &str,
        text: &str,
    ) {
        let [x, y, angle] = [at.0, at.1, degrees].map(number);
        let class = format!("{class}{}", anchor.class());
        self.push(&format!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate({angle})\">{}</text>\n",
            escape(text)
        ));
    }

    /// A polygon or an open line through points; nothing for fewer than two points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], is_closed: bool, class: &str) {
        if points.len() < 2 {
            return;
        }
        let mut data = path_data(points);
        if is_closed {
            data.push('Z');
        }
        self.push(&format!("<path class=\"{class}\" d=\"{data}\"/>\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_what_changes_and_nothing_twice() {
        let points = [
            (1.0, 2.04),
            (1.02, 2.0),
            (1.0, 5.55),
            (9.96, 5.55),
            (12.0, 1.0),
        ];
        assert_eq!(path_data(&points), "M1 2V5.6H10L12 1");
        assert_eq!(path_data(&[(f64::NAN, 1.0), (-0.01, 1.0)]), "M0 1");
    }
}
