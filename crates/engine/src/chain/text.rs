//! The text of a chain file, or of another document: read before anything of it is checked.

use std::path::Path;

use super::parse::FILE_BYTES_MAX;

/// Reads a text file that is not too large; the limit also ends a read from a device.
///
/// # Errors
///
/// Why it cannot be read, or is not taken: longer than a file may be, or no text.
pub fn read_text(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {} bytes", FILE_BYTES_MAX));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}
