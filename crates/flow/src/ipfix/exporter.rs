//! Flows that are counted, and the messages that tell them.
//!
//! Between packets (`key`) and what leaves (`mod.rs`): a packet is added to its flow's entry; an
//! entry that ends, or goes on for long, becomes a record; records fill messages, which wait for
//! room. Limits: so many flows, of which the one idle for longest among some gives way, with a
//! record; [`WAITING_MAX`] messages wait, and while they do no flow ends by its timeouts.

use std::collections::VecDeque;

use catena_wire::tcp::Flags;

use super::config::Settings;
use super::key::{KEY_WORDS, Metered};
use super::message::{EndReason, FlowRecord, Message};
use crate::{
    Cursor, Entry, Eviction, Fate, Flow, FlowTable, Inserted, Memory, Shape, Timeouts, Why,
};

/// Messages that wait for room at the output.
const WAITING_MAX: usize = 64;
/// Flows that end in one call, so that their records surely find room.
pub(super) const EXPIRY_BUDGET: u32 = 64;
/// Messages that these may fill, with templates: the smallest has room for six.
const MESSAGES_PER_CALL: usize = 16;
/// A connection that was closed ends so long after its last packet.
const CLOSED_NS: u64 = 1_000_000_000;
/// Words of a flow: packets, octets, when it began, control bits.
const STATE_WORDS: u32 = 4;
const AT_PACKETS: usize = 0;
const AT_OCTETS: usize = 1;
const AT_START: usize = 2;
const AT_FLAGS: usize = 3;
/// What these words mean.
const SCHEMA: u64 = 1;

/// The shape of the table of flows.
pub(super) fn shape(settings: &Settings) -> Shape {
    Shape {
        schema: SCHEMA,
        ..Shape::new(KEY_WORDS as u32, STATE_WORDS, settings.flows)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) unmetered: u64,
    pub(super) records: u64,
    pub(super) records_lost: u64,
    pub(super) messages: u64,
}

/// Flows in memory `M`, and messages.
#[derive(Debug)]
pub(super) struct Exporter<M> {
    pub(super) flows: FlowTable<M>,
    settings: Settings,
    pub(super) domain: u32,
    /// The wall clock when the engine's shows 0.
    epoch_ns: u64,
    message: Message,
    /// When the first record of the message came.
    since_ns: u64,
    templates_ns: u64,
    sequence: u32,
    /// Messages, and how many records each has.
    waiting: VecDeque<(Vec<u8>, u32)>,
    spare: Vec<Vec<u8>>,
    /// Records and handles of one call.
    ended: Vec<FlowRecord>,
    closing: Vec<Flow>,
    pub(super) counts: Counts,
}

fn record(entry: &Entry<'_>, reason: EndReason, epoch_ns: u64) -> FlowRecord {
    let ms = |ns: u64| epoch_ns.saturating_add(ns) / 1_000_000;
    let tcp_flags = entry.state(AT_FLAGS) as u16;
    let is_closed = tcp_flags & (Flags::FIN | Flags::RST).0 != 0;
    FlowRecord {
        key: std::array::from_fn(|word| entry.key(word)),
        packets: entry.state(AT_PACKETS),
        octets: entry.state(AT_OCTETS),
        tcp_flags,
        reason: match reason {
            EndReason::Idle if is_closed => EndReason::EndOfFlow,
            reason => reason,
        },
        start_ms: ms(entry.state(AT_START)),
        end_ms: ms(entry.used_ns()),
    }
}

impl<M: Memory> Exporter<M> {
    pub(super) fn new(settings: Settings, flows: FlowTable<M>, domain: u32, epoch_ns: u64) -> Self {
        let len = settings.message_bytes;
        Self {
            flows,
            domain,
            epoch_ns,
            message: Message::new(len),
            since_ns: 0,
            templates_ns: 0,
            sequence: 0,
            waiting: VecDeque::with_capacity(WAITING_MAX),
            spare: (0..WAITING_MAX).map(|_| Vec::with_capacity(len)).collect(),
            ended: Vec::with_capacity(EXPIRY_BUDGET as usize),
            closing: Vec::with_capacity(EXPIRY_BUDGET as usize),
            settings,
            counts: Counts::default(),
        }
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts {
            idle_ns: self.settings.idle_ns,
            hard_ns: self.settings.active_ns,
        }
    }

    /// Adds a packet that was selected to its flow.
    pub(super) fn meter(&mut self, metered: &Metered, now_ns: u64) {
        let mut found = [None];
        self.flows.lookup(&metered.key, now_ns, &mut found);
        let [found] = found;
        let Some(flow) = found.or_else(|| self.insert(metered, now_ns)) else {
            self.counts.unmetered += 1;
            return;
        };
        // Packets are written last and cleared first: with none of them the rest means nothing, so
        // that a kill in between leaves a flow with a packet less, and none that is told twice.
        let words: [u64; STATE_WORDS as usize] = match self.flows.state(flow, AT_PACKETS) {
            0 => [0, 0, now_ns, 0],
            _ => std::array::from_fn(|word| self.flows.state(flow, word)),
        };
        let flags = words[AT_FLAGS] | u64::from(metered.tcp_flags);
        let closes = (flags & !words[AT_FLAGS]) as u16 & (Flags::FIN | Flags::RST).0 != 0;
        for (word, value) in [
            (AT_START, words[AT_START]),
            (AT_OCTETS, words[AT_OCTETS].saturating_add(metered.octets)),
            (AT_FLAGS, flags),
            (AT_PACKETS, words[AT_PACKETS].saturating_add(1)),
        ] {
            self.flows.set_state(flow, word, value);
        }
        if closes {
            let idle_ns = self.settings.idle_ns.min(CLOSED_NS);
            let timeouts = Timeouts {
                idle_ns,
                ..self.timeouts()
            };
            self.flows.set_timeouts(flow, timeouts, now_ns);
        }
        self.counts.packets += 1;
        self.counts.octets += metered.octets;
    }

    fn insert(&mut self, metered: &Metered, now_ns: u64) -> Option<Flow> {
        let (timeouts, epoch_ns) = (self.timeouts(), self.epoch_ns);
        let mut gone = None;
        let inserted = self.flows.insert_evicting(
            &metered.key,
            timeouts,
            now_ns,
            Eviction::OldestIdle,
            |_, entry| gone = Some(record(&entry, EndReason::LackOfResources, epoch_ns)),
        );
        if let Some(gone) = gone {
            self.tell(&gone, now_ns);
        }
        match inserted {
            Ok(Inserted::New(flow) | Inserted::Present(flow)) => Some(flow),
            Err(_) => None,
        }
    }

    /// Appends a record to the message, or to the next one.
    fn tell(&mut self, record: &FlowRecord, now_ns: u64) {
        if record.packets == 0 {
            return;
        }
        if self.message.is_empty() {
            self.since_ns = now_ns;
        }
        if !self.message.push_flow(record) {
            self.close(now_ns);
            self.since_ns = now_ns;
            self.message.push_flow(record);
        }
        self.counts.records += 1;
    }

    /// The message is whole: it waits, or is lost if too many do.
    fn close(&mut self, now_ns: u64) {
        if self.message.is_empty() {
            return;
        }
        let records = self.message.records;
        let wall_s = self.epoch_ns.saturating_add(now_ns) / 1_000_000_000;
        let bytes = self
            .message
            .finish(wall_s as u32, self.sequence, self.domain);
        if let Some(mut message) = self.spare.pop() {
            message.clear();
            message.extend_from_slice(bytes);
            self.waiting.push_back((message, records));
            self.sequence = self.sequence.wrapping_add(records);
        } else {
            self.counts.records_lost += u64::from(records);
        }
        self.message.clear();
    }

    /// Whether all messages that one call may make have a place to wait.
    pub(super) fn has_room(&self) -> bool {
        self.spare.len() > MESSAGES_PER_CALL
    }

    /// Makes messages of what is due: templates, flows that end, records that waited long enough;
    /// when the chain ends, of all flows. Gives when it wants to be called again.
    pub(super) fn work(&mut self, now_ns: u64, is_draining: bool) -> u64 {
        if now_ns >= self.templates_ns && self.has_room() {
            self.close(now_ns);
            self.message
                .push_templates(self.domain, self.settings.sample);
            self.close(now_ns);
            self.templates_ns = now_ns.saturating_add(self.settings.refresh_ns);
        }
        let is_behind = self.has_room() && self.expire(now_ns);
        if is_draining && self.has_room() {
            self.end_some(now_ns);
        }
        let due_ns = self.since_ns.saturating_add(self.settings.delay_ns);
        let is_last = is_draining && self.flows.is_empty();
        if !self.message.is_empty() && (due_ns <= now_ns || is_last) && self.has_room() {
            self.close(now_ns);
        }
        if is_behind {
            return now_ns;
        }
        let due_ns = if self.message.is_empty() {
            u64::MAX
        } else {
            due_ns
        };
        let ends_ns = self.flows.next_expiry_ns().unwrap_or(u64::MAX);
        due_ns.min(ends_ns).min(self.templates_ns).max(now_ns)
    }

    /// Flows whose time has come; whether there are more.
    fn expire(&mut self, now_ns: u64) -> bool {
        let (timeouts, epoch_ns) = (self.timeouts(), self.epoch_ns);
        let ended = &mut self.ended;
        ended.clear();
        let expired = self.flows.expire(now_ns, EXPIRY_BUDGET, |flow| {
            let goes_on = flow.why == Why::Hard
                && flow.entry.state(AT_PACKETS) > 0
                && now_ns.saturating_sub(flow.entry.used_ns()) < timeouts.idle_ns;
            let reason = if goes_on {
                EndReason::Active
            } else {
                EndReason::Idle
            };
            ended.push(record(&flow.entry, reason, epoch_ns));
            if !goes_on {
                return Fate::Remove;
            }
            flow.entry.set_state(AT_PACKETS, 0);
            Fate::Keep(timeouts)
        });
        for at in 0..self.ended.len() {
            let record = self.ended[at];
            self.tell(&record, now_ns);
        }
        expired.is_behind
    }

    /// Ends some flows, as the chain does.
    fn end_some(&mut self, now_ns: u64) {
        let (ended, closing) = (&mut self.ended, &mut self.closing);
        ended.clear();
        closing.clear();
        let epoch_ns = self.epoch_ns;
        let mut cursor = Cursor::default();
        while closing.is_empty()
            && !self.flows.walk(&mut cursor, EXPIRY_BUDGET, |flow, entry| {
                ended.push(record(&entry, EndReason::Forced, epoch_ns));
                closing.push(flow);
            })
        {}
        for at in 0..self.ended.len() {
            let (record, flow) = (self.ended[at], self.closing[at]);
            self.flows.remove(flow);
            self.tell(&record, now_ns);
        }
    }

    /// The message that is to leave next.
    pub(super) fn next(&self) -> Option<&[u8]> {
        self.waiting.front().map(|(message, _)| message.as_slice())
    }

    /// It has left.
    pub(super) fn sent(&mut self) {
        if let Some((message, _)) = self.waiting.pop_front() {
            self.spare.push(message);
            self.counts.messages += 1;
        }
    }

    /// It can never leave, since no buffer is as long: it stands in nobody's way.
    pub(super) fn give_up(&mut self) {
        if let Some((message, records)) = self.waiting.pop_front() {
            self.spare.push(message);
            self.counts.records_lost += u64::from(records);
        }
    }

    /// Whether something is to be told yet.
    pub(super) fn is_done(&self) -> bool {
        self.flows.is_empty() && self.message.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::config::settings;
    use super::*;
    use crate::{HeapMemory, Timeouts};

    const S: u64 = 1_000_000_000;
    const METERED: Metered = Metered {
        key: [0, 1, 0, 2, 4],
        octets: 100,
        tcp_flags: 0,
    };

    fn known() -> Settings {
        settings(&json!({
            "collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
            "exporter": {"address": "192.0.2.1", "mac": "02:00:00:00:00:01"},
            "flows": 8, "message_bytes": 512,
        }))
        .unwrap()
    }

    /// Killed while a flow's words are cleared behind its record: nothing of it is told again.
    #[test]
    fn what_was_told_is_not_told_again_behind_a_kill() {
        let settings = known();
        let shape = shape(&settings);
        let memory = HeapMemory::new(shape.words().unwrap());
        let table = FlowTable::create(&memory, &shape, [1, 2], 0).unwrap();
        let mut before = Exporter::new(settings.clone(), table, 1, 0);
        before.meter(&METERED, S);
        before.meter(&METERED, 2 * S);
        let flow = before.flows.find(&METERED.key).unwrap();
        before.flows.set_state(flow, AT_PACKETS, 0);
        let (table, _) = FlowTable::attach(&memory, &shape, 3 * S).unwrap();
        let mut after = Exporter::new(settings, table, 1, 0);
        after.meter(&METERED, 4 * S);
        let flow = after.flows.find(&METERED.key).unwrap();
        let words = [AT_PACKETS, AT_OCTETS, AT_START].map(|word| after.flows.state(flow, word));
        assert_eq!(words, [1, 100, 4 * S]);
    }

    /// Killed behind any word of a packet: what is told of it has a beginning, or there is nothing.
    #[test]
    fn a_flow_that_was_begun_by_a_kill_is_told_by_whoever_goes_on() {
        let settings = known();
        let mut table = FlowTable::on_heap(&shape(&settings), [1, 2], 0).unwrap();
        table
            .insert(&METERED.key, Timeouts::idle(9 * S), S)
            .unwrap();
        let flow = table.find(&METERED.key).unwrap();
        table.set_state(flow, AT_START, S);
        table.set_state(flow, AT_OCTETS, 100);
        let mut exporter = Exporter::new(settings, table, 1, 0);
        exporter.work(20 * S, true);
        assert_eq!((exporter.counts.records, exporter.flows.len()), (0, 0));
    }

    #[test]
    fn a_message_that_can_never_leave_is_given_up_with_its_records() {
        let settings = known();
        let table = FlowTable::on_heap(&shape(&settings), [1, 2], 0).unwrap();
        let mut exporter = Exporter::new(settings, table, 1, 0);
        exporter.meter(&METERED, S);
        exporter.work(2 * S, false);
        exporter.sent();
        exporter.work(3 * S, true);
        assert!(exporter.next().is_some() && !exporter.is_done());
        exporter.give_up();
        assert!(exporter.is_done());
        let counts = exporter.counts;
        let told = (counts.messages, counts.records, counts.records_lost);
        assert_eq!(told, (1, 1, 1));
    }
}
