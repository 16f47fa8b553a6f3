//! SDF filters, as a usual packet and as any packet asks them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{FLOWS, HOST, HOST_V6, UE, UE_V6, labelled};
use crate::sdf::{Ends, Filter, Inner, parse_flow};
use crate::stored::Stored;
use crate::usual::Address;

/// What filters say of a packet's ends is what they say of the packet.
#[test]
fn a_filter_says_the_same_of_ends_and_packet() {
    let flows = FLOWS.map(|text| parse_flow(text).unwrap());
    let v6 = parse_flow(b"permit out ip from 2001:db8::/32 to any").unwrap();
    let class = Filter {
        traffic_class: Some([0x28, 0xfc]),
        ..Filter::all()
    };
    let spi = Filter {
        spi: Some(7),
        ..Filter::all()
    };
    let others = [Filter::all(), v6, class, spi, labelled(7)];
    let filters = [&flows[..], &others].concat();
    let v4 = (UE, [HOST, Ipv4Addr::new(8, 8, 8, 8)]);
    let v6 = (UE_V6, [HOST_V6, Ipv6Addr::LOCALHOST]);
    let counts = [compare_filters(&filters, v4), compare_filters(&filters, v6)];
    let enough = |count: &usize| *count > 20;
    assert!(counts.as_flattened().iter().all(enough), "{counts:?}");
}

/// How many pairs of a filter and a packet do not fit, and do.
fn compare_filters<A: Address>(filters: &[Filter], (ue, hosts): (A, [A; 2])) -> [usize; 2] {
    let mut counts = [0; 2];
    for filter in filters {
        let mut record = vec![0; Filter::LEN];
        filter.store(&mut record);
        for (protocol, port) in [(17, 80), (17, 81), (6, 443), (6, 446)] {
            for (at, host) in hosts.into_iter().enumerate() {
                for is_uplink in [true, false] {
                    let ends = [(ue, 40_000), (host, port)];
                    let [src, dst] = if is_uplink { ends } else { [ends[1], ends[0]] };
                    let usual = Ends {
                        protocol,
                        traffic_class: [0x28, 0][at],
                        flow_label: [7, 0][at],
                        src: src.0,
                        dst: dst.0,
                        src_port: src.1,
                        dst_port: dst.1,
                    };
                    let inner = Inner {
                        ports: Some((src.1, dst.1)),
                        traffic_class: usual.traffic_class,
                        flow_label: usual.flow_label,
                        protocol,
                        ..Inner::opaque(src.0.into(), dst.0.into(), 100)
                    };
                    let fits = filter.fits(&inner, is_uplink);
                    assert_eq!(Filter::fits_at(&record, &usual, is_uplink), fits);
                    counts[usize::from(fits)] += 1;
                }
            }
        }
    }
    counts
}
