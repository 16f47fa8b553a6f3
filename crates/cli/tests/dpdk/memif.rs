//! A peer of memif that a test plays itself, calling or listening: it does all that the protocol
//! wants (`drivers/net/memif/memif.h` of DPDK), and lets the test write into rings and descriptors.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::net::SocketType;

use super::peer::{Memory, bell, call, has_news, listen_at, next_call, receive, send};
use super::*;

/// Of every message.
const MESSAGE_LEN: usize = 128;
/// Kinds of messages.
pub(crate) const ACK: u16 = 1;
const HELLO: u16 = 2;
pub(crate) const INIT: u16 = 3;
pub(crate) const ADD_REGION: u16 = 4;
pub(crate) const ADD_RING: u16 = 5;
pub(crate) const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const VERSION: u16 = 0x0200;
const COOKIE: u32 = 0x03e3_1f20;
/// Entries of a ring.
pub(crate) const LOG2_RING: u8 = 6;
pub(crate) const RING: u16 = 1 << LOG2_RING;
/// Bytes in front of a ring's descriptors, and of each of them.
const RING_HEADER: u64 = 128;
const DESC_LEN: u64 = 16;
const RING_LEN: u64 = RING_HEADER + RING as u64 * DESC_LEN;
const HEAD: u64 = 6;
const TAIL: u64 = 64;
/// Where packets lie, and how long they may be.
pub(crate) const BUFFERS: u32 = 4096;
const BUFFER_LEN: u32 = 2048;
/// The memory of a peer that calls.
pub(crate) const MEMORY_LEN: u64 = BUFFERS as u64 + 2 * RING as u64 * BUFFER_LEN as u64;
/// Another descriptor follows.
pub(crate) const NEXT: u16 = 1;

/// A descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desc {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) len: u32,
    pub(crate) offset: u32,
}

/// Which ring: what the peer that calls sends, or what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    FromCaller,
    ToCaller,
}

/// A message of that kind.
pub(crate) fn message(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(parts.concat());
    bytes.resize(MESSAGE_LEN, 0);
    bytes
}

/// The caller's word that a ring lies there.
pub(crate) fn add_ring(way: Way, index: u16, offset: u32, log2: u8) -> Vec<u8> {
    let flags = u16::from(way == Way::FromCaller).to_le_bytes();
    let (index, offset) = (index.to_le_bytes(), offset.to_le_bytes());
    message(ADD_RING, &[&flags, &index, &[0; 2], &offset, &[log2]])
}

/// The caller's word who it is.
pub(crate) fn init() -> Vec<u8> {
    message(INIT, &[&VERSION.to_le_bytes(), &0_u32.to_le_bytes(), &[0]])
}

/// The caller's word that its memory has that number and length.
pub(crate) fn add_region(index: u16, len: u64) -> Vec<u8> {
    message(ADD_REGION, &[&index.to_le_bytes(), &len.to_le_bytes()])
}

/// A conversation with somebody who listens, at its very beginning.
pub(crate) struct Call(OwnedFd);

impl Call {
    /// None while nobody listens.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let socket = call(path, SocketType::SEQPACKET)?;
        let (hello, _) = receive(&socket, MESSAGE_LEN)?;
        (hello[..2] == HELLO.to_le_bytes()).then_some(Self(socket))
    }

    /// Says something with a descriptor; the kind of the answer, none if the other one hangs up.
    pub(crate) fn say(&self, message: &[u8], with: &impl AsFd) -> Option<u16> {
        if !send(&self.0, message, &[with.as_fd()]) {
            return None;
        }
        let (answer, _) = receive(&self.0, MESSAGE_LEN)?;
        Some(u16::from_le_bytes([answer[0], answer[1]]))
    }
}

/// A peer that is connected.
pub(crate) struct Memif {
    socket: OwnedFd,
    pub(crate) memory: Memory,
    /// Where the rings of each queue lie: from the one that called, and to it.
    rings: Vec<[u64; 2]>,
    /// Which queue this side works on.
    pub(crate) queue: usize,
    is_caller: bool,
    _bells: Vec<OwnedFd>,
}

impl Memif {
    /// Calls, and gives memory; none if nobody listens, or does no longer.
    pub(crate) fn call(path: &Path, flags: EventfdFlags) -> Option<Self> {
        Self::call_by(path, flags, 1)
    }

    /// As [`Memif::call`], with several queues; all of them have the buffers of the first one.
    pub(crate) fn call_by(path: &Path, flags: EventfdFlags, queues: u16) -> Option<Self> {
        let call = Call::new(path)?;
        let len = MEMORY_LEN + u64::from(queues - 1) * 2 * RING_LEN;
        let memory = Memory::new(len);
        let place = |queue: u16| match queue {
            0 => [0, RING_LEN],
            _ => [0, 1].map(|way| MEMORY_LEN + (u64::from(queue - 1) * 2 + way) * RING_LEN),
        };
        let rings: Vec<_> = (0..queues).map(place).collect();
        for (at, offset) in rings.iter().flat_map(|rings| rings.iter().enumerate()) {
            memory.put(*offset, &COOKIE.to_le_bytes());
            for slot in 0..RING {
                let number = at as u64 * u64::from(RING) + u64::from(slot);
                let desc = Desc::at(u64::from(BUFFERS) + number * u64::from(BUFFER_LEN));
                memory.put(desc_at(*offset, slot), &desc.bytes());
            }
        }
        let bells: Vec<_> = (0..queues * 2).map(|_| bell(flags)).collect();
        let is = |answer: Option<u16>, kind| answer.filter(|answer| *answer == kind);
        is(call.say(&init(), &memory.fd()), ACK)?;
        is(call.say(&add_region(0, len), &memory.fd()), ACK)?;
        for queue in 0..queues {
            for (at, way) in [Way::FromCaller, Way::ToCaller].into_iter().enumerate() {
                let offset = u32::try_from(rings[usize::from(queue)][at]).unwrap();
                let bell = &bells[usize::from(queue) * 2 + at];
                is(
                    call.say(&add_ring(way, queue, offset, LOG2_RING), bell),
                    ACK,
                )?;
            }
        }
        is(
            call.say(&message(CONNECT, &[b"peer"]), &memory.fd()),
            CONNECTED,
        )?;
        Some(Self {
            socket: call.0,
            memory,
            rings,
            queue: 0,
            is_caller: true,
            _bells: bells,
        })
    }

    fn ring(&self, way: Way) -> u64 {
        self.rings[self.queue][usize::from(way == Way::ToCaller)]
    }

    /// The ring by which this side sends.
    pub(crate) fn sends_by(&self) -> Way {
        if self.is_caller {
            Way::FromCaller
        } else {
            Way::ToCaller
        }
    }

    /// The other one.
    pub(crate) fn receives_by(&self) -> Way {
        if self.is_caller {
            Way::ToCaller
        } else {
            Way::FromCaller
        }
    }

    /// Where a ring is written by whoever sends: the caller moves heads, the other one tails.
    fn written(&self, way: Way) -> u64 {
        self.ring(way) + if way == Way::FromCaller { HEAD } else { TAIL }
    }

    /// Writes all descriptors of a ring.
    pub(crate) fn describe(&self, way: Way, mut of: impl FnMut(u16, Desc) -> Desc) {
        for slot in 0..RING {
            let buffer = u64::from(slot) + u64::from(RING) * u64::from(way == Way::ToCaller);
            let honest = Desc::at(u64::from(BUFFERS) + buffer * u64::from(BUFFER_LEN));
            let at = desc_at(self.ring(way), slot);
            self.memory.put(at, &of(slot, honest).bytes());
        }
    }

    /// Clears the word by which a ring says that nobody wants to be woken.
    pub(crate) fn want_bells(&self) {
        for ring in self.rings.iter().flatten() {
            self.memory.put_u16(ring + 4, 0);
        }
    }
}

impl peer::Peer for Memif {
    fn is_alone(&self) -> bool {
        has_news(&self.socket)
    }

    fn describe_honestly(&self) {
        self.describe(self.sends_by(), |_, honest| honest);
    }

    fn advance(&self, by: u16) {
        let at = self.written(self.sends_by());
        self.memory
            .put_u16(at, self.memory.u16(at).wrapping_add(by));
    }

    fn came(&self) -> u16 {
        self.memory.u16(self.written(self.receives_by()))
    }

    fn take(&self) {
        let (ring, came) = (self.ring(self.receives_by()), self.came());
        if self.is_caller {
            self.memory.put_u16(ring + HEAD, came.wrapping_add(RING));
        } else {
            self.memory.put_u16(ring + TAIL, came);
        }
    }
}

impl Desc {
    fn at(offset: u64) -> Self {
        Self {
            flags: 0,
            region: 0,
            len: 64,
            offset: u32::try_from(offset).unwrap(),
        }
    }

    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&self.flags.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.region.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }
}

fn desc_at(ring: u64, slot: u16) -> u64 {
    ring + RING_HEADER + u64::from(slot) * DESC_LEN
}

/// Somebody who listens.
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn new(path: &Path) -> Self {
        Self(listen_at(path, SocketType::SEQPACKET))
    }

    /// Waits for a caller, and does with it what the protocol says.
    pub(crate) fn answer(&self) -> Option<Memif> {
        let socket = next_call(&self.0);
        // One region, and one ring each way.
        let version = VERSION.to_le_bytes();
        let hello = message(
            HELLO,
            &[
                &[0; 32],
                &version,
                &version,
                &[0; 2],
                &[0; 2],
                &[0; 2],
                &[LOG2_RING],
            ],
        );
        if !send(&socket, &hello, &[]) {
            return None;
        }
        let (mut memory, mut rings, mut bells) = (None, Vec::new(), Vec::new());
        loop {
            let (said, mut with) = receive(&socket, MESSAGE_LEN)?;
            match u16::from_le_bytes([said[0], said[1]]) {
                INIT => {}
                ADD_REGION => memory = Some(Memory::of(with.pop()?)),
                ADD_RING => {
                    rings.push(u64::from(u32::from_le_bytes(
                        said[8..12].try_into().unwrap(),
                    )));
                    bells.push(with.pop()?);
                }
                CONNECT => break,
                _ => return None,
            }
            send(&socket, &message(ACK, &[]), &[]);
        }
        send(&socket, &message(CONNECTED, &[b"peer"]), &[]);
        Some(Memif {
            socket,
            memory: memory?,
            rings: vec![rings.try_into().ok()?],
            queue: 0,
            is_caller: false,
            _bells: bells,
        })
    }
}
