//! From the bytes of a connection to packets in buffers of the receiver's own.
//!
//! What is read goes where it will stay. Between two packets the length of the next is not known:
//! if the last one was large, the next is taken to be like it and is read straight into a buffer
//! of that size, so that a chunk costs one system call and no copy here; small packets are read
//! many at a time into a scratch area and copied from there. A wrong guess costs one copy.
//!
//! Nothing here trusts the sender: a length beyond the largest packet ends the connection before
//! any byte is stored.

use std::io::IoSliceMut;

use rustix::io::Errno;

use super::conduit::Conduit;
use super::record::{HEADER_BYTES, Header, PREFACE_BYTES};
use crate::drop_reason::DropReason;
use crate::packet::Packet;
use crate::pools::Pools;

/// Bytes that are read at a time beyond the packet at hand.
const SCRATCH_BYTES: usize = 64 << 10;
/// From this length on, the next packet is taken to be like the last.
const LARGE: u32 = 2048;

/// Why no more packets come now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The connection begins with the packet of this index; asked again, its packets come.
    Begins(u64),
    /// As many as were wanted, or as there are buffers for.
    Full,
    /// Everything that has arrived was taken.
    Empty,
    /// The connection has ended.
    Ended,
    /// It breaks the rules.
    Bad,
}

/// The state between two reads.
#[derive(Debug)]
pub(super) struct Inflow {
    /// Room for what a wrong guess has to put in front, then for what is read.
    scratch: Box<[u8]>,
    /// Bytes of it that have not been looked at.
    unread: std::ops::Range<usize>,
    /// The packet of which a part has arrived, and how much.
    partial: Option<(Packet, usize)>,
    has_begun: bool,
    /// What the last header said.
    last: Header,
    len_max: usize,
}

/// What was read.
enum Read {
    /// Something, and whether that was all there was.
    Some {
        all: bool,
    },
    Stop(Pause),
}

impl Inflow {
    /// For packets of at most `len_max` bytes.
    pub(super) fn new(len_max: usize) -> Self {
        Self {
            scratch: vec![0; HEADER_BYTES + len_max + SCRATCH_BYTES].into_boxed_slice(),
            unread: 0..0,
            partial: None,
            has_begun: false,
            last: Header::default(),
            len_max,
        }
    }

    /// Forgets what came by a connection that has ended.
    pub(super) fn reset(&mut self, pools: &mut Pools) {
        if let Some((packet, _)) = self.partial.take() {
            pools.free(packet);
        }
        self.unread = 0..0;
        self.has_begun = false;
    }

    /// Takes packets until there are `limit` in `packets`.
    pub(super) fn fill<S: Conduit>(
        &mut self,
        stream: &S,
        limit: usize,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> Pause {
        let mut all = false;
        loop {
            if !self.has_begun && self.unread.len() >= PREFACE_BYTES {
                self.has_begun = true;
                let first = self.unread.start;
                self.unread.start += PREFACE_BYTES;
                let mut word = [0; PREFACE_BYTES];
                word.copy_from_slice(&self.scratch[first..first + PREFACE_BYTES]);
                return Pause::Begins(u64::from_le_bytes(word));
            }
            if self.has_begun
                && let Some(pause) = self.unpack(limit, pools, packets)
            {
                return pause;
            }
            if all {
                return Pause::Empty;
            }
            match self.read(stream, pools) {
                Read::Some { all: these } => all = these,
                Read::Stop(pause) => return pause,
            }
        }
    }

    /// Makes packets of what has been read; none once more has to be read for the next.
    fn unpack(
        &mut self,
        limit: usize,
        pools: &mut Pools,
        packets: &mut Vec<Packet>,
    ) -> Option<Pause> {
        while packets.len() < limit {
            let Some((mut packet, filled)) = self.partial.take() else {
                if self.unread.len() < HEADER_BYTES {
                    return None;
                }
                let header = Header::parse(&self.scratch[self.unread.start..]);
                match self.place_for(header, pools) {
                    Ok(packet) => self.partial = Some((packet, 0)),
                    Err(DropReason::NoBuffer) => return Some(Pause::Full),
                    Err(_) => return Some(Pause::Bad),
                }
                self.unread.start += HEADER_BYTES;
                self.last = header;
                continue;
            };
            let rest = packet.len() - filled;
            let count = rest.min(self.unread.len());
            if count > 0 {
                let from = self.unread.start..self.unread.start + count;
                packet.bytes_mut()[filled..filled + count].copy_from_slice(&self.scratch[from]);
                self.unread.start += count;
            }
            if count < rest {
                self.partial = Some((packet, filled + count));
                return None;
            }
            packets.push(packet);
        }
        Some(Pause::Full)
    }

    /// A buffer for a packet with as much room as it had, or as there can be. An empty packet
    /// nobody sends.
    fn place_for(&self, header: Header, pools: &mut Pools) -> Result<Packet, DropReason> {
        let (len, room) = (header.len as usize, header.room as usize);
        if len == 0 || len > self.len_max {
            return Err(DropReason::Malformed);
        }
        let mut packet = pools.alloc(room.min(self.len_max).max(len))?;
        if packet.set_len(len).is_err() {
            pools.free(packet);
            return Err(DropReason::Malformed);
        }
        packet.set_metadata(header.tag);
        Ok(packet)
    }

    /// Reads once, to where the bytes belong. All that was read before has been looked at, but for
    /// less than a header.
    fn read<S: Conduit>(&mut self, stream: &S, pools: &mut Pools) -> Read {
        if self.partial.is_some() {
            self.read_on(stream)
        } else if self.has_begun && self.unread.is_empty() && self.last.len >= LARGE {
            match self.place_for(self.last, pools) {
                Ok(packet) => self.read_guessing(stream, packet, pools),
                Err(_) => self.read_scratch(stream),
            }
        } else {
            self.read_scratch(stream)
        }
    }

    /// Into the scratch area alone, behind what is left of a header.
    fn read_scratch<S: Conduit>(&mut self, stream: &S) -> Read {
        let left = self.unread.len();
        self.scratch.copy_within(self.unread.clone(), 0);
        let room = &mut self.scratch[left..left + SCRATCH_BYTES];
        let wanted = room.len();
        match outcome(stream.receive(&mut [IoSliceMut::new(room)])) {
            Ok(count) => {
                self.unread = 0..left + count;
                Read::Some {
                    all: count < wanted,
                }
            }
            Err(pause) => {
                self.unread = 0..left;
                Read::Stop(pause)
            }
        }
    }

    /// Into the packet at hand, and what is behind it into the scratch area.
    fn read_on<S: Conduit>(&mut self, stream: &S) -> Read {
        let Some((packet, filled)) = &mut self.partial else {
            return Read::Some { all: true };
        };
        let rest = &mut packet.bytes_mut()[*filled..];
        let (wanted, rest_len) = (rest.len() + SCRATCH_BYTES, rest.len());
        let mut parts = [
            IoSliceMut::new(rest),
            IoSliceMut::new(&mut self.scratch[..SCRATCH_BYTES]),
        ];
        match outcome(stream.receive(&mut parts)) {
            Ok(count) => {
                *filled += count.min(rest_len);
                self.unread = 0..count.saturating_sub(rest_len);
                Read::Some {
                    all: count < wanted,
                }
            }
            Err(pause) => Read::Stop(pause),
        }
    }

    /// A header, then into `packet`, which is like the last one.
    fn read_guessing<S: Conduit>(
        &mut self,
        stream: &S,
        mut packet: Packet,
        pools: &mut Pools,
    ) -> Read {
        let guess = packet.len();
        let behind = HEADER_BYTES + self.len_max;
        let mut word = [0; HEADER_BYTES];
        let mut parts = [
            IoSliceMut::new(&mut word),
            IoSliceMut::new(packet.bytes_mut()),
            IoSliceMut::new(&mut self.scratch[behind..]),
        ];
        let count = match outcome(stream.receive(&mut parts)) {
            Ok(count) => count,
            Err(pause) => {
                pools.free(packet);
                return Read::Stop(pause);
            }
        };
        let all = count < HEADER_BYTES + guess + SCRATCH_BYTES;
        let of_word = count.min(HEADER_BYTES);
        let of_packet = (count - of_word).min(guess);
        let of_scratch = count - of_word - of_packet;
        let header = Header::parse(&word);
        if of_word == HEADER_BYTES && header.is_like(self.last) {
            packet.set_metadata(header.tag);
            self.partial = Some((packet, of_packet));
            self.unread = behind..behind + of_scratch;
        } else {
            let start = behind - of_packet - of_word;
            self.scratch[start..start + of_word].copy_from_slice(&word[..of_word]);
            let place = &mut self.scratch[start + of_word..behind];
            place.copy_from_slice(&packet.bytes()[..of_packet]);
            self.unread = start..behind + of_scratch;
            pools.free(packet);
        }
        Read::Some { all }
    }
}

fn outcome(received: Result<usize, Errno>) -> Result<usize, Pause> {
    match received {
        Ok(0) => Err(Pause::Ended),
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Err(Pause::Empty),
        Err(_) => Err(Pause::Ended),
    }
}

#[cfg(test)]
#[path = "inflow_tests.rs"]
mod tests;
