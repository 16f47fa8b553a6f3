//! What can be drawn, and what every kind of figure may have in it.

use super::colour::css;

/// Something that can be drawn.
pub trait Figure {
    /// The `<svg>` element, coloured by the classes of [`css`], for a page that contains those.
    fn fragment(&self) -> String;

    /// What it is drawn of, as CSV (RFC 4180) under a line of heads, which name the units.
    fn data(&self) -> String;

    /// Both.
    fn drawing(&self) -> Drawing {
        Drawing {
            fragment: self.fragment(),
            data: self.data(),
        }
    }

    /// An SVG document that carries its own colours.
    fn to_svg(&self) -> String {
        standalone(&self.fragment())
    }
}

/// A figure that has been drawn, with what it was drawn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// [`Figure::fragment`].
    pub fragment: String,
    /// [`Figure::data`].
    pub data: String,
}

/// The SVG document that a figure's fragment is with colours of its own.
pub fn standalone(fragment: &str) -> String {
    // The fragment's first tag ends at the first '>': attribute values are escaped.
    let end = fragment.find('>').map_or(0, |index| index + 1);
    let (open, rest) = fragment.split_at(end);
    format!("{open}<style>{}</style>{rest}\n", css())
}

/// A stretch of an axis that is set apart from the rest, such as where samples are too few or where
/// the machine stood still.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Where it begins, in the axis' values.
    pub from: f64,
    /// Where it ends, in the axis' values.
    pub to: f64,
    /// What it means; shown in the legend.
    pub label: String,
}
