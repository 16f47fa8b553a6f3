//! A scripted SMF, gNB and data network: plays a scenario against a UPF.
//!
//! For tests and for users who try a UPF. [`Player`] takes frames and times and gives frames; it is
//! driven in simulated time by [`simulation`], in a chain by the port [`port`], and over UDP by
//! [`sockets`]. What comes back and was not expected, and what was expected and did not come, ends
//! the scenario with a sentence.

mod answers;
mod monitoring;
mod paths;
pub mod port;
pub(crate) mod quic;
mod raw;
mod requests;
pub mod scenario;
pub mod simulation;
pub mod sockets;
pub(crate) mod tcp;
mod users;
mod way;
pub(crate) mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::flags::{AssociationUpdateRequestFlags, CpFunctionFeatures};
use catena_wire::pfcp::{Full, Header, MessageType, Writer, key};
use catena_wire::{ethernet, gtpu};

use crate::headers::{self, Outer, outer};
use crate::node::message;
use crate::reassembly::{Part, Reassembly};
use scenario::{Act, Expect, Rules, Scenario};
use way::Way;

/// How long a step waits for what it expects.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Most fragments of the UPF that wait for others.
const PARTS: usize = 1024;
/// The start of the scripted SMF, in seconds since 1900.
const RECOVERY: Time = Time(3_900_000_000);

/// Most frames that are recorded; those behind them are not.
pub const RECORD_COUNT_MAX: usize = 100_000;

/// What a player wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// These frames go to the UPF, now.
    Send(Vec<Vec<u8>>),
    /// It waits for frames, or for this instant.
    Wait(u64),
    /// The scenario was played to its end.
    Done,
    /// Something was not as expected.
    Failed(String),
}

/// What the SMF knows of a session.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    up_seid: u64,
    teid: u32,
    /// That of its tunnels from other UPFs.
    n9_teid: u32,
    ue: Option<Ipv4Addr>,
    prefix: Option<Ipv6Addr>,
}

/// Plays a scenario.
#[derive(Debug)]
pub struct Player {
    scenario: Scenario,
    /// Step at hand, counted from 0; before its act, or behind it.
    step: usize,
    has_acted: bool,
    expected: VecDeque<Expect>,
    sequence: u32,
    /// How many sequence numbers, up to that one, the last datagram of requests has.
    asked_count: u32,
    /// Number of the next packet that a user or host sends.
    number: u32,
    /// The session that the last request was about.
    about: Option<u64>,
    last: Vec<u8>,
    sessions: BTreeMap<u64, Known>,
    /// Answers of the SMF to requests of the UPF.
    answers: Vec<Vec<u8>>,
    /// Answers that come so long behind the next turn.
    asked: Vec<(u64, Vec<u8>)>,
    /// What comes to the UPF at these instants.
    later: Vec<(u64, Vec<u8>)>,
    /// The time of the last marked packet that came, and when it did.
    mark: Option<(u64, u64)>,
    /// Whether the packet at hand is marked.
    is_marked: bool,
    /// The connection of a browser.
    browser: Option<tcp::Browser>,
    /// Fragments that came from the UPF.
    parts: Reassembly<Vec<u8>>,
    until_ns: u64,
    failure: Option<String>,
    /// Whether it answers heartbeats that no step expects.
    answers_heartbeats: bool,
    now_ns: u64,
    /// Frames of both directions and when they passed, if they are recorded.
    record: Option<Vec<(u64, Vec<u8>)>>,
}

impl Player {
    /// A scenario that has not begun.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            step: 0,
            has_acted: false,
            expected: VecDeque::new(),
            sequence: 0,
            asked_count: 0,
            number: 0,
            about: None,
            last: Vec::new(),
            sessions: BTreeMap::new(),
            answers: Vec::new(),
            asked: Vec::new(),
            later: Vec::new(),
            mark: None,
            is_marked: false,
            browser: None,
            parts: Reassembly::new(PARTS, PATIENCE_NS),
            until_ns: 0,
            failure: None,
            answers_heartbeats: false,
            now_ns: 0,
            record: None,
        }
    }

    /// As an SMF of a UPF whose heartbeats come when they will.
    pub fn answering_heartbeats(mut self) -> Self {
        self.answers_heartbeats = true;
        self
    }

    /// With requests whose sequence numbers begin behind this one.
    pub fn from_sequence(mut self, sequence: u32) -> Self {
        self.sequence = sequence;
        self
    }

    /// Records frames of both directions, up to [`RECORD_COUNT_MAX`].
    pub fn recording(mut self) -> Self {
        self.record = Some(Vec::new());
        self
    }

    /// Frames that were recorded, and when they passed.
    pub fn recorded(&self) -> &[(u64, Vec<u8>)] {
        self.record.as_deref().unwrap_or_default()
    }

    fn note(&mut self, frame: &[u8]) {
        let now_ns = self.now_ns;
        let record = self.record.as_mut();
        if let Some(record) = record.filter(|record| record.len() < RECORD_COUNT_MAX) {
            record.push((now_ns, frame.to_vec()));
        }
    }

    /// What is played.
    pub(super) const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// How many steps were played.
    pub const fn steps(&self) -> usize {
        self.step
    }

    /// What is to be done at an instant, once all frames that have come were given to it.
    pub fn turn(&mut self, now_ns: u64) -> Turn {
        self.now_ns = now_ns;
        let turn = self.next(now_ns);
        if let Turn::Send(frames) = &turn {
            frames.iter().for_each(|frame| self.note(frame));
        }
        turn
    }

    fn next(&mut self, now_ns: u64) -> Turn {
        if let Some(failure) = &self.failure {
            return Turn::Failed(failure.clone());
        }
        self.take_due(now_ns);
        if !self.answers.is_empty() {
            return Turn::Send(std::mem::take(&mut self.answers));
        }
        loop {
            let Some(step) = self.scenario.steps.get(self.step) else {
                return Turn::Done;
            };
            if !self.has_acted {
                self.has_acted = true;
                self.expected = step.expect.clone().into();
                self.until_ns = now_ns.saturating_add(PATIENCE_NS);
                let act = step.act.clone();
                let frames = act.map(|act| self.act(&act, now_ns));
                match frames.unwrap_or(Ok(Vec::new())) {
                    Ok(frames) if frames.is_empty() => {}
                    Ok(frames) => return Turn::Send(frames),
                    Err(failure) => return self.fail(failure),
                }
            }
            let waits = matches!(self.scenario.steps[self.step].act, Some(Act::Wait(_)));
            if waits && now_ns < self.until_ns {
                return Turn::Wait(self.waits_until_ns());
            }
            if !self.expected.is_empty() {
                if now_ns < self.until_ns {
                    return Turn::Wait(self.waits_until_ns());
                }
                return self.fail(format!("this did not come: {:?}", self.expected[0]));
            }
            self.step += 1;
            self.has_acted = false;
        }
    }

    fn fail(&mut self, what: String) -> Turn {
        let failure = format!("step {}: {what}", self.step + 1);
        self.failure = Some(failure.clone());
        Turn::Failed(failure)
    }

    fn act(&mut self, act: &Act, now_ns: u64) -> Result<Vec<Vec<u8>>, String> {
        let smf = requests::node_id(&self.scenario);
        Ok(match act {
            Act::Associate => self.associate(CpFunctionFeatures::BUNDL),
            Act::AssociateForLoad => {
                self.associate(CpFunctionFeatures::BUNDL | CpFunctionFeatures::LOAD)
            }
            Act::AssociateForRelease => {
                self.associate(CpFunctionFeatures::BUNDL | CpFunctionFeatures::EPFAR)
            }
            Act::PrepareRelease => {
                self.node_request(MessageType::ASSOCIATION_UPDATE_REQUEST, |writer| {
                    writer.put(key::NODE_ID, &smf)?;
                    let flags = AssociationUpdateRequestFlags::PARPS;
                    writer.put(key::PFCPAUREQ_FLAGS, &flags)
                })
            }
            Act::AssociateForPaths(rules) => self.want_paths(rules, true),
            Act::UpdatePaths(rules) => self.want_paths(rules, false),
            Act::Release => self.node_request(MessageType::ASSOCIATION_RELEASE_REQUEST, |writer| {
                writer.put(key::NODE_ID, &smf)
            }),
            Act::Heartbeat => self.node_request(MessageType::HEARTBEAT_REQUEST, |writer| {
                writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)
            }),
            Act::Establish(rules) => self.session_request(rules, true)?,
            Act::Modify(rules) => self.session_request(rules, false)?,
            Act::Delete(session) => {
                let seid = self.known(*session)?.up_seid;
                self.about = Some(*session);
                let message_type = MessageType::SESSION_DELETION_REQUEST;
                self.request(message_type, Some(seid), |_| Ok(()))?
            }
            Act::Repeat => vec![self.to_n4(&self.last)],
            Act::Raw(text) => {
                self.last = self.raw(text)?;
                vec![self.to_n4(&self.last)]
            }
            Act::RawGtpu(text) => {
                let message = self.raw(text)?;
                vec![wire::to_upf(&self.scenario, None, &message)]
            }
            Act::Uplink(packets) => self.uplink(packets)?,
            Act::Downlink(packets) => self.downlink(packets)?,
            Act::Solicit(session) => self.solicit(*session)?,
            Act::Browse(browse) => self.browse(browse)?,
            Act::Pfds(pfds) => self.pfds(pfds)?,
            Act::Echo => vec![wire::echo(&self.scenario)],
            Act::ErrorIndication(teid) => vec![wire::error_indication(&self.scenario, *teid)],
            Act::EndMarker(marker) => {
                let teid = self.known(marker.session)?.n9_teid;
                vec![wire::end_marker(&self.scenario, marker.upf, teid)]
            }
            Act::Wait(span) => {
                self.until_ns = now_ns.saturating_add(span.ns);
                Vec::new()
            }
        })
    }

    fn associate(&mut self, features: CpFunctionFeatures) -> Vec<Vec<u8>> {
        let smf = requests::node_id(&self.scenario);
        self.node_request(MessageType::ASSOCIATION_SETUP_REQUEST, |writer| {
            writer.put(key::NODE_ID, &smf)?;
            writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)?;
            writer.put(key::CP_FUNCTION_FEATURES, &features)
        })
    }

    fn pfds(&mut self, rules: &[scenario::PfdRule]) -> Result<Vec<Vec<u8>>, String> {
        let smf = requests::node_id(&self.scenario);
        self.request(MessageType::PFD_MANAGEMENT_REQUEST, None, |writer| {
            requests::pfds(writer, rules)?;
            writer.put(key::NODE_ID, &smf)
        })
    }

    fn known(&self, session: u64) -> Result<Known, String> {
        let known = self.sessions.get(&session).copied();
        known.ok_or_else(|| format!("no session {session} was established"))
    }

    fn to_n4(&self, bytes: &[u8]) -> Vec<u8> {
        let Scenario { smf, n4, .. } = self.scenario;
        let port = catena_wire::pfcp::PORT;
        wire::datagram((smf, port), (n4, port), bytes)
    }

    fn node_request(
        &mut self,
        message_type: MessageType,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Vec<Vec<u8>> {
        self.request(message_type, None, fill).unwrap_or_default()
    }

    fn request(
        &mut self,
        message_type: MessageType,
        seid: Option<u64>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Result<Vec<Vec<u8>>, String> {
        self.sequence += 1;
        self.asked_count = 1;
        let header = Header::new(message_type, seid, self.sequence);
        self.last = message(&header, fill).map_err(|full| full.to_string())?;
        Ok(vec![self.to_n4(&self.last)])
    }

    fn session_request(&mut self, rules: &Rules, is_new: bool) -> Result<Vec<Vec<u8>>, String> {
        for rule in rules.urrs.iter().chain(&rules.update_urrs) {
            let known = requests::triggers(&rule.triggers);
            known.ok_or_else(|| format!("no such trigger: {:?}", rule.triggers))?;
        }
        self.about = Some(rules.session);
        let scenario = self.scenario.clone();
        if is_new {
            let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
            return self.request(message_type, Some(0), |writer| {
                requests::establishment(writer, &scenario, rules)
            });
        }
        let seid = self
            .known(rules.session)
            .map_or(rules.session, |known| known.up_seid);
        let message_type = MessageType::SESSION_MODIFICATION_REQUEST;
        self.request(message_type, Some(seid), |writer| {
            requests::modification(writer, &scenario, rules)
        })
    }

    /// A frame that came from the UPF.
    pub fn frame(&mut self, frame: &[u8]) {
        self.note(frame);
        self.take_frame(frame);
    }

    fn take_frame(&mut self, frame: &[u8]) {
        self.is_marked = false;
        if self.failure.is_some() {
            return;
        }
        let plain = Way {
            next_hop: ethernet::View::parse(frame).ok().map(|view| view.dst()),
            ..Way::default()
        };
        let taken = match outer(frame) {
            Outer::Udp {
                dst,
                dst_port,
                from,
                to,
                ..
            } if dst == self.scenario.smf && dst_port == catena_wire::pfcp::PORT => {
                self.message(&frame[from..to])
            }
            Outer::Udp {
                src,
                dst,
                dst_port: gtpu::PORT,
                l3,
                from,
                to,
                ..
            } if dst == self.scenario.ran || self.scenario.upfs.contains(&dst) => {
                let outside = headers::inner(&frame[l3..]);
                let way = Way {
                    upf: (dst != self.scenario.ran).then_some(dst),
                    dscp: outside.map_or(0, |outside| outside.traffic_class >> 2),
                    ..plain
                };
                let n9 = self.scenario.n9.unwrap_or(self.scenario.n3);
                match way.upf {
                    Some(upf) if src != n9 => Err(format!("a packet to {upf} from {src}")),
                    _ => self.tunnelled(&frame[from..to], way),
                }
            }
            Outer::Part { l3, .. } => match self.join(frame, l3, 0) {
                Some(whole) => return self.take_frame(&wire::framed(&whole)),
                None => Ok(()),
            },
            Outer::Wrapped { dst, at, end, .. } => {
                let around = Some(dst);
                let way = Way { around, ..plain };
                self.whole_packet(&frame[at..end], 0, way)
            }
            Outer::Udp { l3, .. } | Outer::Ip { l3, .. } => self.user_packet(&frame[l3..], plain),
            Outer::Other if wire::frame_number(frame).is_some() => {
                let way = Way {
                    tags: wire::tags(frame),
                    ..plain
                };
                self.user_packet(frame, way)
            }
            other => Err(format!("a frame that is none: {other:?}")),
        };
        if let Err(what) = taken {
            self.fail(what);
        }
    }

    /// Takes the first expectation that `fits`; what it is.
    fn expect(&mut self, fits: impl Fn(&Expect) -> bool, what: &str) -> Result<Expect, String> {
        let at = self.expected.iter().position(fits);
        let expected = at.and_then(|at| self.expected.remove(at));
        expected.ok_or_else(|| format!("nobody expected {what}"))
    }

    /// Takes a packet out of another one once it is whole.
    fn whole_packet(&mut self, packet: &[u8], teid: u32, way: Way) -> Result<(), String> {
        if Part::of(packet, 0, teid).is_none() {
            return self.user_packet(packet, way);
        }
        match self.join(packet, 0, teid) {
            Some(whole) => self.user_packet(&whole, way),
            None => Ok(()),
        }
    }

    fn tunnelled(&mut self, bytes: &[u8], way: Way) -> Result<(), String> {
        let view = gtpu::View::parse(bytes).map_err(|error| error.to_string())?;
        let message = view.message_type();
        if message == gtpu::MessageType::G_PDU {
            let container = view.extensions().pdu_session();
            let container = container.map_err(|error| error.to_string())?;
            self.note_mark(container);
            let way = Way {
                teid: Some(view.teid()),
                container,
                tags: wire::tags(view.payload()),
                ..way
            };
            return self.whole_packet(view.payload(), view.teid(), way);
        }
        let sequence = view.sequence().unwrap_or(0);
        if message == gtpu::MessageType::ECHO_REQUEST && self.take_echo(way.upf, way.dscp, sequence)
        {
            return Ok(());
        }
        let about = gtpu::element::Elements::new(view.payload()).error_indication();
        let teid = about.map_or(view.teid(), |(teid, _)| teid);
        let fits = |one: &Expect| match one {
            Expect::Gtpu {
                message: kind,
                teid: of,
                upf,
            } => *kind == message.0 && *upf == way.upf && of.is_none_or(|of| of == teid),
            _ => false,
        };
        self.expect(fits, &format!("{message} of TEID {teid}"))
            .map(drop)
    }
}

#[cfg(test)]
mod tests;
