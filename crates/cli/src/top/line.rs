//! A line of a frame, between the tables that fill it and the terminal that draws it: letters
//! without control characters, and which of them have a colour.

/// Colour of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tint {
    /// Nothing happens here.
    Dim,
    Good,
    /// Something is filling up.
    Warm,
    Hot,
    /// What was.
    Past,
}

/// Columns `from` to `to` of a line, in a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tint: Tint,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Headings.
    Title,
    /// Something an operator should look at.
    Alert,
}

/// One line, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) style: Style,
    pub(crate) text: String,
    /// From left to right.
    pub(crate) marks: Vec<Mark>,
}

impl Line {
    pub(super) fn new(style: Style, text: impl Into<String>) -> Self {
        Self {
            style,
            text: text.into(),
            marks: Vec::new(),
        }
    }
}
