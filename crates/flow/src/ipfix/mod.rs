//! `ipfix`: passes packets on, and tells a collector of their flows by IPFIX over UDP.
//!
//! ```yaml
//! nfs:
//!   meter:
//!     type: ipfix
//!     collector: { address: 192.0.2.9, mac: "02:00:00:00:00:09" }
//!     exporter: { address: 192.0.2.1, mac: "02:00:00:00:00:01" }
//! links:
//!   - in -> meter -> out
//!   - meter.export -> collector
//! ```
//!
//! Packets leave by `out` as they came. Messages leave by `export`, as frames of its own making: a
//! worker that is confined opens no socket, and a port of the chain is there anyway. One packet of
//! `sample` is looked at. Flows outlive a kill; records that wait for their message do not.
//! Specification: RFC 7011, RFC 7012, RFC 5477. Limits: IPv4 to the collector, no SCTP or TCP.

mod clocks;
mod config;
mod exporter;
mod key;
mod message;

use catena_engine::config::ConfigErrors;
use catena_engine::nf::{
    BuildContext, BuiltNf, Burst, Emission, Nanos, Nf, NfKind, NfPlan, StatePlan, Verdict,
};
use catena_engine::own_counters::CounterSink;
use catena_engine::shard::Sharding;
use catena_shm::state::StateWords;
use catena_wire::ethernet::{self, EtherType};
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::{ipv4, udp};
use serde_json::Value;

use crate::kept::Table;

use config::{Settings, schema, settings};
use exporter::Exporter;
use key::metered;

/// What outlives the NF.
const STATE: &str = "flows";
/// Where messages leave.
const EXPORT: u8 = 1;
/// Headers in front of a message.
const HEADERS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN_MIN + udp::HEADER_LEN;

const COUNTERS: [&str; 7] = [
    "flows",
    "packets_metered",
    "octets_metered",
    "unmetered",
    "records",
    "records_lost",
    "messages",
];

fn kept(settings: &Settings) -> Table {
    Table {
        name: STATE,
        shape: exporter::shape(settings),
    }
}

fn nf_plan(config: &Value) -> Result<NfPlan, ConfigErrors> {
    let settings = settings(config)?;
    Ok(NfPlan::new()
        .outputs(["out", "export"])
        .allocates()
        .changes_no_key()
        .counters(COUNTERS)
        .standing(["flows"])
        .sharding(Sharding::Any)
        .state(StatePlan {
            name: STATE.to_owned(),
            bytes: kept(&settings).bytes()?,
            layout: 1,
            is_shared: false,
        }))
}

fn build(config: &Value, context: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    let settings = settings(config)?;
    let (flows, notice) = kept(&settings).open(context)?;
    let domain = settings.domain.wrapping_add(context.shard.into());
    let epoch_ns = clocks::epoch_ns(&settings);
    let mut built = BuiltNf::new(Ipfix {
        exporter: Exporter::new(settings.clone(), flows, domain, epoch_ns),
        settings,
        passed: 0,
        ident: 0,
    });
    built.notices.extend(notice);
    Ok(built)
}

/// The NF.
struct Ipfix {
    exporter: Exporter<std::sync::Arc<StateWords>>,
    settings: Settings,
    /// Packets since the last one that was selected.
    passed: u32,
    /// Identification of the next message's packet.
    ident: u16,
}

impl Nf for Ipfix {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        burst.judge(|frame| {
            self.passed += 1;
            if self.passed >= self.settings.sample {
                self.passed = 0;
                match metered(frame, self.settings.inner) {
                    Some(metered) => self.exporter.meter(&metered, now.0),
                    None => self.exporter.counts.unmetered += 1,
                }
            }
            Verdict::Output(0)
        });
    }

    fn emits(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let next = self.exporter.work(now.0, out.is_draining());
        while let Some(message) = self.exporter.next() {
            let (settings, ident) = (&self.settings, self.ident);
            let len = HEADERS_LEN + message.len();
            if !out.can_make(len) {
                self.exporter.give_up();
                continue;
            }
            if !out.send(EXPORT, len, 0, |frame| {
                write(frame, message, settings, ident);
            }) {
                break;
            }
            self.ident = self.ident.wrapping_add(1);
            self.exporter.sent();
        }
        // What is due waits for room, of which the worker tells by a call: it need not ask.
        Some(match self.exporter.has_room() {
            true => Nanos(next),
            false => Nanos(u64::MAX),
        })
    }

    fn holds_packets(&self) -> bool {
        !self.exporter.is_done()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.exporter.counts;
        let values = [
            self.exporter.flows.len().into(),
            counts.packets,
            counts.octets,
            counts.unmetered,
            counts.records,
            counts.records_lost,
            counts.messages,
        ];
        out.extend(COUNTERS.into_iter().zip(values));
    }
}

/// A message as the payload of UDP in a frame.
fn write(frame: &mut [u8], message: &[u8], settings: &Settings, ident: u16) {
    let (from, to) = (&settings.exporter, &settings.collector);
    ethernet::Header {
        dst: to.mac,
        src: from.mac,
        ether_type: EtherType::IPV4,
    }
    .emit(frame);
    let packet = &mut frame[ethernet::HEADER_LEN..];
    ipv4::Header {
        dscp: 0,
        ecn: 0,
        ident,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: Protocol::UDP,
        src: from.address,
        dst: to.address,
        payload_len: udp::HEADER_LEN + message.len(),
        options: Default::default(),
    }
    .emit(packet);
    let datagram = &mut packet[ipv4::HEADER_LEN_MIN..];
    udp::Header {
        src_port: from.port,
        dst_port: to.port,
        payload_len: message.len(),
    }
    .emit(datagram);
    datagram[udp::HEADER_LEN..].copy_from_slice(message);
    if let Ok(mut view) = udp::View::parse(datagram) {
        view.fill_checksum(&Addresses::V4 {
            src: from.address,
            dst: to.address,
        });
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "ipfix",
    summary: "Tells a collector of flows by IPFIX, and passes packets on",
    example: r#"{"collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
        "exporter": {"address": "192.0.2.1", "mac": "02:00:00:00:00:01"}}"#,
    schema,
    plan: |config, _outputs| nf_plan(config),
    build,
};
