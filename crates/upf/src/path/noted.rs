//! Packets of sessions that are traced: as they came, and what became of them.
//!
//! Beside `path`, which comes here only while somebody traces.

use std::collections::VecDeque;

use catena_engine::packet::Packet;

use crate::decision::{Decision, Found};
use crate::group::{Member, SWITCH};
use crate::rules::NONE;
use crate::trace::{Fitting, N4, Record, What};
use crate::tunnel::Signal;
use crate::upf::Upf;

impl Upf {
    /// As [`Upf::rule`], noted if the session is traced.
    #[cold]
    pub(super) fn judge_and_note(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        let its = (found.slot, self.store.head(found.slot).seid);
        let noted = self.traces.came(its, packet.bytes(), now_ns);
        let (decision, fits) = self.judge(packet, found, signals, now_ns);
        let left = match decision {
            Decision::Send(place) => Some((place, packet.bytes())),
            _ => None,
        };
        let place = self.place_of(found, fits);
        self.traces
            .ruled(noted, came(decision, place, fits, now_ns), left);
        decision
    }

    /// Notes what becomes of a packet of which no rule is asked.
    #[cold]
    pub(super) fn note(&mut self, packet: &Packet, found: &Found, decision: Decision, now_ns: u64) {
        let its = (found.slot, self.store.head(found.slot).seid);
        let noted = self.traces.came(its, packet.bytes(), now_ns);
        let place = self.place_of(found, None);
        self.traces
            .ruled(noted, came(decision, place, None, now_ns), None);
    }

    /// The interface by which a packet came: its PDR's, or one on the side that it comes from.
    fn place_of(&self, found: &Found, fits: Option<Fitting>) -> u8 {
        let side = u8::from(found.teid == 0);
        let (source, instance) = fits.map_or((side, NONE), |(_, source)| source);
        if found.member != Member::NONE {
            return SWITCH;
        }
        self.settings.place_from(source, instance).unwrap_or(N4)
    }
}

/// The record of a packet that came.
fn came(decision: Decision, place: u8, fits: Option<Fitting>, now_ns: u64) -> Record {
    Record {
        place,
        pdr_id: fits.map(|(id, _)| id),
        ..Record::new(now_ns, What::Came(decision))
    }
}
