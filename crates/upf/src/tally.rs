//! What passes by network instance and by slice: for metrics.
//!
//! On a packet's way where its session's own counters are, and on N4 where sessions begin and end.
//! Nothing is kept over a kill: counters begin again, as those of a process do. Limits: the network
//! instances of the settings, [`SLICE_COUNT_MAX`] slices; what is beyond is counted as of none.

use serde_json::{Value, json};

use crate::ceilings::terms::slice_name;
use crate::model::Session;
use crate::settings::Settings;

/// Most slices that are told apart.
pub const SLICE_COUNT_MAX: usize = 64;

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
    /// By number of the slice; the first is of none.
    slices: Vec<(u32, Counts)>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            instances: vec![Counts::default(); settings.instances.len() + 1],
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
        json!({ "network_instances": instances, "slices": slices.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceilings::slice_number;
    use crate::model::tests::session;

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
