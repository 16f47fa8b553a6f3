//! Groups of units: what leaves, comes home and is freed together, as a number and a mask.
//!
//! Between the pool's owner and the links, for plain pools and pools of bundles alike. A group is a
//! slab of 64 buffers, or the slots of one bundle; unit n of it is bit n of a mask. Its 64 bytes of
//! the ledger are one cache line and are handled as eight words, so that the account of a burst
//! costs some stores for each group and not one for each packet. Whatever a peer says about several
//! units is done for all or for none.
#![allow(
    unsafe_code,
    reason = "the ledger's bytes of a group are words in a mapping"
)]

use super::link_set::LinkSet;
use super::owner::{HOME, PoolOwner};
use crate::descriptor::{SLOTS_PER_BUNDLE, Violation};
use crate::packet::Packet;
use crate::sync::{AtomicU64, Ordering};

const UNITS: usize = SLOTS_PER_BUNDLE as usize;
/// A byte of each in a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// 0xff in byte n for bit n.
#[inline]
const fn spread(bits: u8) -> u64 {
    let each = (bits as u64).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
    ((each + 0x7f * ONES) >> 7 & ONES) * 0xff
}

/// For each word of a group's ledger that `mask` touches: its number, and 0xff in each byte that
/// counts.
#[inline]
pub(super) fn words(mask: u64) -> impl Iterator<Item = (usize, u64)> {
    let bytes = mask.to_le_bytes().into_iter().enumerate();
    bytes
        .filter(|(_, bits)| *bits != 0)
        .map(|(word, bits)| (word, spread(bits)))
}

pub(super) fn slots(mask: u64) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let slot = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (slot < SLOTS_PER_BUNDLE).then_some(slot)
    })
}

/// Packets at the start of a burst whose units are of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRun {
    /// Their pool.
    pub pool: u16,
    /// Their group: a slab of buffers, or the buffer of their bundle.
    pub group: u32,
    /// Their units in it.
    pub mask: u64,
    /// How many packets, at least 1.
    pub count: usize,
}

impl UnitRun {
    /// Those at the start of `packets`; none if there are no packets.
    #[inline(always)]
    pub fn at_start_of(packets: &[Packet]) -> Option<Self> {
        let first = packets.first()?;
        let mut run = Self {
            pool: first.pool(),
            group: first.unit_group(),
            mask: 0,
            count: 0,
        };
        for packet in packets {
            if !packet.shares_group(first) {
                break;
            }
            run.mask |= 1 << packet.unit_in_group();
            run.count += 1;
        }
        Some(run)
    }
}

impl PoolOwner {
    #[inline]
    fn ledger_line(&self, group: u32) -> &[AtomicU64; UNITS / 8] {
        assert!(
            group < self.units.div_ceil(SLOTS_PER_BUNDLE),
            "group outside its pool"
        );
        // SAFETY: the ledger has 64 bytes per group, the last one included; atomics that only this
        // process writes, and in this thread.
        unsafe {
            self.ledger
                .at::<[AtomicU64; UNITS / 8]>(group as usize * UNITS)
                .as_ref()
        }
    }

    /// Takes back units of one group, which are in hand: those of `mask`, one at least. A bundle's
    /// buffer is free with its last slot.
    #[inline]
    pub fn free_slots(&mut self, group: u32, mask: u64) {
        if !self.geometry.bundles {
            return self.slabs.put_front(group, mask);
        }
        if self.end_slots(group, mask) {
            self.free_bundles.push_front(group);
        }
    }

    /// Notes that slots of a bundle are not alive any more, and says whether its buffer is free
    /// now.
    #[inline]
    fn end_slots(&mut self, index: u32, mask: u64) -> bool {
        let alive = &mut self.alive[index as usize];
        debug_assert_eq!(*alive & mask, mask, "freed twice");
        let before = *alive;
        *alive = before & !mask;
        before != 0 && *alive == 0 && !self.is_open(index)
    }

    /// Notes that units of one group, those of `mask`, leave by link number `link` (not 0).
    #[inline]
    pub fn send_out_slots(&mut self, group: u32, mask: u64, link: u8) {
        debug_assert_ne!(link, HOME);
        let alive = self.alive.get(group as usize);
        debug_assert!(
            alive.is_none_or(|alive| alive & mask == mask),
            "sent after freed"
        );
        let pattern = u64::from(link) * ONES;
        let line = self.ledger_line(group);
        for (word, bytes) in words(mask) {
            let left = line[word].load(Ordering::Relaxed);
            debug_assert_eq!(left & bytes, 0, "sent twice");
            line[word].store(left & !bytes | pattern & bytes, Ordering::Relaxed);
        }
        self.out_count += mask.count_ones();
    }

    /// Takes units of one group, those of `mask`, returned by a peer that is reached over `links`;
    /// a bundle's buffer is free with its last slot.
    ///
    /// # Errors
    /// [`Violation`] if one of them is not out by one of these links; nothing changes then.
    #[inline]
    pub fn take_home_slots(
        &mut self,
        group: u32,
        mask: u64,
        links: &LinkSet,
    ) -> Result<(), Violation> {
        self.arrive_slots(group, mask, links)?;
        if !self.geometry.bundles {
            self.slabs.put_back(group, mask);
        } else if self.end_slots(group, mask) {
            self.free_bundles.push_back(group);
        }
        Ok(())
    }

    /// Notes that units of one group have come back in hand over a link: those of `mask`.
    ///
    /// # Errors
    /// [`Violation`] if one of them is not out by one of `links`; nothing changes then.
    #[inline]
    pub fn arrive_slots(
        &mut self,
        group: u32,
        mask: u64,
        links: &LinkSet,
    ) -> Result<(), Violation> {
        // Behind the last unit of a pool whose last group is not whole the ledger says: at home.
        if group >= self.units.div_ceil(SLOTS_PER_BUNDLE) || mask == 0 {
            return Err(Violation);
        }
        let line = self.ledger_line(group);
        check_out(line, mask, links)?;
        for (word, bytes) in words(mask) {
            let left = line[word].load(Ordering::Relaxed);
            line[word].store(left & !bytes, Ordering::Relaxed);
        }
        self.out_count -= mask.count_ones();
        Ok(())
    }
}

/// Whether all units of `mask`, which is not 0, are out by one of `links`.
#[inline]
fn check_out(line: &[AtomicU64; UNITS / 8], mask: u64, links: &LinkSet) -> Result<(), Violation> {
    let link_of = |unit: u32| {
        let word = line[unit as usize / 8].load(Ordering::Relaxed);
        word.to_le_bytes()[unit as usize % 8]
    };
    let is_out = |link| link != HOME && links.contains(link);
    // Most often all left together.
    let first = link_of(mask.trailing_zeros());
    let pattern = u64::from(first) * ONES;
    let differs = words(mask).fold(0, |differs, (word, bytes)| {
        differs | (line[word].load(Ordering::Relaxed) ^ pattern) & bytes
    });
    let all = if differs == 0 {
        is_out(first)
    } else {
        slots(mask).all(|unit| is_out(link_of(unit)))
    };
    if all { Ok(()) } else { Err(Violation) }
}
