//! A host of vhost-user that a test plays itself, to which the chain is a guest: it answers what
//! the protocol wants, and lets the test give back any buffers of the guest's rings.

use std::os::fd::OwnedFd;

use rustix::net::SocketType;

use super::peer::{Memory, has_hung_up, listen_at, next_call, receive, send};
use super::*;

/// Requests.
const GET_FEATURES: u32 = 1;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const GET_VRING_BASE: u32 = 11;
const SET_VRING_KICK: u32 = 12;
/// `VIRTIO_F_VERSION_1`.
const VERSION_1: u64 = 1 << 32;
const HEADER_LEN: usize = 12;
/// Rings: what the guest receives, and what it sends.
const RECEIVES: usize = 0;
const SENDS: usize = 1;

/// Memory of the guest, as it calls it.
struct Region {
    start: u64,
    len: u64,
    offset: u64,
    memory: Memory,
}

/// Where the guest says that a ring lies.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    size: u16,
    used: u64,
    avail: u64,
    has_started: bool,
}

/// Whoever listens for guests.
pub(crate) struct House(OwnedFd);

/// A host that has a guest.
pub(crate) struct Host {
    socket: OwnedFd,
    regions: Vec<Region>,
    rings: [Ring; 2],
    bells: Vec<OwnedFd>,
}

impl House {
    pub(crate) fn new(path: &Path) -> Self {
        Self(listen_at(path, SocketType::STREAM))
    }

    /// Waits for a guest, until both of its rings have started; none if it hangs up before.
    pub(crate) fn answer(&self) -> Option<Host> {
        let mut host = Host {
            socket: next_call(&self.0),
            regions: Vec::new(),
            rings: [Ring::default(); 2],
            bells: Vec::new(),
        };
        while !host.rings.iter().all(|ring| ring.has_started) {
            host.hear()?;
        }
        Some(host)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Host {
    /// Hears one request.
    fn hear(&mut self) -> Option<()> {
        let (header, with) = receive(&self.socket, HEADER_LEN)?;
        let [request, _, len] =
            [0, 4, 8].map(|at| u32::from_le_bytes(header[at..at + 4].try_into().unwrap()));
        let payload = match len {
            0 => Vec::new(),
            _ => receive(&self.socket, len as usize)?.0,
        };
        let ring = payload.first().map_or(0, |ring| usize::from(*ring) % 2);
        match request {
            GET_FEATURES => self.reply(request, &VERSION_1.to_le_bytes()),
            GET_VRING_BASE => self.reply(request, &[0; 8]),
            SET_MEM_TABLE => {
                let regions = with.into_iter().enumerate().map(|(at, fd)| Region {
                    start: word(&payload, 8 + at * 32 + 16),
                    len: word(&payload, 8 + at * 32 + 8),
                    offset: word(&payload, 8 + at * 32 + 24),
                    memory: Memory::of(fd),
                });
                self.regions = regions.collect();
            }
            SET_VRING_NUM => self.rings[ring].size = u16::from_le_bytes([payload[4], payload[5]]),
            SET_VRING_ADDR => {
                self.rings[ring].used = word(&payload, 16);
                self.rings[ring].avail = word(&payload, 24);
            }
            SET_VRING_KICK => {
                self.rings[ring].has_started = true;
                self.bells.extend(with);
            }
            _ => self.bells.extend(with),
        }
        Some(())
    }

    fn reply(&self, request: u32, payload: &[u8]) {
        let len = u32::try_from(payload.len()).unwrap();
        let header = [request, 5, len].map(u32::to_le_bytes).concat();
        send(&self.socket, &[&header, payload].concat(), &[]);
    }

    fn region(&self, address: u64) -> (&Memory, u64) {
        let mut regions = self.regions.iter();
        let holds = |region: &&Region| (region.start..region.start + region.len).contains(&address);
        let region = regions.find(holds).expect("a ring in the guest's memory");
        (&region.memory, address - region.start + region.offset)
    }

    fn u16(&self, address: u64) -> u16 {
        let (memory, at) = self.region(address);
        memory.u16(at)
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        let (memory, at) = self.region(address);
        memory.put(at, bytes);
    }

    /// Gives so many buffers of a ring back; of each the guest is told what `of` says: its number
    /// and how much is in it.
    fn give_back(&self, ring: usize, by: u16, of: impl Fn(u32) -> (u32, u32)) {
        let Ring {
            size, used, avail, ..
        } = self.rings[ring];
        let before = self.u16(used + 2);
        for entry in 0..by.min(size) {
            let entry = u64::from(before.wrapping_add(entry) % size);
            let (id, len) = of(self.u16(avail + 4 + entry * 2).into());
            let said = [id.to_le_bytes(), len.to_le_bytes()].concat();
            self.put(used + 4 + entry * 8, &said);
        }
        self.put(used + 2, &before.wrapping_add(by).to_le_bytes());
    }

    /// Gives the guest packets, of which it is told what `of` says.
    pub(crate) fn give(&self, by: u16, of: impl Fn(u32) -> (u32, u32)) {
        self.give_back(RECEIVES, by, of);
    }
}

impl peer::Peer for Host {
    fn is_alone(&self) -> bool {
        has_hung_up(&self.socket)
    }

    fn describe_honestly(&self) {}

    fn advance(&self, by: u16) {
        self.give(by, |id| (id, 76));
    }

    fn came(&self) -> u16 {
        self.u16(self.rings[SENDS].avail + 2)
    }

    fn take(&self) {
        let used = self.u16(self.rings[SENDS].used + 2);
        let by = self.came().wrapping_sub(used);
        self.give_back(SENDS, by.min(self.rings[SENDS].size), |id| (id, 0));
    }
}
