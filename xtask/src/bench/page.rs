//! A benchmark's report as one self-contained page: figures, the table, what is missing, notes.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt::Write as _;

use catena_measure::plot::{self, escape};

use super::report::Report;

/// A drawing with the sentence below it.
pub(crate) struct Drawing {
    /// Of [`plot::Figure::fragment`].
    pub(crate) svg: String,
    /// How to read it.
    pub(crate) caption: String,
}

const CSS: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;\
    padding:0 1rem;color:#1b1f24;background:#fff}figure{margin:1.5rem 0}\
    figcaption{color:#57606a;font-size:.9em}table{border-collapse:collapse;font-size:.85em}\
    td,th{border-bottom:1px solid #d8dee4;padding:.2rem .5rem;text-align:left}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}.yes{color:#1a7f37}.no{color:#cf222e}\
    .wide{overflow-x:auto}\
    @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}\
    figcaption{color:#9aa4af}td,th{border-color:#2b323b}.yes{color:#3fb950}.no{color:#f85149}}";

/// The page as HTML text.
pub(crate) fn write(report: &Report, drawings: &[Drawing]) -> String {
    let title = format!("Catena: {}", escape(&report.bench));
    let machine = &report.machine;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>{CSS}{}</style></head><body>\n<h1>{title}</h1>\n\
         <p><code>{}</code><br>{}, commit {}<br>{}, {} cores, {:.1} GiB, kernel {}</p>\n",
        plot::css(),
        escape(&report.command),
        escape(&report.started),
        escape(&report.commit),
        escape(&machine.cpu_model),
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        escape(&report.kernel),
    );
    for drawing in drawings {
        let _ = writeln!(
            page,
            "<figure>{}<figcaption>{}</figcaption></figure>",
            drawing.svg,
            escape(&drawing.caption)
        );
    }
    page += "<h2>Figures and targets</h2>\n<div class=\"wide\"><table>\n";
    for (index, row) in report.table().iter().enumerate() {
        page += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match (index, column) {
                (0, _) => write!(page, "<th>{cell}</th>"),
                (_, 1 | 4 | 5) => write!(page, "<td class=\"n\">{cell}</td>"),
                (_, 7) if cell == "yes" || cell == "no" => {
                    write!(page, "<td class=\"{cell}\">{cell}</td>")
                }
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page += "</tr>\n";
    }
    page += "</table></div>\n";
    list(
        &mut page,
        "Not measured, or not in each round",
        &report.errors(),
    );
    let notes: Vec<&str> = report.notes.iter().map(String::as_str).collect();
    list(&mut page, "Notes", &notes);
    page + "</body></html>\n"
}

fn list(page: &mut String, title: &str, items: &[&str]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>{title}</h2>\n<ul>\n");
    for item in items {
        let _ = writeln!(page, "<li>{}</li>", escape(item));
    }
    page.push_str("</ul>\n");
}
