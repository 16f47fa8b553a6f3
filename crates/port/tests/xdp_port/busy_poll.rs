//! Busy polling on a veth pair, in both modes: what the kernel says of the socket, and which calls
//! the port makes.

use serde_json::json;

use super::netns::{frame, isolated, veth};
use super::{MODES, open, plain, receive, settle};

/// `busy_poll` is with the kernel: its socket says for how long, and that this is preferred to
/// interrupts; and the port calls it whenever there is nothing. Without it the kernel, which
/// receives on a veth pair by itself, is not called once.
#[test]
fn busy_polling_is_asked_of_the_kernel_and_done_by_calls() {
    let test = "busy_poll::busy_polling_is_asked_of_the_kernel_and_done_by_calls";
    isolated(test, || {
        veth("a", "b");
        let mut b = plain("b");
        for mode in MODES {
            for (busy_poll, wanted) in [(None, 0), (Some("20us"), 20)] {
                let mut config = json!({ "interface": "a", "mode": mode, "ring": 64 });
                if let Some(time) = busy_poll {
                    config["busy_poll"] = json!(time);
                }
                let Some(mut a) = open(test, &config) else {
                    return;
                };
                assert_eq!(a.busy_poll(), (wanted, busy_poll.is_some()), "{config}");
                assert_eq!(a.counter("rx_calls"), 0);
                for _ in 0..100 {
                    assert!(a.rx(8).packets.is_empty());
                }
                let calls = (a.counter("rx_calls"), a.counter("calls_spared"));
                let expected = if busy_poll.is_some() {
                    (100, 0)
                } else {
                    (0, 100)
                };
                assert_eq!(calls, expected, "{config}");
                // Where the kernel copies it has to be called to send, for every 32 packets.
                assert_eq!(a.tx(&vec![frame(100, &[]); 60]), 60);
                assert_eq!(receive(&mut b, 60).len(), 60);
                assert!(a.counter("tx_calls") >= 2, "{config}");
                settle(&mut a);
                a.close().unwrap();
            }
        }
    });
}
