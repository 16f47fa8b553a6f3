//! The sending side of a link over TCP: a port to which the node beside it sends.
//!
//! A burst is one `sendmsg` of headers and packets where they lie. What the socket does not take is
//! copied, as whole records, into a backlog that nothing may overtake; while there is one, the link
//! has no room. It holds a burst of the largest packets.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rustix::io::Errno;

use super::conduit::Conduit;
use super::news::News;
use super::record::{HEADER_BYTES, Header, PREFACE_BYTES};
use crate::chain::link::Overflow;
use crate::drop_reason::DropReason;
use crate::link::counters::TxCounters;
use crate::nf::nanos::Nanos;
use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::port::{Port, RxBurst, RxState, TxBurst};
use crate::protocol::RingSpec;
use crate::stats::NodeCounters;

/// Packets that one system call sends: the usual burst.
const GROUP: usize = 64;

/// The sending side.
#[derive(Debug)]
pub struct TcpTx<S = Arc<OwnedFd>> {
    overflow: Overflow,
    news: Receiver<News<S>>,
    stream: Option<S>,
    /// Index of the next packet, of all that this link has ever sent.
    next: u64,
    backlog: Backlog,
    peer_down: bool,
    /// Turns in which it had no room.
    blocked: u64,
}

impl<S: Conduit> TcpTx<S> {
    /// The sending side of the link that `spec` describes, whose next packet has index `start`; not
    /// connected until `news` says so.
    pub fn new(spec: &RingSpec, start: u64, news: Receiver<News<S>>) -> Self {
        Self {
            overflow: spec.overflow,
            news,
            stream: None,
            next: start,
            backlog: Backlog::new(spec.staging_bytes as usize),
            peer_down: false,
            blocked: 0,
        }
    }

    /// Does what the control thread has said.
    fn hear(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Connected(stream) => self.reconnect(Some(stream)),
                News::Disconnected => self.reconnect(None),
                News::PeerDown => self.peer_down = true,
            }
        }
    }

    /// Another connection, or none any more. A packet of which a part had been sent is lost; those
    /// behind it go by the new one.
    fn reconnect(&mut self, stream: Option<S>) {
        self.backlog.forget_begun();
        self.stream = stream;
        let Some(stream) = &self.stream else { return };
        self.peer_down = false;
        let first = self.next - self.backlog.records;
        // An empty socket takes 8 bytes.
        match stream.send(&[IoSlice::new(&first.to_le_bytes())]) {
            Ok(PREFACE_BYTES) => self.flush(),
            _ => self.stream = None,
        }
    }

    /// Sends or keeps as many of `packets` as it can, from the first on.
    fn take(&mut self, packets: &[Packet]) -> usize {
        let mut taken = 0;
        if self.is_clear() {
            for group in packets.chunks(GROUP) {
                let sent = self.write(group);
                taken += sent;
                if sent < group.len() || self.backlog.records > 0 {
                    break;
                }
            }
        }
        if self.overflow == Overflow::Block {
            let rest = packets[taken..].iter();
            taken += rest.take_while(|packet| self.backlog.keep(packet)).count();
        }
        taken
    }

    /// Hands packets to the socket; gives how many it took, with one that it took a part of.
    fn write(&mut self, packets: &[Packet]) -> usize {
        let Some(stream) = &self.stream else { return 0 };
        let mut headers = [[0; HEADER_BYTES]; GROUP];
        for (header, packet) in headers.iter_mut().zip(packets) {
            *header = Header::of(packet).bytes();
        }
        let mut parts = [IoSlice::new(&[]); 2 * GROUP];
        for (pair, (header, packet)) in parts.chunks_mut(2).zip(headers.iter().zip(packets)) {
            pair[0] = IoSlice::new(header);
            pair[1] = IoSlice::new(packet.bytes());
        }
        match stream.send(&parts[..2 * packets.len()]) {
            Ok(mut sent) => {
                for (index, packet) in packets.iter().enumerate() {
                    let record = HEADER_BYTES + packet.len();
                    if sent < record {
                        if sent == 0 {
                            return index;
                        }
                        self.backlog.keep_begun(packet, sent);
                        return index + 1;
                    }
                    sent -= record;
                }
                packets.len()
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => 0,
            Err(_) => {
                self.stream = None;
                0
            }
        }
    }

    /// Whether the socket takes more, after it was given what waits.
    #[inline]
    fn is_clear(&mut self) -> bool {
        if self.backlog.records > 0 {
            self.flush();
        }
        self.backlog.records == 0 && self.stream.is_some()
    }

    fn flush(&mut self) {
        while let (Some(stream), Some(bytes)) = (&self.stream, self.backlog.front()) {
            match stream.send(&[IoSlice::new(bytes)]) {
                Ok(sent) => self.backlog.advance(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(_) => {
                    self.stream = None;
                    self.backlog.forget_begun();
                }
            }
        }
    }
}

impl<S: Conduit + Send> Port for TcpTx<S> {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let packets = burst.packets();
        let (taken, why) = if self.peer_down {
            (0, DropReason::NfDown)
        } else {
            (self.take(packets), DropReason::LinkFull)
        };
        self.next += taken as u64;
        burst.rest_is(why);
        taken
    }

    /// Anything, unless the link blocks and something waits.
    fn tx_room(&mut self, _now: Nanos) -> usize {
        self.hear();
        let is_clear = self.is_clear();
        if is_clear || self.peer_down || self.overflow != Overflow::Block {
            return usize::MAX;
        }
        self.blocked += 1;
        0
    }

    fn holds_packets(&self) -> bool {
        self.backlog.records > 0 && self.stream.is_some()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put(BLOCKED, self.blocked);
    }
}

const BLOCKED: &str = "blocked";

/// Names of what a sending port counts itself.
pub const TX_NAMES: [&str; 1] = [BLOCKED];

/// What the link has counted on the sending side, from what its port has.
pub fn tx_counters(port: &NodeCounters) -> TxCounters {
    TxCounters {
        packets: port.tx_packets,
        bytes: port.tx_bytes,
        blocked: port.own[0],
        ..TxCounters::default()
    }
}

/// Whole records that the socket has not taken yet, the first of them perhaps in part.
#[derive(Debug)]
struct Backlog {
    bytes: Vec<u8>,
    /// Most bytes.
    limit: usize,
    /// Where the first record starts.
    head: usize,
    /// Bytes of the first record that have been sent.
    begun: usize,
    records: u64,
}

impl Backlog {
    /// The memory is reserved, and taken up only if it is needed.
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(limit),
            limit,
            head: 0,
            begun: 0,
            records: 0,
        }
    }

    /// Keeps a packet, if there is room.
    fn keep(&mut self, packet: &Packet) -> bool {
        let fits = self.bytes.len() + HEADER_BYTES + packet.len() <= self.limit;
        if fits {
            self.push(packet);
        }
        fits
    }

    /// Keeps a packet of which `begun` bytes have been sent. Nothing else is here.
    fn keep_begun(&mut self, packet: &Packet, begun: usize) {
        debug_assert!(self.records == 0, "nothing may overtake");
        self.push(packet);
        self.begun = begun;
    }

    fn push(&mut self, packet: &Packet) {
        let header = Header::of(packet).bytes();
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(packet.bytes());
        self.records += 1;
    }

    /// What is to be sent next.
    fn front(&self) -> Option<&[u8]> {
        (self.records > 0).then(|| &self.bytes[self.head + self.begun..])
    }

    /// The socket has taken `count` bytes of it.
    fn advance(&mut self, count: usize) {
        self.begun += count;
        while self.records > 0 && self.begun >= self.first_len() {
            let len = self.first_len();
            self.begun -= len;
            self.drop_first(len);
        }
    }

    /// Length of the first record.
    fn first_len(&self) -> usize {
        HEADER_BYTES + Header::parse(&self.bytes[self.head..]).len as usize
    }

    fn drop_first(&mut self, len: usize) {
        self.head += len;
        self.records -= 1;
        if self.records == 0 {
            self.bytes.clear();
            self.head = 0;
        }
    }

    /// A record that was begun cannot be finished on another connection.
    fn forget_begun(&mut self) {
        if std::mem::take(&mut self.begun) > 0 {
            let len = self.first_len();
            self.drop_first(len);
        }
    }
}
