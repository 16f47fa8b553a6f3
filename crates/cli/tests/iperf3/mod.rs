//! TCP between two hosts of a test, by iperf3.

use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::netns::{Deadline, Host};

/// What a client says that has sent to a server at `address`, by `words`; both have ended then.
pub(crate) fn iperf3(
    [client, server]: &[Host; 2],
    address: &'static str,
    words: &'static [&'static str],
) -> Value {
    let server = server.spawn(|| {
        let mut iperf3 = Command::new("timeout");
        iperf3
            .args(["30", "iperf3", "-s", "-1"])
            .stdout(Stdio::null());
        iperf3.status().unwrap()
    });
    let client = client.spawn(move || {
        let deadline = Deadline::new();
        loop {
            deadline.check("a server that listens");
            let mut iperf3 = Command::new("iperf3");
            iperf3.args(["-c", address, "--json"]).args(words);
            let output = iperf3.output().unwrap();
            // The server may not listen yet; that is no failure of the command.
            let result = serde_json::from_slice::<Value>(&output.stdout).unwrap();
            if result["error"].is_null() {
                return result;
            }
            thread::yield_now();
        }
    });
    let result = client.join().unwrap();
    assert!(server.join().unwrap().success());
    result
}
