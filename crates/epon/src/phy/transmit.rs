//! Frames to line bits, in the buffer in which the frames came.
//!
//! A transmitter holds 64 KiB of blocks. Frames beyond that are set aside, since line bits take
//! their place, and follow as blocks are sent. An OLT's chunk is as many codewords long as its
//! header says; an ONU's is one burst, from the sync pattern to the terminator.

use catena_engine::nf::DropReason;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_pcs::params::{CODEWORD_BITS, DATA_BLOCKS};
use catena_pcs::stage::{Direction, PushError, Transmit};

use crate::chunk::{Content, Frame, Frames, HEADER_LEN, Header, line_octets};

pub(super) type Transmitter = Box<dyn Transmit + Send>;

/// The transmitting half of a PHY.
pub(super) struct Transmitting {
    direction: Direction,
    llid: Option<u16>,
    make: Box<dyn Fn() -> Transmitter + Send>,
    transmitter: Transmitter,
    /// As long as the longest list so far: it grows in the first chunks only.
    aside: Vec<u8>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    chunks: u64,
    malformed: u64,
    frames: u64,
    octets: u64,
    /// Longer than allowed.
    oversize: u64,
    /// More frames than the chunk's codewords take.
    overfull: u64,
    bursts: u64,
    /// Bursts that their buffer did not hold.
    bursts_cut: u64,
    codewords: u64,
    line_bits: u64,
}

/// Frames that are still to be taken: what was set aside of a list.
struct Aside<'a> {
    octets: &'a [u8],
    count: u32,
}

impl Transmitting {
    pub(super) fn new(
        direction: Direction,
        llid: Option<u16>,
        make: Box<dyn Fn() -> Transmitter + Send>,
    ) -> Self {
        Self {
            direction,
            llid,
            transmitter: make(),
            make,
            aside: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Turns a chunk of frames into one of line bits.
    ///
    /// # Errors
    /// Why the chunk is to be dropped.
    pub(super) fn chunk(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let parsed = Header::parse(packet.bytes());
        let Some(header) = parsed
            .ok()
            .filter(|header| header.content == Content::Frames)
        else {
            self.counts.malformed += 1;
            return Err(DropReason::Malformed);
        };
        let room = packet.len() + packet.tailroom() - HEADER_LEN;
        if self.direction == Direction::Downstream && line_octets(header.codewords) > room {
            return Err(DropReason::TooLarge);
        }
        let payload = &packet.bytes()[HEADER_LEN..];
        let Ok(mut frames) = Frames::parse(payload, header.count) else {
            self.counts.malformed += 1;
            return Err(DropReason::Malformed);
        };
        let mut left = header.count;
        left -= self.take(&mut frames);
        self.aside.clear();
        if left > 0 {
            self.aside.extend_from_slice(frames.rest());
        }
        // All of the buffer, until it is known how much is needed; there is room, see above.
        packet
            .set_len(HEADER_LEN + room)
            .map_err(|_| DropReason::TooLarge)?;
        let line = &mut packet.bytes_mut()[HEADER_LEN..];
        // Lent out, so that `self` stays free.
        let aside = std::mem::take(&mut self.aside);
        let waiting = Aside {
            octets: &aside,
            count: left,
        };
        let sent = match self.direction {
            Direction::Downstream => Ok(self.stream(waiting, line, header.codewords)),
            Direction::Upstream => self.burst(waiting, line),
        };
        self.aside = aside;
        let bits = sent?;
        if bits % 8 != 0 {
            line[bits / 8] &= (1 << (bits % 8)) - 1;
        }
        let octets = bits.div_ceil(8);
        let header = Header {
            content: Content::Line(self.direction),
            // Fits: a buffer has at most 16 MiB.
            count: bits as u32,
            ..header
        };
        header.write(packet.bytes_mut());
        self.counts.chunks += 1;
        self.counts.line_bits += bits as u64;
        // Shorter than it was made above.
        packet
            .set_len(HEADER_LEN + octets)
            .map_err(|_| DropReason::TooLarge)
    }

    /// Gives frames to the transmitter until it is full; says how many were done with.
    fn take(&mut self, frames: &mut Frames<'_>) -> u32 {
        let mut done = 0;
        loop {
            let mut ahead = frames.clone();
            let Some(Frame { llid, octets }) = ahead.next() else {
                break;
            };
            match self.transmitter.push(octets, self.llid.unwrap_or(llid)) {
                Ok(()) => {
                    self.counts.frames += 1;
                    self.counts.octets += octets.len() as u64;
                }
                Err(PushError::TooLong { .. }) => self.counts.oversize += 1,
                Err(PushError::Full) => break,
            }
            *frames = ahead;
            done += 1;
        }
        done
    }

    /// Sends at most so many codewords from bit `at` on; says how many bits.
    fn pull(&mut self, line: &mut [u8], at: usize, codewords: usize) -> usize {
        let reach = (at + codewords * CODEWORD_BITS).div_ceil(8).min(line.len());
        self.transmitter.pull(&mut line[..reach], at)
    }

    /// Sends `codewords`, filled up with idle; gives their bits.
    fn stream(&mut self, waiting: Aside<'_>, line: &mut [u8], codewords: u32) -> usize {
        let mut frames = waiting.frames();
        let mut left = waiting.count;
        let end = codewords as usize * CODEWORD_BITS;
        let mut at = 0;
        while at < end {
            let rest = (end - at) / CODEWORD_BITS;
            // No idle between frames: only what is full of blocks goes, while frames wait.
            let full = match left {
                0 => rest,
                _ => (self.transmitter.waiting_blocks() / DATA_BLOCKS).clamp(1, rest),
            };
            at += self.pull(line, at, full);
            left -= self.take(&mut frames);
        }
        self.counts.overfull += u64::from(left);
        self.counts.codewords += u64::from(codewords);
        at
    }

    /// Sends a burst, if there is anything to send; gives its bits.
    fn burst(&mut self, waiting: Aside<'_>, line: &mut [u8]) -> Result<usize, DropReason> {
        let mut frames = waiting.frames();
        let mut left = waiting.count;
        let mut at = 0;
        loop {
            let whole = line.len() * 8 / CODEWORD_BITS;
            let full = match left {
                0 => whole,
                _ => (self.transmitter.waiting_blocks() / DATA_BLOCKS).max(1),
            };
            let bits = self.pull(line, at, full);
            at += bits;
            left -= self.take(&mut frames);
            if bits > 0 {
                continue;
            }
            if self.transmitter.waiting_blocks() == 0 && at + CODEWORD_BITS <= 8 * line.len() {
                break;
            }
            if at + CODEWORD_BITS > 8 * line.len() {
                // What was sent has no end, and what is left no front: begin anew.
                self.transmitter = (self.make)();
                self.counts.bursts_cut += 1;
                return Err(DropReason::TooLarge);
            }
        }
        self.counts.bursts += u64::from(at > 0);
        Ok(at)
    }

    pub(super) fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.counts;
        out.extend([
            ("chunks", counts.chunks),
            ("chunks_malformed", counts.malformed),
            ("frames", counts.frames),
            ("octets", counts.octets),
            ("frames_oversize", counts.oversize),
            ("line_bits", counts.line_bits),
        ]);
        match self.direction {
            Direction::Downstream => out.extend([
                ("codewords", counts.codewords),
                ("frames_overfull", counts.overfull),
                (
                    "deletion_debt_max",
                    self.transmitter.deletion_debt_max() as u64,
                ),
            ]),
            Direction::Upstream => {
                out.extend([("bursts", counts.bursts), ("bursts_cut", counts.bursts_cut)]);
            }
        }
    }
}

/// Names of what a transmitter of this direction counts.
pub(super) fn counter_names(line: Direction) -> Vec<&'static str> {
    let mut names = vec![
        "chunks",
        "chunks_malformed",
        "frames",
        "octets",
        "frames_oversize",
        "line_bits",
    ];
    match line {
        Direction::Downstream => {
            names.extend(["codewords", "frames_overfull", "deletion_debt_max"]);
        }
        Direction::Upstream => names.extend(["bursts", "bursts_cut"]),
    }
    names
}

impl<'a> Aside<'a> {
    fn frames(&self) -> Frames<'a> {
        Frames::behind_check(self.octets, self.count)
    }
}

#[cfg(test)]
mod tests {
    use catena_engine::pools::Pools;
    use catena_pcs::params::Params;
    use catena_pcs::{Simd, fast};
    use catena_shm::pool::{PoolGeometry, PoolOwner};
    use catena_shm::region::Sharing;

    use super::*;
    use crate::chunk::frame_header;

    /// Sends a burst of as many frames of 100 octets, as long as a line of `octets` holds; gives
    /// its bits, and how many bursts were sent and cut.
    fn sent(
        sync_blocks: usize,
        frames: u32,
        octets: usize,
    ) -> (Result<usize, DropReason>, u64, u64) {
        let make = move || -> Transmitter {
            let params = Params {
                sync_blocks,
                ..Params::default()
            };
            Box::new(fast::Transmitter::new(
                Direction::Upstream,
                params,
                Simd::best(),
            ))
        };
        let mut half = Transmitting::new(Direction::Upstream, None, Box::new(make));
        let frame = [&frame_header(100, 1)[..], &[5; 100]].concat();
        let list = frame.repeat(frames as usize);
        let waiting = Aside {
            octets: &list,
            count: frames,
        };
        let bits = half.burst(waiting, &mut vec![0; octets]);
        (bits, half.counts.bursts, half.counts.bursts_cut)
    }

    /// A transmitter of an OLT.
    fn downstream() -> Transmitting {
        let make = || -> Transmitter {
            let (line, params) = (Direction::Downstream, Params::default());
            Box::new(fast::Transmitter::new(line, params, Simd::best()))
        };
        Transmitting::new(Direction::Downstream, None, Box::new(make))
    }

    #[test]
    fn more_frames_than_a_chunk_takes_do_not_make_it_longer() {
        let mut half = downstream();
        // 700 frames take 86,800 octets: more than waits in a transmitter.
        let list = [&frame_header(100, 1)[..], &[5; 100]].concat().repeat(700);
        let mut frames = Frames::behind_check(&list, 700);
        let left = 700 - half.take(&mut frames);
        assert!(left > 0);
        let octets = frames.rest();
        let waiting = Aside {
            octets,
            count: left,
        };
        let bits = half.stream(waiting, &mut vec![0; 100_000], 4);
        assert_eq!(bits, 4 * CODEWORD_BITS);
        // Four codewords made room for six or seven of them.
        let taken = u64::from(left) - half.counts.overfull;
        assert!((5..9).contains(&taken), "{taken}");
    }

    #[test]
    fn line_bits_may_fill_a_buffer_to_the_octet() {
        // 128 KiB less headroom and header are 512 codewords.
        for (codewords, wanted) in [(512, Ok(())), (513, Err(DropReason::TooLarge))] {
            let geometry = PoolGeometry {
                log2_stride: 17,
                buffer_count: 1,
                headroom: 64,
                bundles: false,
            };
            let pool = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
            let mut pools = Pools::new(vec![pool]);
            let mut packet = pools.alloc(HEADER_LEN).unwrap();
            packet.bytes_mut().fill(0);
            let header = Header {
                content: Content::Frames,
                trial: 0,
                bit: 0,
                codewords,
                number: 0,
                count: 0,
                due: 0,
            };
            header.write(packet.bytes_mut());
            assert_eq!(downstream().chunk(&mut packet), wanted, "{codewords}");
            pools.free(packet);
        }
    }

    #[test]
    fn nothing_to_send_is_no_burst() {
        assert_eq!(sent(8, 0, 10_000), (Ok(0), 0, 0));
    }

    #[test]
    fn a_burst_needs_room_for_one_codeword_behind_it_to_the_octet() {
        let is_even = |bits: &usize| (bits + CODEWORD_BITS).is_multiple_of(8);
        let mut borders = 0;
        for sync_blocks in 8..12 {
            let Some(bits) = sent(sync_blocks, 3, 10_000).0.ok().filter(is_even) else {
                continue;
            };
            let least = (bits + CODEWORD_BITS) / 8;
            assert_eq!(sent(sync_blocks, 3, least), (Ok(bits), 1, 0));
            let cut = (Err(DropReason::TooLarge), 0, 1);
            assert_eq!(sent(sync_blocks, 3, least - 1), cut);
            borders += 1;
        }
        assert_eq!(borders, 1);
    }
}
