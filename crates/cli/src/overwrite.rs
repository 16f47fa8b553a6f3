//! Where results go, last step of the verbs that write any: nothing that is there is overwritten
//! unless the person says `--force`.

use std::path::Path;

use crate::commands::Failure;

/// Whether what is there may be replaced.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Overwrite {
    /// Overwrite what is there
    #[arg(long)]
    pub(crate) force: bool,
}

impl Overwrite {
    /// Refuses a file that exists. Devices and pipes, such as /dev/null, are written to.
    ///
    /// # Errors
    /// It is there, and nobody said `--force`.
    pub(crate) fn check(self, file: &Path) -> Result<(), Failure> {
        let is_there = std::fs::metadata(file).is_ok_and(|found| found.is_file());
        match is_there && !self.force {
            true => Err(refusal(file)),
            false => Ok(()),
        }
    }

    /// Refuses a folder that has any of these files.
    ///
    /// # Errors
    /// One is there, and nobody said `--force`.
    pub(crate) fn check_folder(self, folder: &Path, files: &[&str]) -> Result<(), Failure> {
        for file in files {
            self.check(&folder.join(file))?;
        }
        Ok(())
    }
}

fn refusal(file: &Path) -> Failure {
    let file = file.display();
    Failure::input(format!(
        "{file} is there already; name another, or overwrite it with --force"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let (careful, forced) = (Overwrite { force: false }, Overwrite { force: true });
        let file = folder.path().join("report.html");
        assert!(careful.check(&file).is_ok());
        std::fs::write(&file, "mine").unwrap();
        let message = careful.check(&file).unwrap_err().message;
        assert!(message.contains("--force"), "{message}");
        let files = ["report.json", "report.html"];
        assert!(careful.check_folder(folder.path(), &files).is_err());
        assert!(forced.check(&file).is_ok());
        assert!(forced.check_folder(folder.path(), &files).is_ok());
        assert!(careful.check(Path::new("/dev/null")).is_ok());
    }
}
