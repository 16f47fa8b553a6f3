//! Keys against what they promise: who belongs together is together, in both directions.

use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::gtpu::{self, MessageType};
use catena_wire::{ip::Protocol, udp};
use proptest::prelude::*;

use super::*;
use crate::nf::Verdict;
use crate::nf_bench::NfBench;
use crate::nfs::frames::{self, IpPacket};
use crate::shard::split;
use crate::shard::table::start_of_part;

fn flow(src: &str, dst: &str, ports: (u16, u16)) -> Vec<u8> {
    let packet = IpPacket {
        src,
        dst,
        ..IpPacket::default()
    };
    packet.ports(ports.0, ports.1)
}

/// `frame`, less its Ethernet header, in a tunnel from `src` to `dst`.
fn in_tunnel(frame: &[u8], teid: u32, (src, dst): (&str, &str)) -> Vec<u8> {
    let inner = &frame[14..];
    let header = gtpu::Header {
        message_type: MessageType::G_PDU,
        teid,
        sequence: None,
        n_pdu: None,
        extensions: gtpu::extension::Extensions::NONE,
        payload_len: inner.len(),
    };
    let mut message = vec![0; header.header_len()];
    header.emit(&mut message);
    message.extend(inner);
    let mut datagram = vec![0; udp::HEADER_LEN];
    let udp = udp::Header {
        src_port: 33_000,
        dst_port: gtpu::PORT,
        payload_len: message.len(),
    };
    udp.emit(&mut datagram);
    datagram.extend(message);
    let outer = IpPacket {
        src,
        dst,
        protocol: Protocol::UDP,
        ..IpPacket::default()
    };
    outer.with(&datagram)
}

fn space() -> UeSpace {
    UeSpace {
        teids: (0x1000_0000, 4),
        ue: vec![
            ("10.60.0.0".parse().unwrap(), 16),
            ("2001:db8::".parse().unwrap(), 32),
        ],
    }
}

fn reader(key: ShardKey, count: u16) -> KeyReader {
    KeyReader::new(key, count, 7)
}

const GNB: (&str, &str) = ("192.0.2.1", "192.0.2.9");

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Goal: whoever allocates TEID and address of a UE from one shard's parts has both directions
    /// in that shard, for IPv4 and IPv6.
    #[test]
    fn both_directions_of_a_session_are_in_the_part_it_was_allocated_from(
        count in 1_u16..=64, pick in any::<(u16, u32, u32, u64)>(),
    ) {
        let reader = reader(ShardKey::Session(space()), count);
        let shard = pick.0 % count;
        let within = |bits: u32, random: u64| {
            let start = start_of_part(shard, bits, count);
            let size = start_of_part(shard + 1, bits, count) - start;
            start + u128::from(random) % size
        };
        let teid = 0x1000_0000 + u32::try_from(within(28, pick.1.into())).unwrap();
        let v4 = u32::try_from(within(16, pick.2.into())).unwrap();
        let v4 = Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 60, 0, 0)) + v4).to_string();
        let v6 = within(32, pick.3) << 64 | u128::from(pick.2);
        let v6 = u128::from("2001:db8::".parse::<Ipv6Addr>().unwrap()) + v6;
        let v6 = Ipv6Addr::from_bits(v6).to_string();
        let wanted = Some(u8::try_from(shard).unwrap());
        for (ue, server) in [(&*v4, "198.51.100.1"), (&*v6, "2001:db9::1")] {
            let up = flow(ue, server, (1000, 80));
            prop_assert_eq!(reader.shard_of(&in_tunnel(&up, teid, GNB)), wanted);
            prop_assert_eq!(reader.shard_of(&flow(server, ue, (80, 1000))), wanted);
            // Once it has left its tunnel.
            prop_assert_eq!(reader.shard_of(&up), wanted);
        }
    }

    /// Goal: a flow that goes up in a tunnel and comes down outside is in one shard.
    #[test]
    fn the_inner_flow_decides_whatever_the_tunnel_is(
        teid in any::<u32>(), ports in any::<(u16, u16)>(), count in 1_u16..=64,
    ) {
        let inner = reader(ShardKey::InnerFlow, count);
        let up = flow("10.60.0.1", "198.51.100.1", ports);
        let down = flow("198.51.100.1", "10.60.0.1", (ports.1, ports.0));
        prop_assume!(ports.0 != gtpu::PORT && ports.1 != gtpu::PORT);
        let wanted = reader(ShardKey::Flow, count).shard_of(&down);
        prop_assert!(wanted.is_some());
        prop_assert_eq!(inner.shard_of(&in_tunnel(&up, teid, GNB)), wanted);
        let back = in_tunnel(&down, !teid, (GNB.1, GNB.0));
        prop_assert_eq!(inner.shard_of(&back), wanted);
        prop_assert_eq!(inner.shard_of(&down), wanted);
    }

    /// Goal: the splitter does what its key says, for any bytes, in order, and counts the rest.
    /// Method: a model that asks for each packet.
    #[test]
    fn the_splitter_does_what_the_key_says(
        picks in prop::collection::vec((0_u8..5, any::<(u16, u16)>()), 1..60), count in 1_u16..=64,
    ) {
        let frames: Vec<Vec<u8>> = picks.iter().map(|(what, ports)| match what {
            0 => flow("10.0.0.1", "10.0.0.2", *ports),
            1 => flow("10.0.0.2", "10.0.0.1", (ports.1, ports.0)),
            2 => in_tunnel(&flow("10.60.0.1", "198.51.100.1", *ports), 1, GNB),
            3 => frames::ethernet(catena_wire::ethernet::EtherType::ARP, &[1; 28]),
            // An IPv4 header that is cut off.
            _ => flow("10.0.0.1", "10.0.0.2", *ports)[..30].to_vec(),
        }).collect();
        let key = ShardKey::InnerFlow;
        let config = split::Config { key: key.clone(), shards: count, own: None, input: 0 };
        let mut bench = NfBench::new(&split::KIND, &config.to_json(), &[]).unwrap();
        let outputs: Vec<String> = (0..count).map(|shard| shard.to_string()).collect();
        prop_assert_eq!(bench.outputs(), outputs);
        // The bench knows no chain, and so no seed.
        let model = KeyReader::new(key, count, 0);
        let bytes: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let done = bench.process(&bytes);
        for ((what, _), (frame, found)) in picks.iter().zip(frames.iter().zip(&done.packets)) {
            let shard = model.shard_of(frame);
            prop_assert_eq!(shard.is_some(), *what < 3);
            prop_assert_eq!(found.verdict, Verdict::Output(shard.unwrap_or(0)));
            prop_assert_eq!(&found.bytes, frame);
        }
        let keyless = picks.iter().filter(|(what, _)| *what >= 3).count() as u64;
        prop_assert_eq!(bench.nf().report(), vec![("keyless", keyless)]);
    }
}

#[test]
fn what_is_in_no_range_has_no_key() {
    let reader = reader(ShardKey::Session(space()), 16);
    let stranger = flow("198.51.100.2", "198.51.100.1", (1, 2));
    assert_eq!(reader.shard_of(&stranger), None);
    assert_eq!(
        reader.shard_of(&in_tunnel(&stranger, 0x2000_0000, GNB)),
        None
    );
    assert_eq!(reader.shard_of(&[]), None);
}

#[test]
fn flows_spread_over_all_shards() {
    let reader = reader(ShardKey::Flow, 16);
    let mut seen = [0_u32; 16];
    for port in 0..4096 {
        let shard = reader.shard_of(&flow("10.0.0.1", "10.0.0.2", (port, 80)));
        seen[usize::from(shard.unwrap())] += 1;
    }
    assert!(
        seen.iter().all(|count| (170..350).contains(count)),
        "{seen:?}"
    );
}
