//! What passes by network instance and by slice, and what of sessions is dropped: for metrics.
//!
//! On a packet's way where its session's own counters are, and on N4 where sessions begin and end.
//! Nothing is kept over a kill: counters begin again, as those of a process do. Limits: the network
//! instances of the settings, [`SLICE_COUNT_MAX`] slices; what is beyond is counted as of none.

use serde_json::{Value, json};

use crate::ceilings::terms::slice_name;
use crate::decision::{REASONS, Why};
use crate::model::Session;
use crate::rules::DROP_KINDS;
use crate::settings::Settings;

/// Most slices that are told apart.
pub const SLICE_COUNT_MAX: usize = 64;

/// Why packets are dropped that are of a session. Others are of no network instance, and parts of a
/// packet are none.
const DROPS: [Why; DROP_KINDS] = [
    Why::Malformed,
    Why::NoPdr,
    Why::Spoofed,
    Why::TooManyStations,
    Why::FarDrop,
    Why::NotRedirected,
    Why::Gate,
    Why::Rate,
    Why::Ceiling,
    Why::Quota,
    Why::TooBig,
    Why::Extension,
    Why::NoHeadroom,
    Why::BufferFull,
    Why::Expired,
    Why::Discarded,
];

/// Which of them a reason is; none for one that is not of a session.
pub(crate) fn drop_kind(why: Why) -> Option<usize> {
    DROPS.iter().position(|one| *one == why)
}

/// Their names.
pub const DROP_REASONS: [&str; DROPS.len()] = {
    let mut names = [""; DROPS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = REASONS[DROPS[at] as usize];
        at += 1;
    }
    names
};

/// What passed, uplink and downlink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    packets: [u64; 2],
    bytes: [u64; 2],
    sessions: u64,
}

impl Counts {
    #[inline]
    fn add(&mut self, way: usize, len: usize) {
        self.packets[way] += 1;
        self.bytes[way] += len as u64;
    }

    fn shown(&self, name: &str) -> Value {
        json!({
            "name": name, "sessions": self.sessions,
            "ul_packets": self.packets[0], "dl_packets": self.packets[1],
            "ul_bytes": self.bytes[0], "dl_bytes": self.bytes[1],
        })
    }
}

/// Counts of all.
#[derive(Debug, Default)]
pub struct Tally {
    /// By place of the network instance; the last is of none.
    instances: Vec<Counts>,
    /// What was dropped, as `instances`, by the number of the reason.
    dropped: Vec<[u64; REASONS.len()]>,
    /// By number of the slice; the first is of none.
    slices: Vec<(u32, Counts)>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            instances: vec![Counts::default(); settings.instances.len() + 1],
            dropped: vec![[0; REASONS.len()]; settings.instances.len() + 1],
            slices: vec![(0, Counts::default())],
        }
    }

    fn of_slice(&mut self, slice: u32) -> Option<&mut Counts> {
        let known = self.slices.iter().position(|(one, _)| *one == slice);
        self.slices.get_mut(known.unwrap_or(0)).map(|(_, one)| one)
    }

    /// Counts a packet that leaves.
    #[inline]
    pub fn count(&mut self, slice: u32, instance: u8, is_uplink: bool, len: usize) {
        let way = usize::from(!is_uplink);
        let place = usize::from(instance).min(self.instances.len() - 1);
        self.instances[place].add(way, len);
        if let Some(counts) = self.of_slice(slice) {
            counts.add(way, len);
        }
    }

    /// Counts a packet of a session that does not leave.
    pub fn count_dropped(&mut self, instance: u8, why: Why) {
        let place = usize::from(instance).min(self.dropped.len() - 1);
        self.dropped[place][why as usize] += 1;
    }

    /// A session begins.
    pub fn enter(&mut self, session: &Session) {
        let slice = session.head.slice;
        let is_known = self.slices.iter().any(|(one, _)| *one == slice);
        if !is_known && self.slices.len() <= SLICE_COUNT_MAX {
            self.slices.push((slice, Counts::default()));
        }
        if let Some(counts) = self.of_slice(slice) {
            counts.sessions += 1;
        }
    }

    /// A session ends.
    pub fn leave(&mut self, session: &Session) {
        if let Some(counts) = self.of_slice(session.head.slice) {
            counts.sessions = counts.sessions.saturating_sub(1);
        }
    }

    /// For metrics: those of no network instance or slice have no name.
    pub(crate) fn shown(&self, settings: &Settings) -> Value {
        let names = settings.instances.iter().map(Vec::as_slice);
        let names = names.chain([&b""[..]]);
        let dropped = self.dropped.iter().zip(names.clone());
        let dropped = dropped.map(|(counts, name)| {
            let counts = DROPS.map(|why| json!(counts[why as usize]));
            let counts = DROP_REASONS.into_iter().map(str::to_owned).zip(counts);
            let name = json!(String::from_utf8_lossy(name));
            Value::Object(counts.chain([("name".to_owned(), name)]).collect())
        });
        let dropped: Vec<Value> = dropped.collect();
        let instances = self.instances.iter().zip(names);
        let instances: Vec<Value> = instances
            .map(|(counts, name)| {
                let mut shown = counts.shown(&String::from_utf8_lossy(name));
                // A session may be of several network instances.
                if let Some(fields) = shown.as_object_mut() {
                    fields.remove("sessions");
                }
                shown
            })
            .collect();
        let slices = self.slices.iter().map(|(number, counts)| match number {
            0 => counts.shown(""),
            number => counts.shown(&slice_name(*number)),
        });
        json!({
            "network_instances": instances, "dropped": dropped,
            "slices": slices.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::pfcp::Cause;

    use super::*;
    use crate::ceilings::slice_number;
    use crate::model::tests::session;
    use crate::public_failures::{Smf, downlink_pdr, nothing};

    #[test]
    fn packets_and_sessions_are_those_of_their_network_instance_and_slice() {
        let settings = &crate::public_failures::new(None).settings;
        let mut tally = Tally::new(settings);
        let internet = settings.instance(b"internet");
        let mut one = session(3);
        one.head.slice = slice_number(1, Some(0xa1));
        tally.enter(&one);
        tally.count(one.head.slice, internet, true, 100);
        tally.count(0, u8::MAX, false, 50);
        let shown = tally.shown(settings);
        let find = |kind: &str, name: &str| {
            let list = shown[kind].as_array().unwrap();
            list.iter().find(|one| one["name"] == name).unwrap().clone()
        };
        let of = find("network_instances", "internet");
        assert_eq!(
            (&of["ul_packets"], &of["ul_bytes"]),
            (&json!(1), &json!(100))
        );
        let slice = find("slices", "1-0000a1");
        assert_eq!(
            (&slice["sessions"], &slice["ul_bytes"]),
            (&json!(1), &json!(100))
        );
        for kind in ["network_instances", "slices"] {
            assert_eq!(find(kind, "")["dl_bytes"], 50);
        }
        tally.leave(&one);
        assert_eq!(tally.shown(settings)["slices"][1]["sessions"], 0);
    }

    /// Of a packet that is given up only its session says from where it came.
    #[test]
    fn dropped_packets_are_those_of_their_network_instance_and_reason() {
        let mut smf = Smf::new();
        let (cause, _, seid) = smf.establish(nothing, |writer| downlink_pdr(writer, nothing));
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        let slot = smf.upf.store.slot_of(seid).unwrap();
        smf.upf.give_up_packet(slot, Why::BufferFull);
        smf.upf.give_up_packet(slot + 1, Why::Discarded);
        let internet = smf.upf.settings.instance(b"internet");
        smf.upf.tally.count_dropped(internet, Why::Gate);
        let shown = smf.upf.tally.shown(&smf.upf.settings);
        let of = |name: &str| {
            let list = shown["dropped"].as_array().unwrap();
            list.iter().find(|one| one["name"] == name).unwrap().clone()
        };
        let (internet, none) = (of("internet"), of(""));
        let counts = |one: &Value| {
            let reasons = ["buffer_full", "gate_closed", "buffer_discarded"];
            reasons.map(|reason| one[reason].as_u64())
        };
        assert_eq!(counts(&internet), [Some(1), Some(1), Some(0)]);
        assert_eq!(counts(&none), [Some(0), Some(0), Some(1)]);
    }

    /// Whoever names slices takes no room without an end.
    #[test]
    fn slices_beyond_so_many_are_counted_as_of_none() {
        let mut tally = Tally::new(&crate::public_failures::new(None).settings);
        for number in 1..200 {
            let mut one = session(3);
            one.head.slice = number;
            tally.enter(&one);
            tally.count(number, 0, true, 1);
        }
        assert_eq!(tally.slices.len(), SLICE_COUNT_MAX + 1);
        let all: u64 = tally.slices.iter().map(|(_, one)| one.packets[0]).sum();
        assert_eq!((all, tally.slices[0].1.sessions), (199, 199 - 64));
    }
}
