//! Maglev's lookup tables: slots shared out among the entries of another table, by weight.
//!
//! Beside packets, whenever the other table changes; lookups are those of any table. As in
//! "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016), 3.4: each backend goes
//! through the slots in an order of its own and takes the next one that is free, in turn, so that a
//! backend that comes or goes changes few slots of the others. Turns are by weight; a weight of 0
//! takes none. Orders follow from backends' numbers alone: all machines make the same table.

use super::table::{Maglev, MatchTable, Pattern, TableEntry};

/// Most slots: some hundred microseconds to fill; some milliseconds, if of the most backends one
/// has nearly all the weight.
pub const MAGLEV_SLOT_COUNT_MAX: u32 = 4093;
/// Most entries that the table of backends may have room for.
pub const BACKEND_COUNT_MAX: usize = 1024;

/// The backend of each slot, for backends by number and weight. Empty if none has a weight.
///
/// `slots` must be prime: each backend's steps then lead to every slot.
pub fn share_out(backends: &[(u128, u64)], slots: u32) -> Vec<u128> {
    let mut turns: Vec<Turns> = backends
        .iter()
        .filter(|(_, weight)| *weight > 0)
        .map(|(number, weight)| Turns::new(*number, *weight, slots))
        .collect();
    // Who was listed first must not matter.
    turns.sort_by_key(|one| one.number);
    let most = turns.iter().map(|one| one.weight).max().unwrap_or(0);
    if most == 0 || slots == 0 {
        return Vec::new();
    }
    let mut taken: Vec<Option<u128>> = vec![None; slots as usize];
    let mut left = slots;
    while left > 0 {
        for one in &mut turns {
            one.credit += one.weight;
            if one.credit < most || left == 0 {
                continue;
            }
            one.credit -= most;
            one.take(&mut taken);
            left -= 1;
        }
    }
    taken.into_iter().flatten().collect()
}

/// A backend's way through the slots.
struct Turns {
    number: u128,
    weight: u64,
    /// Parts of a turn that it has not taken yet.
    credit: u64,
    at: u32,
    step: u32,
}

impl Turns {
    fn new(number: u128, weight: u64, slots: u32) -> Self {
        let slots = u64::from(slots.max(1));
        let hash = mixed((number as u64) ^ ((number >> 64) as u64).rotate_left(32));
        Self {
            number,
            weight,
            credit: 0,
            at: (hash % slots) as u32,
            step: 1 + (mixed(hash) % (slots - 1).max(1)) as u32,
        }
    }

    /// Takes the next slot that is free; there is one.
    fn take(&mut self, taken: &mut [Option<u128>]) {
        for _ in 0..taken.len() {
            let at = self.at as usize;
            self.at = (self.at + self.step) % taken.len() as u32;
            if let Some(slot) = taken.get_mut(at).filter(|slot| slot.is_none()) {
                *slot = Some(self.number);
                return;
            }
        }
    }
}

/// The finalizer of splitmix64: it tells backends apart, and keeps no secret.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The tables whose entries follow from the table of this number, or from any, filled anew.
pub(super) fn refilled(tables: &[MatchTable], changed: Option<usize>) -> Vec<(usize, MatchTable)> {
    let mut made = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let Some(maglev) = table.shape().maglev else {
            continue;
        };
        let of = usize::from(maglev.of);
        if changed.is_some_and(|changed| changed != of) {
            continue;
        }
        let backends = tables.get(of).map(|table| backends(table, maglev));
        let shared = share_out(&backends.unwrap_or_default(), maglev.slots);
        let width = table.shape().key.first().map_or(16, |part| part.1);
        let mut new = MatchTable::new(table.shape());
        for (slot, backend) in shared.into_iter().enumerate() {
            // It fits the shape, which `verify` has seen to.
            let _ = new.put(TableEntry {
                key: vec![Pattern::exact(slot as u128, width)],
                priority: 0,
                data: vec![backend],
            });
        }
        made.push((at, new));
    }
    made
}

fn backends(table: &MatchTable, maglev: Maglev) -> Vec<(u128, u64)> {
    let weight = |entry: &TableEntry| match maglev.weight {
        Some(at) => {
            let weight = entry.data.get(usize::from(at)).copied().unwrap_or(0);
            weight.min(u128::from(u32::MAX)) as u64
        }
        None => 1,
    };
    let number = |entry: &TableEntry| match entry.key.first() {
        Some(Pattern::Masked(number, _) | Pattern::Range(number, _)) => *number,
        None => 0,
    };
    let all = table.entries();
    all.map(|entry| (number(&entry), weight(&entry))).collect()
}

/// Whether a number is prime.
pub(crate) fn is_prime(number: u32) -> bool {
    number > 1
        && (2..number)
            .take_while(|by| by * by <= number)
            .all(|by| !number.is_multiple_of(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 4093;

    fn count(slots: &[u128], backend: u128) -> usize {
        slots.iter().filter(|slot| **slot == backend).count()
    }

    #[test]
    fn backends_get_slots_by_their_weight() {
        let backends: Vec<(u128, u64)> = (0..8).map(|at| (at, 1 + at as u64 % 4)).collect();
        let slots = share_out(&backends, SLOTS);
        assert_eq!(slots.len(), SLOTS as usize);
        for (number, weight) in backends {
            let share = SLOTS as usize * weight as usize / 20;
            // Turns are exact; only the last round of them is cut short.
            assert!(count(&slots, number).abs_diff(share) <= 4, "{number}");
        }
    }

    #[test]
    fn whoever_leaves_moves_few_slots_of_the_others() {
        let all: Vec<(u128, u64)> = (0..10).map(|at| (at, 1)).collect();
        let with = share_out(&all, SLOTS);
        let mut without = all.clone();
        without[3].1 = 0;
        let without = share_out(&without, SLOTS);
        assert_eq!(count(&without, 3), 0);
        let pairs = with.iter().zip(&without);
        let moved = pairs.filter(|(was, is)| was != is && **was != 3).count();
        // A tenth was the leaver's; of the rest the paper's figure 12 moves a few in a hundred.
        assert!(moved < SLOTS as usize / 10, "{moved} slots moved");
        // And whoever comes back finds all as it was, in whatever order backends are listed.
        let mut turned = all;
        turned.reverse();
        assert_eq!(share_out(&turned, SLOTS), with);
    }

    #[test]
    fn nobody_with_a_weight_gets_nothing() {
        assert!(share_out(&[], SLOTS).is_empty());
        assert!(share_out(&[(1, 0), (2, 0)], SLOTS).is_empty());
        assert_eq!(share_out(&[(7, 3)], 5), [7; 5]);
        assert_eq!(share_out(&[(7, u64::from(u32::MAX)), (8, 1)], 3), [7; 3]);
        assert!([2, 3, 251, 4093].into_iter().all(is_prime));
        assert!(![0, 1, 4, 249, 4095].into_iter().any(is_prime));
    }
}
