//! Tables as wide as there is room for: columns take what their cells need, and give it back only
//! when a line would be longer than the screen: sparklines first, from their oldest side, then
//! notes and names. Pure.

use super::line::{Line, Mark, Style, Tint};

/// How a column is filled, and what it gives when room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name: on the left; cut to no less than this.
    Name(usize),
    /// On the left; whole or cut at the end of the line.
    Text,
    /// On the right, and whole.
    Number,
    /// Newest last: its beginning goes first, down to this.
    Spark(usize),
    /// Said if there is room.
    Note,
}

impl Kind {
    /// Who gives first; none gives nothing.
    const ORDER: usize = 3;

    fn gives(self) -> Option<(usize, usize)> {
        match self {
            Self::Spark(least) => Some((0, least)),
            Self::Note => Some((1, 0)),
            Self::Name(least) => Some((2, least)),
            Self::Text | Self::Number => None,
        }
    }
}

/// A cell, in a colour of its own or in the line's.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    text: String,
    tint: Option<Tint>,
}

impl Cell {
    pub(super) fn tinted(self, tint: Tint) -> Self {
        Self {
            tint: Some(tint),
            ..self
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            tint: None,
        }
    }
}

/// Columns and rows; each row has a cell for each column, or fewer.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(&'static str, Kind)>,
    rows: Vec<(Style, Vec<Cell>)>,
}

impl Table {
    pub(super) fn new(columns: &[(&'static str, Kind)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, style: Style, cells: impl Into<Vec<Cell>>) {
        self.rows.push((style, cells.into()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Titles and rows, none longer than `width` if anything can give.
    pub(super) fn lines(&self, width: usize) -> Vec<Line> {
        let (widths, gap) = self.widths(width);
        let titles: Vec<Cell> = self
            .columns
            .iter()
            .map(|(title, _)| (*title).into())
            .collect();
        let mut lines = vec![self.line(Style::Title, &titles, (&widths, gap))];
        lines.extend(
            self.rows
                .iter()
                .map(|(style, cells)| self.line(*style, cells, (&widths, gap))),
        );
        lines
    }

    /// Widths of columns, and how far they stand apart.
    fn widths(&self, width: usize) -> (Vec<usize>, usize) {
        let needed = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let cells = cells.map(|cell| cell.text.chars().count());
            let title = self.columns[column].0.chars().count();
            cells.fold(title, usize::max)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(needed).collect();
        let gaps = widths.len().saturating_sub(1);
        let all = widths.iter().sum::<usize>();
        if all + 2 * gaps <= width {
            return (widths, 2);
        }
        let mut missing = (all + gaps).saturating_sub(width);
        for turn in 0..Kind::ORDER {
            for (column, (_, kind)) in self.columns.iter().enumerate() {
                if let Some((order, least)) = kind.gives()
                    && order == turn
                {
                    let given = missing.min(widths[column].saturating_sub(least));
                    widths[column] -= given;
                    missing -= given;
                }
            }
        }
        (widths, 1)
    }

    fn line(&self, style: Style, cells: &[Cell], (widths, gap): (&[usize], usize)) -> Line {
        let mut line = Line::new(style, "");
        let mut at = 0;
        for (index, ((_, kind), width)) in self.columns.iter().zip(widths).enumerate() {
            if index > 0 {
                line.text += &" ".repeat(gap);
                at += gap;
            }
            let Some(cell) = cells.get(index) else { break };
            line.text += &filled(&cell.text, *kind, *width, style == Style::Title);
            if let Some(tint) = cell.tint {
                let to = at + width;
                line.marks.push(Mark { from: at, to, tint });
            }
            at += width;
        }
        line
    }
}

/// Exactly `width` columns.
fn filled(text: &str, kind: Kind, width: usize, is_title: bool) -> String {
    let len = text.chars().count();
    match kind {
        Kind::Number => format!("{text:>width$}"),
        Kind::Spark(_) if !is_title => {
            let newest: String = text.chars().skip(len.saturating_sub(width)).collect();
            format!("{newest:>width$}")
        }
        _ => fit(text, width),
    }
}

/// Exactly `width` columns; what is cut off is told by a `~`.
pub(super) fn fit(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return format!("{text:<width$}");
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then_some('~')).collect()
}

/// The text in lines of at most `width`, broken between words where that is possible.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        let len = line.chars().count();
        if len > 0 && len + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if len > 0 {
                line.push(' ');
            }
            *line += word;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[
            ("NAME", Kind::Name(4)),
            ("PPS", Kind::Number),
            ("TREND", Kind::Spark(3)),
            ("WHY", Kind::Note),
        ]);
        table.row(
            Style::Plain,
            [
                "a-long-name".into(),
                "1.00k".into(),
                "123456".into(),
                "so".into(),
            ],
        );
        table
    }

    fn row(width: usize) -> String {
        table().lines(width)[1].text.clone()
    }

    #[test]
    fn nothing_is_cut_while_there_is_room() {
        assert_eq!(row(100), "a-long-name  1.00k  123456  so ");
        assert_eq!(
            table().lines(100)[0].text,
            "NAME           PPS  TREND   WHY"
        );
        assert_eq!(row(31), row(100));
        assert_eq!(row(30), "a-long-name 1.00k 123456 so ");
    }

    #[test]
    fn sparklines_give_first_then_notes_then_names() {
        assert_eq!(row(27), "a-long-name 1.00k 23456 so ");
        assert_eq!(row(25), "a-long-name 1.00k 456 so ");
        assert_eq!(row(22), "a-long-name 1.00k 456 ");
        assert_eq!(row(15), "a-l~ 1.00k 456 ");
        assert_eq!(row(0), "a-l~ 1.00k 456 ");
    }

    #[test]
    fn marks_stand_where_their_cells_are() {
        let mut table = table();
        table.row(
            Style::Plain,
            ["b".into(), Cell::from("0").tinted(Tint::Dim)],
        );
        let line = &table.lines(100)[2];
        let mark = line.marks[0];
        assert_eq!((mark.from, mark.to, mark.tint), (13, 18, Tint::Dim));
        assert_eq!(&line.text[mark.from..mark.to], "    0");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 100), ["one two three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
    }
}
