//! Line bits to frames, in the buffer in which the bits came.
//!
//! A frame belongs to the chunk that brings its last block and the one behind it. What a chunk's
//! buffer does not hold goes with the next one.

use catena_engine::nf::DropReason;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_pcs::counters::Counters;
use catena_pcs::stage::{Direction, FrameSink, Receive, Received, Verdict};
use serde_json::Value;

use crate::chunk::{Content, FRAME_HEADER_LEN, Frames, HEADER_LEN, Header, frame_header};

pub(super) type Receiver = Box<dyn Receive + Send>;

/// Room for frames of a chunk, and those that wait for the next.
const STORE_LEN: usize = 1 << 23;

/// The receiving half of a PHY.
pub(super) struct Receiving {
    direction: Direction,
    receiver: Receiver,
    store: Store,
    chunks: u64,
    malformed: u64,
}

/// Frames as a list.
struct Store {
    /// Never longer than what it was made for.
    list: Vec<u8>,
    count: u32,
    /// Frames for which there was no room.
    refused: u64,
}

impl FrameSink for Store {
    #[inline]
    fn frame(&mut self, frame: &Received<'_>) {
        let len = u16::try_from(frame.bytes.len()).ok();
        let fits = self.list.len() + FRAME_HEADER_LEN + frame.bytes.len() <= STORE_LEN;
        let Some(len) = len.filter(|_| fits) else {
            self.refused += 1;
            return;
        };
        self.list.extend_from_slice(&frame_header(len, frame.llid));
        self.list.extend_from_slice(frame.bytes);
        self.count += 1;
    }
}

impl Store {
    /// How many frames of the front fit into `room` octets, and how many octets they take.
    fn fitting(&self, room: usize) -> (u32, usize) {
        if self.list.len() <= room {
            return (self.count, self.list.len());
        }
        let mut frames = Frames::behind_check(&self.list, self.count);
        let (mut count, mut octets) = (0, 0);
        while frames.next().is_some() {
            let end = self.list.len() - frames.rest().len();
            if end > room {
                break;
            }
            (count, octets) = (count + 1, end);
        }
        (count, octets)
    }

    /// Drops the first frame, which no chunk holds.
    fn refuse_first(&mut self) {
        let mut frames = Frames::behind_check(&self.list, self.count);
        if frames.next().is_some() {
            let end = self.list.len() - frames.rest().len();
            self.forget(1, end);
            self.refused += 1;
        }
    }

    fn forget(&mut self, count: u32, octets: usize) {
        let len = self.list.len() - octets;
        self.list.copy_within(octets.., 0);
        self.list.truncate(len);
        self.count -= count;
    }
}

impl Receiving {
    pub(super) fn new(direction: Direction, receiver: Receiver) -> Self {
        Self {
            direction,
            receiver,
            store: Store {
                list: Vec::with_capacity(STORE_LEN),
                count: 0,
                refused: 0,
            },
            chunks: 0,
            malformed: 0,
        }
    }

    /// Turns a chunk of line bits into one of frames.
    ///
    /// # Errors
    /// Why the chunk is to be dropped.
    pub(super) fn chunk(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let parsed = Header::parse(packet.bytes());
        let expected = Content::Line(self.direction);
        let Some(header) = parsed.ok().filter(|header| header.content == expected) else {
            self.malformed += 1;
            return Err(DropReason::Malformed);
        };
        let line = &packet.bytes()[HEADER_LEN..];
        let (bit, count) = (header.bit.into(), header.count as usize);
        self.receiver.receive(line, bit, count, &mut self.store);
        let room = packet.len() + packet.tailroom() - HEADER_LEN;
        let (mut count, mut octets) = self.store.fitting(room);
        if count == 0 && self.store.count > 0 {
            self.store.refuse_first();
            (count, octets) = self.store.fitting(room);
        }
        packet
            .set_len(HEADER_LEN + octets)
            .map_err(|_| DropReason::TooLarge)?;
        let header = Header {
            content: Content::Frames,
            bit: 0,
            count,
            ..header
        };
        header.write(packet.bytes_mut());
        packet.bytes_mut()[HEADER_LEN..].copy_from_slice(&self.store.list[..octets]);
        self.store.forget(count, octets);
        self.chunks += 1;
        Ok(())
    }

    /// Whether the bit error rate is high.
    pub(super) fn is_high_ber(&self) -> bool {
        self.receiver.is_high_ber()
    }

    /// Where the receiver stands, in a word.
    pub(super) fn state(&self) -> Value {
        match self.receiver.verdict() {
            Verdict::NeverLocked => "never_locked",
            Verdict::InStep => "in_step",
            Verdict::BetweenBursts => "between_bursts",
            Verdict::Lost => "lost",
        }
        .into()
    }

    pub(super) fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("chunks", self.chunks),
            ("chunks_malformed", self.malformed),
            ("frames_refused", self.store.refused),
        ]);
        out.extend(counts(self.direction, self.receiver.counters()));
    }
}

/// Names of what a receiver of this direction counts.
pub(super) fn counter_names(line: Direction) -> Vec<&'static str> {
    let mut names = vec!["chunks", "chunks_malformed", "frames_refused"];
    names.extend(counts(line, &Counters::default()).map(|(name, _)| name));
    names
}

/// A receiver's counters by name, as far as they are of this direction.
pub(crate) fn counts(
    direction: Direction,
    counters: &Counters,
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let drops = &counters.drops;
    let synchronisation: &[_] = match direction {
        Direction::Downstream => &[
            ("locks", counters.locks),
            ("lock_losses", counters.lock_losses),
        ],
        Direction::Upstream => &[
            ("bursts", counters.bursts),
            ("bursts_ended", counters.bursts_ended),
            ("bursts_lost", counters.bursts_lost),
            ("bursts_missed", counters.bursts_missed),
        ],
    };
    let rest = [
        ("high_ber_windows", counters.high_ber_windows),
        ("line_bits", counters.line_bits),
        ("hunted_bits", counters.hunted_bits),
        ("codewords", counters.codewords),
        ("codewords_corrected", counters.codewords_corrected),
        ("codewords_uncorrectable", counters.codewords_uncorrectable),
        ("symbols_corrected", counters.symbols_corrected),
        ("ones_corrected", counters.ones_corrected),
        ("zeros_corrected", counters.zeros_corrected),
        ("header_errors", counters.header_errors),
        ("blocks_invalid", counters.blocks_invalid),
        ("frames", counters.frames),
        ("octets", counters.octets),
        ("frames_coding", drops.coding),
        ("frames_cut", drops.cut),
        ("frames_runt", drops.runt),
        ("frames_oversize", drops.oversize),
        ("frames_sld", drops.sld),
        ("frames_crc8", drops.crc8),
        ("frames_llid", drops.llid),
        ("frames_fcs", drops.fcs),
        ("frames_high_ber", drops.high_ber),
    ];
    let mut counts = synchronisation.to_vec();
    counts.extend(rest);
    counts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Store {
        Store {
            list: Vec::with_capacity(STORE_LEN),
            count: 0,
            refused: 0,
        }
    }

    fn add(store: &mut Store, len: usize) {
        store.frame(&Received {
            bytes: &vec![7; len],
            llid: 1,
            block: 0,
            bit: 0,
        });
    }

    #[test]
    fn a_chunk_takes_the_frames_that_fit_it_to_the_octet() {
        let mut store = store();
        add(&mut store, 60);
        add(&mut store, 100);
        for (room, fitting) in [(168, (2, 168)), (167, (1, 64)), (64, (1, 64)), (63, (0, 0))] {
            assert_eq!(store.fitting(room), fitting, "{room}");
        }
    }

    #[test]
    fn what_waits_for_a_chunk_is_bounded_to_the_octet() {
        let mut store = store();
        // 512 times 16 KiB with the octets in front of a frame.
        for _ in 0..512 {
            add(&mut store, 16_380);
        }
        assert_eq!((store.count, store.list.len()), (512, STORE_LEN));
        assert_eq!(store.refused, 0);
        add(&mut store, 0);
        assert_eq!((store.count, store.refused), (512, 1));
    }
}
