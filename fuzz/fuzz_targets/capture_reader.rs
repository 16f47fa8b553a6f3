//! Reads any bytes as a capture file, twice: no panic, no endless loop, and the replay is equal.

#![no_main]

use std::io::Cursor;

use catena_port::capture::{CaptureReader, MAX_RECORD_LEN};
use libfuzzer_sys::fuzz_target;

/// Counts the records and adds up what they say.
fn digest(reader: &mut CaptureReader<Cursor<&[u8]>>, file_len: usize) -> (u64, u64) {
    let mut sum = 0u64;
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(record.data.len() <= MAX_RECORD_LEN);
                assert!(record.data.len() <= record.original_len as usize);
                sum = sum.wrapping_mul(31).wrapping_add(record.timestamp_ns);
                sum = sum.wrapping_mul(31).wrapping_add(record.data.len() as u64);
            }
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.record_count(), reader.record_count());
                assert!(
                    error
                        .offset()
                        .is_none_or(|offset| offset <= file_len as u64)
                );
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    // The smallest record of any format takes 12 bytes.
    assert!(reader.record_count() <= file_len as u64 / 12);
    (reader.record_count(), sum)
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut reader) = CaptureReader::from_input("fuzz", Cursor::new(bytes)) {
        let first = digest(&mut reader, bytes.len());
        reader
            .rewind()
            .expect("what was readable once is readable again");
        assert_eq!(digest(&mut reader, bytes.len()), first);
    }
});
