//! Ceilings above the rules of sessions: what a slice or a network instance gets in all.
//!
//! Fourth step of a packet's way through the UPF, with its QERs: a packet that its QERs let pass
//! passes the ceiling of its slice and that of its network instance too, or is charged to none of
//! them. What a QER guarantees (GBR) passes whatever others have taken, and is charged first, as it
//! were: what others get is the rest. On N4, no more is guaranteed than there is room for.
//! Rates are averages over [`WINDOW_MS`], of bytes from the IP header on.
//! Limits: [`CEILING_COUNT_MAX`] ceilings. What they remember of rates is not kept over a kill;
//! what is guaranteed is found anew in the sessions. Specification: TS 23.501 5.15, 5.7.1.5; TS
//! 29.244 5.4.4, 7.5.2.2.

use std::collections::HashMap;

use catena_wire::pfcp::{Cause, IeType};
use serde_json::{Value, json};

use crate::model::{Fault, Session};
use crate::qer::{self, GcraState, WINDOW_MS};
use crate::rules::{NONE, Qer};
use crate::settings::Settings;

pub mod terms;

pub use terms::{CEILING_COUNT_MAX, Scope, Terms, slice_number};

/// Ceilings that a packet is charged to: of its slice and of its network instance.
const CHARGED_COUNT_MAX: usize = 2;

/// One of them at work.
#[derive(Debug)]
struct Ceiling {
    terms: Terms,
    states: [GcraState; 2],
    /// Bytes that have passed.
    passed: [u64; 2],
    /// Packets that were stopped.
    stopped: [u64; 2],
    /// What QERs of sessions guarantee.
    guaranteed_kbps: [u64; 2],
}

/// What a QER guarantees to a packet's direction, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// SEID of its session, and QER ID.
    pub whose: (u64, u32),
    /// Guaranteed bit rate.
    pub kbps: u64,
    /// Averaging Window, in ms.
    pub window_ms: u32,
}

/// What a packet was charged to, and how that was before.
#[derive(Debug, Default)]
pub struct Charged {
    before: [Option<(usize, GcraState)>; CHARGED_COUNT_MAX],
    /// Of the guarantee by which it passes.
    guaranteed: Option<((u64, u32), GcraState)>,
    way: usize,
    len: u64,
}

/// All ceilings.
#[derive(Debug)]
pub struct Ceilings {
    all: Vec<Ceiling>,
    /// What of guarantees is used, by SEID and QER ID, uplink and downlink; nothing yet of those
    /// that are not in it.
    guaranteed: HashMap<(u64, u32), [GcraState; 2]>,
}

/// A shard's part of a number: exact, so that the parts of all are the whole.
fn part_of(whole: u64, (shard, count): (u16, u16)) -> u64 {
    let (shard, count) = (u64::from(shard), u64::from(count.max(1)));
    whole / count + u64::from(shard < whole % count)
}

impl Ceilings {
    /// Those of the settings: of each, this shard's part.
    pub fn new(terms: &[Terms], shard: (u16, u16)) -> Self {
        let parts = |both: [Option<u64>; 2]| both.map(|one| one.map(|all| part_of(all, shard)));
        let ceiling = |terms: &Terms| Ceiling {
            terms: Terms {
                bytes_per_s: parts(terms.bytes_per_s),
                guaranteed_kbps: parts(terms.guaranteed_kbps),
                ..terms.clone()
            },
            states: [GcraState::default(); 2],
            passed: [0; 2],
            stopped: [0; 2],
            guaranteed_kbps: [0; 2],
        };
        Self {
            all: terms.iter().map(ceiling).collect(),
            guaranteed: HashMap::new(),
        }
    }

    /// Whether there is none: then packets need not say whose they are.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Charges a packet of a slice and a network instance; none if one of their ceilings stops it,
    /// and then it is charged to none. What is within a guarantee no ceiling stops.
    pub fn charge(
        &mut self,
        (slice, instance): (u32, u8),
        guarantee: Option<Guarantee>,
        (is_uplink, len): (bool, usize),
        now_ns: u64,
    ) -> Option<Charged> {
        let mut charged = Charged {
            way: usize::from(!is_uplink),
            len: len as u64,
            ..Charged::default()
        };
        let (way, mut count) = (charged.way, 0);
        charged.guaranteed = guarantee.and_then(|one| self.use_guarantee(one, (way, len), now_ns));
        let is_guaranteed = charged.guaranteed.is_some();
        for at in 0..self.all.len() {
            let ceiling = &mut self.all[at];
            let is_its = match ceiling.terms.scope {
                Scope::Instance(one) => one == instance,
                Scope::Slice(one) => one == slice,
            };
            if !is_its || count == CHARGED_COUNT_MAX {
                continue;
            }
            let before = ceiling.states[way];
            let rate = ceiling.terms.bytes_per_s[way];
            let state = &mut ceiling.states[way];
            let passes = match rate {
                None => true,
                Some(rate) if is_guaranteed => {
                    qer::owe(rate, WINDOW_MS, state, now_ns, len);
                    true
                }
                Some(rate) => qer::charge(rate, WINDOW_MS, state, now_ns, len),
            };
            if !passes {
                ceiling.stopped[way] += 1;
                self.give_back(&charged);
                return None;
            }
            ceiling.passed[way] += charged.len;
            charged.before[count] = Some((at, before));
            count += 1;
        }
        Some(charged)
    }

    /// Charges a packet to a guarantee, if there is room in it; how that was before.
    fn use_guarantee(
        &mut self,
        guarantee: Guarantee,
        (way, len): (usize, usize),
        now_ns: u64,
    ) -> Option<((u64, u32), GcraState)> {
        let states = self.guaranteed.entry(guarantee.whose).or_default();
        let before = states[way];
        let bytes_per_s = guarantee.kbps.saturating_mul(125);
        let window_ms = guarantee.window_ms;
        let passes = qer::charge(bytes_per_s, window_ms, &mut states[way], now_ns, len);
        passes.then_some((guarantee.whose, before))
    }

    /// Takes a packet's charge back: something else has stopped it.
    pub fn give_back(&mut self, charged: &Charged) {
        for (at, before) in charged.before.iter().flatten() {
            if let Some(ceiling) = self.all.get_mut(*at) {
                ceiling.states[charged.way] = *before;
                ceiling.passed[charged.way] -= charged.len;
            }
        }
        if let Some((whose, before)) = charged.guaranteed
            && let Some(states) = self.guaranteed.get_mut(&whose)
        {
            states[charged.way] = before;
        }
    }

    /// Whether there is room for what a session that is to be guarantees, beyond what it did.
    ///
    /// # Errors
    /// No resources available, because of GBR.
    pub fn check(
        &self,
        before: Option<&Session>,
        after: &Session,
        settings: &Settings,
    ) -> Result<(), Fault> {
        let has_room = self.all.iter().all(|ceiling| {
            let old = before.map_or([0; 2], |session| ceiling.share(session, settings));
            let new = ceiling.share(after, settings);
            (0..2).all(|way| {
                let most = ceiling.terms.guaranteed_kbps[way].unwrap_or(u64::MAX);
                let others = ceiling.guaranteed_kbps[way].saturating_sub(old[way]);
                new[way] <= old[way] || others.saturating_add(new[way]) <= most
            })
        });
        let cause = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::GBR);
        has_room.then_some(()).ok_or(cause.into())
    }

    /// Notes that a session guarantees something else than it did.
    pub fn note(&mut self, before: Option<&Session>, after: Option<&Session>, settings: &Settings) {
        self.forget(before, after);
        for ceiling in &mut self.all {
            let old = before.map_or([0; 2], |session| ceiling.share(session, settings));
            let new = after.map_or([0; 2], |session| ceiling.share(session, settings));
            for way in 0..2 {
                let others = ceiling.guaranteed_kbps[way].saturating_sub(old[way]);
                ceiling.guaranteed_kbps[way] = others.saturating_add(new[way]);
            }
        }
    }

    /// Forgets what was used of guarantees that are gone, or others now.
    fn forget(&mut self, before: Option<&Session>, after: Option<&Session>) {
        if self.guaranteed.is_empty() {
            return;
        }
        let gives = |session: &Session, before: &Qer| {
            let mut qers = session.qers.iter();
            let terms = |qer: &Qer| (qer.id, qer.gbr_kbps, qer.window_ms);
            qers.any(|qer| terms(qer) == terms(before))
        };
        for (session, qer) in before
            .into_iter()
            .flat_map(|session| session.qers.iter().map(move |qer| (session, qer)))
        {
            if !after.is_some_and(|after| gives(after, qer)) {
                self.guaranteed.remove(&(session.head.seid, qer.id));
            }
        }
    }

    /// For people and tools.
    pub fn shown(&self) -> Value {
        let list = self.all.iter().map(|ceiling| {
            let terms = &ceiling.terms;
            let of = |way: usize| {
                json!({
                    "bps": terms.bytes_per_s[way].map(|rate| rate.saturating_mul(8)),
                    "bytes": ceiling.passed[way],
                    "stopped": ceiling.stopped[way],
                    "guaranteed_kbps": ceiling.guaranteed_kbps[way],
                    "guaranteed_kbps_max": terms.guaranteed_kbps[way],
                })
            };
            json!({ "name": terms.name, "ul": of(0), "dl": of(1) })
        });
        list.collect()
    }
}

impl Ceiling {
    /// What a session's QERs guarantee, if it is of the ceiling's.
    fn share(&self, session: &Session, settings: &Settings) -> [u64; 2] {
        let is_its = match self.terms.scope {
            Scope::Slice(slice) => session.head.slice == slice,
            Scope::Instance(instance) => {
                let leaves_by = |place: u8| {
                    let interface = settings.interfaces.get(usize::from(place));
                    interface.map_or(NONE, |one| one.instance)
                };
                let mut fars = session.fars.iter();
                let mut pdrs = session.pdrs.iter();
                fars.any(|far| leaves_by(far.interface) == instance)
                    || pdrs.any(|one| one.pdr.instance == instance)
            }
        };
        let rates = session.qers.iter().filter_map(|qer| qer.gbr_kbps);
        let none = [0u64; 2];
        match is_its {
            true => rates.fold(none, |[ul, dl], [more_ul, more_dl]| {
                [ul.saturating_add(more_ul), dl.saturating_add(more_dl)]
            }),
            false => none,
        }
    }
}

#[cfg(test)]
mod tests;
