//! What a port is opened with, beside its configuration.
//!
//! Control path, before a worker's first turn. The engine fills it in; a test may, too.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use catena_shm::pool::PoolMemory;

/// The world of a port that is being opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The chain file's folder, against which relative paths are resolved.
    pub dir: &'a Path,
    /// Whether the chain takes packets from it.
    pub receives: bool,
    /// Whether the chain gives it packets.
    pub sends: bool,
    /// Whether wrappers stand around it: packets to be sent may come to it without their pools.
    pub is_wrapped: bool,
    /// Which of its queues this is, from 0.
    pub queue: u16,
    /// How many queues the chain has of it, each opened by itself; at most
    /// [`PortRole::queues_max`](super::PortRole::queues_max).
    pub queues: u16,
    /// Memory of the pools that its worker owns and that hold one packet in a buffer, smallest
    /// buffers first: what a device may be shown.
    pub pools: &'a [PoolMemory],
    /// Files, as the configuration names them, that a former instance of this port wrote in this
    /// run of the chain: see [`Opening::goes_on_in`].
    pub goes_on: &'a [String],
    /// Files that other ports of the chain name, by device and number: see [`Opening::create`].
    pub taken: &'a [(u64, u64)],
}

impl<'a> Opening<'a> {
    /// In both directions, the only queue, with no pools.
    pub fn alone(dir: &'a Path) -> Self {
        Self {
            dir,
            receives: true,
            sends: true,
            is_wrapped: false,
            queue: 0,
            queues: 1,
            pools: &[],
            goes_on: &[],
            taken: &[],
        }
    }

    /// Whether a file that the configuration names so is to be gone on with rather than begun anew:
    /// its worker has died, or (`catena apply`) the port has other settings. In the latter case the
    /// former instance closes the file after this one is opened, and before it is given a packet.
    pub fn goes_on_in(&self, file: &Path) -> bool {
        self.goes_on.iter().any(|one| Path::new(one) == file)
    }

    /// Opens a file to be written from its start, and cuts off what it held, unless another port of
    /// the chain reads or writes it, by whatever name: then nothing has happened to it.
    ///
    /// # Errors
    /// It cannot be opened, or is another port's.
    pub fn create(&self, file: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)?;
        let about = opened.metadata()?;
        self.check_free(&about)?;
        if about.is_file() {
            opened.set_len(0)?;
        }
        Ok(opened)
    }

    /// Refuses a file that another port of the chain reads or writes.
    ///
    /// # Errors
    /// It is another port's.
    pub fn check_free(&self, about: &Metadata) -> io::Result<()> {
        match about.is_file() && self.taken.contains(&(about.dev(), about.ino())) {
            true => Err(io::Error::other(
                "another port of the chain reads or writes this file, by this name or by a link; \
                 name another file in one of them",
            )),
            false => Ok(()),
        }
    }
}
