//! The one shape of what `--json` prints, last step of every verb that has it: one object, whose
//! first key `schema` names what the other keys are, as in `catena.status/1`.
//!
//! A verb prints one document. What fails before there is any prints `catena.error/1` instead, with
//! the list `errors`; each has a `message`, and, where it is about a place in a file, `file`,
//! `line`, `column` and `repair`. The forms are listed in docs/reference/json.md.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::Failure;

/// Whether a document stands on the standard output. No memory hangs on it: Relaxed.
static IS_PRINTED: AtomicBool = AtomicBool::new(false);

#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// The text of a document; `body` is an object, and has no key `schema`.
pub(crate) fn text(schema: &str, body: &impl Serialize) -> Result<String, Failure> {
    IS_PRINTED.store(true, Ordering::Relaxed);
    serde_json::to_string_pretty(&Document { schema, body }).map_err(Failure::running)
}

/// Prints a document; as [`text`].
pub(crate) fn print(schema: &str, body: &impl Serialize) -> Result<(), Failure> {
    let text = text(schema, body)?;
    outln!("{text}");
    Ok(())
}

/// Prints a document that names its own `schema`, or an NF's own answer.
pub(crate) fn print_whole(document: &impl Serialize) -> Result<(), Failure> {
    IS_PRINTED.store(true, Ordering::Relaxed);
    let text = serde_json::to_string_pretty(document).map_err(Failure::running)?;
    outln!("{text}");
    Ok(())
}

/// Prints why there is no other document, if there is none.
pub(crate) fn print_failure(failure: &Failure) {
    if IS_PRINTED.load(Ordering::Relaxed) {
        return;
    }
    let errors = match failure.errors.as_slice() {
        [] => vec![json!({ "message": failure.message })],
        errors => errors.to_vec(),
    };
    // Nothing can be told to one who cannot be told this.
    let _ = print("catena.error/1", &json!({ "errors": errors }));
}

/// Errors of a chain file, each with the name of the file.
pub(crate) fn of_file(file: &str, errors: &impl Serialize) -> Vec<Value> {
    let list = serde_json::to_value(errors).unwrap_or_default();
    let list = list.as_array().cloned().unwrap_or_default();
    let named = list.into_iter().map(|mut error| {
        if let Some(keys) = error.as_object_mut() {
            keys.insert("file".to_owned(), file.into());
        }
        error
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_begins_with_its_schema() {
        let text = text("catena.some/1", &json!({"a": 1, "z": []})).unwrap();
        assert!(
            text.starts_with("{\n  \"schema\": \"catena.some/1\",\n"),
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, json!({"schema": "catena.some/1", "a": 1, "z": []}));
    }

    #[test]
    fn errors_of_a_file_name_it() {
        let errors = of_file("a.yaml", &json!([{"line": 3, "message": "no"}]));
        assert_eq!(
            errors,
            [json!({"file": "a.yaml", "line": 3, "message": "no"})]
        );
    }
}
