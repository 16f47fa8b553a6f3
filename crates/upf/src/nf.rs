//! `upf`: the UPF as an NF.
//!
//! Where packets and messages meet: each packet of a burst is a message of N4, a message of GTP-U,
//! or a user's; what is held waits for its UE; what the UPF itself says leaves by [`Nf::emit`].
//!
//! ```yaml
//! nfs:
//!   upf:
//!     type: upf
//!     node_id: 10.4.0.1
//!     n4: { address: 10.4.0.1 }
//!     interfaces:
//!       - { name: n3, side: access, address: 10.3.0.1 }
//!       - { name: n6, side: core, network_instance: internet }
//!     pools:
//!       - { network_instance: internet, v4: 10.45.0.0/16 }
//! ```

use std::collections::VecDeque;

use catena_engine::config::ConfigError;
use catena_engine::nf::{
    BuildContext, BuiltNf, Burst, DropReason, Emission, HandOver, Inputs, Kept, Nanos, Nf, NfKind,
    NfPlan, StatePlan, Verdict,
};
use catena_engine::own_counters::CounterSink;
use catena_engine::shard::{OwnKey, Sharding};

use crate::ahead::Ahead;
use crate::config::{self, Config};
use crate::decision::{Decision, Hold, REASONS, Why};
use crate::enforce::instance;
use crate::headers::HEADROOM;
use crate::held::{Held, Stored};
use crate::reassembly::{Reassembly, Whole};
use crate::rules::NONE;
use crate::shards::chooser;
use crate::store::{LAYOUT, memory_bytes};
use crate::tally::drop_kind;
use crate::tunnel::Signal;
use crate::upf::{COUNTERS, Release, Upf};

mod clocks;
mod fragments;
mod parts;
mod speech;
mod succession;

use parts::{Origin, ToDo};
use speech::speak;

/// Name of the memory that outlives the NF.
const STATE: &str = "sessions";
/// Counters of held packets, behind [`COUNTERS`].
const HELD_COUNTERS: [&str; 10] = [
    "sessions",
    "buffered",
    "buffer_flushed",
    "buffer_discards",
    "buffer_expiries",
    "buffer_refused",
    "packets_reassembled",
    "fragments_waiting",
    "application_flows",
    "hellos_unread",
];
/// Those of them that tell what is there now.
const STANDING: [&str; 4] = [
    "sessions",
    "buffered",
    "fragments_waiting",
    "application_flows",
];

/// The NF.
#[derive(Debug)]
struct UpfNf {
    upf: Upf,
    /// When it last had a turn.
    now_ns: u64,
    ahead: Ahead,
    signals: VecDeque<Signal>,
    held: Held<Kept>,
    /// Packets of the burst at hand that wait for their UE.
    to_hold: Vec<(usize, Hold)>,
    /// Those that are parts, or leave in parts.
    to_do: Vec<(usize, ToDo)>,
    reassembly: Reassembly<(Kept, Origin)>,
    whole: VecDeque<Whole<(Kept, Origin)>>,
    /// Packets of its own making, with their outputs.
    leaving: VecDeque<(Kept, u8)>,
    /// A packet that is put together or cut.
    scratch: Vec<u8>,
    /// Identification of fragments of IPv6.
    ident: u32,
    /// Sessions whose held packets may leave.
    flushing: VecDeque<u32>,
    /// Names of its outputs.
    outputs: Vec<String>,
}

fn dropped(why: Why) -> DropReason {
    DropReason::own(why as u8)
}

impl Upf {
    /// Notes that a packet that was, or was to be, held for a session does not leave.
    pub(crate) fn give_up_packet(&mut self, slot: u32, why: Why) {
        self.note_given_up(slot, why);
        if let Some(mut image) = self.store.image(slot).filter(|image| image.seid() != 0) {
            image.count_dropped(drop_kind(why));
        }
    }

    /// As [`Upf::give_up_packet`], whichever session has the slot now: of the network instance that
    /// its session has packets from.
    fn note_given_up(&mut self, slot: u32, why: Why) {
        self.traces.given_up(slot, why);
        let place = self.store.image(slot).and_then(|image| {
            let mut pdrs = (0..image.pdr_count()).filter_map(|place| image.pdr(place));
            let pdr = pdrs.find(|pdr| !pdr.is_uplink())?;
            let source = (pdr.source_interface, pdr.instance);
            Some(instance(&self.settings, source, None))
        });
        self.tally.count_dropped(place.unwrap_or(NONE), why);
    }
}

impl UpfNf {
    fn hold(&mut self, burst: &mut Burst<'_>, now_ns: u64) {
        for (index, hold) in std::mem::take(&mut self.to_hold) {
            let has_room = self.held.has_room(hold.slot, hold.suggested);
            match has_room.then(|| burst.keep(index)).flatten() {
                Some(kept) => self.store(kept, hold, now_ns),
                None => self.upf.give_up_packet(hold.slot, Why::BufferFull),
            }
        }
    }

    /// Stores a packet for which there is room.
    fn store(&mut self, kept: Kept, hold: Hold, now_ns: u64) {
        let Hold {
            slot, pdr_id, qfi, ..
        } = hold;
        let stored = self.held.store(slot, hold.suggested, kept, now_ns);
        self.upf.holding.insert(slot);
        if stored == Stored::First && hold.notifies {
            let first = (slot, pdr_id, qfi);
            self.upf.notify(first, hold.delay, now_ns);
        }
    }

    /// What rules and sessions that have changed mean for held packets.
    fn release(&mut self, out: &mut Emission<'_>) {
        while let Some((slot, release)) = self.upf.released.pop_front() {
            if release != Release::Free {
                self.discard(slot, release, out);
            } else if self.held.holds(slot) && !self.flushing.contains(&slot) {
                self.flushing.push_back(slot);
            }
        }
        if out.is_draining() {
            while let Some(slot) = self.held.any_slot() {
                self.discard(slot, Release::Dropped, out);
            }
        }
    }

    fn discard(&mut self, slot: u32, release: Release, out: &mut Emission<'_>) {
        while let Some(kept) = self.held.discard(slot) {
            out.drop_kept(kept, dropped(Why::Discarded));
            match release {
                Release::Ended => self.upf.note_given_up(slot, Why::Discarded),
                _ => self.upf.give_up_packet(slot, Why::Discarded),
            }
        }
        self.upf.let_none_wait(slot);
    }

    /// Sends held packets in their order, as far as there is room.
    fn flush(&mut self, out: &mut Emission<'_>, now_ns: u64) {
        while let Some(slot) = self.flushing.front().copied() {
            let outputs = 0..self.outputs.len();
            let has_room = outputs
                .map(|output| output as u8)
                .all(|output| out.room(output) > 0);
            if !has_room {
                return;
            }
            let packet = self.held.front(slot).and_then(|kept| out.kept_mut(kept));
            let signals = &mut self.signals;
            let decision = packet.map(|packet| self.upf.held_packet(packet, signals, now_ns));
            match decision {
                Some(Decision::Send(output)) => {
                    if let Some(kept) = self.held.flush(slot) {
                        let sent = out.send_kept(kept, output);
                        debug_assert!(sent.is_ok(), "there was room");
                    }
                    continue;
                }
                Some(Decision::Drop(why)) => {
                    if let Some(kept) = self.held.discard(slot) {
                        out.drop_kept(kept, dropped(why));
                    }
                    continue;
                }
                Some(decision @ (Decision::Cut { .. } | Decision::Join { .. })) => {
                    if let Some(kept) = self.held.flush(slot) {
                        self.settle(kept, decision, out, now_ns);
                    }
                    continue;
                }
                // It was held for its sender, and is for a UE of the group that is paged.
                Some(decision @ Decision::Hold(hold)) if hold.slot != slot => {
                    if let Some(kept) = self.held.flush(slot) {
                        self.settle(kept, decision, out, now_ns);
                    }
                    continue;
                }
                // Its rules hold it still: nothing was changed.
                Some(Decision::Hold(_)) => {}
                // It was answered, by a redirect.
                Some(Decision::Consumed) => {
                    if let Some(kept) = self.held.flush(slot) {
                        out.drop_kept(kept, DropReason::Consumed);
                    }
                    continue;
                }
                None => {
                    self.upf.let_none_wait(slot);
                }
            }
            self.flushing.pop_front();
        }
    }

    fn expire(&mut self, out: &mut Emission<'_>, now_ns: u64) {
        while let Some((slot, kept)) = self.held.expire(now_ns) {
            out.drop_kept(kept, dropped(Why::Expired));
            self.upf.give_up_packet(slot, Why::Expired);
            if !self.held.holds(slot) {
                self.upf.let_none_wait(slot);
            }
        }
    }
}

impl Nf for UpfNf {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        let mut index = 0;
        let looks_ahead = self.upf.looks_ahead() && burst.len() > 1;
        if looks_ahead {
            let ahead = &mut self.ahead;
            burst.judge(|frame| {
                ahead.note(frame);
                Verdict::Drop(DropReason::Consumed)
            });
            self.upf.fetch(ahead);
        }
        let Self {
            upf,
            ahead,
            signals,
            to_hold,
            to_do,
            ..
        } = self;
        burst.each(|packet, verdict| {
            if looks_ahead {
                upf.come_to(ahead, index);
            }
            *verdict = match upf.packet(packet, signals, now.0) {
                Decision::Send(output) => Verdict::Output(output),
                Decision::Consumed => Verdict::Drop(DropReason::Consumed),
                Decision::Drop(why) => Verdict::Drop(dropped(why)),
                Decision::Join { at, teid, came } => {
                    let origin = Origin { teid, came };
                    to_do.push((index, ToDo::Join { at, origin }));
                    Verdict::Drop(dropped(Why::Fragment))
                }
                Decision::Cut { interface, at, mtu } => {
                    to_do.push((index, ToDo::Cut { interface, at, mtu }));
                    Verdict::Drop(dropped(Why::Fragmented))
                }
                Decision::Hold(hold) => {
                    to_hold.push((index, hold));
                    // Unless it is taken out of the burst below.
                    Verdict::Drop(dropped(Why::BufferFull))
                }
            };
            index += 1;
        });
        if looks_ahead {
            self.upf.leave_behind(&mut self.ahead);
        }
        if !self.to_hold.is_empty() {
            self.hold(burst, now.0);
        }
        if !self.to_do.is_empty() {
            self.take_fragments(burst, now.0);
        }
    }

    fn emits(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        self.now_ns = now.0;
        self.upf.traces.pass(now.0);
        let woken_ns = self.upf.wake(now.0);
        self.release(out);
        self.flush(out, now.0);
        self.expire(out, now.0);
        let joined_ns = self.join_parts(out, now.0);
        self.leave(out);
        let asked_ns = self.upf.check_paths(&mut self.signals, now.0);
        speak(&mut self.upf, &mut self.signals, out);
        let traced_ns = self.upf.traces.next_ns();
        let next = [
            woken_ns,
            self.held.next_ns(),
            joined_ns,
            traced_ns,
            asked_ns,
        ];
        next.into_iter().flatten().min().map(Nanos)
    }

    fn holds_packets(&self) -> bool {
        !self.signals.is_empty() || !self.upf.outbox.is_empty()
    }

    fn hand_over(&mut self) -> HandOver {
        self.give_up()
    }

    fn take_over(&mut self, handed: HandOver) -> Vec<(Nanos, Kept)> {
        self.take(handed)
    }

    fn control(&mut self, request: &serde_json::Value) -> Result<serde_json::Value, String> {
        if let Some(from) = request["snapshot"].as_u64() {
            let from = u32::try_from(from).unwrap_or(u32::MAX);
            return Ok(self.upf.snapshot(from, self.now_ns));
        }
        if request["release"].is_string() {
            return self.upf.ask_for_release(request, self.now_ns);
        }
        if request["trace"].is_string() {
            return self.upf.trace(request);
        }
        self.upf
            .show(request, &self.held.account(), self.held.count())
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let account = self.held.account();
        let values = self.upf.counters().values();
        for (name, value) in COUNTERS.into_iter().zip(values) {
            out.put(name, value);
        }
        let held = [
            u64::from(self.upf.session_count()),
            self.held.count() as u64,
            account.flushed,
            account.discarded,
            account.expired,
            account.refused,
            self.reassembly.account().packets,
            self.reassembly.held() as u64,
            u64::from(self.upf.application_flow_count()),
            self.upf.unread_hello_count(),
        ];
        for (name, value) in HELD_COUNTERS.into_iter().zip(held) {
            out.put(name, value);
        }
    }
}

/// Random numbers that nobody outside knows, from the kernel.
fn random() -> [u64; 2] {
    let mut bytes = [[0u8; 8]; 2];
    for word in &mut bytes {
        let filled = rustix::rand::getrandom(word, rustix::rand::GetRandomFlags::empty());
        debug_assert!(filled.is_ok());
    }
    bytes.map(u64::from_ne_bytes)
}

fn build(
    value: &serde_json::Value,
    context: &mut BuildContext<'_>,
) -> Result<BuiltNf, Vec<ConfigError>> {
    let (config, mut settings, outputs) = config::read(value)?;
    let is_simulated = config.simulated_epoch.is_some();
    settings.shard = (context.shard, context.shard_count);
    if !is_simulated {
        settings.seed = random();
    }
    let now_ns = clocks::now_ns(&config);
    let missing = || vec![ConfigError::new("", "its memory is missing", "report this")];
    let state = context.take_state(STATE).ok_or_else(missing)?;
    let memory = state.memory.into_bytes().ok_or_else(missing)?;
    let (memory, notice) = clocks::snapshot(&config, &settings, memory, now_ns);
    let held = Held::new(settings.held, settings.held_per_session, settings.held_ns);
    let reassembly = Reassembly::new(settings.fragments, settings.fragment_ns);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the lower half is random too"
    )]
    let ident = settings.seed[1] as u32;
    let upf = Upf::new(settings, memory, clocks::wall_clock(&config), now_ns);
    let upf = upf.map_err(|error| {
        vec![ConfigError::new(
            "sessions",
            error,
            "write a smaller number",
        )]
    })?;
    let mut built = BuiltNf::new(UpfNf {
        upf,
        now_ns,
        ahead: Ahead::default(),
        signals: VecDeque::new(),
        held,
        to_hold: Vec::new(),
        to_do: Vec::new(),
        reassembly,
        whole: VecDeque::new(),
        leaving: VecDeque::new(),
        scratch: Vec::new(),
        ident,
        flushing: VecDeque::new(),
        outputs,
    });
    built.notices.extend(notice);
    built
        .notices
        .extend(clocks::is_open(&config, context.shard));
    Ok(built)
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "upf",
    summary: "A 5G user plane function: N3, N4, N6 and N9",
    example: r#"{
        "node_id": "10.4.0.1",
        "n4": {"address": "10.4.0.1"},
        "interfaces": [
            {"name": "n3", "side": "access", "address": "10.3.0.1"},
            {"name": "n6", "side": "core", "network_instance": "internet"}
        ],
        "pools": [{"network_instance": "internet", "v4": "10.45.0.0/16"}]
    }"#,
    schema: || schemars::schema_for!(Config),
    plan: |value, _outputs| {
        let (_, settings, outputs) = config::read(value)?;
        let state = StatePlan {
            name: STATE.to_owned(),
            bytes: memory_bytes(settings.session_bytes, settings.sessions),
            layout: LAYOUT,
            is_shared: false,
        };
        Ok(NfPlan::new()
            .outputs(outputs)
            .writes()
            .inputs(Inputs::Many)
            .allocates()
            .headroom(HEADROOM)
            .state(state)
            .counters(COUNTERS.into_iter().chain(HELD_COUNTERS))
            .standing(STANDING)
            .drop_reasons(REASONS)
            .sharding(Sharding::Own(OwnKey(chooser)))
            .requests([
                (r#"{"show": "sessions"}"#, "sessions, from a slot `from` on"),
                (r#"{"show": "peers"}"#, "associations with SMFs"),
                (
                    r#"{"show": "pools"}"#,
                    "UE addresses and sessions, used and free",
                ),
                (
                    r#"{"show": "reports"}"#,
                    "reports to SMFs, and held packets",
                ),
                (
                    r#"{"show": "metrics"}"#,
                    "what passed, by network instance and slice",
                ),
                (
                    r#"{"release": "all"}"#,
                    "asks an SMF, by its Node ID or address, or all of them for the release of \
                     the association, `within_s` seconds",
                ),
            ]))
    },
    build,
};

#[cfg(test)]
mod tests;
