//! The TAP binding against the running kernel.

mod netns;

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::time::Duration;

use catena_port::packet_socket::{self, PacketSocket};
use catena_port::tap::{Options, Tap, TapError};
use netns::{Deadline, has, isolated, run, without_capabilities};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn open(name: &str) -> Tap {
    Tap::open(name, Options::default()).unwrap()
}

/// As this namespace has it: `/sys` is that of whoever mounted it.
fn index_of(name: &str) -> u32 {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
    name_to_index(&socket, name).unwrap()
}

/// Between a look at an interface and the attachment to it, it may be deleted: it is not made anew
/// then, and one that has come in its place is left alone.
#[test]
fn only_the_interface_that_was_seen_is_attached_to() {
    isolated("only_the_interface_that_was_seen_is_attached_to", || {
        let names = || std::fs::read_to_string("/proc/net/dev").unwrap();
        let attach = |index| Tap::attach_to("tap7", index, Options::default());
        assert!(matches!(attach(4711), Err(TapError::Gone { .. })));
        assert!(!names().contains("tap7"), "it was made anew");
        run("ip tuntap add dev tap7 mode tap");
        let seen = index_of("tap7");
        assert_eq!(attach(seen).unwrap().name(), "tap7");
        run("ip tuntap del dev tap7 mode tap");
        run("ip tuntap add dev tap7 mode tap");
        assert!(matches!(attach(seen), Err(TapError::Gone { .. })));
        assert!(names().contains("tap7"), "another one's was deleted");
        assert!(attach(index_of("tap7")).is_ok());
    });
}

/// Waits until a frame can be read, or 100 ms.
fn wait(tap: &Tap) {
    let timeout = Timespec::try_from(Duration::from_millis(100)).unwrap();
    poll(&mut [PollFd::new(tap, PollFlags::IN)], Some(&timeout)).unwrap();
}

/// The answer of the host 10.9.0.2 to an ARP request (RFC 826) or an echo request (RFC 792).
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&HOST);
    match frame[12..14] {
        [0x08, 0x06] if frame[20..22] == [0, 1] && frame[38..42] == [10, 9, 0, 2] => {
            answer[21] = 2;
            answer[22..28].copy_from_slice(&HOST);
            answer[28..32].copy_from_slice(&[10, 9, 0, 2]);
            answer[32..42].copy_from_slice(&frame[22..32]);
        }
        [0x08, 0x00] if frame[23] == 1 && frame[34] == 8 => {
            answer[26..30].copy_from_slice(&frame[30..34]);
            answer[30..34].copy_from_slice(&frame[26..30]);
            // Type 8 becomes 0, so the checksum grows by 8 in its upper byte (RFC 1624).
            answer[34] = 0;
            let sum = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x0800;
            let sum = (sum & 0xffff) + (sum >> 16);
            answer[36..38].copy_from_slice(&(sum as u16).to_be_bytes());
        }
        _ => return None,
    }
    Some(answer)
}

#[test]
fn host_pings_an_address_behind_the_tap() {
    isolated("host_pings_an_address_behind_the_tap", || {
        if !has("host_pings_an_address_behind_the_tap", &["ping"]) {
            return;
        }
        let tap = open("tap%d");
        assert_eq!(tap.name(), "tap0");
        run("ip address add 10.9.0.1/24 dev tap0");
        tap.set_up().unwrap();
        tap.set_up().unwrap();
        let mut ping = Command::new("ping")
            .args([
                "-n", "-c", "3", "-i", "0.01", "-s", "1400", "-W", "10", "10.9.0.2",
            ])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut buf = [0; 2048];
        let mut echo_count = 0;
        let deadline = Deadline::new();
        let status = loop {
            deadline.check("the end of ping");
            while let Some(len) = tap.recv(&mut buf).unwrap() {
                if let Some(answer) = answer(&buf[..len]) {
                    echo_count += usize::from(answer[12..14] == [0x08, 0x00]);
                    assert!(tap.send(&answer).unwrap());
                }
            }
            if let Some(status) = ping.try_wait().unwrap() {
                break status;
            }
            wait(&tap);
        };
        assert!(status.success());
        assert_eq!(echo_count, 3);
    });
}

#[test]
fn an_interface_that_stays_is_what_its_next_user_asks_for() {
    const NAME: &str = "an_interface_that_stays_is_what_its_next_user_asks_for";
    isolated(NAME, || {
        if !has(NAME, &["ethtool"]) {
            return;
        }
        let leaves_checksums = || {
            let output = Command::new("ethtool")
                .args(["-k", "tap0"])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).contains("tx-checksumming: on")
        };
        run("ip tuntap add dev tap0 mode tap");
        let with_headers = Options {
            vnet_header: true,
            ..Options::default()
        };
        let tap = Tap::open("tap0", with_headers).unwrap();
        tap.take_offloads().unwrap();
        drop(tap);
        assert!(leaves_checksums(), "the interface keeps it");
        let tap = open("tap0");
        tap.leave_offloads().unwrap();
        assert!(!leaves_checksums());
        drop(tap);
        // While one queue has frames without headers, another one cannot have them.
        let queue = |vnet_header| {
            let multi_queue = true;
            Tap::open(
                "tap1",
                Options {
                    multi_queue,
                    vnet_header,
                },
            )
        };
        let _first = queue(false).unwrap();
        assert!(queue(false).is_ok());
        let error = queue(true).unwrap_err();
        assert!(matches!(error, TapError::Mismatch { .. }), "{error}");
    });
}

#[test]
fn frames_pass_both_ways_unchanged() {
    isolated("frames_pass_both_ways_unchanged", || {
        let tap = open("tap0");
        tap.set_up().unwrap();
        let mut host = PacketSocket::open("tap0", packet_socket::Options::default()).unwrap();
        let plain = |len: usize| {
            let mut frame = vec![0xff; 12];
            frame.extend_from_slice(&[0x88, 0xb5]);
            frame.extend((14..len).map(|index| index as u8));
            frame
        };
        let mut tagged = plain(1514);
        tagged.splice(12..12, [0x81, 0x00, 0x00, 0x2a]);
        let mut buf = [0; 2048];
        for sent in [plain(60), plain(1514), tagged] {
            assert!(tap.send(&sent).unwrap());
            assert!(host.wait(netns::PATIENCE).unwrap());
            let mut received = Vec::new();
            host.recv(1, |frame, info| {
                let len = info.copy_frame(frame, &mut buf).unwrap();
                received.extend_from_slice(&buf[..len]);
            })
            .unwrap();
            assert_eq!(received, sent);

            assert_eq!(host.send([&sent[..]]).unwrap().taken, 1);
            let deadline = Deadline::new();
            let len = loop {
                deadline.check("the arrival of the frame");
                match tap.recv(&mut buf).unwrap() {
                    // Anything else is the host's own, such as multicast membership.
                    Some(len) if buf[..6] == [0xff; 6] => break len,
                    Some(_) => {}
                    None => wait(&tap),
                }
            };
            assert_eq!(buf[..len], sent);
        }
    });
}

#[test]
fn empty_queue_yields_none_and_mtu_follows_the_interface() {
    isolated(
        "empty_queue_yields_none_and_mtu_follows_the_interface",
        || {
            let tap = open("tap0");
            assert_eq!(tap.recv(&mut [0; 2048]).unwrap(), None);
            assert_eq!(tap.mtu().unwrap(), 1500);
            run("ip link set dev tap0 mtu 9000");
            assert_eq!(tap.mtu().unwrap(), 9000);
        },
    );
}

#[test]
fn interface_that_is_down_or_gone_is_named() {
    isolated("interface_that_is_down_or_gone_is_named", || {
        let tap = open("tap0");
        let kind = |result: std::io::Result<bool>| result.unwrap_err().kind();
        assert_eq!(kind(tap.send(&[0; 60])), ErrorKind::NetworkDown);
        tap.set_up().unwrap();
        assert!(tap.send(&[0; 60]).unwrap());
        assert_eq!(kind(tap.send(&[0; 13])), ErrorKind::InvalidInput);
        run("ip link delete dev tap0");
        assert_eq!(kind(tap.send(&[0; 60])), ErrorKind::NotFound);
        let error = tap.recv(&mut [0; 2048]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(matches!(tap.mtu(), Err(TapError::System { .. })));
    });
}

#[test]
fn queues_share_an_interface_only_if_all_ask_for_it() {
    isolated("queues_share_an_interface_only_if_all_ask_for_it", || {
        let multi_queue = Options {
            multi_queue: true,
            ..Options::default()
        };
        let single = open("tap0");
        let error = Tap::open("tap0", Options::default()).unwrap_err();
        assert!(matches!(error, TapError::Busy { .. }), "{error}");
        let error = Tap::open("tap0", multi_queue).unwrap_err();
        assert!(matches!(error, TapError::Mismatch { .. }), "{error}");
        let error = open_error("lo");
        assert!(matches!(error, TapError::Mismatch { .. }), "{error}");
        // The interface ends with its descriptor.
        drop(single);
        let queues = [0; 2].map(|_| Tap::open("tap0", multi_queue).unwrap());
        assert_eq!(queues[1].name(), "tap0");
    });
}

fn open_error(name: &str) -> TapError {
    Tap::open(name, Options::default()).unwrap_err()
}

#[test]
fn lack_of_permission_is_named() {
    isolated("lack_of_permission_is_named", || {
        let error = without_capabilities(|| open_error("tap0"));
        assert!(matches!(error, TapError::NotPermitted { .. }), "{error}");
        let tap = open("tap0");
        let error = without_capabilities(move || tap.set_up().unwrap_err());
        assert!(
            matches!(error, TapError::SetUpNotPermitted { .. }),
            "{error}"
        );
    });
}
