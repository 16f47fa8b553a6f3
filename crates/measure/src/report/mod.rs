//! Reports: a document of results, and what it is written as.
//!
//! A [`Document`] holds everything that a report shows, and is itself the JSON beside it
//! (`docs/reference/measure-report.md`). [`html`] makes one self-contained page of it, which needs
//! no network and no script and follows the reader's light or dark setting; [`csv`] gives its rows
//! to other programs, [`figures`] each figure with its data. All are pure functions of the
//! document.

mod comparisons;
mod document;
mod elements;
mod figures;
mod files;
pub(crate) mod over_time;
mod page;
mod study_figures;
mod study_page;
#[cfg(test)]
mod tests;
pub(crate) mod trial_row;
pub(crate) mod units;
mod valued;

pub use document::{Document, DocumentError, LatencyResult, SCHEMA, STANDING, Throughput, csv};
pub use elements::figure_file;
pub use files::{figures, latency_csv};
pub use over_time::OverTime;
pub use page::html;
pub use trial_row::TrialRow;
pub use units::{rate, time};
pub use valued::{Unit, Valued};
