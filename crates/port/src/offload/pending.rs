//! A packet that is being cut apart on entry, while its segments find buffers.
//!
//! A port has room for a few packets per call, and a large packet becomes fifty; so it is copied
//! here once, out of the kernel's ring, and cut from here.

use catena_engine::port::RxBurst;
use catena_engine::segments::Cut;

use super::vnet::{Left, Said};

/// Longest packet that is cut: IP of 64 KiB behind Ethernet and two tags.
const PACKET_LEN_MAX: usize = 65_535 + 22;

/// At most one packet, and how far it has been cut.
#[derive(Debug)]
pub(crate) struct Pending {
    memory: Box<[u8]>,
    len: usize,
    cut: Option<Cut>,
    /// Packets that were cut apart.
    pub(crate) packets: u64,
    /// Segments that they became.
    pub(crate) segments: u64,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![0; PACKET_LEN_MAX].into(),
            len: 0,
            cut: None,
            packets: 0,
            segments: 0,
        }
    }

    /// Whether there is nothing to be cut.
    pub(crate) fn is_empty(&self) -> bool {
        self.cut.is_none()
    }

    /// Takes a packet of `len` bytes that `fill` writes; false, and nothing, if it cannot be cut.
    pub(crate) fn take(&mut self, len: usize, said: &Said, fill: impl FnOnce(&mut [u8])) -> bool {
        self.cut = None;
        let Some(packet) = self.memory.get_mut(..len) else {
            return false;
        };
        fill(packet);
        if let Left::Segments(size) = said.left(packet) {
            self.cut = Cut::of(packet, size);
            self.len = len;
        }
        self.packets += u64::from(self.cut.is_some());
        self.cut.is_some()
    }

    /// Receives segments, as many as there is room for. One without a buffer is dropped as any
    /// other packet, and counted.
    pub(crate) fn receive(&mut self, burst: &mut RxBurst<'_>) {
        let Some(cut) = &mut self.cut else {
            return;
        };
        while let Some(len) = cut.next_len() {
            if burst.room() == 0 {
                return;
            }
            self.segments += 1;
            match burst.alloc(len) {
                Ok(mut packet) => {
                    cut.write(&self.memory[..self.len], packet.bytes_mut());
                    burst.push(packet);
                }
                Err(_) => cut.skip(),
            }
        }
        self.cut = None;
    }
}
