//! A guest of vhost-user that a test plays itself: it does all that the protocol wants (QEMU's
//! `docs/interop/vhost-user.rst`, split rings of virtio 1.1 section 2.6), and lets the test write
//! into rings and descriptors.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::net::SocketType;

use super::peer::{Memory, Peer as _, bell, call, has_news, receive, send};
use super::*;

/// Requests.
const GET_FEATURES: u32 = 1;
pub(crate) const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
pub(crate) const SET_MEM_TABLE: u32 = 5;
pub(crate) const SET_VRING_NUM: u32 = 8;
pub(crate) const SET_VRING_ADDR: u32 = 9;
pub(crate) const SET_VRING_BASE: u32 = 10;
pub(crate) const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
/// `VIRTIO_F_VERSION_1`: packets have a header of twelve bytes.
const VERSION_1: u64 = 1 << 32;
const HEADER_LEN: u32 = 12;
/// Entries of a ring.
pub(crate) const RING: u16 = 64;
/// Where the guest's memory lies, as descriptors and as rings are told.
pub(crate) const PHYSICAL: u64 = 0x4000_0000;
pub(crate) const VIRTUAL: u64 = 0x10_0000_0000;
/// Of each ring: its descriptors, what the guest offers, what is used.
const RING_LEN: u64 = 0x2000;
const AVAIL: u64 = 0x800;
const USED: u64 = 0x1000;
pub(crate) const BUFFERS: u64 = 0x8000;
const BUFFER_LEN: u32 = 2048;
pub(crate) const MEMORY_LEN: u64 = BUFFERS + 2 * RING as u64 * BUFFER_LEN as u64;
/// Rings: what the guest receives, and what it sends.
pub(crate) const RECEIVES: u64 = 0;
pub(crate) const SENDS: u64 = 1;
/// Flags of descriptors.
pub(crate) const NEXT: u16 = 1;
const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// A descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desc {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// A conversation with whoever listens.
pub(crate) struct Talk(OwnedFd);

/// A request with its numbers.
pub(crate) fn words(of: &[u64]) -> Vec<u8> {
    of.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Number of a ring, and another one.
pub(crate) fn ring(index: u32, number: u32) -> Vec<u8> {
    [index.to_le_bytes(), number.to_le_bytes()].concat()
}

/// Where a ring lies: its descriptors, what is used, what the guest offers.
pub(crate) fn addresses(index: u32, places: [u64; 3]) -> Vec<u8> {
    [ring(index, 0), words(&places), words(&[0])].concat()
}

/// One region: its physical address, length, virtual address, and place in its file.
pub(crate) fn region(of: [u64; 4]) -> Vec<u8> {
    [words(&[1]), words(&of)].concat()
}

impl Talk {
    /// None while nobody listens.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        call(path, SocketType::STREAM).map(Self)
    }

    /// Says something; whether there is anybody to hear it.
    pub(crate) fn say(&self, request: u32, payload: &[u8], with: &[&dyn AsFd]) -> bool {
        let len = u32::try_from(payload.len()).unwrap();
        self.say_with_length(request, len, payload, with)
    }

    /// As [`Talk::say`], with any length in front.
    pub(crate) fn say_with_length(
        &self,
        request: u32,
        len: u32,
        payload: &[u8],
        with: &[&dyn AsFd],
    ) -> bool {
        let header = [request, 1, len].map(u32::to_le_bytes).concat();
        let with: Vec<_> = with.iter().map(|fd| fd.as_fd()).collect();
        send(&self.0, &[&header, payload].concat(), &with)
    }

    /// Whether the other side still answers; it has read then what was said before.
    pub(crate) fn answers(&self) -> bool {
        self.say(GET_FEATURES, &[], &[]) && receive(&self.0, 20).is_some()
    }

    /// All that comes before rings.
    pub(crate) fn introduce(&self, memory: &Memory) -> bool {
        let table = region([PHYSICAL, MEMORY_LEN, VIRTUAL, 0]);
        self.answers()
            && self.say(SET_OWNER, &[], &[])
            && self.say(SET_FEATURES, &words(&[VERSION_1]), &[])
            && self.say(SET_MEM_TABLE, &table, &[&memory.fd()])
    }
}

/// A guest that is connected.
pub(crate) struct Guest {
    talk: Talk,
    pub(crate) memory: Memory,
    _bells: [OwnedFd; 4],
}

impl Guest {
    /// Calls, and shares memory; none if nobody listens, or does no longer.
    pub(crate) fn call(path: &Path) -> Option<Self> {
        let talk = Talk::new(path)?;
        let guest = Self {
            talk,
            memory: Memory::new(MEMORY_LEN),
            _bells: [(); 4].map(|()| bell(EventfdFlags::NONBLOCK)),
        };
        guest.describe(RECEIVES, |_, honest| honest);
        guest.describe_honestly();
        for which in [RECEIVES, SENDS] {
            for slot in 0..RING {
                guest.offer(which, slot, slot);
            }
        }
        guest.take();
        let talk = &guest.talk;
        let mut is_heard = talk.introduce(&guest.memory);
        for (which, at) in [(0, RECEIVES), (1, SENDS)] {
            let at = VIRTUAL + at * RING_LEN;
            let [kick, call] = [0, 1].map(|bell| &guest._bells[which as usize * 2 + bell]);
            let places = addresses(which, [at, at + USED, at + AVAIL]);
            is_heard = is_heard
                && talk.say(SET_VRING_NUM, &ring(which, RING.into()), &[])
                && talk.say(SET_VRING_BASE, &ring(which, 0), &[])
                && talk.say(SET_VRING_ADDR, &places, &[])
                && talk.say(SET_VRING_CALL, &words(&[which.into()]), &[call])
                && talk.say(SET_VRING_KICK, &words(&[which.into()]), &[kick]);
        }
        is_heard.then_some(guest)
    }

    /// Writes all descriptors of a ring.
    pub(crate) fn describe(&self, which: u64, mut of: impl FnMut(u16, Desc) -> Desc) {
        for slot in 0..RING {
            let number = which * u64::from(RING) + u64::from(slot);
            let honest = Desc {
                address: PHYSICAL + BUFFERS + number * u64::from(BUFFER_LEN),
                len: if which == SENDS {
                    HEADER_LEN + 64
                } else {
                    BUFFER_LEN
                },
                flags: if which == SENDS { 0 } else { WRITE },
                next: 0,
            };
            let desc = of(slot, honest);
            let at = which * RING_LEN + u64::from(slot) * 16;
            self.memory.put(at, &desc.address.to_le_bytes());
            self.memory.put(at + 8, &desc.len.to_le_bytes());
            self.memory.put_u16(at + 12, desc.flags);
            self.memory.put_u16(at + 14, desc.next);
        }
    }

    /// Which descriptor an entry of what the guest offers names.
    pub(crate) fn offer(&self, which: u64, entry: u16, desc: u16) {
        let at = which * RING_LEN + AVAIL + 4 + u64::from(entry) * 2;
        self.memory.put_u16(at, desc);
    }
}

impl peer::Peer for Guest {
    fn is_alone(&self) -> bool {
        has_news(&self.talk.0)
    }

    fn describe_honestly(&self) {
        self.describe(SENDS, |_, honest| honest);
    }

    fn advance(&self, by: u16) {
        let at = SENDS * RING_LEN + AVAIL + 2;
        self.memory
            .put_u16(at, self.memory.u16(at).wrapping_add(by));
    }

    fn came(&self) -> u16 {
        self.memory.u16(RECEIVES * RING_LEN + USED + 2)
    }

    fn take(&self) {
        let at = RECEIVES * RING_LEN + AVAIL + 2;
        self.memory.put_u16(at, self.came().wrapping_add(RING));
    }
}
