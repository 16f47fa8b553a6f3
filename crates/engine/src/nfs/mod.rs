//! The basic NFs, one file each. [`KINDS`] is the list that chain files choose from.
//!
//! What belongs here: small NFs that need nothing but a packet's bytes. A new one is one file
//! ending with its `KIND`, and one line below; see `docs/guide/first-nf.md`.

use crate::nf::NfKind;

pub mod acl;
pub mod classify;
pub mod count;
pub mod cut;
pub mod delay;
#[cfg(test)]
pub(crate) mod frames;
pub mod macswap;
mod matching;
pub mod merge;
pub mod policer;
pub mod tee;
pub mod ttl;
pub mod vlan;

/// Every NF of this crate.
pub const KINDS: &[&NfKind] = &[
    &acl::KIND,
    &classify::KIND,
    &count::KIND,
    &cut::KIND,
    &delay::KIND,
    &macswap::KIND,
    &merge::KIND,
    &policer::KIND,
    &tee::KIND,
    &ttl::KIND,
    &vlan::KIND,
];

#[cfg(test)]
mod tests {
    use catena_wire::ip::Protocol;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::nf::{Access, Verdict};
    use crate::nf_bench::NfBench;
    use frames::{IpPacket, tagged};

    /// Every NF, in configurations that take different ways through its code.
    fn benches() -> Vec<(&'static NfKind, NfBench)> {
        let ports = json!({"src_port": "1-9", "dst_port": 2});
        let mut permit = ports.clone();
        permit["action"] = json!("permit");
        let mut to = ports;
        to["to"] = json!("a");
        let configs = [
            ("acl", json!({"rules": [permit]})),
            (
                "classify",
                json!({"rules": [to, {"to": "b", "vlan": 5, "dscp": 0}]}),
            ),
            ("count", json!({})),
            ("cut", json!({})),
            ("delay", json!({"time": "1ms", "limit": 3})),
            ("macswap", json!({})),
            ("merge", json!({})),
            ("policer", json!({"rate": "1pps", "burst": 2})),
            ("tee", json!({})),
            ("ttl", json!({"non_ip": "drop"})),
            ("vlan", json!({"push": {"id": 1}})),
            ("vlan", json!({"pop": true})),
        ];
        let named = |name: &str| *KINDS.iter().find(|kind| kind.name == name).unwrap();
        assert!(
            KINDS
                .iter()
                .all(|kind| configs.iter().any(|(name, _)| *name == kind.name)),
            "each NF has a configuration above"
        );
        let benches = configs.iter().map(|(name, config)| {
            let kind = named(name);
            (kind, NfBench::new(kind, config, &["a", "b"]).unwrap())
        });
        benches.collect()
    }

    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let v4 = IpPacket::default();
        let v6 = IpPacket {
            src: "2001:db8::1",
            dst: "2001:db8::2",
            protocol: Protocol::TCP,
            ..v4
        };
        let valid = prop::sample::select(vec![
            v4.ports(1, 2),
            tagged(&v4.ports(1, 2), 0x8100, 5),
            v6.ports(1, 2),
            tagged(&tagged(&v6.ports(1, 2), 0x8100, 5), 0x88a8, 6),
        ]);
        let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let damaged = (valid, flips, any::<prop::sample::Index>(), any::<bool>()).prop_map(
            |(mut frame, flips, cut, is_cut)| {
                for (index, bits) in flips {
                    let index = index.index(frame.len());
                    frame[index] ^= bits;
                }
                if is_cut {
                    frame.truncate(1 + cut.index(frame.len()));
                }
                frame
            },
        );
        prop_oneof![3 => damaged, 1 => prop::collection::vec(any::<u8>(), 1..120)]
    }

    proptest! {
        /// Method: frames that are almost valid, and noise. What each verdict should be is the
        /// matter of each NF's own tests.
        #[test]
        fn no_packet_panics_an_nf_and_readers_change_none(
            frames in prop::collection::vec(packets(), 1..20),
        ) {
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            for (index, (kind, mut bench)) in benches().into_iter().enumerate() {
                let result = bench.process(&frames);
                let held = u32::try_from(bench.held()).unwrap();
                prop_assert_eq!(bench.buffers_in_use(), held, "{} loses a packet", kind.name);
                for (packet, frame) in result.packets.iter().zip(&frames) {
                    let is_read_only = bench.plan().access == Access::Read;
                    prop_assert!(!is_read_only || packet.bytes == *frame, "{}", kind.name);
                    if let Verdict::Output(output) = packet.verdict {
                        prop_assert!(usize::from(output) < bench.outputs().len(), "{}", kind.name);
                    }
                }
                let (_, mut twin) = benches().swap_remove(index);
                let bundled = twin.process_bundle(&frames);
                prop_assert_eq!(&bundled, &result, "{} judges bundles otherwise", kind.name);
                prop_assert_eq!(twin.buffers_in_use(), held, "{} loses a packet", kind.name);
                let copies = result.copies.len() + result.copies_failed.len();
                prop_assert!(bench.plan().allocates || copies == 0, "{}", kind.name);
            }
        }
    }
}
