//! libfec as a peer: builds a C program against Debian's `libfec-dev` and runs it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::process::Command;

use catena_pcs::params::CODEWORD_BITS;

const SOURCE: &str = include_str!("libfec.c");

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    Encode,
    /// With so many wrong symbols.
    Decode(usize),
}

/// The program, or why there is none.
#[derive(Debug)]
pub(super) struct Libfec(Result<PathBuf, String>);

impl Libfec {
    /// Builds it, installing the library where that is allowed.
    pub(super) fn build(work_dir: &Path) -> Self {
        Self(build(work_dir))
    }

    /// Gb/s of line bits.
    pub(super) fn rate(&self, run: Run) -> Result<f64, String> {
        let program = self.0.as_ref().map_err(Clone::clone)?;
        let argument = match run {
            Run::Encode => "encode".to_owned(),
            Run::Decode(errors) => errors.to_string(),
        };
        let output = Command::new(program).arg(argument).output();
        let output = output.map_err(|error| format!("libfec: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let ns: f64 = text
            .trim()
            .parse()
            .map_err(|_| format!("libfec: {text} is no time"))?;
        Ok(CODEWORD_BITS as f64 / ns)
    }
}

fn build(work_dir: &Path) -> Result<PathBuf, String> {
    super::super::install::require_file("fec.h", &["libfec-dev", "gcc"], work_dir)?;
    let compile = || {
        let (source, program) = (work_dir.join("libfec.c"), work_dir.join("libfec"));
        std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let output = Command::new("cc")
            .args(["-O3", "-march=native", "-o"])
            .args([&program, &source])
            .arg("-lfec")
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(program),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("cc: {error}")),
        }
    };
    compile().map_err(|error| format!("libfec: {error}; run: apt-get install libfec-dev gcc"))
}
