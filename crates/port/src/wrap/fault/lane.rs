//! One direction of a `fault` wrapper: what happens to each packet, and which ones wait.

use catena_engine::nf::Nanos;
use catena_engine::packet::Packet;
use catena_engine::port::PortError;
use catena_engine::units::Share;

use super::config::Faults;
use super::shelf::Shelf;
use crate::random::Random;

/// Most packets by which a reordered one is passed.
const PASSED_BY_MAX: u64 = 3;
/// When a reordered packet goes on though too few have passed it, in nanoseconds.
const REORDER_WAIT_NS: u64 = 10_000_000;

/// A share of packets as a limit on 53 random bits, of which `f64` holds every value.
#[derive(Clone, Copy, Debug)]
struct Chance(u64);

impl Chance {
    fn new(share: Share) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is within 0 and 1"
        )]
        Self((share.0 * (1_u64 << 53) as f64) as u64)
    }

    /// Decides. Draws nothing where there is no chance, so that a fault that is not asked for does
    /// not change what the others do.
    fn strikes(self, random: &mut Random) -> bool {
        self.0 > 0 && random.next() >> 11 < self.0
    }
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) is_lost: bool,
    pub(super) is_duplicated: bool,
    /// The bit that is inverted.
    flip: Option<usize>,
    /// By how many packets it is passed.
    passed_by: Option<u64>,
    /// How long it waits; `None` where packets do not.
    delay_ns: Option<u64>,
}

impl Fate {
    /// Whether nothing happens to it.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_lost && !self.is_duplicated && self.flip.is_none() && !self.waits()
    }

    /// Whether it waits.
    pub(super) fn waits(&self) -> bool {
        self.passed_by.is_some() || self.delay_ns.is_some()
    }

    /// Whether a bit of it is inverted.
    pub(super) fn flips(&self) -> bool {
        self.flip.is_some()
    }

    /// Inverts the bit, if that is its fate.
    pub(super) fn corrupt(&self, bytes: &mut [u8]) {
        if let Some(bit) = self.flip {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    random: Random,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    corrupt: Chance,
    /// Least delay and one more than the most jitter.
    delay_ns: Option<(u64, u64)>,
    shelf: Shelf,
    /// The time of the call in which packets were held last.
    held_at: Nanos,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lost: u64,
    corrupted: u64,
    duplicated: u64,
    reordered: u64,
    skipped: u64,
}

impl Lane {
    pub(super) fn new(faults: Faults, seed: u64, hold: u32) -> Result<Self, PortError> {
        let delay = faults
            .delay
            .map(|delay| (delay.fixed.ns, delay.jitter.ns + 1));
        Ok(Self {
            random: Random::new(seed),
            loss: Chance::new(faults.loss),
            duplicate: Chance::new(faults.duplicate),
            reorder: Chance::new(faults.reorder),
            corrupt: Chance::new(faults.corrupt),
            delay_ns: delay,
            shelf: Shelf::new(hold)?,
            held_at: Nanos(0),
            counts: Counts::default(),
        })
    }

    /// Decides about the next packet, of `len` bytes.
    pub(super) fn fate(&mut self, len: usize) -> Fate {
        let random = &mut self.random;
        let is_lost = self.loss.strikes(random);
        let flips = self.corrupt.strikes(random);
        let is_duplicated = self.duplicate.strikes(random);
        let is_reordered = self.reorder.strikes(random);
        // Fits: below eight times the length of a packet.
        let flip = flips.then(|| random.below(len as u64 * 8) as usize);
        let passed_by = is_reordered.then(|| 1 + random.below(PASSED_BY_MAX));
        let delay_ns = self
            .delay_ns
            .map(|(fixed, jitter)| fixed + random.below(jitter));
        let counts = &mut self.counts;
        counts.lost += u64::from(is_lost);
        if !is_lost {
            counts.corrupted += u64::from(flips);
            counts.duplicated += u64::from(is_duplicated);
            counts.reordered += u64::from(is_reordered);
        }
        Fate {
            is_lost,
            is_duplicated,
            flip,
            passed_by,
            delay_ns,
        }
    }

    /// Whether every packet waits.
    pub(super) fn delays(&self) -> bool {
        self.delay_ns.is_some()
    }

    /// A call at `now` begins. Packets that were held in the one before had come by then, and not
    /// before that one's own time, which was taken in front of them: a worker that loses its core
    /// in between would make their delay too short. So they wait from now on.
    pub(super) fn settle(&mut self, now: Nanos) {
        self.shelf.settle(now.0.saturating_sub(self.held_at.0));
    }

    /// Whether packets wait for the next call, to know from when on they wait.
    pub(super) fn is_unsettled(&self) -> bool {
        self.shelf.is_unsettled()
    }

    /// When packets were held last.
    pub(super) fn held_at(&self) -> Nanos {
        self.held_at
    }

    /// Puts a copy of a packet, damaged if that is its fate, where it waits, and another one behind
    /// it if that is its fate too. Returns false, and counts, if there is no room; then it must not
    /// wait.
    pub(super) fn hold(&mut self, bytes: &[u8], fate: &Fate, now: Nanos) -> bool {
        self.held_at = now;
        let is_delayed = fate.delay_ns.is_some();
        let due = now.plus(fate.delay_ns.unwrap_or(0));
        let held = match fate.passed_by {
            Some(count) => self
                .shelf
                .put_aside(bytes, count, due.plus(REORDER_WAIT_NS)),
            None => self.shelf.queue(bytes, due),
        };
        let Some(packet) = held else {
            self.skip();
            return false;
        };
        fate.corrupt(packet.bytes_mut());
        if is_delayed && fate.passed_by.is_none() {
            self.shelf.unsettle(due);
        }
        if fate.is_duplicated {
            match self.shelf.queue(bytes, due) {
                Some(copy) => {
                    fate.corrupt(copy.bytes_mut());
                    if is_delayed {
                        self.shelf.unsettle(due);
                    }
                }
                None => self.skip(),
            }
        }
        true
    }

    /// Puts a copy of a packet that itself goes on at once where it waits for room.
    pub(super) fn hold_copy(&mut self, bytes: &[u8], now: Nanos) {
        if self.shelf.queue(bytes, now).is_none() {
            self.skip();
        }
    }

    /// Counts a fault that could not be done for lack of room.
    pub(super) fn skip(&mut self) {
        self.counts.skipped += 1;
    }

    /// Notes that a packet went on that had not to wait.
    pub(super) fn pass(&mut self, count: usize) {
        self.shelf.pass(count as u64);
    }

    /// Whether a packet waits for others to pass it.
    pub(super) fn is_overtaking(&self) -> bool {
        self.shelf.has_aside()
    }

    /// Length of the packet that has waited long enough, if there is one.
    pub(super) fn ready_len(&self, now: Nanos) -> Option<usize> {
        self.shelf.ready(now).map(|(_, packet)| packet.len())
    }

    /// Takes out that packet for the time of `each`.
    pub(super) fn take_ready<T>(&mut self, now: Nanos, each: impl FnOnce(&mut Packet) -> T) {
        if let Some((place, _)) = self.shelf.ready(now) {
            self.shelf.take(place, each);
        }
    }

    /// Takes out all packets, whatever they wait for.
    pub(super) fn take_all(&mut self, mut each: impl FnMut(&mut Packet)) {
        while let Some((place, _)) = self.shelf.ready(Nanos(u64::MAX)) {
            self.shelf.take(place, &mut each);
        }
    }

    /// When the next packet will have waited long enough; `None` if none waits.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.shelf.next_at()
    }

    /// Packets that can still be made to wait.
    pub(super) fn free(&self) -> usize {
        self.shelf.free()
    }

    /// Lost, corrupted, duplicated and reordered packets, those that wait, and faults left out.
    pub(super) fn counts(&self) -> [u64; 6] {
        let counts = &self.counts;
        [
            counts.lost,
            counts.corrupted,
            counts.duplicated,
            counts.reordered,
            self.shelf.len() as u64,
            counts.skipped,
        ]
    }
}
