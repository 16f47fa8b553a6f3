//! The program that is put to known truths: its measurements as documents.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::child::Guarded;

/// How long one measurement may take.
const LIMIT: Duration = Duration::from_secs(180);

pub(super) const SWAP: &str = "swap: { type: macswap }";

/// A chain with NFs, written as the map and the way through them, and a wrapper of its receiver.
pub(super) fn chain(name: &str, nfs: &str, way: &str, wrap: &str) -> String {
    let wrap = if wrap.is_empty() {
        String::new()
    } else {
        format!(", wrap: [{wrap}]")
    };
    format!(
        "name: {name}\nports:\n  in: {{ traffic: {{ profile: {{}} }} }}\n  \
         out: {{ receiver: {{}}{wrap} }}\nnfs: {{ {nfs} }}\nlinks: [in -> {way} -> out]\n"
    )
}

/// A chain with a policer of a rate, which lets a burst of so many packets pass besides.
pub(super) fn policer(name: &str, kpps: f64, burst: f64, wrap: &str) -> String {
    let rate = kpps * 1e3;
    let nf = format!("police: {{ type: policer, rate: {rate}pps, burst: {burst} }}");
    chain(name, &nf, "police", wrap)
}

/// The binary, and where its files go.
pub(in super::super) struct Binary {
    path: PathBuf,
    dir: PathBuf,
    /// Of its own, so that chains are told from those of others.
    runtime: PathBuf,
}

impl Binary {
    pub(in super::super) fn new(path: &Path, dir: PathBuf) -> Self {
        Self {
            path: path.to_owned(),
            runtime: dir.join("run"),
            dir,
        }
    }

    pub(in super::super) fn write(
        &self,
        name: &str,
        content: impl AsRef<[u8]>,
    ) -> Result<String, String> {
        let path = self.dir.join(name);
        std::fs::write(&path, content).map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Runs `catena measure` with these arguments; gives its report.
    pub(in super::super) fn measure(&self, arguments: &[String]) -> Result<Value, String> {
        self.measure_while(arguments, || {})
    }

    /// The same; does `meanwhile` once it has been started.
    pub(super) fn measure_while(
        &self,
        arguments: &[String],
        meanwhile: impl FnOnce(),
    ) -> Result<Value, String> {
        let out = self.dir.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let mut all = vec!["measure".to_owned()];
        all.extend_from_slice(arguments);
        let rest = ["--noise", "0s", "--json", "--out"];
        all.extend(rest.map(str::to_owned));
        all.push(out.display().to_string());
        let deadline = Instant::now() + LIMIT;
        let environment = [("CATENA_RUNTIME_DIR", self.runtime.as_path())];
        let mut child = Guarded::start(&self.path, all, &environment, self.log("truth.log"))
            .map_err(|error| error.to_string())?;
        meanwhile();
        let mut text = String::new();
        while let Some((_, line)) = child.next_line(deadline) {
            text += &line;
            text.push('\n');
        }
        // A measurement that was cut short has a report, too.
        let _ = child.wait(deadline);
        serde_json::from_str(&text).map_err(|_| child.error_tail())
    }

    /// Measures a chain with frames of 64 B; `arguments` begin with the verb.
    pub(super) fn of_chain(&self, text: &str, arguments: &str) -> Result<Value, String> {
        self.of_chain_while(text, arguments, || {})
    }

    pub(super) fn of_chain_while(
        &self,
        text: &str,
        arguments: &str,
        meanwhile: impl FnOnce(),
    ) -> Result<Value, String> {
        let chain = self.write("truth.yaml", text)?;
        let profile = self.write("profile.yaml", "sizes: 64\n")?;
        let (verb, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        let mut all = vec![verb.to_owned(), profile, "--chain".to_owned(), chain];
        all.extend(rest.split_whitespace().map(str::to_owned));
        self.measure_while(&all, meanwhile)
    }
}

/// A row of a report's results.
pub(super) fn row(document: &Value, name: &str) -> Result<String, String> {
    let rows = document["results"].as_array().into_iter().flatten();
    let mut found = rows.filter(|row| row[0] == name);
    let value = found.next().and_then(|row| row[1].as_str());
    value
        .map(str::to_owned)
        .ok_or_else(|| format!("the report has no {name}"))
}

/// The same as a number.
pub(super) fn number(document: &Value, name: &str) -> Result<f64, String> {
    row(document, name)?
        .parse()
        .map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policer_has_its_rate_in_packets_and_its_burst() {
        let text = policer("a", 0.5, 8.0, "pace: { tx: 1Mpps }");
        let nf = "nfs: { police: { type: policer, rate: 500pps, burst: 8 } }";
        assert!(text.starts_with("name: a\n") && text.contains(nf), "{text}");
        assert!(
            text.contains("receiver: {}, wrap: [pace: { tx: 1Mpps }] }"),
            "{text}"
        );
        assert!(!policer("a", 20.0, 200.0, "").contains("wrap"));
    }

    #[test]
    fn what_is_not_there_is_an_error_and_not_a_zero() {
        let document = serde_json::json!({ "results": [["lost", "7"], ["name", "x"]] });
        assert_eq!(number(&document, "lost"), Ok(7.0));
        assert!(number(&document, "found").is_err() && number(&document, "name").is_err());
    }
}
