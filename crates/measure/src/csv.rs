//! Fields and lines of comma-separated values (RFC 4180), for the files beside a report's page.

/// A field as RFC 4180 has it.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A line of fields, with its end.
pub(crate) fn line<const COUNT: usize>(fields: [&str; COUNT]) -> String {
    fields.map(quoted).join(",") + "\n"
}
