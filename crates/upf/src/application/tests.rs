//! What a connection's own segments do to what is known of it, and what a UE's segments cannot do.

use catena_wire::ip::Addresses;
use catena_wire::options::Options;
use catena_wire::pfcp::value::detection::PfdContents;
use catena_wire::pfcp::{MessageType, key};

use super::*;
use crate::headers;
use crate::public_failures::Smf;
use crate::segment;
use crate::smf::tcp::client_hello;

const VIDEO: &[u8] = b"video";
const DATA: Flags = Flags::ACK;

/// A UPF that knows an application by its host, and the hello of a UE to that host.
struct Known {
    smf: Smf,
    hello: Vec<u8>,
}

impl Known {
    fn new() -> Self {
        let mut smf = Smf::new();
        let kind = MessageType::PFD_MANAGEMENT_REQUEST;
        let (cause, ..) = smf.ask(kind, None, |writer| {
            writer.group(IeType::APPLICATION_ID_PFDS, |writer| {
                writer.put(key::APPLICATION_ID, &VIDEO)?;
                writer.group(IeType::PFD_CONTEXT, |writer| {
                    let contents = PfdContents {
                        domain_name: Some(b"a.example"),
                        ..PfdContents::default()
                    };
                    writer.put(key::PFD_CONTENTS, &contents)
                })
            })
        });
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        let hello = client_hello("a.example", 0);
        Self { smf, hello }
    }

    /// Whether a segment of the connection is the application's: sequence number of an uplink one,
    /// what a downlink one confirms.
    fn is_of(&mut self, is_uplink: bool, number: u32, flags: Flags, data: &[u8]) -> bool {
        let (ue, host) = ([10, 45, 0, 2].into(), [203, 0, 113, 9].into());
        let ((src, src_port), (dst, dst_port)) = match is_uplink {
            true => ((ue, 4000), (host, 443)),
            false => ((host, 443), (ue, 4000)),
        };
        let header = tcp::Header {
            src_port,
            dst_port,
            sequence: if is_uplink { number } else { 900_000_000 },
            acknowledgment: if is_uplink { 900_000_000 } else { number },
            flags,
            window: 8192,
            urgent: 0,
            options: Options::default(),
        };
        let packet = segment::packet(&Addresses::V4 { src, dst }, &header, data);
        let inner = headers::inner(&packet).unwrap();
        let mut look = Look {
            applications: &mut self.smf.upf.applications,
            packet: &packet,
            session: 3,
            now_ns: 1,
            marks: Marks::default(),
            named: Marks::default(),
        };
        look.learn(&inner, is_uplink, [super::number(VIDEO)].into_iter());
        look.is_of(super::number(VIDEO), &inner, is_uplink)
    }

    /// The UE says hello, in data that begin at `sequence`.
    fn begun(sequence: u32, flags: Flags) -> Self {
        let mut known = Self::new();
        let hello = known.hello.clone();
        assert!(known.is_of(true, sequence, flags, &hello));
        known
    }
}

/// A UE can send an end, or a SYN, that its host ignores: packets go on, and are the application's.
#[test]
fn what_a_ue_alone_says_ends_no_connection() {
    for flags in [
        Flags::RST,
        Flags::RST | Flags::ACK,
        Flags::FIN | Flags::ACK,
        Flags::SYN,
        Flags::SYN | Flags::ACK,
    ] {
        let mut known = Known::begun(1000, DATA);
        known.is_of(true, 90_000_000, flags, &[]);
        assert!(known.is_of(false, 1200, DATA, b"video"), "{flags:?}");
        assert!(known.is_of(true, 1200, DATA, b"more"), "{flags:?}");
    }
}

#[test]
fn a_connection_is_over_when_both_sides_have_said_so() {
    for (ue, host) in [
        (Flags::FIN, Flags::FIN),
        (Flags::RST, Flags::FIN),
        (Flags::FIN, Flags::RST),
        (Flags::RST, Flags::RST),
    ] {
        for is_uplink_first in [true, false] {
            let mut known = Known::begun(1000, DATA);
            let (first, second) = match is_uplink_first {
                true => (ue, host),
                false => (host, ue),
            };
            assert!(known.is_of(is_uplink_first, 1200, first, &[]));
            assert!(
                known.is_of(!is_uplink_first, 1200, second, &[]),
                "the last of it"
            );
            assert!(!known.is_of(false, 1200, DATA, b"video"), "{ue:?} {host:?}");
        }
    }
}

/// The host's SYN+ACK is the new connection's first packet that cannot be made up.
#[test]
fn another_connection_begins_with_the_hosts_syn() {
    let mut known = Known::begun(1000, DATA);
    assert!(known.is_of(true, 90_000_000, Flags::SYN, &[]));
    let taken = Flags::SYN | Flags::ACK;
    assert!(!known.is_of(false, 90_000_001, taken, &[]));
    assert!(!known.is_of(false, 90_000_001, DATA, b"else"));
}

/// It may be repeated behind the hello, and confirm a hello that came with the SYN (RFC 7413).
#[test]
fn a_syn_of_the_connection_itself_ends_nothing() {
    let taken = Flags::SYN | Flags::ACK;
    let mut repeated = Known::begun(1000, DATA);
    assert!(repeated.is_of(false, 1000, taken, &[]));
    let mut early = Known::begun(5000, Flags::SYN);
    assert!(early.is_of(false, 5001, taken, &[]));
    assert!(early.is_of(false, 5200, DATA, b"video"));
}
