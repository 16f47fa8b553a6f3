//! The folder of a measurement: report.html, report.json, trials.csv, its figures and their data.

use std::path::{Path, PathBuf};

use catena_measure::probes::ProbeReport;
use catena_measure::report::{self, Document};
use catena_measure::study::{findings, tables};

use crate::commands::Failure;

/// A folder for a report, with a folder inside for the files of the trial that runs.
#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    trial: PathBuf,
}

impl Output {
    /// Makes both.
    pub(crate) fn create(folder: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::input(format!(
                "cannot write to --out {}: {error}; name a folder that can be made or written",
                folder.display()
            ))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let trial = folder.join(format!("trial-{}", std::process::id()));
        std::fs::create_dir_all(&trial).map_err(|error| {
            Failure::input(format!("cannot write to {}: {error}", folder.display()))
        })?;
        Ok(Self { folder, trial })
    }

    /// Where a file of the measurement is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where the files of the running trial go.
    pub(crate) fn trial(&self) -> &Path {
        &self.trial
    }

    /// Writes the report in all its forms, each whole or not at all.
    pub(crate) fn write(&self, document: &Document) -> Result<(), Failure> {
        let json = document.to_json().map_err(Failure::running)?;
        let mut forms = vec![
            ("report.json", json),
            ("trials.csv", report::csv(document)),
            ("report.html", report::html(document)),
        ];
        if let Some(study) = &document.study {
            forms.push(("cells.csv", tables::csv(study)));
            let findings = findings::page(&document.title, study, &document.standings());
            forms.push(("findings.md", findings));
        }
        if let Some(latency) = report::latency_csv(document) {
            forms.push(("latency.csv", latency));
        }
        for (name, text) in forms {
            self.write_file(name, &text)?;
        }
        self.write_figures(&report::figures(document))
    }

    /// Writes figures as `figure-1.svg` and so on, their data as `figure-1.csv`, and removes those
    /// of a longer report before.
    fn write_figures(&self, figures: &[(String, String)]) -> Result<(), Failure> {
        for (number, (figure, data)) in (1..).zip(figures) {
            self.write_file(&report::figure_file(number, "svg"), figure)?;
            self.write_file(&report::figure_file(number, "csv"), data)?;
        }
        let remove = |number, ending| {
            std::fs::remove_file(self.folder.join(report::figure_file(number, ending))).is_ok()
        };
        let mut stale = figures.len() + 1;
        while remove(stale, "svg") | remove(stale, "csv") {
            stale += 1;
        }
        Ok(())
    }

    /// Writes what probes found, a list of `ProbeReport`, one for each trial.
    pub(crate) fn write_probes(&self, reports: &[ProbeReport]) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(reports).map_err(Failure::running)?;
        self.write_file("probes.json", &text)
    }

    /// Writes what each trial of a study told, which is in its journal and not in the document.
    pub(crate) fn write_blocks(&self, text: &str) -> Result<(), Failure> {
        self.write_file("blocks.csv", text)
    }

    fn write_file(&self, name: &str, text: &str) -> Result<(), Failure> {
        let (path, part) = (self.folder.join(name), self.trial.join(name));
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
        written.map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    }

    /// The page for people.
    pub(crate) fn page(&self) -> PathBuf {
        self.folder.join("report.html")
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // What cannot be removed is in the user's own folder, under a name that says what it is.
        let _ = std::fs::remove_dir_all(&self.trial);
    }
}
