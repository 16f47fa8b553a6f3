//! What the writer leaves on the disk: sound files, also when the disk is full.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::samples::{Owned, drain, owned, read_all, read_sound};
use super::writer::Sink;
use super::{
    CaptureError, CaptureFormat, CaptureReader, CaptureSummary, CaptureWriter, Direction,
    MAX_RECORD_LEN,
};

const FORMATS: [CaptureFormat; 2] = [CaptureFormat::Pcap, CaptureFormat::PcapNg];

fn write_all(writer: &mut CaptureWriter, records: &[Owned]) -> Result<(), CaptureError> {
    for record in records {
        writer.write(record.timestamp_ns, &record.data, record.original_len)?;
    }
    Ok(())
}

fn frames(count: usize) -> Vec<Owned> {
    (0..count)
        .map(|index| {
            let len = 14 + index * 31 % 1500;
            let timestamp_ns = 1_700_000_000_123_456_789 + index as u64 * 1_001;
            owned(
                timestamp_ns,
                len as u32 + index as u32 % 3,
                &vec![index as u8; len],
            )
        })
        .collect()
}

/// A file of limited capacity, which accepts part of a write when it fills up.
#[derive(Clone, Debug)]
struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    capacity: usize,
    can_truncate: bool,
}

impl SmallDisk {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: Arc::default(),
            capacity,
            can_truncate: true,
        }
    }

    fn contents(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for SmallDisk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let step_len = data.len().min(self.capacity - bytes.len());
        if step_len == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&data[..step_len]);
        Ok(step_len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for SmallDisk {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if !self.can_truncate {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.bytes.lock().unwrap().truncate(len as usize);
        Ok(())
    }
}

fn start(disk: &SmallDisk, format: CaptureFormat) -> Result<CaptureWriter, CaptureError> {
    CaptureWriter::start("small".into(), Box::new(disk.clone()), format, "catena")
}

#[test]
fn files_come_back_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let records = frames(500);
    for format in FORMATS {
        let path = directory.path().join("file");
        let mut writer = CaptureWriter::create(&path, format).unwrap();
        write_all(&mut writer, &records).unwrap();
        let summary = writer.finish().unwrap();
        let file_len = fs::metadata(&path).unwrap().len();
        assert_eq!(
            summary,
            CaptureSummary {
                record_count: 500,
                file_len
            }
        );
        let mut reader = CaptureReader::open(&path).unwrap();
        let (again, error) = drain(&mut reader);
        assert!(error.is_none() && again == records);
    }
}

#[test]
fn direction_is_an_option_behind_the_padded_data() {
    let disk = SmallDisk::new(4096);
    let mut writer = start(&disk, CaptureFormat::PcapNg).unwrap();
    for direction in [Direction::Received, Direction::Sent] {
        writer
            .write_directed(1, b"abcde", 5, Some(direction))
            .unwrap();
    }
    writer.finish().unwrap();
    let contents = disk.contents();
    for (block, flags) in contents[88..].chunks(52).zip([1, 2]) {
        assert_eq!(block[..8], [6, 0, 0, 0, 52, 0, 0, 0]);
        assert_eq!(block[28..36], *b"abcde\0\0\0");
        assert_eq!(block[36..44], [2, 0, 4, 0, flags, 0, 0, 0]);
        assert_eq!(block[44..], [0, 0, 0, 0, 52, 0, 0, 0]);
    }
    assert_eq!(contents.len(), 88 + 2 * 52);
    let mut reader = CaptureReader::from_input("small", io::Cursor::new(contents)).unwrap();
    assert_eq!(drain(&mut reader).0, vec![owned(1, 5, b"abcde"); 2]);
}

#[test]
fn the_bytes_of_a_small_pcapng_file_are_those_of_the_format() {
    let disk = SmallDisk::new(4096);
    let mut writer = start(&disk, CaptureFormat::PcapNg).unwrap();
    writer.write(0x0102_0304_0506_0708, b"abcde", 60).unwrap();
    writer.finish().unwrap();
    #[rustfmt::skip]
    let expected: &[&[u8]] = &[
        // Section header: byte-order magic, version, section length, user application.
        b"\x0a\x0d\x0d\x0a", &[44, 0, 0, 0], &[0x4d, 0x3c, 0x2b, 0x1a], &[1, 0, 0, 0], &[0xff; 8],
        &[4, 0, 6, 0], b"catena\0\0", &[0, 0, 0, 0], &[44, 0, 0, 0],
        // Interface: Ethernet, snapshot length, name, resolution.
        &[1, 0, 0, 0], &[44, 0, 0, 0], &[1, 0, 0, 0], &[0, 0, 4, 0],
        &[2, 0, 6, 0], b"catena\0\0", &[9, 0, 1, 0], &[9, 0, 0, 0], &[0, 0, 0, 0], &[44, 0, 0, 0],
        // Packet: interface, time high and low, lengths, data.
        &[6, 0, 0, 0], &[40, 0, 0, 0], &[0, 0, 0, 0], &[4, 3, 2, 1], &[8, 7, 6, 5],
        &[5, 0, 0, 0], &[60, 0, 0, 0], b"abcde\0\0\0", &[40, 0, 0, 0],
    ];
    assert_eq!(disk.contents(), expected.concat());
}

#[test]
fn a_file_is_sound_from_the_moment_it_exists() {
    for format in FORMATS {
        let disk = SmallDisk::new(1 << 20);
        let mut writer = start(&disk, format).unwrap();
        assert!(read_sound(&disk.contents()).is_empty());
        for record in frames(400) {
            write_all(&mut writer, &[record]).unwrap();
            assert_eq!(
                read_sound(&disk.contents()).len() as u64,
                writer.written_record_count()
            );
        }
        drop(writer);
        assert_eq!(
            read_sound(&disk.contents()),
            frames(400),
            "dropping writes the rest"
        );
    }
}

#[test]
fn a_disk_that_fills_up_keeps_the_whole_records() {
    // The capacity sweeps over several records, so that the disk is full at every byte of one.
    let records = frames(200);
    for format in FORMATS {
        for capacity in (100_000..103_000).chain([0, 23, 24, 25, 87, 88, 89]) {
            let disk = SmallDisk::new(capacity);
            let mut writer = match start(&disk, format) {
                Ok(writer) => writer,
                Err(error) => {
                    assert!(capacity < 88, "{error}");
                    assert!(matches!(error, CaptureError::Create { .. }), "{error}");
                    assert!(disk.contents().is_empty());
                    continue;
                }
            };
            let error = match write_all(&mut writer, &records) {
                Err(error) => error,
                Ok(()) => writer.flush().unwrap_err(),
            };
            assert!(matches!(error, CaptureError::Write { .. }), "{error}");
            let kept = read_sound(&disk.contents());
            assert_eq!(kept, records[..kept.len()]);
            assert_eq!(error.record_count(), kept.len() as u64);
            let text = error.to_string();
            let words = format!("small: writing stopped after {} record", kept.len());
            assert!(text.starts_with(&words), "{text}");

            let len_then = disk.contents().len();
            assert!(writer.is_closed());
            assert_eq!(writer.write(0, b"late", 4).unwrap_err().to_string(), text);
            assert_eq!(writer.flush().unwrap_err().to_string(), text);
            assert_eq!(writer.finish().unwrap_err().to_string(), text);
            assert_eq!(disk.contents().len(), len_then);
        }
    }
}

#[test]
fn a_torn_record_that_stays_is_told() {
    let disk = SmallDisk {
        can_truncate: false,
        ..SmallDisk::new(50)
    };
    let mut writer = start(&disk, CaptureFormat::Pcap).unwrap();
    write_all(&mut writer, &frames(2)).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(
        matches!(
            error,
            CaptureError::WriteTorn {
                record_count: 0,
                ..
            }
        ),
        "{error}"
    );
    let (records, error) = read_all(&disk.contents());
    assert!(records.is_empty() && matches!(error, Some(CaptureError::CutShort { .. })));
}

#[test]
fn a_full_device_is_an_error_that_names_it() {
    if !Path::new("/dev/full").exists() {
        println!("SKIP a_full_device_is_an_error_that_names_it: no /dev/full here");
        return;
    }
    let error = CaptureWriter::create("/dev/full", CaptureFormat::Pcap).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/dev/full: cannot be created: "),
        "{error}"
    );
}

/// A mounted tmpfs of 256 KiB, unmounted at the end.
struct Tmpfs(PathBuf);

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_keeps_the_whole_records() {
    let directory = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "catena-test"])
        .arg(directory.path())
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("SKIP a_full_file_system_keeps_the_whole_records: cannot mount a tmpfs");
        return;
    }
    let tmpfs = Tmpfs(directory.path().to_path_buf());
    for format in FORMATS {
        let path = tmpfs.0.join("full");
        let mut writer = CaptureWriter::create(&path, format).unwrap();
        let error = write_all(&mut writer, &frames(2000)).unwrap_err();
        assert!(
            error.to_string().contains("No space left on device"),
            "{error}"
        );
        drop(writer);
        let kept = read_sound(&fs::read(&path).unwrap());
        assert_eq!(kept.len() as u64, error.record_count());
        assert!(kept.len() > 100 && kept == frames(kept.len()));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn records_that_do_not_fit_the_format_leave_the_writer_open() {
    let disk = SmallDisk::new(1 << 20);
    let mut writer = start(&disk, CaptureFormat::Pcap).unwrap();
    let too_long = writer
        .write(0, &vec![0; MAX_RECORD_LEN + 1], 0)
        .unwrap_err();
    assert!(
        matches!(too_long, CaptureError::RecordTooLong { .. }),
        "{too_long}"
    );
    let last_ns = u64::from(u32::MAX) * 1_000_000_000 + 999_999_999;
    let too_late = writer.write(last_ns + 1, b"abcd", 4).unwrap_err();
    assert!(
        matches!(too_late, CaptureError::TimeTooLate { .. }),
        "{too_late}"
    );
    writer.write(last_ns, &vec![7; MAX_RECORD_LEN], 0).unwrap();
    assert_eq!(writer.finish().unwrap().record_count, 1);
    let longest = owned(last_ns, MAX_RECORD_LEN as u32, &vec![7; MAX_RECORD_LEN]);
    assert_eq!(read_sound(&disk.contents()), [longest]);
}

#[test]
fn the_format_follows_the_extension() {
    for (name, format) in [
        ("out.pcapng", CaptureFormat::PcapNg),
        ("out.PcapNG", CaptureFormat::PcapNg),
        ("out.pcap", CaptureFormat::Pcap),
        ("out", CaptureFormat::Pcap),
        ("pcapng", CaptureFormat::Pcap),
        ("out.pcapng.cap", CaptureFormat::Pcap),
    ] {
        assert_eq!(CaptureFormat::from_path(name), format, "{name}");
    }
}

/// tshark, an independent reader, sees the same times, lengths and interface name.
#[test]
fn tshark_reads_what_is_written() {
    if Command::new("tshark").arg("-v").output().is_err() {
        println!("SKIP tshark_reads_what_is_written: tshark not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let records = frames(50);
    for (name, format) in FORMATS.map(|format| (format!("{format:?}"), format)) {
        let path = directory.path().join(name);
        let mut writer = CaptureWriter::create_named(&path, format, "uplink").unwrap();
        write_all(&mut writer, &records).unwrap();
        writer.finish().unwrap();
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&path).args(["-T", "fields"]);
        for field in [
            "frame.time_epoch",
            "frame.cap_len",
            "frame.len",
            "frame.interface_name",
        ] {
            command.args(["-e", field]);
        }
        let output = command.output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let interface = if format == CaptureFormat::PcapNg {
            "uplink"
        } else {
            ""
        };
        let expected: Vec<String> = records
            .iter()
            .map(|record| {
                let (s, ns) = (
                    record.timestamp_ns / 1_000_000_000,
                    record.timestamp_ns % 1_000_000_000,
                );
                let (captured_len, len) = (record.data.len(), record.original_len);
                format!("{s}.{ns:09}\t{captured_len}\t{len}\t{interface}")
            })
            .collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{format:?}");
        let complaints = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!complaints.contains("cut short") && !complaints.contains("damaged"));
    }
}

fn record_strategy() -> impl Strategy<Value = Owned> {
    let timestamp_ns = 0..u64::from(u32::MAX) * 1_000_000_000;
    let data = prop_oneof![
        9 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => proptest::collection::vec(any::<u8>(), 0..70_000),
    ];
    (timestamp_ns, data, 0..20_000u32).prop_map(|(timestamp_ns, data, cut_len)| {
        owned(timestamp_ns, data.len() as u32 + cut_len, &data)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_records_survive_a_round_trip(
        records in proptest::collection::vec(record_strategy(), 0..20),
    ) {
        for format in FORMATS {
            let disk = SmallDisk::new(usize::MAX);
            let mut writer = start(&disk, format).unwrap();
            write_all(&mut writer, &records).unwrap();
            writer.finish().unwrap();
            prop_assert_eq!(&read_sound(&disk.contents()), &records);
        }
    }
}
