// SPDX-License-Identifier: Apache-2.0
//! What the five MPCPDUs say (IEEE 802.3-2022, 77.3.6.1 to 77.3.6.5), as owned values.
//!
//! Flags keep values that the standard reserves: a receiver decides what to do with them.

use super::opcode::Opcode;
use crate::{Reason, field};
use core::fmt;

/// Length in bytes of what the opcode says, with its padding (802.3, 31.4.1.6).
pub const BODY_LEN: usize = 40;

type Body = [u8; BODY_LEN];

/// What an MPCPDU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The OLT lets ONUs transmit.
    Gate(Gate),
    /// An ONU says what waits in its queues.
    Report(Report),
    /// An ONU asks to be registered, or no longer to be.
    RegisterReq(RegisterReq),
    /// The OLT registers an ONU, or ends a registration.
    Register(Register),
    /// An ONU has understood its registration.
    RegisterAck(RegisterAck),
}

impl Message {
    /// The opcode under which it is sent.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Gate(_) => Opcode::GATE,
            Self::Report(_) => Opcode::REPORT,
            Self::RegisterReq(_) => Opcode::REGISTER_REQ,
            Self::Register(_) => Opcode::REGISTER,
            Self::RegisterAck(_) => Opcode::REGISTER_ACK,
        }
    }

    #[inline]
    pub(super) fn parse(opcode: Opcode, body: &Body) -> Result<Self, Reason> {
        Ok(match opcode {
            Opcode::GATE => Self::Gate(Gate::parse(body)?),
            Opcode::REPORT => Self::Report(Report::parse(body)?),
            Opcode::REGISTER_REQ => Self::RegisterReq(RegisterReq::parse(body)),
            Opcode::REGISTER => Self::Register(Register::parse(body)),
            Opcode::REGISTER_ACK => Self::RegisterAck(RegisterAck::parse(body)),
            _ => return Err(Reason::Unsupported),
        })
    }

    pub(super) fn body(&self) -> Body {
        match self {
            Self::Gate(gate) => gate.body(),
            Self::Report(report) => report.body(),
            Self::RegisterReq(request) => request.body(),
            Self::Register(register) => register.body(),
            Self::RegisterAck(ack) => ack.body(),
        }
    }
}

/// When an ONU may have its laser on (802.3, 77.3.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// When the laser may be turned on, in quanta of the ONU's clock.
    pub start_time: u32,
    /// For how long, in quanta: laser on and off and the sync pattern are part of it.
    pub length: u16,
    /// Whether a REPORT is to be sent in it.
    pub force_report: bool,
}

/// What a discovery GATE has beside its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GateDiscovery {
    /// How long the OLT needs for clock recovery and gain, in quanta: length of the sync pattern.
    pub sync_time: u16,
    /// Who may answer. Zero in 1G-EPON, which has padding here.
    pub information: DiscoveryInformation,
}

/// Rates that a station can send at, and for which a discovery window is open or an ONU asks
/// (802.3, 77.3.6.1 and 77.3.6.3). The bits have the same places in GATE and REGISTER_REQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiscoveryInformation(pub u16);

impl DiscoveryInformation {
    /// The station can send or receive upstream at 1 Gb/s.
    pub const UPSTREAM_1G: Self = Self(1);
    /// The station can send or receive upstream at 10 Gb/s.
    pub const UPSTREAM_10G: Self = Self(1 << 1);
    /// The window is for 1 Gb/s, or the ONU wants to register at it.
    pub const WINDOW_1G: Self = Self(1 << 4);
    /// The window is for 10 Gb/s, or the ONU wants to register at it.
    pub const WINDOW_10G: Self = Self(1 << 5);

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// GATE (802.3, 77.3.6.1): up to four grants, or one and what a discovery window needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gate {
    grants: [Grant; Self::GRANTS_MAX],
    count: u8,
    /// Present in a discovery GATE.
    pub discovery: Option<GateDiscovery>,
}

impl Gate {
    /// The most grants in a frame.
    pub const GRANTS_MAX: usize = 4;

    const COUNT: u8 = 0x07;
    const DISCOVERY: u8 = 0x08;
    const FORCE_REPORT: u8 = 0x10;
    const GRANT_LEN: usize = 6;

    /// A GATE with these grants; none if there are more than [`Gate::GRANTS_MAX`].
    pub fn new(grants: &[Grant]) -> Option<Self> {
        let mut gate = Self::default();
        gate.grants.get_mut(..grants.len())?.copy_from_slice(grants);
        gate.count = grants.len() as u8;
        Some(gate)
    }

    /// A GATE that opens a discovery window.
    pub fn of_discovery(grant: Grant, discovery: GateDiscovery) -> Self {
        let mut gate = Self {
            count: 1,
            discovery: Some(discovery),
            ..Self::default()
        };
        gate.grants[0] = grant;
        gate
    }

    /// Its grants; a GATE without any only keeps the ONU's clock.
    #[inline]
    pub fn grants(&self) -> &[Grant] {
        &self.grants[..usize::from(self.count)]
    }

    fn parse(body: &Body) -> Result<Self, Reason> {
        let flags = body[0];
        let count = flags & Self::COUNT;
        let mut gate = Self {
            count,
            ..Self::default()
        };
        let mut at = 1;
        let grants = gate.grants.get_mut(..usize::from(count));
        for (index, grant) in grants.ok_or(Reason::BadLength)?.iter_mut().enumerate() {
            *grant = Grant {
                start_time: field::u32(body, at..at + 4),
                length: field::u16(body, at + 4..at + Self::GRANT_LEN),
                force_report: flags & (Self::FORCE_REPORT << index) != 0,
            };
            at += Self::GRANT_LEN;
        }
        if flags & Self::DISCOVERY != 0 {
            gate.discovery = Some(GateDiscovery {
                sync_time: field::u16(body, at..at + 2),
                information: DiscoveryInformation(field::u16(body, at + 2..at + 4)),
            });
        }
        Ok(gate)
    }

    fn body(&self) -> Body {
        let mut body = [0; BODY_LEN];
        body[0] = self.count;
        let mut at = 1;
        for (index, grant) in self.grants().iter().enumerate() {
            if grant.force_report {
                body[0] |= Self::FORCE_REPORT << index;
            }
            field::set_u32(&mut body, at..at + 4, grant.start_time);
            field::set_u16(&mut body, at + 4..at + Self::GRANT_LEN, grant.length);
            at += Self::GRANT_LEN;
        }
        if let Some(discovery) = self.discovery {
            body[0] |= Self::DISCOVERY;
            field::set_u16(&mut body, at..at + 2, discovery.sync_time);
            field::set_u16(&mut body, at + 2..at + 4, discovery.information.0);
        }
        body
    }
}

/// REPORT (802.3, 77.3.6.2): queue sets, each with a length for some of eight queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    set_count: u8,
    /// The sets as on the wire; zero behind the last.
    sets: [u8; BODY_LEN - 1],
    len: u8,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            set_count: 0,
            sets: [0; BODY_LEN - 1],
            len: 0,
        }
    }
}

/// One queue set: lengths in quanta that the frames of each queue take, up to a threshold of the
/// set's own. None where the ONU says nothing of the queue.
pub type QueueSet = [Option<u16>; 8];

impl Report {
    /// A REPORT with no queue set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue set; false, and nothing is added, if the frame has no room for it.
    pub fn push(&mut self, set: &QueueSet) -> bool {
        let start = usize::from(self.len);
        let end = start + 1 + 2 * set.iter().flatten().count();
        let Some(space) = self.sets.get_mut(start..end) else {
            return false;
        };
        let (bitmap, lengths) = space.split_at_mut(1);
        let mut lengths = lengths.chunks_exact_mut(2);
        for (queue, length) in set.iter().enumerate() {
            if let (Some(length), Some(space)) = (length, length.and_then(|_| lengths.next())) {
                bitmap[0] |= 1 << queue;
                space.copy_from_slice(&length.to_be_bytes());
            }
        }
        self.len = end as u8;
        self.set_count += 1;
        true
    }

    /// Its queue sets.
    #[inline]
    pub fn queue_sets(&self) -> QueueSets<'_> {
        QueueSets {
            left: self.set_count,
            bytes: &self.sets,
        }
    }

    fn parse(body: &Body) -> Result<Self, Reason> {
        let mut report = Self {
            set_count: body[0],
            ..Self::default()
        };
        report.sets.copy_from_slice(&body[1..]);
        let mut sets = report.queue_sets();
        let complete = sets.by_ref().count() == usize::from(body[0]);
        let len = report.sets.len() - sets.bytes.len();
        if !complete {
            return Err(Reason::BadLength);
        }
        // Padding is no part of the value.
        report.sets[len..].fill(0);
        report.len = len as u8;
        Ok(report)
    }

    fn body(&self) -> Body {
        let mut body = [0; BODY_LEN];
        body[0] = self.set_count;
        body[1..].copy_from_slice(&self.sets);
        body
    }
}

/// Queue sets of a REPORT; ends early where the bytes do.
#[derive(Clone, Debug)]
pub struct QueueSets<'a> {
    left: u8,
    bytes: &'a [u8],
}

impl Iterator for QueueSets<'_> {
    type Item = QueueSet;

    fn next(&mut self) -> Option<QueueSet> {
        self.left = self.left.checked_sub(1)?;
        let (&bitmap, rest) = self.bytes.split_first()?;
        let lengths = rest.get(..2 * bitmap.count_ones() as usize)?;
        self.bytes = &rest[lengths.len()..];
        let mut lengths = lengths.chunks_exact(2);
        let mut set = [None; 8];
        for (queue, length) in set.iter_mut().enumerate() {
            if bitmap & 1 << queue != 0 {
                *length = lengths.next().map(|bytes| field::u16(bytes, 0..2));
            }
        }
        Some(set)
    }
}

/// REGISTER_REQ (802.3, 77.3.6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegisterReq {
    /// [`RegisterReq::REGISTER`] or [`RegisterReq::DEREGISTER`].
    pub flags: u8,
    /// How many grants the ONU can keep.
    pub pending_grants: u8,
    /// Rates of the ONU. 10G-EPON only, as what follows.
    pub information: DiscoveryInformation,
    /// Time that the laser takes to turn on, in quanta.
    pub laser_on_time: u8,
    /// Time that the laser takes to turn off, in quanta.
    pub laser_off_time: u8,
}

impl RegisterReq {
    /// Flags: register me.
    pub const REGISTER: u8 = 1;
    /// Flags: deregister me.
    pub const DEREGISTER: u8 = 3;

    fn parse(body: &Body) -> Self {
        Self {
            flags: body[0],
            pending_grants: body[1],
            information: DiscoveryInformation(field::u16(body, 2..4)),
            laser_on_time: body[4],
            laser_off_time: body[5],
        }
    }

    fn body(&self) -> Body {
        let mut body = [0; BODY_LEN];
        body[0] = self.flags;
        body[1] = self.pending_grants;
        field::set_u16(&mut body, 2..4, self.information.0);
        body[4] = self.laser_on_time;
        body[5] = self.laser_off_time;
        body
    }
}

/// REGISTER (802.3, 77.3.6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Register {
    /// The LLID that the ONU gets.
    pub assigned_port: u16,
    /// One of this type's constants.
    pub flags: u8,
    /// As in the discovery GATE.
    pub sync_time: u16,
    /// What the ONU asked for.
    pub echoed_pending_grants: u8,
    /// Laser-on time that the ONU is to use, in quanta. 10G-EPON only, as what follows.
    pub target_laser_on_time: u8,
    /// Laser-off time that the ONU is to use, in quanta.
    pub target_laser_off_time: u8,
}

impl Register {
    /// Flags: register again.
    pub const REREGISTER: u8 = 1;
    /// Flags: the registration is over.
    pub const DEREGISTER: u8 = 2;
    /// Flags: the request is granted.
    pub const ACK: u8 = 3;
    /// Flags: the request is refused.
    pub const NACK: u8 = 4;

    fn parse(body: &Body) -> Self {
        Self {
            assigned_port: field::u16(body, 0..2),
            flags: body[2],
            sync_time: field::u16(body, 3..5),
            echoed_pending_grants: body[5],
            target_laser_on_time: body[6],
            target_laser_off_time: body[7],
        }
    }

    fn body(&self) -> Body {
        let mut body = [0; BODY_LEN];
        field::set_u16(&mut body, 0..2, self.assigned_port);
        body[2] = self.flags;
        field::set_u16(&mut body, 3..5, self.sync_time);
        body[5] = self.echoed_pending_grants;
        body[6] = self.target_laser_on_time;
        body[7] = self.target_laser_off_time;
        body
    }
}

/// REGISTER_ACK (802.3, 77.3.6.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegisterAck {
    /// [`RegisterAck::NACK`] or [`RegisterAck::ACK`].
    pub flags: u8,
    /// The LLID of the REGISTER.
    pub echoed_assigned_port: u16,
    /// The sync time of the REGISTER.
    pub echoed_sync_time: u16,
}

impl RegisterAck {
    /// Flags: the ONU refuses.
    pub const NACK: u8 = 0;
    /// Flags: the ONU accepts.
    pub const ACK: u8 = 1;

    fn parse(body: &Body) -> Self {
        Self {
            flags: body[0],
            echoed_assigned_port: field::u16(body, 1..3),
            echoed_sync_time: field::u16(body, 3..5),
        }
    }

    fn body(&self) -> Body {
        let mut body = [0; BODY_LEN];
        body[0] = self.flags;
        field::set_u16(&mut body, 1..3, self.echoed_assigned_port);
        field::set_u16(&mut body, 3..5, self.echoed_sync_time);
        body
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate(gate) => {
                if gate.discovery.is_some() {
                    f.write_str(" discovery")?;
                }
                for grant in gate.grants() {
                    write!(f, " {}+{}", grant.start_time, grant.length)?;
                    if grant.force_report {
                        f.write_str(" report")?;
                    }
                }
                Ok(())
            }
            Self::Report(report) => {
                for set in report.queue_sets() {
                    f.write_str(" set")?;
                    for (queue, length) in set.iter().enumerate() {
                        if let Some(length) = length {
                            write!(f, " {queue}:{length}")?;
                        }
                    }
                }
                Ok(())
            }
            Self::RegisterReq(request) => write!(f, " flags {}", request.flags),
            Self::Register(register) => {
                write!(
                    f,
                    " llid {} flags {}",
                    register.assigned_port, register.flags
                )
            }
            Self::RegisterAck(ack) => {
                write!(f, " llid {} flags {}", ack.echoed_assigned_port, ack.flags)
            }
        }
    }
}
