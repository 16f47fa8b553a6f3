//! How large and how slow it gets: sessions up to what the machine's memory holds.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use catena_measure::stats::random::Random;
use catena_upf::model::Key;
use catena_upf::ranges::{Index, KEYS_PER_SESSION, Teids};

use super::super::flow::workload::{BURST, BURSTS, fastest};
use super::super::machine::memory_info;
use super::smf::{GNB, Rules, Smf};
use super::traffic::{Pattern, Traffic, Way};

/// KDDI's table.
pub(super) const MOST: u32 = 16_640_000;
/// A first guess of the bytes of a session with plain rules, all told.
const GUESS_BYTES: u64 = 1_500;
const GIB: f64 = 1_073_741_824.0;

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0u64) * 4096
}

/// Half of the memory that is free.
fn budget() -> u64 {
    memory_info("MemAvailable").unwrap_or(0) * 1024 / 2
}

/// What finds sessions, alone, with the keys of 16.64 M of them.
pub(super) struct Found {
    /// Of the table's memory, per session.
    pub(super) bytes: f64,
    /// Of one lookup, alone, of a random session.
    pub(super) ns: f64,
}

/// # Errors
/// That there is not the memory.
pub(super) fn index(sessions: u32, time: Duration) -> Result<Found, String> {
    // A key is two words, what it leads to is one, and a bucket has room to spare.
    let need = u64::from(sessions) * u64::from(KEYS_PER_SESSION) * 48;
    if need > budget() {
        let (need, budget) = (need as f64 / GIB, budget() as f64 / GIB);
        return Err(format!(
            "an index of {sessions} sessions takes {need:.1} GiB; half of the free memory is \
             {budget:.1} GiB"
        ));
    }
    let before = resident();
    let mut index = Index::new(sessions * KEYS_PER_SESSION, [0x5eed, 0xfeed])?;
    let mut teids = Teids::new(0, 1, 0x5eed);
    let mut known = Vec::with_capacity(sessions as usize);
    let full = |_| "the index is full".to_owned();
    for slot in 0..sessions {
        let teid = teids.draw();
        known.push(teid);
        let ue = Ipv4Addr::from_bits(0x1000_0001 + slot);
        let gnb = Key::of_remote(slot + 1, IpAddr::V4(GNB));
        for key in [Key::Teid(teid), Key::V4(ue), gnb] {
            index.insert(key, slot).map_err(full)?;
        }
    }
    let own = known.capacity() as u64 * 4;
    let bytes = (resident().saturating_sub(before + own)) as f64 / f64::from(sessions);
    let mut random = Random::new(1);
    let mut teids = vec![0; BURST * BURSTS];
    let rate = fastest(time, || {
        for teid in &mut teids {
            *teid = known[random.below(u64::from(sessions)) as usize];
        }
        let started = Instant::now();
        let mut sum = 0u32;
        for teid in &teids {
            // The next one is not begun before this one is there.
            sum = index.find(Key::Teid(*teid ^ (sum >> 31))).unwrap_or(0);
        }
        black_box(sum);
        started.elapsed()
    });
    Ok(Found {
        bytes,
        ns: 1000.0 / rate,
    })
}

/// Whole sessions, as many as the memory holds.
pub(super) struct Filled {
    pub(super) sessions: u32,
    /// All memory that the UPF took, per session.
    pub(super) bytes: f64,
    /// Thousands of establishments per second while it was filled, messages' making included.
    pub(super) rate: f64,
    /// Of an uplink packet of a random session.
    pub(super) packet_ns: f64,
}

/// # Errors
/// What went wrong.
pub(super) fn sessions(most: u32, time: Duration) -> Result<Filled, String> {
    let fits = u32::try_from(budget() / GUESS_BYTES).unwrap_or(MOST);
    let sessions = most.min(fits);
    let before = resident();
    let mut smf = Smf::new(Rules::Plain, sessions)?;
    let started = Instant::now();
    smf.fill(sessions)?;
    let spent = started.elapsed().as_secs_f64();
    let own = smf.sessions.capacity() * size_of_val(&smf.sessions[0]);
    let bytes = resident().saturating_sub(before + own as u64);
    let rate = Traffic::new(&mut smf).rate((Way::Uplink, Pattern::Uniform, 64), time)?;
    Ok(Filled {
        sessions,
        bytes: bytes as f64 / f64::from(sessions),
        rate: f64::from(sessions) / spent / 1000.0,
        packet_ns: 1000.0 / rate,
    })
}
