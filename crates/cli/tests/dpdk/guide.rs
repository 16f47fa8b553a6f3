//! What docs/guide/ports.md prints of testpmd as a peer, run as it stands there, but in a folder of
//! the test and at the lowest priority.

use super::support::*;
use super::*;

const GUIDE: &str = include_str!("../../../../docs/guide/ports.md");

/// The first block of that kind behind a heading.
fn block(heading: &str, kind: &str) -> &'static str {
    let behind = GUIDE.split(heading).nth(1).expect(heading);
    let start = format!("```{kind}\n");
    let behind = behind.split(&*start).nth(1).expect(kind);
    behind.split("```").next().unwrap()
}

/// A chain of the guide, whose sockets lie in that folder.
fn guided(heading: &str, dir: &Path) -> String {
    let plugin = PLUGIN.as_ref().unwrap().display();
    let text = block(heading, "yaml").replace("/run/", &format!("{}/", dir.display()));
    without_name(&text.replace("\" } }", &format!("\", plugin: \"{plugin}\" }} }}")))
}

/// The commands of the guide.
fn commands(heading: &str, dir: &Path) -> Vec<Testpmd> {
    let text = block(heading, "text").replace("\\\n", " ");
    let text = text.replace("/run/", &format!("{}/", dir.display()));
    let start = |line: &str| {
        let log = fs::File::create(dir.join("testpmd.log")).unwrap();
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).args(line.split_whitespace());
        command
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap());
        Testpmd(command.stdout(log).spawn().unwrap())
    };
    text.lines().map(start).collect()
}

#[test]
fn the_memif_peers_of_the_guide_send_and_receive() {
    if !can_run("the_memif_peers_of_the_guide_send_and_receive") {
        return;
    }
    let heading = "### testpmd, VPP and others by memif";
    let dir = tempfile::tempdir().unwrap();
    let chain = Running::start("guide-memif", &guided(heading, dir.path()));
    let peers = commands(heading, dir.path());
    assert_eq!(peers.len(), 2);
    chain.until("packets from one to the other", |now| {
        number(&node(now, "right")["tx_packets"]) > 1000
    });
    drop(peers);
    assert_clean(&chain.stop());
}

#[test]
fn the_guest_of_the_guide_has_its_packets_back() {
    if !can_run("the_guest_of_the_guide_has_its_packets_back") {
        return;
    }
    let heading = "### A virtual machine by vhost-user";
    let dir = tempfile::tempdir().unwrap();
    let chain = Running::start("guide-vm", &guided(heading, dir.path()));
    let guest = commands(heading, dir.path());
    chain.until("packets there and back", |now| {
        received(now, "vm") > 1000 && number(&node(now, "vm")["tx_packets"]) > 1000
    });
    drop(guest);
    let status = chain.stop();
    assert_conserved(&status);
    assert_eq!(counter(&status, "vm", "refused"), 0, "{status:#}");
}
