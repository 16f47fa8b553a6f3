//! Which packets of a veth pair a filter gives to the chain, in both modes, and that the host keeps
//! all others.

use serde_json::json;

use super::netns::{self, frame, has, isolated, run, veth};
use super::{MODES, open, plain, receive};

/// With a filter, packets that it does not name reach the host as before.
#[test]
fn what_is_not_steered_stays_with_the_host() {
    let test = "steering::what_is_not_steered_stays_with_the_host";
    if !has(test, &["ping"]) {
        return;
    }
    isolated(test, || {
        veth("a", "b");
        let peer = netns::Host::new();
        peer.adopt("b", "198.18.0.2/24");
        run("ip address add 198.18.0.1/24 dev a");
        let steer = json!({ "udp_ports": [2152], "ether_types": [0x88b5] });
        for mode in MODES {
            let config = json!({ "interface": "a", "mode": mode, "steer": steer });
            let Some(mut a) = open(test, &config) else {
                return;
            };
            a.reap();
            peer.run("ping -c 3 -i 0.2 -W 5 198.18.0.1");
            assert!(
                a.rx(32).packets.is_empty(),
                "{mode}: the host's packets were taken"
            );
            let sender = peer.spawn(|| {
                let socket = std::net::UdpSocket::bind(("198.18.0.2", 0)).unwrap();
                for port in [2151, 2152, 2152, 2153] {
                    socket
                        .send_to(b"to a tunnel", ("198.18.0.1", port))
                        .unwrap();
                }
            });
            sender.join().unwrap();
            let taken = receive(&mut a, 2);
            for packet in &taken {
                assert_eq!(packet[36..38], 2152_u16.to_be_bytes(), "{mode}");
            }
            assert!(a.rx(32).packets.is_empty(), "{mode}");
            a.close().unwrap();
        }
    });
}

/// EtherTypes and VLANs are told apart on a real interface: what they name is the chain's, and all
/// else reaches the host, seen there by a packet socket behind the program.
#[test]
fn ether_types_and_vlans_are_steered_and_others_stay_with_the_host() {
    let test = "steering::ether_types_and_vlans_are_steered_and_others_stay_with_the_host";
    const TAG_5: &[u8] = &[0x81, 0, 0x20, 5];
    const TAG_6: &[u8] = &[0x81, 0, 0x20, 6];
    /// A frame of the next experimental EtherType.
    fn other(len: usize, tag: &[u8]) -> Vec<u8> {
        let mut frame = frame(len, tag);
        frame[12 + tag.len() + 1] = 0xb6;
        frame
    }
    isolated(test, || {
        veth("a", "b");
        let (mut b, mut host) = (plain("b"), plain("a"));
        // Each of its own length, to tell them apart.
        let frames = [
            frame(70, &[]),
            frame(71, TAG_5),
            frame(72, TAG_6),
            other(73, &[]),
            other(74, TAG_5),
            other(75, TAG_6),
        ];
        for (steer, taken) in [
            (json!({ "ether_types": [0x88b5] }), &[0, 1, 2][..]),
            (json!({ "vlans": [5] }), &[1, 4]),
            (json!({ "vlans": [5, 7], "ether_types": [0x88b5] }), &[1]),
            (
                json!({ "udp_ports": [2152], "ether_types": [0x88b6] }),
                &[3, 4, 5],
            ),
        ] {
            for mode in MODES {
                let config = json!({ "interface": "a", "mode": mode, "steer": steer });
                let Some(mut a) = open(test, &config) else {
                    return;
                };
                a.reap();
                assert_eq!(b.tx(&frames), frames.len(), "{config}");
                let of = |is_taken: bool| -> Vec<_> {
                    let wanted = (0..frames.len()).filter(|at| taken.contains(at) == is_taken);
                    wanted.map(|at| frames[at].clone()).collect()
                };
                assert_eq!(receive(&mut a, taken.len()), of(true), "{config}");
                let left = frames.len() - taken.len();
                assert_eq!(receive(&mut host, left), of(false), "{config}");
                assert!(a.rx(32).packets.is_empty(), "{config}");
                assert!(host.rx(32).packets.is_empty(), "{config}");
                a.close().unwrap();
            }
        }
    });
}
