//! Figures and tables as elements of a page: what all parts of a report are made of.

use std::fmt::Write as _;

use crate::plot::escape;

pub(super) fn figure(page: &mut String, figure: Option<String>) {
    if let Some(figure) = figure {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "<figure>{figure}</figure>");
    }
}

/// A table of texts; cells that begin with a digit or a sign stand to the right.
pub(super) fn table(page: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    page.push_str("<div class=\"scroll\"><table>\n<tr>");
    for head in heads {
        let _ = write!(page, "<th>{}</th>", escape(head));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let is_number = cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
            let class = if is_number { " class=\"n\"" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}
