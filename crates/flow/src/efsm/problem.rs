//! What is wrong with a program: where, what, and what to write instead.

use super::syntax::SyntaxError;

/// A finding about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the value within the program, as in `elements[0].transitions[2].if`.
    pub path: String,
    /// At which byte of a string.
    pub at: usize,
    /// Whether the program cannot run.
    pub is_error: bool,
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub repair: String,
}

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) found: Vec<Problem>,
}

/// Most findings: nobody reads more.
const FOUND_COUNT_MAX: usize = 100;

impl Problems {
    fn add(&mut self, path: &str, at: usize, is_error: bool, message: String, repair: String) {
        let problem = Problem {
            path: path.to_owned(),
            at,
            is_error,
            message,
            repair,
        };
        if self.found.len() < FOUND_COUNT_MAX && !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    pub(super) fn error(
        &mut self,
        path: &str,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        self.add(path, 0, true, message.into(), repair.into());
    }

    pub(super) fn warn(
        &mut self,
        path: &str,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        self.add(path, 0, false, message.into(), repair.into());
    }

    pub(super) fn syntax(&mut self, path: &str, error: SyntaxError) {
        self.add(path, error.at, true, error.message, error.repair);
    }

    /// The result, or what was wrong with it.
    pub(super) fn take<T>(&mut self, path: &str, result: Result<T, SyntaxError>) -> Option<T> {
        result.map_err(|error| self.syntax(path, error)).ok()
    }

    pub(super) fn has_errors(&self) -> bool {
        self.found.iter().any(|problem| problem.is_error)
    }
}
