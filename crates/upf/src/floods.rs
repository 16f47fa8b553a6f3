//! Floods: echoes, unknown tunnels, nodes, sessions, SEIDs. Memory stays as it is, what cannot be
//! done is counted, and a session that is served goes on to be.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use catena_wire::gtpu;
use catena_wire::pfcp::value::address::NodeId;
use catena_wire::pfcp::value::{Seconds, Time};
use catena_wire::pfcp::{Cause, Header, MessageType, PORT, View, Writer, key};

use crate::association::ASSOCIATION_COUNT;
use crate::decision::Decision;
use crate::headers::Tunnel;
use crate::node::message;
use crate::public_failures::{SESSIONS, SMF, Smf, new, nothing};
use crate::served::{GNB, N3, Served};
use crate::smf::wire;
use crate::transactions::{ANSWER_COUNT_MAX, PENDING_COUNT_MAX, Peer};
use crate::tunnel::{SIGNAL_COUNT_MAX, written};
use crate::upf::{OUTBOX_COUNT_MAX, Upf};

/// More than any limit.
const FLOOD: u32 = 20_000;

const N4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 4, 0, 1));

fn echo() -> Vec<u8> {
    let header = gtpu::Header::new(gtpu::MessageType::ECHO_REQUEST, 0, Some(1));
    wire::datagram(GNB, N3, &written(header, &[]))
}

/// A request of the SMF's, in its frame: to a session, or of a node that wants an association.
fn request(sequence: u32, seid: Option<u64>) -> Vec<u8> {
    let kind = match seid {
        Some(_) => MessageType::SESSION_MODIFICATION_REQUEST,
        None => MessageType::ASSOCIATION_SETUP_REQUEST,
    };
    let header = Header::new(kind, seid, sequence);
    let message = message(&header, |writer| match seid {
        Some(_) => Ok(()),
        None => {
            writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::from_bits(sequence)))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        }
    });
    wire::datagram((SMF.address, SMF.port), (N4, PORT), &message.unwrap())
}

/// A packet of zeros that the gNB sends into a tunnel.
pub(crate) fn in_tunnel(teid: u32) -> Vec<u8> {
    let tunnel = Tunnel::uplink(teid, None);
    let mut message = vec![0; tunnel.len() + 20];
    tunnel.emit(&mut message, gtpu::MessageType::G_PDU, 20);
    wire::datagram(GNB, N3, &message)
}

fn ask(
    upf: &mut Upf,
    from: Peer,
    sequence: u32,
    (message_type, seid): (MessageType, Option<u64>),
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), catena_wire::pfcp::Full>,
) {
    let header = Header::new(message_type, seid, sequence);
    upf.datagram(&message(&header, fill).unwrap(), from, 0);
}

fn causes(upf: &mut Upf) -> Vec<Cause> {
    let answers = std::iter::from_fn(|| upf.next_message());
    let cause = |bytes: Vec<u8>| View::parse(&bytes[..]).unwrap().ies().require(key::CAUSE);
    answers.map(|answer| cause(answer.bytes).unwrap()).collect()
}

#[test]
fn echoes_wait_up_to_a_limit_and_the_rest_are_counted() {
    let mut upf = new(None);
    let mut signals = VecDeque::new();
    let frame = echo();
    for _ in 0..FLOOD {
        upf.look(&frame, &mut signals, 0);
    }
    assert_eq!(signals.len(), SIGNAL_COUNT_MAX);
    assert_eq!(upf.counters().echoes, u64::from(FLOOD));
    assert_eq!(
        upf.counters().unsent,
        u64::from(FLOOD) - SIGNAL_COUNT_MAX as u64
    );
}

/// OAI #32 and open5gs #4492 in one: no state and few answers for tunnels that nobody has.
#[test]
fn unknown_tunnels_get_so_many_answers_per_second_and_no_memory() {
    let mut upf = new(None);
    let mut signals = VecDeque::new();
    for second in 0..3u64 {
        for teid in 1..=FLOOD {
            upf.look(&in_tunnel(teid), &mut signals, second * 1_000_000_000);
        }
    }
    let told = upf.counters().error_indications;
    assert!((100..=3 * 100 + 100).contains(&told), "{told}");
    assert_eq!(signals.len() as u64, told);
    assert_eq!(upf.index.len(), 0);
}

fn served() -> Served {
    let mut smf = Smf::new();
    let said = smf.establish(nothing, nothing);
    Served::of(smf, said)
}

/// What its UE sends.
fn user(served: &Served) -> Vec<u8> {
    let host = Ipv4Addr::new(203, 0, 113, 9);
    let frame = wire::datagram((served.ue.into(), 7), (host.into(), 7), &[]);
    frame[catena_wire::ethernet::HEADER_LEN..].to_vec()
}

/// Whoever floods with echoes, unknown tunnels, SEIDs and nodes takes no packet from a session, and
/// none waits.
#[test]
fn a_session_is_served_while_strangers_flood() {
    let mut served = served();
    let own = served.uplink(&user(&served));
    for at in 0..FLOOD {
        let now_ns = u64::from(at) * 10_000;
        let unknown = in_tunnel(served.teid.wrapping_add(at + 1));
        assert!(!matches!(served.pass(&unknown, now_ns), Decision::Send(_)));
        let seid = Some(u64::from(at) + 1000);
        for frame in [&echo(), &request(2 * at, seid), &request(2 * at + 1, None)] {
            assert_eq!(served.pass(frame, now_ns), Decision::Consumed);
        }
        assert!(served.signals.len() <= SIGNAL_COUNT_MAX);
        assert_eq!(served.pass(&own, now_ns), Decision::Send(1), "{at}");
    }
    assert_eq!(served.sent(), u64::from(FLOOD));
    let upf = &served.smf.upf;
    assert_eq!(upf.index.len(), 2, "the session's keys alone");
    assert_eq!(upf.transactions.kept(), ANSWER_COUNT_MAX);
    assert_eq!(upf.outbox.len(), OUTBOX_COUNT_MAX);
    assert!(upf.counters().messages >= 2 * u64::from(FLOOD));
}

/// A UPF that stops after 15 to 20 days, and says nothing: 50 days, which is also longer than
/// milliseconds have room for in 32 bits, with a packet each minute.
#[test]
fn omec_bess_38_packets_pass_after_weeks() {
    const MINUTE_NS: u64 = 60_000_000_000;
    let mut served = served();
    let own = served.uplink(&user(&served));
    let minutes = 50 * 24 * 60;
    for minute in 1..=minutes {
        let now_ns = minute * MINUTE_NS;
        served.smf.upf.wake(now_ns);
        assert_eq!(served.pass(&own, now_ns), Decision::Send(1), "{minute}");
    }
    assert_eq!((served.sent(), served.signals.len()), (minutes, 0));
}

#[test]
fn nodes_beyond_the_limit_are_refused_and_those_that_are_there_stay() {
    let mut upf = new(None);
    let set_up = |upf: &mut Upf, node: u32| {
        let name = NodeId::V4(Ipv4Addr::from_bits(0x0a04_0000 + node));
        let kind = (MessageType::ASSOCIATION_SETUP_REQUEST, None);
        ask(upf, SMF, node, kind, |writer| {
            writer.put(key::NODE_ID, &name)?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        });
        causes(upf)
    };
    for node in 0..500 {
        let wanted = match (node as usize) < ASSOCIATION_COUNT {
            true => Cause::REQUEST_ACCEPTED,
            false => Cause::NO_RESOURCES_AVAILABLE,
        };
        assert_eq!(set_up(&mut upf, node), [wanted], "{node}");
    }
    let last = upf.store.association(ASSOCIATION_COUNT - 1);
    assert!(last.is_some());
}

#[test]
fn requests_for_seids_that_nobody_has_leave_a_bounded_number_of_answers() {
    let mut smf = Smf::new();
    for sequence in 1..=FLOOD {
        let kind = (
            MessageType::SESSION_MODIFICATION_REQUEST,
            Some(sequence.into()),
        );
        let from = Peer {
            port: PORT + (sequence % 7) as u16,
            ..SMF
        };
        ask(&mut smf.upf, from, sequence + 1000, kind, |_| Ok(()));
    }
    let upf = &mut smf.upf;
    assert_eq!(upf.transactions.kept(), ANSWER_COUNT_MAX);
    assert_eq!(upf.outbox.len(), OUTBOX_COUNT_MAX);
    let lost = u64::from(FLOOD) - OUTBOX_COUNT_MAX as u64;
    assert_eq!(upf.counters().unsent, lost);
    let all_unknown = |cause: &Cause| *cause == Cause::SESSION_CONTEXT_NOT_FOUND;
    assert!(causes(upf).iter().all(all_unknown));
    smf.assert_empty();
}

/// An idle network: more sessions have something to say at once than requests may be outstanding.
#[test]
fn reports_beyond_those_outstanding_wait_until_others_are_answered() {
    const IDLE: u32 = 3000;
    const IDLE_NS: u64 = 10_000_000_000;
    let mut smf = Smf::with_room(IDLE);
    for _ in 0..IDLE {
        let idle = |writer: &mut Writer<'_>| {
            let after = Seconds(10);
            writer.put(key::USER_PLANE_INACTIVITY_TIMER, &after)
        };
        let (cause, ..) = smf.establish(|_| Ok(()), idle);
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    }
    let upf = &mut smf.upf;
    upf.wake(IDLE_NS);
    assert_eq!(upf.counters().reports, PENDING_COUNT_MAX as u64);
    let mut told = 0;
    while let Some(request) = upf.next_message() {
        let header = *View::parse(&request.bytes[..]).unwrap().header();
        assert_eq!(header.message_type, MessageType::SESSION_REPORT_REQUEST);
        told += 1;
        let header = Header {
            message_type: MessageType::SESSION_REPORT_RESPONSE,
            seid: Some(told),
            ..header
        };
        let answer = message(&header, |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)
        });
        upf.datagram(&answer.unwrap(), SMF, IDLE_NS);
    }
    assert_eq!((told, upf.counters().unsent), (IDLE.into(), 0));
    assert_eq!(upf.transactions.pending(), 0);
}

/// What waits to be said of a session that is gone, or has a user again, is not said.
#[test]
fn a_report_that_waits_is_forgotten_once_it_is_wrong() {
    const IDLE_NS: u64 = 10_000_000_000;
    let room = PENDING_COUNT_MAX as u32;
    let mut smf = Smf::with_room(room + 3);
    for _ in 0..room + 3 {
        let idle = |writer: &mut Writer<'_>| {
            let after = Seconds(10);
            writer.put(key::USER_PLANE_INACTIVITY_TIMER, &after)
        };
        smf.establish(|_| Ok(()), idle);
    }
    let upf = &mut smf.upf;
    upf.wake(IDLE_NS);
    let waiting: Vec<u64> = upf.unreported.iter().map(|(seid, _)| *seid).collect();
    assert_eq!(waiting.len(), 3);
    let slots = [waiting[0], waiting[1]].map(|seid| upf.store.slot_of(seid).unwrap());
    upf.end_session(slots[0], IDLE_NS);
    let mut image = upf.store.image(slots[1]).unwrap();
    let head = crate::rules::Head {
        is_inactive: false,
        ..image.head()
    };
    image.set_head(&head);
    // Nobody answers: after N1 times T1 there is room again.
    let mut told = BTreeSet::new();
    for second in 1..20 {
        upf.wake(IDLE_NS + second * 1_000_000_000);
        while let Some(request) = upf.next_message() {
            told.insert(View::parse(&request.bytes[..]).unwrap().header().sequence);
        }
    }
    assert_eq!(told.len(), PENDING_COUNT_MAX + 1);
}

#[test]
fn sessions_beyond_the_limit_are_refused_and_take_no_address() {
    let mut smf = Smf::new();
    let nothing = |_: &mut Writer<'_>| Ok(());
    for session in 0..1000 {
        let (cause, ..) = smf.establish(nothing, nothing);
        let wanted = match session < SESSIONS {
            true => Cause::REQUEST_ACCEPTED,
            false => Cause::NO_RESOURCES_AVAILABLE,
        };
        assert_eq!(cause, wanted, "{session}");
    }
    assert_eq!(smf.upf.session_count(), SESSIONS);
    let used = smf.upf.pools[0].fill()[0].unwrap().0;
    assert_eq!(used, u64::from(SESSIONS));
}
