//! Control requests about traces: one begins, is read until it ends, and is ended.
//!
//! Between bursts. `{"trace": "begin", "seid": N}` (or `"ue": "10.45.0.2"`; `"snap": bytes`),
//! `{"trace": "read", "id": I, "seid": N}`, `{"trace": "end", "id": I, "seid": N}`. A shard that
//! does not serve the session answers null.

use std::net::IpAddr;

use catena_flow::efsm::to_hex;
use serde_json::{Value, json};

use crate::decision::{Decision, REASONS, Why};
use crate::group::SWITCH;
use crate::model::Key;
use crate::shards::SEID_SHIFT;
use crate::trace::{N4, Record, TRACE_COUNT_MAX, Traced, What};
use crate::upf::Upf;

/// Most bytes of frames in one answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Bytes of each frame that are kept unless said otherwise: all.
const SNAP: u64 = 65_535;

const REQUESTS: &str = "ask {\"trace\": \"begin\", \"seid\": N}, or \"ue\": an address; then read \
                        and end with the id that it answers and the seid";

impl Upf {
    /// Answers a control request about traces.
    pub(crate) fn trace(&mut self, request: &Value) -> Result<Value, String> {
        let slot = match self.session_asked_for(request)? {
            Ok(slot) => slot,
            Err(value) => return Ok(value),
        };
        let seid = request["seid"].as_u64();
        let id = request["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        match (request["trace"].as_str(), slot, id, seid) {
            (Some("begin"), Some(slot), ..) => self.begin_trace(slot, request),
            (Some("begin"), None, ..) => Err(no_session(request)),
            (Some("read"), slot, Some(id), Some(seid)) => self.read_trace((id, seid), slot),
            (Some("end"), _, Some(id), Some(seid)) => {
                Ok(json!({ "ended": self.traces.end(id, seid) }))
            }
            _ => Err(REQUESTS.to_owned()),
        }
    }

    /// The slot of the session that a request names, if there is one; or the answer of a shard
    /// that has nothing to do with it.
    fn session_asked_for(&self, request: &Value) -> Result<Result<Option<u32>, Value>, String> {
        let (own, shards) = self.settings.shard;
        let (slot, is_mine) = match (request["seid"].as_u64(), request["ue"].as_str()) {
            (Some(seid), _) => {
                let is_mine = shards == 1 || seid >> SEID_SHIFT == u64::from(own);
                (self.store.slot_of(seid), is_mine)
            }
            (None, Some(ue)) => {
                let address: IpAddr = ue
                    .parse()
                    .map_err(|_| format!("{ue:?} is no IP address, as 10.45.0.2"))?;
                let key = Key::of_ue(address);
                (self.index.find(key), self.is_mine(key))
            }
            (None, None) => return Err(REQUESTS.to_owned()),
        };
        match is_mine {
            true => Ok(Ok(slot)),
            false => Ok(Err(Value::Null)),
        }
    }

    fn begin_trace(&mut self, slot: u32, request: &Value) -> Result<Value, String> {
        let snap = request["snap"].as_u64().unwrap_or(SNAP).min(SNAP);
        let session = self.traced(slot);
        let full = || format!("{TRACE_COUNT_MAX} traces are under way: end one first");
        let begun = self
            .traces
            .begin(session, usize::try_from(snap).unwrap_or(0));
        let id = begun.ok_or_else(full)?;
        let head = self.store.head(slot);
        let interfaces = self.settings.interfaces.iter().map(|one| &*one.name);
        let names: Vec<&str> = interfaces.chain(["n4"]).collect();
        Ok(json!({
            "id": id, "seid": head.seid, "ue_v4": head.ue_v4, "ue_v6": head.ue_v6,
            "interfaces": names,
        }))
    }

    fn traced(&self, slot: u32) -> Traced {
        let head = self.store.head(slot);
        let association = self.store.association(head.association.into());
        Traced {
            slot,
            seid: head.seid,
            cp_seid: head.cp_seid,
            smf: [association.peer(), None],
        }
    }

    /// What was noted since it was read last.
    fn read_trace(&mut self, (id, seid): (u32, u64), slot: Option<u32>) -> Result<Value, String> {
        let interfaces = &self.settings.interfaces;
        let name = |place: u8| match interfaces.get(usize::from(place)) {
            Some(interface) => interface.name.as_str(),
            None if place == SWITCH => "its group",
            None => "n4",
        };
        let trace = self.traces.read(id, seid);
        let trace = trace.ok_or_else(|| format!("there is no trace {id} of session {seid}"))?;
        let (mut bytes, mut records) = (0, Vec::new());
        while bytes < ANSWER_BYTES_MAX
            && let Some((record, frame)) = trace.take()
        {
            bytes += frame.len();
            records.push(json!({
                "time_ns": self.clock.unix_ns(record.at_ns),
                "way": way(&record),
                "interface": (record.place != N4 || is_message(&record))
                    .then(|| name(record.place)),
                "pdr_id": record.pdr_id,
                "what": told(&record, &name),
                "reason": reason(&record),
                "bytes": record.len,
                "frame": to_hex(&frame),
            }));
        }
        Ok(json!({
            "records": records, "lost": trace.lost, "more": trace.has_more(),
            "session": slot.is_some(),
        }))
    }
}

fn no_session(request: &Value) -> String {
    match (request["seid"].as_u64(), request["ue"].as_str()) {
        (Some(seid), _) => format!("there is no session with SEID {seid}"),
        (_, ue) => format!("no session has the UE address {}", ue.unwrap_or_default()),
    }
}

const fn is_message(record: &Record) -> bool {
    matches!(record.what, What::Heard(_) | What::Said(_))
}

/// Which way it went: to the UPF, from it, or neither.
const fn way(record: &Record) -> Option<&'static str> {
    match record.what {
        What::Came(_) | What::Heard(_) => Some("in"),
        What::Left | What::Made | What::Said(_) => Some("out"),
        What::GivenUp(_) => None,
    }
}

fn named(why: Why) -> &'static str {
    REASONS[why as usize]
}

/// Why a packet was dropped, by the name of its counter.
fn reason(record: &Record) -> Option<&'static str> {
    match record.what {
        What::Came(Decision::Drop(why)) | What::GivenUp(why) => Some(named(why)),
        _ => None,
    }
}

/// What became of it, in words.
fn told<'a>(record: &Record, name: &impl Fn(u8) -> &'a str) -> String {
    match record.what {
        What::Came(decision) => match decision {
            Decision::Send(place) => format!("sent by {}", name(place)),
            Decision::Cut { interface, mtu, .. } => {
                format!("sent by {} in fragments of {mtu} bytes", name(interface))
            }
            Decision::Join { .. } => "a fragment, waits for the others".to_owned(),
            Decision::Hold(_) => "held".to_owned(),
            Decision::Consumed => "answered by the UPF".to_owned(),
            Decision::Drop(why) => format!("dropped: {}", named(why)),
        },
        What::Left => "as it leaves".to_owned(),
        What::Made => "made by the UPF".to_owned(),
        What::Heard(message) | What::Said(message) => message.to_string(),
        What::GivenUp(why) => format!("held no longer: {}", named(why)),
    }
}
