//! What is common to all messages of N4, and heartbeats; `associations` has the rest about nodes.
//!
//! N4 begins here: a datagram is split into messages, each is checked whole, known repetitions are
//! answered from memory, and each request gets one answer. Specification: TS 29.244 6.2, 6.4, 7.4,
//! 7.6. Requests of peers that are not allowed are discarded and counted.

use std::cell::Cell;

use catena_wire::Reason;
use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::flags::UpFunctionFeatures;
use catena_wire::pfcp::{
    Cause, Full, Header, MessageType, Messages, Refusal, Unreadable, View, Writer, key,
};

use crate::association::{ASSOCIATION_COUNT, Association};
use crate::model::Fault;
use crate::sweep::{SWEEP_COUNT_MAX, Sweep};
use crate::transactions::{Datagram, Late, Peer, Subject};
use crate::upf::Upf;

/// Longest message that is written: a report for each of 32 URRs fits.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8192;

thread_local! {
    /// Where messages are written.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What this UPF can do; each is held by a test.
pub fn features() -> UpFunctionFeatures {
    UpFunctionFeatures::FTUP
        | UpFunctionFeatures::UEIP
        | UpFunctionFeatures::EMPU
        | UpFunctionFeatures::MNOP
        | UpFunctionFeatures::VTIME
        | UpFunctionFeatures::PFDM
        | UpFunctionFeatures::PFDE
        | UpFunctionFeatures::PDIU
        | UpFunctionFeatures::DDND
        | UpFunctionFeatures::UDBC
        | UpFunctionFeatures::SSET
        | UpFunctionFeatures::MPAS
        | UpFunctionFeatures::CIOT
        | UpFunctionFeatures::TREU
        | UpFunctionFeatures::QFQM
}

/// Writes a message.
pub(crate) fn message(
    header: &Header,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<Vec<u8>, Full> {
    // Written over and over: to make so many zeroes for each message costs more than to write it,
    // and answers are kept by the thousand. `fill` writes no message inside a message; one that
    // did would get memory of its own.
    let mut scratch = SCRATCH.take();
    scratch.resize(MESSAGE_BYTES_MAX, 0);
    let written = Writer::new(&mut scratch, header).and_then(|mut writer| {
        fill(&mut writer)?;
        writer.finish()
    });
    let message = written.map(|len| scratch[..len].to_vec());
    SCRATCH.set(scratch);
    message
}

/// The header of an answer about a node.
pub(crate) fn answer_to(request: &Header, message_type: MessageType) -> Header {
    Header::new(message_type, None, request.sequence)
}

impl Upf {
    /// Handles a datagram that came to N4.
    pub fn datagram(&mut self, datagram: &[u8], from: Peer, now_ns: u64) {
        if !self.settings.is_peer(from.address) {
            self.counters.discarded += 1;
            return;
        }
        self.changes += 1;
        for view in Messages::new(datagram) {
            self.counters.messages += 1;
            match view {
                Ok(view) => self.handle(&view, from, now_ns),
                Err(unreadable) => self.answer_unreadable(&unreadable, from),
            }
        }
    }

    /// A message of another version, or of a wrong length (TS 29.244, 7.6.2, 7.6.3).
    fn answer_unreadable(&mut self, unreadable: &Unreadable, from: Peer) {
        self.counters.discarded += 1;
        let is_version = unreadable.error.reason == Reason::BadVersion;
        let header = match unreadable.header {
            _ if is_version => Header::new(MessageType::VERSION_NOT_SUPPORTED_RESPONSE, None, 0),
            Some(header) => header,
            None => return,
        };
        let answer = match header.message_type {
            _ if is_version => message(&header, |_| Ok(())).ok(),
            // Its answer has no cause, and tells the same whatever is wrong (7.4.2.2, 7.6.6).
            MessageType::HEARTBEAT_REQUEST => self.heartbeat(&header).ok(),
            _ => None,
        };
        if let Some(bytes) = answer {
            self.send(Datagram { to: from, bytes });
        } else if header.message_type.response().is_some() {
            let fault = Cause::INVALID_LENGTH.alone().into();
            self.refuse(&header, &fault, 0, from, 0);
        }
    }

    fn handle(&mut self, view: &View<&[u8]>, from: Peer, now_ns: u64) {
        let header = *view.header();
        if header.message_type.is_response() {
            self.response(view, from, now_ns);
            return;
        }
        // Unknown messages are discarded (7.6.4).
        if header.message_type.response().is_none() {
            self.counters.discarded += 1;
            return;
        }
        if let Some(answer) = self.transactions.repeated(from, header.sequence, now_ns) {
            let bytes = answer.clone();
            self.counters.repeated += 1;
            self.send(Datagram { to: from, bytes });
            return;
        }
        if self.is_promised(from, header.sequence) {
            self.counters.repeated += 1;
            return;
        }
        if self.is_early(view, from) {
            self.counters.discarded += 1;
            return;
        }
        let checked = view.check();
        let result = match header.message_type {
            // It is answered whatever is wrong with it (7.6.6).
            MessageType::HEARTBEAT_REQUEST => {
                self.compare_recovery(view, from, now_ns);
                self.heartbeat(&header)
            }
            _ if checked.is_err() => Err(checked.err().map_or_else(unknown, Fault::from)),
            MessageType::ASSOCIATION_SETUP_REQUEST => self.set_up(view, from, now_ns),
            MessageType::ASSOCIATION_UPDATE_REQUEST => self.update(view, from),
            MessageType::ASSOCIATION_RELEASE_REQUEST => self.release(view, from),
            MessageType::PFD_MANAGEMENT_REQUEST => self.manage_pfds(view, from),
            MessageType::SESSION_ESTABLISHMENT_REQUEST => self.establish(view, from, now_ns),
            MessageType::SESSION_MODIFICATION_REQUEST => self.modify(view, from, now_ns),
            MessageType::SESSION_DELETION_REQUEST => self.delete(view, from, now_ns),
            MessageType::SESSION_SET_DELETION_REQUEST => self.delete_set(view, from),
            MessageType::SESSION_SET_MODIFICATION_REQUEST => self.modify_set(view, from),
            _ => Err(Cause::SERVICE_NOT_SUPPORTED.alone().into()),
        };
        let planned = self.planned.take();
        match result {
            Ok(_) if planned.is_some() && self.sweeps.len() >= SWEEP_COUNT_MAX => {
                let fault = Cause::NO_RESOURCES_AVAILABLE.alone().into();
                self.refuse(&header, &fault, 0, from, now_ns);
            }
            Ok(bytes) => match planned {
                Some(mut sweep) => {
                    sweep.promised = Some((header, bytes, from));
                    self.begin_sweep(sweep, now_ns);
                }
                None => self.answer(&header, bytes, from, now_ns),
            },
            Err(fault) => {
                let cp_seid = self.cp_seid(view);
                self.refuse(&header, &fault, cp_seid, from, now_ns);
            }
        }
    }

    pub(crate) fn answer(&mut self, request: &Header, bytes: Vec<u8>, to: Peer, now_ns: u64) {
        // Messages about the node come to all shards, and one answers.
        if request.message_type.is_of_session() != Some(true) && self.settings.shard.0 > 0 {
            return;
        }
        self.transactions
            .keep(to, request.sequence, bytes.clone(), now_ns);
        self.send(Datagram { to, bytes });
    }

    /// The SEID to which the answer to a refused request about a session goes.
    fn cp_seid(&self, view: &View<&[u8]>) -> u64 {
        let ies = view.ies();
        if view.header().message_type == MessageType::SESSION_ESTABLISHMENT_REQUEST {
            return ies.get(key::F_SEID).ok().flatten().map_or(0, |id| id.seid);
        }
        let slot = view.header().seid.and_then(|seid| self.store.slot_of(seid));
        slot.map_or(0, |slot| self.store.head(slot).cp_seid)
    }

    /// Answers a request with a refusal.
    fn refuse(&mut self, request: &Header, fault: &Fault, cp_seid: u64, to: Peer, now_ns: u64) {
        self.counters.refused += 1;
        let Some(message_type) = request.message_type.response() else {
            return;
        };
        let is_of_session = message_type.is_of_session() == Some(true);
        let header = Header {
            seid: is_of_session.then_some(cp_seid),
            ..answer_to(request, message_type)
        };
        let has_node = !matches!(
            message_type,
            MessageType::SESSION_MODIFICATION_RESPONSE | MessageType::SESSION_DELETION_RESPONSE
        );
        let answer = message(&header, |writer| {
            if has_node {
                writer.put(key::NODE_ID, &self.settings.node_id())?;
            }
            writer.put(key::CAUSE, &fault.refusal.cause)?;
            writer.put_some(key::OFFENDING_IE, fault.refusal.offending.as_ref())?;
            writer.put_some(key::FAILED_RULE_ID, fault.rule.as_ref())?;
            if message_type == MessageType::ASSOCIATION_SETUP_RESPONSE {
                let time = Time(self.store.recovery());
                writer.put(key::RECOVERY_TIME_STAMP, &time)?;
            }
            Ok(())
        });
        if let Ok(bytes) = answer {
            self.answer(request, bytes, to, now_ns);
        }
    }

    fn heartbeat(&self, request: &Header) -> Result<Vec<u8>, Fault> {
        let header = answer_to(request, MessageType::HEARTBEAT_RESPONSE);
        let time = Time(self.store.recovery());
        message(&header, |writer| {
            writer.put(key::RECOVERY_TIME_STAMP, &time)
        })
        .map_err(full)
    }

    /// That a request about the node is accepted.
    pub(crate) fn accepted(&self, header: &Header) -> Result<Vec<u8>, Fault> {
        message(header, |writer| {
            writer.put(key::NODE_ID, &self.settings.node_id())?;
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)
        })
        .map_err(full)
    }

    fn response(&mut self, view: &View<&[u8]>, from: Peer, now_ns: u64) {
        let header = view.header();
        if self.settings.shard.0 > 0 {
            // Of a request of the first shard.
            match header.message_type {
                MessageType::HEARTBEAT_RESPONSE => {
                    self.compare_recovery(view, from, now_ns);
                    return;
                }
                MessageType::ASSOCIATION_UPDATE_RESPONSE if view.check().is_ok() => {
                    self.overheard_parting(view, from);
                    return;
                }
                MessageType::ASSOCIATION_SETUP_RESPONSE => {
                    if self.settings.smfs.contains(&from.address) && view.check().is_ok() {
                        self.hear_call(view, from, now_ns);
                    }
                    return;
                }
                _ => {}
            }
        }
        let ended = self.transactions.answered(from.address, header.sequence);
        let is_of_node = header.message_type == MessageType::NODE_REPORT_RESPONSE;
        if ended.is_none() && is_of_node && self.settings.shard.1 > 1 {
            // Of a request of another shard.
            return;
        }
        let (Some(ended), Ok(())) = (ended, view.check()) else {
            self.counters.discarded += 1;
            return;
        };
        match ended.subject {
            Subject::Heartbeat(_) => self.compare_recovery(view, from, now_ns),
            // An SMF that refuses to hear it has nothing to be told instead.
            Subject::Path(_) => {}
            Subject::Call => self.hear_call(view, from, now_ns),
            Subject::Parting(id) => self.heard_of_parting(id, Some(view)),
            Subject::Farewell(id) => self.answered_farewell(view, ended, id, now_ns),
            Subject::Report(seid) => self.reported(view, ended, seid, now_ns),
        }
        self.report_waiting(now_ns);
    }

    fn hear_call(&mut self, view: &View<&[u8]>, from: Peer, now_ns: u64) {
        if self.called(view, from, now_ns).is_err() {
            self.counters.discarded += 1;
        }
    }

    /// Whether a peer has started again: then it knows nothing of its sessions (TS 23.527, 4.2).
    fn compare_recovery(&mut self, view: &View<&[u8]>, from: Peer, now_ns: u64) {
        let Ok(Some(time)) = view.ies().get(key::RECOVERY_TIME_STAMP) else {
            return;
        };
        let its = (0..ASSOCIATION_COUNT).filter(|number| {
            let association = self.store.association(*number);
            association.is_some() && association.peer() == Some(from.address)
        });
        let its: Vec<usize> = its.collect();
        // Several nodes may have one address: one of them is as it was.
        let is_known = |number: &usize| self.store.association(*number).recovery == time.0;
        if !its.iter().any(is_known) {
            for number in its {
                let is_known = u8::try_from(number).is_ok_and(|number| self.is_ending(number));
                if !is_known && self.sweeps.len() < SWEEP_COUNT_MAX {
                    let fate = self.fate_of(number);
                    self.begin_sweep(Sweep::of(number, fate, Association::none()), now_ns);
                }
            }
        }
    }

    /// What time has brought; gives when to be called again.
    pub fn wake(&mut self, now_ns: u64) -> Option<u64> {
        while let Some(slot) = self.timers.due(now_ns) {
            self.wake_session(slot, now_ns);
        }
        while let Some(late) = self.transactions.late(now_ns) {
            match late {
                Late::Again(Subject::Call, datagram)
                    if self.has_association_at(datagram.to.address) =>
                {
                    self.transactions.end_call(datagram.to.address);
                }
                Late::Again(_, datagram) => self.send(datagram),
                Late::Lost(ended) => {
                    self.counters.unanswered += 1;
                    match ended.subject {
                        Subject::Report(seid) => {
                            self.ask_another(ended, seid, now_ns);
                        }
                        Subject::Parting(id) => self.heard_of_parting(id, None),
                        Subject::Farewell(id) => self.lost_farewell(ended, id, now_ns),
                        Subject::Heartbeat(_) | Subject::Path(_) | Subject::Call => {}
                    }
                }
            }
        }
        self.notify_delayed(now_ns);
        self.report_waiting(now_ns);
        let heartbeat_ns = self.beat(now_ns);
        let has_more = self.sweep(now_ns) | self.part(now_ns);
        let next = [
            has_more.then_some(now_ns),
            self.call(now_ns),
            self.timers.next_ns(),
            self.applications.wake(now_ns),
            self.transactions.next_ns(),
            self.delayed.next_ns(),
            heartbeat_ns,
        ];
        next.into_iter().flatten().min()
    }

    /// Asks peers whether they are there; gives when to do so again.
    fn beat(&mut self, now_ns: u64) -> Option<u64> {
        if self.settings.heartbeat_ns == 0 || self.settings.shard.0 > 0 {
            return None;
        }
        let mut next = None;
        for number in 0..ASSOCIATION_COUNT {
            let association = self.store.association(number);
            let Some(address) = association.peer().filter(|_| association.is_some()) else {
                continue;
            };
            if self.heartbeats[number] <= now_ns && self.transactions.has_room() {
                self.heartbeats[number] = now_ns.saturating_add(self.settings.heartbeat_ns);
                let subject = Subject::Heartbeat(u8::try_from(number).unwrap_or(0));
                let time = Time(self.store.recovery());
                let is_sent = self.request(
                    address,
                    MessageType::HEARTBEAT_REQUEST,
                    None,
                    subject,
                    now_ns,
                    |writer| writer.put(key::RECOVERY_TIME_STAMP, &time),
                );
                self.counters.unsent += u64::from(!is_sent);
            }
            let at = self.heartbeats[number];
            next = Some(next.map_or(at, |next: u64| next.min(at)));
        }
        next
    }

    /// Sends a request of this node; false if it has no room for what it is to say.
    pub(crate) fn request(
        &mut self,
        to: std::net::IpAddr,
        message_type: MessageType,
        seid: Option<u64>,
        subject: Subject,
        now_ns: u64,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> bool {
        let sequence = self.transactions.next_sequence();
        let header = Header::new(message_type, seid, sequence);
        let to = Peer {
            address: to,
            port: catena_wire::pfcp::PORT,
        };
        match message(&header, fill) {
            Ok(bytes) => {
                let datagram = Datagram { to, bytes };
                self.transactions
                    .sent(sequence, datagram.clone(), subject, now_ns);
                self.send(datagram);
                true
            }
            Err(Full) => false,
        }
    }
}

/// A message for which there is no room: it is refused, and nothing is done.
pub(crate) fn full(_: Full) -> Fault {
    Cause::SYSTEM_FAILURE.alone().into()
}

fn unknown() -> Fault {
    Fault::from(Refusal {
        cause: Cause::REQUEST_REJECTED,
        offending: None,
    })
}

#[cfg(test)]
mod tests {
    use catena_wire::pfcp::value::address::NodeId;

    use super::*;
    use crate::public_failures::{SMF, new};

    fn request(sequence: u32, follow_on: bool, message_type: MessageType) -> Vec<u8> {
        let header = Header {
            message_type,
            seid: None,
            sequence,
            priority: None,
            follow_on,
        };
        let node = NodeId::V4(std::net::Ipv4Addr::new(10, 4, 0, 2));
        let is_setup = message_type == MessageType::ASSOCIATION_SETUP_REQUEST;
        let written = message(&header, |writer| {
            writer.put_some(key::NODE_ID, is_setup.then_some(&node))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        });
        written.unwrap()
    }

    /// BUNDL: each message of a datagram is handled and answered, in order.
    #[test]
    fn each_message_of_a_bundle_is_answered() {
        let mut upf = new(None);
        let mut bundle = request(1, true, MessageType::HEARTBEAT_REQUEST);
        bundle.extend(request(2, true, MessageType::ASSOCIATION_SETUP_REQUEST));
        bundle.extend(request(3, false, MessageType::HEARTBEAT_REQUEST));
        upf.datagram(&bundle, SMF, 0);
        let answers = std::iter::from_fn(|| upf.next_message()).map(|answer| {
            let view = View::parse(&answer.bytes[..]).unwrap();
            assert_eq!((view.check(), answer.to), (Ok(()), SMF));
            (view.header().sequence, view.header().message_type)
        });
        let answers: Vec<_> = answers.collect();
        let heartbeat = MessageType::HEARTBEAT_RESPONSE;
        let setup = MessageType::ASSOCIATION_SETUP_RESPONSE;
        assert_eq!(answers, [(1, heartbeat), (2, setup), (3, heartbeat)]);
    }
}
