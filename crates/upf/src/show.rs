//! What a UPF says of itself: answers to control requests, as JSON.
//!
//! Beside a packet's life, between bursts. `{"show": "sessions"}`, `{"show": "peers"}`,
//! `{"show": "session", "seid": N}`, `{"show": "pools"}`, `{"show": "reports"}`,
//! `{"show": "metrics"}`. Limit: [`SESSION_COUNT_MAX`] sessions in one answer; `from` goes on
//! behind them.

use serde_json::{Value, json};

use crate::association::{ASSOCIATION_COUNT, shown};
use crate::held::Account;
use crate::model::Session;
use crate::monitoring::monitor::Monitor;
use crate::routes::Route;
use crate::rules::{Head, NONE};
use crate::shards::SEID_SHIFT;
use crate::snapshot;
use crate::tally::DROP_REASONS;
use crate::upf::Upf;

mod traces;

/// Most sessions in one answer.
pub const SESSION_COUNT_MAX: usize = 256;

const REQUESTS: &str = "ask {\"show\": \"sessions\"}, or session with its seid, peers, pools, \
                        reports or metrics";

/// Where copies of a FAR's packets go; none of one that sends none.
fn copies_of(session: &Session, far_id: u32) -> Option<Value> {
    let its = session
        .copies
        .iter()
        .filter(|copied| copied.far_id == far_id);
    let its: Vec<Value> = its
        .map(|copied| {
            json!({
                "destination_interface": copied.destination,
                "teid": (copied.headers != 0).then_some(copied.teid),
                "peer_v4": copied.v4, "peer_v6": copied.v6,
            })
        })
        .collect();
    (!its.is_empty()).then_some(Value::Array(its))
}

/// Packets of a session that were dropped, by reason.
fn drops_of(head: &Head) -> Value {
    let all = DROP_REASONS.iter().zip(head.dropped);
    let some = all.filter(|(_, count)| *count > 0);
    some.map(|(reason, count)| ((*reason).to_owned(), Value::from(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

impl Upf {
    /// A page of a snapshot, from a slot on.
    pub(crate) fn snapshot(&self, from: u32, now_ns: u64) -> Value {
        snapshot::page(&self.store, &self.settings, from, now_ns)
    }

    /// Answers a control request.
    pub(crate) fn show(
        &self,
        request: &Value,
        held: &Account,
        held_count: usize,
    ) -> Result<Value, String> {
        match request["show"].as_str() {
            Some("sessions") => Ok(self.show_sessions(request["from"].as_u64().unwrap_or(0))),
            Some("session") => self.show_session(request),
            Some("peers") => Ok(self.show_peers()),
            Some("pools") => Ok(self.show_pools()),
            Some("metrics") => Ok(self.tally.shown(&self.settings)),
            Some("reports") => Ok(json!({
                "sent": self.counters.reports,
                "waiting_for_answers": self.transactions.pending(),
                "unanswered": self.counters.unanswered,
                "untold": self.untold.len(),
                "waiting_for_room": self.unreported.len(),
                "buffer": {
                    "stored": held.stored,
                    "flushed": held.flushed,
                    "discarded": held.discarded,
                    "expired": held.expired,
                    "held": held_count,
                    "refused": held.refused,
                },
            })),
            _ => Err(REQUESTS.to_owned()),
        }
    }

    fn show_sessions(&self, from: u64) -> Value {
        let slots = self.store.slots().filter(|slot| u64::from(*slot) >= from);
        let mut slots = slots.peekable();
        let mut list = Vec::new();
        while let Some(slot) = slots.next_if(|_| list.len() < SESSION_COUNT_MAX) {
            let head = self.store.head(slot);
            list.push(json!({
                "seid": head.seid,
                "cp_seid": head.cp_seid,
                "peer": shown(self.store.association(head.association.into()).name.as_slice()),
                "ue_v4": head.ue_v4,
                "ue_v6": head.ue_v6,
                "ul_packets": head.ul[0],
                "ul_bytes": head.ul[1],
                "dl_packets": head.dl[0],
                "dl_bytes": head.dl[1],
                "dropped": head.dropped.iter().copied().map(u64::from).sum::<u64>(),
            }));
        }
        json!({ "count": self.store.live(), "sessions": list, "next": slots.peek() })
    }

    fn show_session(&self, request: &Value) -> Result<Value, String> {
        let seid = request["seid"].as_u64().ok_or(REQUESTS)?;
        let (own, shards) = self.settings.shard;
        if shards > 1 && seid >> SEID_SHIFT != u64::from(own) {
            return Ok(Value::Null);
        }
        let slot = self.store.slot_of(seid);
        let session = slot.and_then(|slot| self.store.session(slot));
        let session = session.ok_or_else(|| format!("there is no session with SEID {seid}"))?;
        Ok(self.rules_of(&session))
    }

    fn rules_of(&self, session: &Session) -> Value {
        let instance = |place| {
            let name = self.instance_name(place).unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let pdrs = session.pdrs.iter().map(|one| {
            let pdr = &one.pdr;
            json!({
                "pdr_id": pdr.id, "precedence": pdr.precedence,
                "source_interface": pdr.source_interface,
                "network_instance": instance(pdr.instance),
                "teid": pdr.teid, "ue_v4": pdr.ue_v4, "ue_v6": pdr.ue_v6,
                "qfis": (0..64).filter(|qfi| pdr.qfis >> qfi & 1 != 0).collect::<Vec<_>>(),
                "sdf_filters": one.filters.len(), "far_id": pdr.far_id,
                "traffic_endpoint_id": pdr.endpoint,
                "application_id": self.application_id(pdr.application).map(String::from_utf8_lossy),
                "framed_routes": (!one.routes.is_empty())
                    .then(|| one.routes.iter().map(Route::shown).collect::<Vec<_>>()),
                "qer_ids": pdr.qer_ids.as_slice(), "urr_ids": pdr.urr_ids.as_slice(),
                "packets": pdr.packets,
            })
        });
        let fars = session.fars.iter().map(|far| {
            let interfaces = &self.settings.interfaces;
            json!({
                "far_id": far.id, "apply_action": far.action,
                "interface": interfaces.get(usize::from(far.interface)).map(|one| &one.name),
                "forwarding_policy": self.settings.policies.get(usize::from(far.policy))
                    .map(|one| &one.name),
                "teid": far.is_tunnel().then_some(far.teid),
                "port": far.is_udp().then_some(far.port),
                "s_tag": far.tags()[0], "c_tag": far.tags()[1],
                "peer_v4": far.v4, "peer_v6": far.v6,
                "bar_id": far.bar_id.filter(|_| far.bar_at != NONE),
                "copies": copies_of(session, far.id),
                "redirects_to": session.redirections.iter().find(|one| one.far_id == far.id)
                    .map(|one| String::from_utf8_lossy(one.location.as_slice())),
            })
        });
        let qers = session.qers.iter().map(|qer| {
            json!({
                "qer_id": qer.id, "ul_open": qer.ul_open, "dl_open": qer.dl_open,
                "ul_packet_rate": qer.ul_packets.shown(),
                "dl_packet_rate": qer.dl_packets.shown(),
                "mbr_kbps": qer.mbr_kbps, "averaging_window_ms": qer.window_ms,
                "gbr_kbps": qer.gbr_kbps, "qfi": qer.qfi,
            })
        });
        let urrs = session.urrs.iter().map(|urr| {
            let [ul, dl, ul_packets, dl_packets] = urr.counted();
            json!({
                "urr_id": urr.id, "next_sequence": urr.sequence, "exhausted": urr.is_exhausted,
                "ul_bytes": ul, "dl_bytes": dl,
                "ul_packets": ul_packets, "dl_packets": dl_packets,
                "unreported_bytes": urr.usage.octets,
            })
        });
        json!({
            "seid": session.head.seid,
            "bytes": session.image_len(),
            "drops": drops_of(&session.head),
            "pdrs": pdrs.collect::<Vec<_>>(),
            "fars": fars.collect::<Vec<_>>(),
            "qers": qers.collect::<Vec<_>>(),
            "urrs": urrs.collect::<Vec<_>>(),
            "traffic_endpoints": session.endpoints.iter().map(|one| json!({
                "traffic_endpoint_id": one.endpoint.id, "teid": one.endpoint.teid,
                "ue_v4": one.endpoint.ue_v4, "ue_v6": one.endpoint.ue_v6,
            })).collect::<Vec<_>>(),
            "monitors": session.monitors.iter().map(Monitor::shown).collect::<Vec<_>>(),
            "bars": session.bars.iter().map(|bar| bar.id).collect::<Vec<_>>(),
        })
    }

    fn show_peers(&self) -> Value {
        // One look at each session, whose line packets may want.
        let mut sessions = [0u32; ASSOCIATION_COUNT];
        for slot in self.store.slots() {
            let association = usize::from(self.store.association_of(slot));
            if let Some(count) = sessions.get_mut(association) {
                *count += 1;
            }
        }
        let mut peers = Vec::new();
        for (number, sessions) in sessions.into_iter().enumerate() {
            let one = self.store.association(number);
            if one.is_some() {
                peers.push(json!({
                    "node_id": shown(one.name.as_slice()),
                    "address": one.peer(),
                    "recovery_time_stamp": one.recovery,
                    "state": self.shown_parting(number),
                    "sessions": sessions,
                }));
            }
        }
        let paths = self
            .paths
            .iter()
            .map(|((place, address), sessions, is_down)| {
                let interface = self.settings.interfaces.get(usize::from(*place));
                json!({
                    "address": address, "interface": interface.map(|one| &one.name),
                    "sessions": sessions, "is_down": is_down,
                })
            });
        json!({
            "recovery_time_stamp": self.store.recovery(), "peers": peers,
            "paths": paths.collect::<Vec<_>>(), "path_qos": self.show_path_qos(),
        })
    }

    fn show_pools(&self) -> Value {
        let pools = self.pools.iter().map(|pool| {
            let fill = pool
                .fill()
                .map(|fill| fill.map(|(used, count)| json!({ "used": used, "count": count })));
            json!({ "name": pool.name, "v4": fill[0], "v6": fill[1] })
        });
        json!({
            "pools": pools.collect::<Vec<_>>(),
            "ceilings": (!self.ceilings.is_empty()).then(|| self.ceilings.shown()),
            "sessions": { "used": self.store.live(), "count": self.store.slot_count() },
        })
    }
}
