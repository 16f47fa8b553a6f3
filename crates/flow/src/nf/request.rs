//! What control requests have in common: one entry or a list of them, and values as texts.
//!
//! Beside packets, read by both halves of the NF and by the supervisor.

use serde_json::Value;

/// The entries that a request is about: those of its list, or the one that it says itself.
pub(super) fn entries(request: &Value) -> Result<std::slice::Iter<'_, Value>, String> {
    match request.get("entries") {
        None => Ok(std::slice::from_ref(request).iter()),
        Some(Value::Array(entries)) => Ok(entries.iter()),
        Some(_) => Err("entries are a list, each with its key".to_owned()),
    }
}

/// A pattern, number or address as text, whether a string says it or not.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
