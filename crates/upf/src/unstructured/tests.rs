//! What unstructured sessions send into a network, and what of it they take.

use std::path::Path;

use super::*;
use crate::smf::scenario::Scenario;
use crate::smf::simulation::Simulation;

fn scenario() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/upf/scenarios");
    std::fs::read_to_string(folder.join("unstructured.yaml")).unwrap()
}

fn play(text: &str) -> Result<Simulation, String> {
    let mut simulation = Simulation::new(Scenario::parse(text)?)?;
    simulation.play()?;
    Ok(simulation)
}

/// The datagram of N6: from the UE's prefix to the host, with what the UE sent and nothing else.
#[test]
fn what_a_ue_sends_is_the_payload_of_a_datagram() {
    let simulation = play(&scenario()).unwrap();
    let host: IpAddr = "2001:db8:99::9".parse().unwrap();
    let mut to_host = simulation.recorded().iter().filter_map(|(_, frame)| {
        let Outer::Udp {
            src,
            dst,
            src_port,
            dst_port,
            from,
            to,
            l3,
        } = headers::outer(frame)
        else {
            return None;
        };
        let sent = (src, (src_port, dst_port), frame[from..to].to_vec());
        assert!(
            dst != host || frame[l3 + 46..l3 + 48] != [0, 0],
            "a checksum"
        );
        (dst == host).then_some(sent)
    });
    let (src, ports, payload) = to_host.next().unwrap();
    assert_eq!(src, "2001:db8:45::1".parse::<IpAddr>().unwrap());
    assert_eq!(ports, (7, 7));
    assert_eq!((payload.len(), &payload[..4]), (60, &[0, 0, 0, 1][..]));
}

/// Another host's datagrams are not the UE's: only the far end of the tunnel is heard.
#[test]
fn another_host_is_not_heard() {
    let text = scenario().replace("udp: 7 }", "udp: 7, host: '2001:db8:99::77' }");
    let failure = play(&text).unwrap_err();
    assert!(failure.contains("this did not come: Packets"), "{failure}");
}

/// What stands behind a datagram in its IP packet is no payload, nor is what a checksum refutes.
#[test]
fn a_datagram_ends_where_it_says() {
    let mut frame = headers::Datagram {
        frame: headers::Frame {
            src: catena_wire::ethernet::MacAddr([2, 0, 0, 0, 0, 1]),
            dst: catena_wire::ethernet::MacAddr([2, 0, 0, 0, 0, 2]),
        },
        src: "192.0.2.9".parse().unwrap(),
        dst: "192.0.2.1".parse().unwrap(),
        ports: Some((7, 7)),
        traffic_class: 0,
        ident: 1,
    }
    .frame(&[7; 100]);
    let src = "192.0.2.9".parse().unwrap();
    assert_eq!(datagram(&frame), Some((src, 42..142)));
    // Over IPv4 none is needed.
    frame[40..42].fill(0);
    assert_eq!(datagram(&frame), Some((src, 42..142)));
    frame[38..40].copy_from_slice(&18_u16.to_be_bytes());
    assert_eq!(datagram(&frame), Some((src, 42..52)));
    frame[40..42].copy_from_slice(&[1, 2]);
    assert_eq!(datagram(&frame), None);
    frame[38..40].copy_from_slice(&7_u16.to_be_bytes());
    assert_eq!(datagram(&frame), None);
}
