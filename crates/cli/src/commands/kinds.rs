//! What `catena nf` and `catena port` share: kinds of things with settings.

use catena_engine::chain::registry::nearest;
use serde_json::Value;

use super::Failure;

/// There is no such kind; the nearest name is suggested.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let hint = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
    Failure::input(format!("there is no {what} \"{name}\"{hint}"))
}

/// Prints the settings that a schema names.
pub(crate) fn print_settings(schema: &impl serde::Serialize) {
    let schema = serde_json::to_value(schema).unwrap_or_default();
    let Some(settings) = schema["properties"]
        .as_object()
        .filter(|map| !map.is_empty())
    else {
        outln!("\nIt takes no settings.");
        return;
    };
    outln!("\nSettings:");
    let required: Vec<_> = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, setting) in settings {
        let needed = if required.iter().any(|field| field == name) {
            " (required)"
        } else {
            ""
        };
        let text = setting["description"]
            .as_str()
            .unwrap_or("")
            .replace('\n', " ");
        outln!("  {name}{needed}\n      {text}");
    }
}

/// An argument that is JSON.
pub(crate) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; quote it for the shell: '{{\"key\": 1}}'"))
}
