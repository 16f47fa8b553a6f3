//! Going on in a capture whose writer was killed, or is being replaced.
//!
//! What a dead writer left is a sound file whose last write may be cut off. [`Resumption::look`]
//! goes through it before packets move, and touches nothing, or begins a next one where it is
//! longer than a gigabyte; [`Resumption::take_up`] looks at what was added since, cuts off a record
//! that is not whole, and writes on behind it. Only a file that begins as this writer begins its
//! own is taken up, and never more is cut off than one write can have left: all else is an error,
//! and stays as it is. A file that is gone (somebody has moved it away) is begun anew.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{CaptureError, CapturePart};
use super::format::CaptureFormat;
use super::pcapng;
use super::record::MAX_RECORD_LEN;
use super::writer::{CaptureSummary, CaptureWriter, GATHER_LEN, Sink, header};

/// Bytes of a block beside its data, at most: header, padding, one option, end.
const BLOCK_OVERHEAD: u64 = 64;
/// Most bytes that one write can have left cut off.
const TORN_LEN_MAX: u64 = (GATHER_LEN + MAX_RECORD_LEN) as u64 + BLOCK_OVERHEAD;
/// Longest file that is gone through: within a second or two, so that a successor is up in time.
const WALK_LEN_MAX: u64 = 1 << 30;
/// Most files that follow one.
const NEXT_FILES_MAX: u32 = 1000;
/// Bytes read at a time.
const READ_LEN: usize = 1 << 20;

/// A capture file that is to be gone on with.
#[derive(Debug)]
pub struct Resumption {
    path: PathBuf,
    format: CaptureFormat,
    found: CaptureSummary,
    /// Which file that was.
    identity: Option<(u64, u64)>,
}

impl Resumption {
    /// Looks how far the file has been written. None need be there.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not one that [`CaptureWriter::create`] has begun.
    pub fn look(path: impl AsRef<Path>, format: CaptureFormat) -> Result<Self, CaptureError> {
        let path = place(path.as_ref());
        let about = match std::fs::metadata(&path) {
            Ok(about) => Some(about),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(of(&path, error)),
        };
        let found = match &about {
            Some(about) if about.is_file() => {
                let file = File::open(&path).map_err(|error| of(&path, error))?;
                whole(&path, file, format, CaptureSummary::NONE)?
            }
            Some(_) | None => CaptureSummary::NONE,
        };
        Ok(Self {
            path,
            format,
            found,
            identity: about.map(|about| (about.dev(), about.ino())),
        })
    }

    /// What it held then.
    #[must_use]
    pub fn found(&self) -> CaptureSummary {
        self.found
    }

    /// Goes on in the file: whoever wrote it must be done with it. The writer counts its own
    /// records.
    ///
    /// # Errors
    ///
    /// As [`Self::look`], or when it cannot be written.
    pub fn take_up(self) -> Result<CaptureWriter, CaptureError> {
        let Self {
            path,
            format,
            found,
            identity,
        } = self;
        if std::fs::metadata(&path).is_ok_and(|about| !about.is_file()) {
            // A pipe or a device: what was written is gone.
            return CaptureWriter::create(path, format);
        }
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = opened.map_err(|error| of(&path, error))?;
        let copy = file.try_clone().map_err(|error| of(&path, error))?;
        // Whoever has moved the file away since has another one in its place, or none.
        let about = file.metadata().map_err(|error| of(&path, error))?;
        let is_same = identity == Some((about.dev(), about.ino()));
        let from = match is_same && about.len() >= found.file_len {
            true => found,
            false => CaptureSummary::NONE,
        };
        let whole = whole(&path, copy, format, from)?;
        let end = whole.file_len;
        let cut = file.truncate(end);
        let cut = cut.and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(|error| of(&path, error))?;
        let name = path.display().to_string().into();
        match end {
            0 => CaptureWriter::start(name, Box::new(file), format, "catena"),
            _ => Ok(CaptureWriter::behind(name, Box::new(file), format, whole)),
        }
    }

    /// Nothing is to be added: only a record that is not whole is cut off. A file that is gone
    /// stays so, and one that another has put in its place stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Self::take_up`].
    pub fn close(self) -> Result<(), CaptureError> {
        let is_ours = std::fs::metadata(&self.path).is_ok_and(|about| {
            about.is_file() && self.identity == Some((about.dev(), about.ino()))
        });
        match is_ours {
            true => self.take_up()?.finish().map(drop),
            false => Ok(()),
        }
    }
}

/// The file to go on in: one that is too long is left as it is, and a next one begun,
/// `NAME.1.pcap` behind `NAME.pcap`.
fn place(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for number in 1..=NEXT_FILES_MAX {
        let about = std::fs::metadata(&place);
        if !about.is_ok_and(|about| about.is_file() && about.len() > WALK_LEN_MAX) {
            break;
        }
        let ending = match path.extension() {
            Some(ending) => format!("{number}.{}", ending.to_string_lossy()),
            None => number.to_string(),
        };
        place = path.with_extension(ending);
    }
    place
}

fn of(path: &Path, source: io::Error) -> CaptureError {
    CaptureError::Resume {
        file: path.display().to_string().into(),
        source: Arc::new(source),
    }
}

/// The whole records of a file, of which `from` are known.
fn whole(
    path: &Path,
    file: File,
    format: CaptureFormat,
    from: CaptureSummary,
) -> Result<CaptureSummary, CaptureError> {
    let mut walk = Walk {
        len: file.metadata().map_err(|error| of(path, error))?.len(),
        file: BufReader::with_capacity(READ_LEN, file),
        found: from,
    };
    let begun = match from.file_len {
        0 => walk.header(format),
        at => walk.file.seek(SeekFrom::Start(at)).map(|_| Some(true)),
    };
    match begun.map_err(|error| of(path, error))? {
        Some(true) => {}
        // Killed while it wrote the header.
        Some(false) => return Ok(walk.found),
        None => {
            let reason = "it does not begin as the capture that was being written here; move it \
                          away"
                .to_owned();
            let file = path.display().to_string().into();
            return Err(CaptureError::NotACapture { file, reason });
        }
    }
    loop {
        let next = walk.record_len(format).map_err(|error| of(path, error))?;
        let Some(len) = next else { break };
        walk.found.file_len += len;
        walk.found.record_count += 1;
    }
    let torn = walk.len - walk.found.file_len;
    if torn > TORN_LEN_MAX {
        let reason = format!(
            "{torn} bytes are no records, more than a writer that was killed can have left; \
             move the file away"
        );
        return Err(CaptureError::Damaged {
            file: path.display().to_string().into(),
            part: CapturePart::Record {
                ordinal: walk.found.record_count + 1,
            },
            offset: walk.found.file_len,
            record_count: walk.found.record_count,
            reason,
        });
    }
    Ok(walk.found)
}

/// On the way through a file.
struct Walk {
    file: BufReader<File>,
    len: u64,
    found: CaptureSummary,
}

impl Walk {
    /// Whether the header is there, or a part of it; none if something else is.
    fn header(&mut self, format: CaptureFormat) -> io::Result<Option<bool>> {
        let wanted = header(format, "catena");
        let mut bytes = Vec::new();
        let most = wanted.len() as u64;
        self.file.by_ref().take(most).read_to_end(&mut bytes)?;
        if bytes == wanted {
            self.found.file_len = most;
            return Ok(Some(true));
        }
        Ok(wanted.starts_with(&bytes).then_some(false))
    }

    /// Bytes of the next record, if all of it is there.
    fn record_len(&mut self, format: CaptureFormat) -> io::Result<Option<u64>> {
        let left = self.len.saturating_sub(self.found.file_len);
        let mut head = [0; 16];
        if left < head.len() as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut head)?;
        let field = |at: usize| {
            let bytes = head[at..at + 4].try_into().unwrap_or_default();
            u64::from(u32::from_le_bytes(bytes))
        };
        let most = MAX_RECORD_LEN as u64;
        let (len, ends_with) = match format {
            CaptureFormat::Pcap => (16 + field(8), None),
            CaptureFormat::PcapNg => (field(4), Some(field(4))),
        };
        let is_record = match format {
            CaptureFormat::Pcap => field(8) <= most && field(4) < 1_000_000_000,
            CaptureFormat::PcapNg => {
                let right = len.is_multiple_of(4) && (32..=most + BLOCK_OVERHEAD).contains(&len);
                field(0) == u64::from(pcapng::ENHANCED_PACKET) && right
            }
        };
        if !is_record || len > left {
            return Ok(None);
        }
        let rest = len - head.len() as u64;
        let tail = if ends_with.is_some() { 4 } else { 0 };
        self.file
            .seek_relative(i64::try_from(rest - tail).unwrap_or(0))?;
        if let Some(wanted) = ends_with {
            let mut last = [0; 4];
            self.file.read_exact(&mut last)?;
            if u64::from(u32::from_le_bytes(last)) != wanted {
                return Ok(None);
            }
        }
        Ok(Some(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::CaptureReader;

    const FORMATS: [CaptureFormat; 2] = [CaptureFormat::Pcap, CaptureFormat::PcapNg];

    /// Records of 60 bytes and more, numbered in their first byte.
    fn write(writer: &mut CaptureWriter, numbers: std::ops::Range<u8>) {
        for number in numbers {
            let data = vec![number; 60 + usize::from(number) % 5];
            writer.write(u64::from(number), &data, 100).unwrap();
        }
    }

    fn numbers(path: &Path) -> Vec<u8> {
        let mut reader = CaptureReader::open(path).unwrap();
        let mut numbers = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            numbers.push(record.data[0]);
        }
        numbers
    }

    #[test]
    fn behind_a_file_that_is_too_long_a_next_one_is_begun() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.pcap");
        let long = File::create(&path).unwrap();
        long.set_len(WALK_LEN_MAX + 1).unwrap();
        for numbers_then in [vec![1], vec![1, 2]] {
            let looked = Resumption::look(&path, CaptureFormat::Pcap).unwrap();
            let number = *numbers_then.last().unwrap();
            let mut writer = looked.take_up().unwrap();
            write(&mut writer, number..number + 1);
            writer.finish().unwrap();
            assert_eq!(numbers(&dir.path().join("c.1.pcap")), numbers_then);
        }
        assert_eq!(long.metadata().unwrap().len(), WALK_LEN_MAX + 1);
    }

    #[test]
    fn devices_are_written_to_and_another_file_is_looked_at_anew() {
        let looked = Resumption::look("/dev/null", CaptureFormat::Pcap).unwrap();
        write(&mut looked.take_up().unwrap(), 0..1);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        let mut writer = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
        write(&mut writer, 0..2);
        writer.finish().unwrap();
        let looked = Resumption::look(&path, CaptureFormat::Pcap).unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, [7; 4096]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(looked.take_up().is_err(), "it is somebody else's");
        let is_another_capture = |path: &Path| {
            let mut writer = CaptureWriter::create(path, CaptureFormat::Pcap).unwrap();
            write(&mut writer, 0..1);
            writer.finish().unwrap();
            let mut torn = std::fs::read(path).unwrap();
            torn.extend([0; 9]);
            std::fs::write(path, &torn).unwrap();
            torn
        };
        let mine = dir.path().join("mine");
        is_another_capture(&mine);
        let looked = Resumption::look(&mine, CaptureFormat::Pcap).unwrap();
        let theirs = is_another_capture(&other);
        std::fs::rename(&other, &mine).unwrap();
        looked.close().unwrap();
        assert_eq!(std::fs::read(&mine).unwrap(), theirs, "its writer goes on");
        assert_eq!(std::fs::read(&path).unwrap(), [7; 4096]);
    }

    /// At every length that a writer that was killed can leave.
    #[test]
    fn whatever_was_cut_off_whole_records_stay_and_others_follow() {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("c");
            let mut writer = CaptureWriter::create(&path, format).unwrap();
            write(&mut writer, 0..5);
            writer.finish().unwrap();
            let whole = std::fs::read(&path).unwrap();
            let mut last = 0;
            for len in 0..=whole.len() {
                std::fs::write(&path, &whole[..len]).unwrap();
                let looked = Resumption::look(&path, format).unwrap();
                let count = looked.found().record_count;
                assert!(count == last || count == last + 1, "{format:?} {len}");
                last = count;
                let mut writer = looked.take_up().unwrap();
                write(&mut writer, 100..102);
                assert_eq!(writer.finish().unwrap().record_count, 2, "its own");
                let kept = 0..u8::try_from(count).unwrap();
                let expected: Vec<u8> = kept.chain(100..102).collect();
                assert_eq!(numbers(&path), expected, "{format:?} {len}");
            }
            assert_eq!(last, 5);
        }
    }

    #[test]
    fn what_was_added_since_it_looked_stays_and_a_file_that_is_gone_is_begun_anew() {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("c");
            let mut old = CaptureWriter::create(&path, format).unwrap();
            write(&mut old, 0..2);
            old.flush().unwrap();
            let looked = Resumption::look(&path, format).unwrap();
            write(&mut old, 2..4);
            old.finish().unwrap();
            let mut new = looked.take_up().unwrap();
            write(&mut new, 4..6);
            new.finish().unwrap();
            assert_eq!(numbers(&path), [0, 1, 2, 3, 4, 5]);
            let looked = Resumption::look(&path, format).unwrap();
            std::fs::rename(&path, dir.path().join("old")).unwrap();
            let mut new = looked.take_up().unwrap();
            write(&mut new, 6..7);
            new.finish().unwrap();
            assert_eq!(numbers(&path), [6]);
            assert_eq!(numbers(&dir.path().join("old")).len(), 6);
        }
    }

    #[test]
    fn what_somebody_else_has_written_stays() {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("c");
            std::fs::write(&path, b"Dear diary").unwrap();
            let error = Resumption::look(&path, format).unwrap_err().to_string();
            assert!(error.contains("move it away"), "{error}");
            let mut writer = CaptureWriter::create(&path, format).unwrap();
            write(&mut writer, 0..3);
            writer.finish().unwrap();
            let mut damaged = std::fs::read(&path).unwrap();
            damaged.resize(
                damaged.len() + usize::try_from(TORN_LEN_MAX).unwrap() + 1,
                0xff,
            );
            std::fs::write(&path, &damaged).unwrap();
            let error = Resumption::look(&path, format).unwrap_err().to_string();
            assert!(error.contains("no records"), "{error}");
            assert!(std::fs::read(&path).unwrap() == damaged);
        }
    }
}
