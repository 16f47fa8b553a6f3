//! Figures and tables as elements of a page: what all parts of a report are made of.

use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};

use crate::plot::{Drawing, escape};

/// A page that is being written: its text, and the figures in it so far.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) drawings: Vec<Drawing>,
}

impl Deref for Page {
    type Target = String;

    fn deref(&self) -> &String {
        &self.text
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.text
    }
}

/// The name of a file of the figure of this number, from 1: `svg`, or `csv` with its data.
pub fn figure_file(number: usize, ending: &str) -> String {
    format!("figure-{number}.{ending}")
}

/// A figure, under it the names of the files beside the page that have it and its data.
pub(super) fn figure(page: &mut Page, figure: Option<Drawing>) {
    if let Some(drawing) = figure {
        let number = page.drawings.len() + 1;
        let [svg, csv] = ["svg", "csv"].map(|ending| figure_file(number, ending));
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            page,
            "<figure>{}<figcaption><a href=\"{svg}\">{svg}</a>, its data: <a href=\"{csv}\">{csv}\
             </a></figcaption></figure>",
            drawing.fragment
        );
        page.drawings.push(drawing);
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
