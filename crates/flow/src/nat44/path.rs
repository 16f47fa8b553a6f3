//! What is done to each packet of `nat44`, from its headers to the output by which it leaves.
//!
//! Between the burst (`mod.rs`) and the translator: which side it came from decides what is asked
//! and what is rewritten. A packet from inside to an address outside turns back inside
//! (hairpinning, RFC 4787 REQ-9): it gets both a new source and a new destination.

use catena_engine::nf::Nanos;
use catena_wire::ip::Protocol;

use super::config::Untranslated;
use super::endpoint::Endpoint;
use super::fragments::{Course, Fragments};
use super::icmp::Subject;
use super::packet::{Arrival, Kind, Seen, Side, set_address, set_port};
use super::translator::Nat;
use super::why::Why;
use crate::{Flow, Memory};

/// The input of the subscribers; all others are the world's.
pub(super) const FROM_INSIDE: u8 = 0;
/// Outputs, in the order of their names.
pub(super) const TO_OUTSIDE: u8 = 0;
pub(super) const TO_INSIDE: u8 = 1;

/// What was looked up of a packet with its burst.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// From outside: the endpoint inside, or 0.
    pub(super) inside: u64,
    pub(super) session: Option<Flow>,
}

/// Packets that were translated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Translated {
    pub(super) outbound: u64,
    pub(super) inbound: u64,
    pub(super) hairpinned: u64,
    pub(super) icmp_errors: u64,
    pub(super) later_fragments: u64,
    pub(super) untranslated: u64,
}

/// All that packets meet.
#[derive(Debug)]
pub(super) struct Path<M> {
    pub(super) nat: Nat<M>,
    pub(super) fragments: Fragments,
    pub(super) translated: Translated,
}

/// How a packet came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) found: Found,
    pub(super) input: u8,
    /// Whether its checksum is left to a network card.
    pub(super) is_open: bool,
    pub(super) now: Nanos,
}

/// An endpoint of the world; of ICMP without a port.
fn remote(end: Endpoint) -> Endpoint {
    match Protocol(end.protocol) {
        Protocol::ICMP => end.any_port(),
        _ => end,
    }
}

impl<M: Memory> Path<M> {
    /// Which pair of endpoints is to be looked up for a packet: of one from inside its session, of
    /// one from outside the endpoint outside alone. Zeros for one of which nothing is looked up.
    pub(super) fn key(&self, arrival: &Arrival, input: u8) -> [u64; 2] {
        let Arrival::Packet(seen) = arrival else {
            return [0; 2];
        };
        let Kind::Ends {
            src_port, dst_port, ..
        } = seen.kind
        else {
            return [0; 2];
        };
        let [src, dst] = seen.ends(src_port, dst_port);
        match input {
            FROM_INSIDE => [src.word(), remote(dst).word()],
            _ => [dst.word(), remote(src).word()],
        }
    }

    /// Rewrites a packet; gives the output by which it leaves, or why it does not.
    pub(super) fn translate(
        &mut self,
        frame: &mut [u8],
        arrival: &Arrival,
        step: Step,
    ) -> Result<u8, Why> {
        let input = step.input;
        let seen = match arrival {
            Arrival::Malformed => return Err(Why::Malformed),
            Arrival::Other if input == FROM_INSIDE => return Ok(TO_OUTSIDE),
            Arrival::Other => return Ok(TO_INSIDE),
            Arrival::Packet(seen) => seen,
        };
        let course = match (seen.kind, input) {
            (Kind::Later, _) => self.later(frame, seen, step)?,
            (_, FROM_INSIDE) => self.outbound(frame, seen, step)?,
            _ => self.inbound(frame, seen, step)?,
        };
        if seen.is_first {
            self.fragments.note(seen, input, course, step.now.0)?;
        }
        if course.turns_back {
            // Whoever sent it from inside is whoever knows the way to the other one.
            swap_macs(frame);
        }
        Ok(course.output)
    }

    /// A packet that is to be translated neither way.
    fn untranslated(&mut self, seen: &Seen, output: u8, why: Why) -> Result<Course, Why> {
        if self.nat.settings.untranslated == Untranslated::Drop {
            return Err(why);
        }
        self.translated.untranslated += 1;
        Ok(Course {
            src: seen.src,
            dst: seen.dst,
            output,
            turns_back: false,
        })
    }

    fn later(&mut self, frame: &mut [u8], seen: &Seen, step: Step) -> Result<Course, Why> {
        let course = self.fragments.course(seen, step.input)?;
        set_address(frame, seen.l3, Side::Src, course.src);
        set_address(frame, seen.l3, Side::Dst, course.dst);
        self.translated.later_fragments += 1;
        Ok(course)
    }

    fn outbound(&mut self, frame: &mut [u8], seen: &Seen, step: Step) -> Result<Course, Why> {
        if !self.nat.settings.is_inside(seen.src) {
            return self.untranslated(seen, TO_OUTSIDE, Why::NotInside);
        }
        match seen.kind {
            Kind::Ends {
                src_port, dst_port, ..
            } => self.ends_from_inside(frame, (seen, step), seen.ends(src_port, dst_port)),
            Kind::Error => self.error_from_inside(frame, seen),
            Kind::OtherIcmp => Err(Why::IcmpType),
            Kind::OtherProtocol | Kind::Later => Err(Why::Protocol),
        }
    }

    fn ends_from_inside(
        &mut self,
        frame: &mut [u8],
        (seen, step): (&Seen, Step),
        [src, dst]: [Endpoint; 2],
    ) -> Result<Course, Why> {
        let (now_ns, flags, is_open) = (step.now.0, flags(seen), step.is_open);
        let pair = [src, remote(dst)];
        let outside = self.nat.outbound(step.found.session, pair, flags, now_ns)?;
        let old = set_address(frame, seen.l3, Side::Src, outside.address);
        set_port(frame, seen.l4, Side::Src, (old, outside), is_open);
        if !self.nat.pool.has(seen.dst) {
            self.translated.outbound += 1;
            return Ok(Course {
                src: outside.address,
                dst: seen.dst,
                output: TO_OUTSIDE,
                turns_back: false,
            });
        }
        let inside = self.nat.inside_of(dst).ok_or(Why::NoMapping)?;
        let pair = [inside, remote(outside)];
        self.nat.inbound(None, pair, flags, now_ns)?;
        let old = set_address(frame, seen.l3, Side::Dst, inside.address);
        set_port(frame, seen.l4, Side::Dst, (old, inside), is_open);
        self.translated.hairpinned += 1;
        Ok(Course {
            src: outside.address,
            dst: inside.address,
            output: TO_INSIDE,
            turns_back: true,
        })
    }

    /// About a packet that came to an endpoint inside. Whoever says it is told to the world as that
    /// endpoint's address outside.
    fn error_from_inside(&mut self, frame: &mut [u8], seen: &Seen) -> Result<Course, Why> {
        let subject = Subject::of(frame, seen).ok_or(Why::IcmpType)?;
        let outside = self.nat.outside_of(subject.dst).ok_or(Why::NoMapping)?;
        subject.rewrite(frame, seen, Side::Dst, outside);
        set_address(frame, seen.l3, Side::Src, outside.address);
        self.translated.icmp_errors += 1;
        let mut course = Course {
            src: outside.address,
            dst: seen.dst,
            output: TO_OUTSIDE,
            turns_back: false,
        };
        if self.nat.pool.has(seen.dst) {
            let inside = self.nat.inside_of(subject.src).ok_or(Why::NoMapping)?;
            subject.rewrite(frame, seen, Side::Src, inside);
            set_address(frame, seen.l3, Side::Dst, inside.address);
            course.dst = inside.address;
            (course.output, course.turns_back) = (TO_INSIDE, true);
        }
        Ok(course)
    }

    fn inbound(&mut self, frame: &mut [u8], seen: &Seen, step: Step) -> Result<Course, Why> {
        if !self.nat.pool.has(seen.dst) {
            return self.untranslated(seen, TO_INSIDE, Why::NotOutside);
        }
        let inside = match seen.kind {
            Kind::Ends {
                src_port, dst_port, ..
            } => {
                let [src, dst] = seen.ends(src_port, dst_port);
                let known = (step.found.inside != 0).then_some(step.found.inside);
                let inside = known.map(Endpoint::of_word);
                let inside = inside.or_else(|| self.nat.inside_of(dst));
                let inside = inside.ok_or(Why::NoMapping)?;
                let pair = [inside, remote(src)];
                let session = step.found.session;
                self.nat.inbound(session, pair, flags(seen), step.now.0)?;
                let old = set_address(frame, seen.l3, Side::Dst, inside.address);
                set_port(frame, seen.l4, Side::Dst, (old, inside), step.is_open);
                inside
            }
            Kind::Error => self.error_from_outside(frame, seen)?,
            Kind::OtherIcmp => return Err(Why::IcmpType),
            Kind::OtherProtocol | Kind::Later => return Err(Why::Protocol),
        };
        self.translated.inbound += 1;
        Ok(Course {
            src: seen.src,
            dst: inside.address,
            output: TO_INSIDE,
            turns_back: false,
        })
    }

    /// About a packet that left, of a session that is still there; gives who sent it.
    fn error_from_outside(&mut self, frame: &mut [u8], seen: &Seen) -> Result<Endpoint, Why> {
        let subject = Subject::of(frame, seen).ok_or(Why::IcmpType)?;
        let inside = self.nat.inside_of(subject.src).ok_or(Why::NoMapping)?;
        if !self.nat.has_session(inside, remote(subject.dst)) {
            return Err(Why::NoMapping);
        }
        subject.rewrite(frame, seen, Side::Src, inside);
        set_address(frame, seen.l3, Side::Dst, inside.address);
        self.translated.icmp_errors += 1;
        Ok(inside)
    }
}

fn flags(seen: &Seen) -> Option<catena_wire::tcp::Flags> {
    match seen.kind {
        Kind::Ends { flags, .. } => flags,
        _ => None,
    }
}

fn swap_macs(frame: &mut [u8]) {
    if let Some([dst, src]) = frame.as_chunks_mut::<6>().0.get_mut(..2) {
        std::mem::swap(dst, src);
    }
}
