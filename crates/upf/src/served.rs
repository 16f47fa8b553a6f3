//! A session with traffic, for tests: packets go through its UPF one by one.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use catena_engine::packet::Packet;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_wire::gtpu;
use catena_wire::pfcp::Cause;

use crate::decision::Decision;
use crate::headers::Tunnel;
use crate::public_failures::{Said, Smf};
use crate::smf::wire;
use crate::tunnel::Signal;

pub(crate) const GNB: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 3, 0, 2)), gtpu::PORT);
pub(crate) const N3: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 3, 0, 1)), gtpu::PORT);

/// Buffers for a few packets.
pub(crate) struct Pool(pub(crate) PoolOwner);

impl Pool {
    pub(crate) fn new() -> Self {
        let geometry = PoolGeometry {
            log2_stride: 12,
            buffer_count: 8,
            headroom: 128,
            bundles: false,
        };
        Self(PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap())
    }

    pub(crate) fn packet(&mut self, frame: &[u8]) -> Packet {
        let mut packet = self.0.alloc(frame.len()).unwrap();
        packet.bytes_mut().copy_from_slice(frame);
        packet
    }
}

/// A session, and the UPF that serves it.
pub(crate) struct Served {
    pub(crate) smf: Smf,
    pub(crate) teid: u32,
    pub(crate) ue: Ipv4Addr,
    pub(crate) signals: VecDeque<Signal>,
    slot: u32,
    pool: Pool,
}

impl Served {
    /// The session whose establishment was answered so.
    pub(crate) fn of(smf: Smf, (cause, _, seid): Said) -> Self {
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        let slot = smf.upf.store.slot_of(seid).unwrap();
        let session = smf.upf.store.session(slot).unwrap();
        Self {
            smf,
            slot,
            teid: session.pdrs[0].pdr.teid,
            ue: session.head.ue_v4.unwrap(),
            pool: Pool::new(),
            signals: VecDeque::new(),
        }
    }

    /// The frame in which a user's packet comes from the gNB.
    pub(crate) fn uplink(&self, user: &[u8]) -> Vec<u8> {
        let tunnel = Tunnel::uplink(self.teid, None);
        let mut message = vec![0; tunnel.len()];
        tunnel.emit(&mut message, gtpu::MessageType::G_PDU, user.len());
        message.extend_from_slice(user);
        wire::datagram(GNB, N3, &message)
    }

    /// What becomes of a frame.
    pub(crate) fn pass(&mut self, frame: &[u8], now_ns: u64) -> Decision {
        let mut packet = self.pool.packet(frame);
        let upf = &mut self.smf.upf;
        let decision = upf.packet(&mut packet, &mut self.signals, now_ns);
        self.pool.0.free(packet);
        decision
    }

    /// How many packets of its UE have left.
    pub(crate) fn sent(&self) -> u64 {
        self.smf.upf.store.head(self.slot).ul[0]
    }
}
