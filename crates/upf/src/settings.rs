//! What an operator says of a UPF, checked: its addresses, interfaces, pools and limits.
//!
//! Before any packet: `config` makes it of a chain file, N4 and the data path read
//! it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::ethernet::MacAddr;
use catena_wire::pfcp::value::Name;
use catena_wire::pfcp::value::address::NodeId;

use crate::ceilings::terms::Terms;
use crate::group::SWITCH;
use crate::paths::EchoTerms;
use crate::ranges::Pool;
use crate::rules::{Far, NONE};

/// The side of an interface to LI functions: no Source Interface has its number.
const LI: u8 = 20;

/// How a packet leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<'a> {
    /// By which interface.
    pub(crate) out: &'a Interface,
    /// Identification of its tunnel's packet.
    pub(crate) ident: u16,
    /// Maximum segment size that TCP may offer.
    pub(crate) mss: Option<u16>,
}

/// An interface to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, which is that of the NF's output too.
    pub name: String,
    /// The side it is on: a value of Source Interface, as 0 for Access, 1 for Core.
    pub side: u8,
    /// Its network instance, by place.
    pub instance: u8,
    /// Address of tunnels that end here.
    pub v4: Option<Ipv4Addr>,
    /// Address of tunnels that end here.
    pub v6: Option<Ipv6Addr>,
    /// Source of the frames that leave.
    pub mac: MacAddr,
    /// Destination of the frames that leave.
    pub next_hop: MacAddr,
    /// Most bytes of an IP packet that leaves.
    pub mtu: usize,
    /// Whether the packets of tunnels are fragmented, and not those in them.
    pub cuts_outside: bool,
    /// Maximum segment size that TCP of its network instance may offer.
    pub tcp_mss: Option<u16>,
}

/// A forwarding policy, which FARs name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its identifier.
    pub name: String,
    /// The interface by which packets leave, by place.
    pub interface: u8,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of a node without a name.
    pub node_address: Option<IpAddr>,
    /// Name as labels, each behind its length; empty for a node that is known by its address.
    pub node_name: Vec<u8>,
    /// Address of N4.
    pub n4_v4: Option<Ipv4Addr>,
    /// Address of N4.
    pub n4_v6: Option<Ipv6Addr>,
    /// Source of N4's frames.
    pub n4_mac: MacAddr,
    /// Destination of N4's frames.
    pub n4_next_hop: MacAddr,
    /// The output by which N4's messages leave.
    pub n4_output: u8,
    /// Networks of SMFs; all if there is none.
    pub peers: Vec<(IpAddr, u8)>,
    /// SMFs that the UPF asks for associations.
    pub smfs: Vec<IpAddr>,
    /// Interfaces; the place is the output.
    pub interfaces: Vec<Interface>,
    /// Forwarding policies.
    pub policies: Vec<Policy>,
    /// Names of network instances, as the octets of the IE.
    pub instances: Vec<Vec<u8>>,
    /// Those of them that are 5G VN groups.
    pub groups: Vec<u8>,
    /// What slices and network instances get in all.
    pub ceilings: Vec<Terms>,
    /// What stands for an interface between UEs of a group.
    pub switch: Interface,
    /// Whether any interface has a maximum segment size.
    pub clamps: bool,
    /// UE addresses.
    pub pools: Vec<Pool>,
    /// T1: after so long a request is repeated.
    pub t1_ns: u64,
    /// N1: so often, and then it is given up.
    pub n1: u32,
    /// After so long a peer is sent a heartbeat; 0 for never.
    pub heartbeat_ns: u64,
    /// When the peers of tunnels are asked whether they are there.
    pub echo: EchoTerms,
    /// Most packets held for a session.
    pub held_per_session: usize,
    /// Most packets held.
    pub held: usize,
    /// For how long a packet is held.
    pub held_ns: u64,
    /// Most fragments that wait for others.
    pub fragments: usize,
    /// For how long they do.
    pub fragment_ns: u64,
    /// Packets that are told to be too big, per second.
    pub icmp_errors: u64,
    /// Connections that are known to belong to applications.
    pub application_flows: u32,
    /// Error indications per second.
    pub error_indications: u64,
    /// Sessions, and bytes of each.
    pub sessions: u32,
    /// Bytes of a session.
    pub session_bytes: usize,
    /// Which shard this is, and of how many.
    pub shard: (u16, u16),
    /// Random numbers that nobody outside knows.
    pub seed: [u64; 2],
}

impl Settings {
    /// The node's identity.
    pub fn node_id(&self) -> NodeId<'_> {
        node_id_of(&self.node_name, self.node_address)
    }

    /// Whether messages of this peer are heard.
    pub fn is_peer(&self, peer: IpAddr) -> bool {
        is_among(&self.peers, peer)
    }

    /// Whether an SMF at an address is heard, and is reached from N4's.
    pub(crate) fn reaches(&self, smf: IpAddr) -> bool {
        let is_of_version = match smf {
            IpAddr::V4(_) => self.n4_v4.is_some(),
            IpAddr::V6(_) => self.n4_v6.is_some(),
        };
        is_of_version && self.is_peer(smf)
    }

    /// Those addresses of an SMF at which it is heard and reached; none if there are none.
    pub(crate) fn reached(
        &self,
        v4: Option<Ipv4Addr>,
        v6: Option<Ipv6Addr>,
    ) -> Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)> {
        let v4 = v4.filter(|address| self.reaches((*address).into()));
        let v6 = v6.filter(|address| self.reaches((*address).into()));
        (v4.is_some() || v6.is_some()).then_some((v4, v6))
    }

    /// The place of a network instance; [`NONE`] for one that is not known.
    pub fn instance(&self, name: &[u8]) -> u8 {
        // Some write it as labels, as a DNN.
        let labels = Name::new(name)
            .map(|name| name.to_string())
            .unwrap_or_default();
        let is_it = |one: &Vec<u8>| one == name || one == labels.as_bytes();
        let place = self.instances.iter().position(is_it);
        place.and_then(|at| u8::try_from(at).ok()).unwrap_or(NONE)
    }

    /// The interface by which packets leave for a destination interface and a network instance,
    /// which may be [`NONE`].
    pub fn interface_to(&self, destination: u8, instance: u8) -> Option<u8> {
        // Core and SGi-LAN/N6-LAN are one network unless there is an interface for each.
        let sides: &[u8] = match destination {
            0 => &[0],
            1 => &[1, 2],
            2 => &[2, 1],
            3 => &[3],
            4 => &[LI],
            _ => &[],
        };
        let on = |side: &u8| {
            self.interfaces.iter().position(|interface| {
                interface.side == *side && (instance == NONE || interface.instance == instance)
            })
        };
        sides
            .iter()
            .find_map(on)
            .and_then(|at| u8::try_from(at).ok())
    }

    /// How packets leave by a FAR whose PDR has this source interface and network instance.
    #[inline]
    pub(crate) fn exit(
        &self,
        (source, instance): (u8, u8),
        far: &Far,
        ident: u16,
    ) -> Option<Exit<'_>> {
        let out = match far.interface {
            SWITCH => &self.switch,
            place => self.interfaces.get(usize::from(place))?,
        };
        let mut mss = out.tcp_mss;
        if self.clamps {
            let from = self.interface_from(source, instance);
            let own = from.and_then(|from| from.tcp_mss);
            mss = mss.into_iter().chain(own).min();
        }
        Some(Exit { out, ident, mss })
    }

    /// The first interface of which this is so.
    pub(crate) fn interface_of(&self, is_it: impl Fn(&Interface) -> bool) -> Option<u8> {
        let place = self.interfaces.iter().position(is_it);
        place.and_then(|place| u8::try_from(place).ok())
    }

    /// The interface on which tunnels for packets from a source interface end.
    pub fn interface_from(&self, source: u8, instance: u8) -> Option<&Interface> {
        let at = self.place_from(source, instance)?;
        self.interfaces.get(usize::from(at))
    }

    /// The place of that interface.
    pub(crate) fn place_from(&self, source: u8, instance: u8) -> Option<u8> {
        let destination = if source == 4 { 5 } else { source };
        self.interface_to(destination, instance)
    }
}

/// Whether an address is in one of these networks, or there are none.
pub(crate) fn is_among(networks: &[(IpAddr, u8)], address: IpAddr) -> bool {
    let is_in = |(net, bits): &(IpAddr, u8)| match (net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => {
            let differs = u64::from(net.to_bits() ^ address.to_bits());
            differs >> (32 - u32::from(*bits).min(32)) == 0
        }
        (IpAddr::V6(net), IpAddr::V6(address)) => {
            let differs = net.to_bits() ^ address.to_bits();
            differs
                .checked_shr(128 - u32::from(*bits).min(128))
                .unwrap_or(0)
                == 0
        }
        _ => false,
    };
    networks.is_empty() || networks.iter().any(is_in)
}

/// The identity of a node with this name, or this address.
pub(crate) fn node_id_of(name: &[u8], address: Option<IpAddr>) -> NodeId<'_> {
    match (Name::new(name), address) {
        (Ok(name), _) => NodeId::Fqdn(name),
        (_, Some(IpAddr::V6(address))) => NodeId::V6(address),
        (_, Some(IpAddr::V4(address))) => NodeId::V4(address),
        (_, None) => NodeId::V4(Ipv4Addr::UNSPECIFIED),
    }
}
