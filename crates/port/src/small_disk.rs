//! A disk that fills up, for tests of what writes captures.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::capture::Sink;

/// A file of limited capacity, which accepts part of a write when it fills up.
#[derive(Clone, Debug)]
pub(crate) struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    capacity: usize,
}

impl SmallDisk {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            bytes: Arc::default(),
            capacity,
        }
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.lock().unwrap().len()
    }
}

impl Write for SmallDisk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let len = data.len().min(self.capacity - bytes.len());
        bytes.extend_from_slice(&data[..len]);
        if len == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for SmallDisk {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(len as usize);
        Ok(())
    }
}
