//! SDF filters as SMFs write them: each part of one, and what packets they let pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::ethernet;
use catena_wire::pfcp::value::detection::SdfFilter;
use catena_wire::pfcp::value::forwarding::TrafficClass;
use catena_wire::pfcp::{Cause, IeType, key};

use crate::decision::{Decision, Why};
use crate::headers;
use crate::public_failures::{Smf, downlink_pdr, nothing};
use crate::served::Served;
use crate::smf::wire;

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const SPI: u32 = 0x0102_0304;
const ESP: u8 = 50;
const AH: u8 = 51;

/// TS 29.244 8.2.5, BID: a filter that is no more than an ID is the one that has it, whole, for the
/// other direction; one that nobody has is refused.
#[test]
fn a_filter_that_is_an_id_alone_is_the_one_with_that_id() {
    let whole = SdfFilter {
        flow_description: Some(b"permit out 17 from 203.0.113.0/24 53 to assigned"),
        filter_id: Some(5),
        ..SdfFilter::default()
    };
    let alone = |filter_id| SdfFilter {
        filter_id: Some(filter_id),
        ..SdfFilter::default()
    };
    let mut smf = Smf::new();
    let mut establish = |filter_id| {
        smf.establish_at(
            |writer| writer.put(key::SDF_FILTER, &whole),
            |writer| {
                let filter = alone(filter_id);
                downlink_pdr(writer, |pdi| pdi.put(key::SDF_FILTER, &filter))
            },
        )
    };
    let refused = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    assert_eq!(establish(6), (refused, Some(IeType::SDF_FILTER), 0));
    let (cause, _, seid) = establish(5);
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let session = smf.upf.store.session(slot).unwrap();
    let [up, down] = [0, 1].map(|at| session.pdrs[at].filters.clone());
    assert_eq!(up, down);
    assert!(up[0].has_flow && up[0].filter_id == Some(5));
}

/// The user's packet of a protocol whose header begins with these bytes.
fn packet(protocol: u8, class: u8, first: [u8; 8], ends: [IpAddr; 2]) -> Vec<u8> {
    let frame = wire::datagram((ends[0], 7), (ends[1], 7), &[0; 24]);
    let mut user = frame[ethernet::HEADER_LEN..].to_vec();
    let l4 = if ends[0].is_ipv4() { 20 } else { 40 };
    user[if ends[0].is_ipv4() { 9 } else { 6 }] = protocol;
    user[l4..l4 + 8].copy_from_slice(&first);
    if ends[0].is_ipv4() {
        user[1] = class;
        let mut view = catena_wire::ipv4::View::parse(&mut user[..]).unwrap();
        view.fill_checksum();
    }
    user
}

fn esp() -> [u8; 8] {
    let [a, b, c, d] = SPI.to_be_bytes();
    [a, b, c, d, 0, 0, 0, 1]
}

/// In front of what nobody knows, with three words behind the first two.
fn ah() -> [u8; 8] {
    let [a, b, c, d] = SPI.to_be_bytes();
    [253, 3, 0, 0, a, b, c, d]
}

#[test]
fn the_index_of_ipsec_is_read_over_both_versions() {
    let v4 = [Ipv4Addr::new(10, 45, 0, 2), HOST].map(IpAddr::V4);
    let v6 = [1, 2].map(|last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    for ends in [v4, v6.map(IpAddr::V6)] {
        for (protocol, first) in [(ESP, esp()), (AH, ah())] {
            let user = packet(protocol, 0, first, ends);
            let inner = headers::inner(&user).unwrap();
            assert_eq!(inner.spi, Some(SPI), "{protocol} {ends:?}");
        }
        let other = headers::inner(&packet(47, 0, esp(), ends)).unwrap();
        assert_eq!(other.spi, None);
    }
}

/// Of several filters of a PDI one must fit: by SPI, by class; a packet with neither has no PDR.
#[test]
fn packets_pass_filters_by_spi_and_by_class() {
    let by_spi = SdfFilter {
        spi: Some(SPI),
        ..SdfFilter::default()
    };
    let class = TrafficClass {
        value: 0xb8,
        mask: 0xfc,
    };
    let by_class = SdfFilter {
        traffic_class: Some(class),
        ..SdfFilter::default()
    };
    let mut smf = Smf::new();
    let said = smf.establish_at(
        |writer| {
            writer.put(key::SDF_FILTER, &by_spi)?;
            writer.put(key::SDF_FILTER, &by_class)
        },
        nothing,
    );
    let mut served = Served::of(smf, said);
    let ends = [served.ue, HOST].map(IpAddr::V4);
    let other_spi = [9, 9, 9, 9, 0, 0, 0, 1];
    for (protocol, class, first, passes) in [
        (ESP, 0, esp(), true),
        (AH, 0, ah(), true),
        (ESP, 0, other_spi, false),
        (ESP, 0xb9, other_spi, true),
        (17, 0xb8, [0, 7, 0, 7, 0, 32, 0, 0], true),
        (17, 0xb0, [0, 7, 0, 7, 0, 32, 0, 0], false),
    ] {
        let wanted = match passes {
            true => Decision::Send(1),
            false => Decision::Drop(Why::NoPdr),
        };
        let user = packet(protocol, class, first, ends);
        let frame = served.uplink(&user);
        let decision = served.pass(&frame, 0);
        assert_eq!(decision, wanted, "{protocol} {class} {first:?}");
    }
}
