//! Packets of any lengths, cut into pieces anywhere, arrive as they were sent; lies end the
//! connection; no buffer is lost whatever comes.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use proptest::prelude::*;

use super::*;
use crate::chain::{Overflow, Trust};
use crate::link::tcp::{News, TcpRx, TcpTx};
use crate::link::testing;
use crate::load::Load;
use crate::nf::Nanos;
use crate::port::{Port, RxBurst, TxBurst};
use crate::protocol::{Bind, RingSpec};

const LEN_MAX: usize = 16_384 - 64;

fn pools() -> Pools {
    let owner = |id, log2_stride, buffer_count| {
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom: 64,
            bundles: false,
        };
        PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
    };
    Pools::new(vec![owner(1, 7, 64), owner(2, 11, 64), owner(3, 14, 64)])
}

fn free_count(pools: &Pools) -> u32 {
    pools.own().iter().map(PoolOwner::free_count).sum()
}

/// A connection that takes and gives as many bytes at a time as a script says; 0 is "not now".
#[derive(Debug, Default)]
struct Pipe {
    bytes: Mutex<VecDeque<u8>>,
    script: Mutex<VecDeque<usize>>,
    has_ended: bool,
}

impl Pipe {
    fn next(&self, wanted: usize) -> Result<usize, Errno> {
        match self.script.lock().unwrap().pop_front() {
            Some(0) => Err(Errno::AGAIN),
            Some(count) => Ok(count.min(wanted)),
            None => Ok(wanted),
        }
    }
}

impl Conduit for &Pipe {
    fn send(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let count = self.next(all.len())?;
        self.bytes.lock().unwrap().extend(&all[..count]);
        Ok(count)
    }

    fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.is_empty() {
            return if self.has_ended {
                Ok(0)
            } else {
                Err(Errno::AGAIN)
            };
        }
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let count = self.next(room)?.min(bytes.len());
        let slots = parts.iter_mut().flat_map(|part| part.iter_mut());
        for (slot, byte) in slots.zip(bytes.drain(..count)) {
            *slot = byte;
        }
        Ok(count)
    }
}

const NOW: Nanos = Nanos(0);

type Plug<'a> = Sender<News<&'a Pipe>>;

/// A sending port whose next packet has index `start`, and what tells it of connections.
fn sender<'a>(overflow: Overflow, start: u64) -> (TcpTx<&'a Pipe>, Plug<'a>) {
    let (plug, news) = channel();
    (TcpTx::new(&spec(overflow), start, news), plug)
}

/// A receiving port that expects the packet of index `start`.
fn receiver<'a>(start: u64) -> (TcpRx<&'a Pipe>, Plug<'a>) {
    let (plug, news) = channel();
    (TcpRx::new(start, LEN_MAX, news), plug)
}

/// Sends packets; gives how many were not.
fn send(tx: &mut TcpTx<&Pipe>, packets: Vec<Packet>, pools: &mut Pools) -> usize {
    let count = packets.len();
    let mut load = Load::default();
    load.packets.extend(packets);
    let sent = tx.tx(&mut TxBurst::new(&mut load, pools), NOW);
    load.release(pools);
    count - sent
}

/// Receives up to `room` packets behind those that are there; gives how many were lost.
fn receive(
    rx: &mut TcpRx<&Pipe>,
    room: usize,
    pools: &mut Pools,
    packets: &mut Vec<Packet>,
) -> u64 {
    let mut drops = [0; DropReason::COUNT];
    let limit = packets.len() + room;
    rx.rx(&mut RxBurst::new(pools, packets, limit, &mut drops), NOW);
    drops[DropReason::LinkLost.index()]
}

fn counted(port: &impl Port, name: &str) -> u64 {
    let report = port.report();
    report.iter().find(|(here, _)| *here == name).unwrap().1
}

fn spec(overflow: Overflow) -> RingSpec {
    RingSpec {
        link: 3,
        staging_bytes: 1 << 20,
        trust: Trust::Copy,
        overflow,
        tcp: Some(Bind::Loopback),
        ..testing::spec(0)
    }
}

/// The packet with number `number`: its bytes and its tag tell.
fn contents(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at * 7) as u8).collect()
}

/// Mostly runs of one length, as chunks have, and some that differ.
fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![Just(60), Just(1500), Just(9000), Just(LEN_MAX), 1..LEN_MAX];
    let run = (len, 1_usize..6).prop_map(|(len, count)| vec![len; count]);
    prop::collection::vec(run, 1..10).prop_map(|runs| runs.concat())
}

fn script() -> impl Strategy<Value = Vec<usize>> {
    let step = prop_oneof![Just(0), 1_usize..20, 1_usize..2000, 1_usize..100_000];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Sent by one side in bursts and taken by the other in bursts, every packet arrives once, in
    /// order, whatever either socket takes or gives at a time, and every buffer comes home.
    #[test]
    fn packets_arrive_as_they_were_sent(
        lengths in lengths(),
        bursts in prop::collection::vec(1_usize..9, 1..8),
        sends in script(),
        receives in script(),
        start in 0_u64..1000,
    ) {
        let (mut ours, mut theirs) = (pools(), pools());
        let (before, theirs_before) = (free_count(&ours), free_count(&theirs));
        let pipe = Pipe::default();
        let (mut tx, plug) = sender(Overflow::Block, start);
        let (mut rx, socket) = receiver(start);
        plug.send(News::Connected(&pipe)).unwrap();
        socket.send(News::Connected(&pipe)).unwrap();
        let mut sizes = bursts.iter().cycle();
        let (mut sent, mut taken, mut rounds) = (0, 0, 0);
        while taken < lengths.len() {
            rounds += 1;
            prop_assert!(rounds < 1000, "stuck at {taken} of {sent}");
            if sent < lengths.len() && rounds % 2 == 0 {
                *pipe.script.lock().unwrap() = sends.iter().copied().collect();
                let wanted = (*sizes.next().unwrap()).min(lengths.len() - sent);
                let room = tx.tx_room(NOW).min(wanted);
                let mut packets = Vec::new();
                for (number, &len) in lengths.iter().enumerate().skip(sent).take(room) {
                    // Room to grow now and then.
                    let more = (number % 3) * 300;
                    let mut packet = ours.alloc((len + more).min(LEN_MAX)).unwrap();
                    packet.set_len(len).unwrap();
                    packet.bytes_mut().copy_from_slice(&contents(number, len));
                    packet.set_tag(number as u16);
                    packets.push(packet);
                }
                prop_assert_eq!(send(&mut tx, packets, &mut ours), 0);
                sent += room;
            }
            *pipe.script.lock().unwrap() = VecDeque::new();
            tx.tx_room(NOW);
            *pipe.script.lock().unwrap() = receives.iter().copied().collect();
            let mut packets = Vec::new();
            let room = *sizes.next().unwrap();
            let mut lost = receive(&mut rx, room, &mut theirs, &mut packets);
            let room = room - packets.len();
            // The script begins anew in each round: past a "not now" it comes only without.
            *pipe.script.lock().unwrap() = VecDeque::new();
            lost += receive(&mut rx, room, &mut theirs, &mut packets);
            prop_assert_eq!(lost, 0);
            for packet in packets {
                prop_assert_eq!(packet.tag() as usize, taken);
                prop_assert_eq!(packet.bytes(), &contents(taken, lengths[taken])[..]);
                let more = (taken % 3 * 300).min(LEN_MAX - lengths[taken]);
                prop_assert!(packet.tailroom() >= more, "its room is lost");
                theirs.free(packet);
                taken += 1;
            }
        }
        prop_assert_eq!(free_count(&ours), before);
        prop_assert_eq!(free_count(&theirs), theirs_before);
    }

    /// A connection that breaks after any number of bytes loses exactly what had not arrived whole,
    /// and the count says so.
    #[test]
    fn what_a_broken_connection_held_is_counted(
        lengths in lengths(),
        begun in script(),
        cut in 0_usize..60_000,
    ) {
        let (mut ours, mut theirs) = (pools(), pools());
        let theirs_before = free_count(&theirs);
        let first = Pipe { has_ended: true, ..Pipe::default() };
        let second = Pipe::default();
        let (mut tx, plug) = sender(Overflow::Block, 0);
        let (mut rx, socket) = receiver(0);
        plug.send(News::Connected(&first)).unwrap();
        tx.tx_room(NOW);
        *first.script.lock().unwrap() = begun.iter().copied().collect();
        let mut fill = |tx: &mut TcpTx<&Pipe>, number: usize, len: usize| {
            let mut packet = ours.alloc(len).unwrap();
            packet.bytes_mut().copy_from_slice(&contents(number, len));
            packet.set_tag(number as u16);
            send(tx, vec![packet], &mut ours)
        };
        for (number, len) in lengths.iter().enumerate() {
            prop_assert_eq!(fill(&mut tx, number, *len), 0);
        }
        *first.script.lock().unwrap() = VecDeque::new();
        first.bytes.lock().unwrap().truncate(cut);
        socket.send(News::Connected(&first)).unwrap();
        plug.send(News::Connected(&second)).unwrap();
        tx.tx_room(NOW);
        socket.send(News::Connected(&second)).unwrap();
        prop_assert_eq!(fill(&mut tx, lengths.len(), 100), 0);
        tx.tx_room(NOW);
        let mut packets = Vec::new();
        let lost = receive(&mut rx, 1000, &mut theirs, &mut packets);
        let arrived: Vec<u16> = packets.iter().map(Packet::tag).collect();
        prop_assert!(arrived.is_sorted());
        prop_assert_eq!(arrived.last().copied(), Some(lengths.len() as u16));
        prop_assert_eq!(arrived.len() as u64 + lost, lengths.len() as u64 + 1);
        prop_assert_eq!(counted(&rx, "discarded"), lost);
        for packet in packets {
            theirs.free(packet);
        }
        prop_assert_eq!(free_count(&theirs), theirs_before);
    }

    /// Any bytes: no panic, no buffer lost, and nothing longer than a packet may be.
    #[test]
    fn a_hostile_sender_ends_its_connection(
        mut bytes in prop::collection::vec(any::<u8>(), 0..5000),
        small_lengths in any::<bool>(),
        receives in script(),
    ) {
        if small_lengths {
            for at in (8..bytes.len().saturating_sub(HEADER_BYTES)).step_by(97) {
                bytes[at + 1..at + 4].fill(0);
            }
        }
        let mut theirs = pools();
        let before = free_count(&theirs);
        let pipe = Pipe {
            bytes: Mutex::new(bytes.into()),
            script: Mutex::new(receives.into()),
            has_ended: true,
        };
        let (mut rx, socket) = receiver(0);
        socket.send(News::Connected(&pipe)).unwrap();
        for _ in 0..200 {
            let mut packets = Vec::new();
            receive(&mut rx, 64, &mut theirs, &mut packets);
            theirs.free_all(packets.into_iter());
        }
        prop_assert!(!rx.is_connected());
        prop_assert_eq!(free_count(&theirs), before);
    }
}

#[test]
fn a_length_beyond_the_largest_packet_is_a_violation() {
    let mut theirs = pools();
    let pipe = Pipe::default();
    pipe.bytes.lock().unwrap().extend(0_u64.to_le_bytes());
    let header = Header {
        len: LEN_MAX as u32 + 1,
        ..Header::default()
    };
    pipe.bytes.lock().unwrap().extend(header.bytes());
    let (mut rx, socket) = receiver(0);
    socket.send(News::Connected(&pipe)).unwrap();
    let mut packets = Vec::new();
    receive(&mut rx, 64, &mut theirs, &mut packets);
    assert_eq!((packets.len(), counted(&rx, "violations")), (0, 1));
    assert!(!rx.is_connected());
}

#[test]
fn an_index_that_nobody_can_have_reached_is_a_violation() {
    let mut theirs = pools();
    let pipe = Pipe::default();
    pipe.bytes.lock().unwrap().extend(u64::MAX.to_le_bytes());
    let (mut rx, socket) = receiver(5);
    socket.send(News::Connected(&pipe)).unwrap();
    let lost = receive(&mut rx, 64, &mut theirs, &mut Vec::new());
    assert_eq!((lost, counted(&rx, "violations")), (0, 1));
    assert_eq!(counted(&rx, "discarded"), 0);
    assert!(!rx.is_connected());
}

/// A receiver that stops reading: a link that blocks has no room, one that drops says so, and both
/// go on when it reads again.
#[test]
fn a_slow_receiver_presses_back() {
    for (overflow, lost) in [(Overflow::Block, 0), (Overflow::DropTail, 1)] {
        let mut ours = pools();
        let pipe = Pipe::default();
        let (mut tx, plug) = sender(overflow, 0);
        plug.send(News::Connected(&pipe)).unwrap();
        assert!(tx.tx_room(NOW) >= 64);
        let mut send = |tx: &mut TcpTx<&Pipe>| {
            let packet = ours.alloc(1000).unwrap();
            send(tx, vec![packet], &mut ours)
        };
        *pipe.script.lock().unwrap() = VecDeque::from([500, 0, 0, 0, 0]);
        assert_eq!(send(&mut tx), 0, "a part of it is sent");
        assert_eq!(send(&mut tx), lost);
        if overflow == Overflow::Block {
            assert_eq!(tx.tx_room(NOW), 0);
            assert_eq!(counted(&tx, "blocked"), 1);
        }
        *pipe.script.lock().unwrap() = VecDeque::new();
        assert!(tx.tx_room(NOW) >= 64);
        assert_eq!(send(&mut tx), 0);
        let sent = 8 + (3 - lost) * (1000 + HEADER_BYTES);
        assert_eq!(pipe.bytes.lock().unwrap().len(), sent);
    }
}
