//! Ports of two queues between two hosts in network namespaces: many flows are spread over the
//! workers of both queues, which receive and send; each is killed under traffic, and every packet
//! is accounted for. `xdp` in both modes, whose second worker joins the redirect program of the
//! first one though it is confined; `packet_socket` with its fanout group; `tap` with several
//! queues.

#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::collections::HashSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

use netns::{Host, has, isolated, run};
use rustix::process::Signal;
use serde_json::Value;
use support::*;

/// Flows: that all of them come by one of two queues is one chance in 2^63.
const FLOWS: u16 = 64;
/// Datagrams of each flow, one after the other, where none may be lost.
const ROUNDS: u32 = 20;
/// How long an answer is waited for where packets may be lost.
const SOON: Duration = Duration::from_millis(5);
const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
/// How often a worker is killed.
const KILLS: usize = 4;
const SIDES: [&str; 2] = ["left", "right"];

/// From one host to the other and back, the ports' queues in two workers, and each shard in a
/// process of its own. What comes by a queue leaves by the queue of that number.
fn chain(port: impl Fn(&str) -> String) -> String {
    let queues = "queues: { count: 2, key: flow }";
    let [left, right] = SIDES.map(|side| format!("  {side}: {{ {}, {queues} }}\n", port(side)));
    format!(
        "ports:\n{left}{right}nfs:
  to-right: {{ type: count, shards: {{ count: 2, key: flow }} }}
  to-left:  {{ type: count, shards: {{ count: 2, key: flow }} }}
links:
  - left -> to-right -> right
  - right -> to-left -> left
run: {{ mode: process, orphan: 60s }}
"
    )
}

/// Whether this can be tried here; says why not.
fn can_run(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return false;
    }
    has(test, &["ip", "ethtool"])
}

/// Two hosts, whose interfaces `left0` and `right0` end in this namespace as `left1` and `right1`,
/// with two queues each. They say nothing by themselves, so that all packets can be counted.
fn hosts() -> [Host; 2] {
    [0, 1].map(|at| {
        let (side, here, there) = (SIDES[at], at + 1, 2 - at);
        let queues = "numtxqueues 2 numrxqueues 2";
        run(&format!(
            "ip link add name {side}1 {queues} type veth peer name {side}0 {queues} address \
             02:00:00:00:00:0{here}"
        ));
        run(&format!("ip link set dev {side}1 up"));
        let host = Host::new();
        let quiet = host.spawn(|| fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"));
        // Where there is no IPv6, there is nothing to switch off.
        let _ = quiet.join().unwrap();
        host.adopt(&format!("{side}0"), &format!("{}/24", ADDRESSES[at]));
        host.run(&format!("ethtool -K {side}0 tx off tso off gso off"));
        let peer = ADDRESSES[1 - at];
        host.run(&format!(
            "ip neigh add {peer} lladdr 02:00:00:00:00:0{there} dev {side}0 nud permanent"
        ));
        host
    })
}

/// What flow `flow` sends as its datagram `number`.
fn payload(flow: u16, number: u32) -> Vec<u8> {
    let len = 6 + (usize::from(flow) * 31 + number as usize * 7) % 1200;
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(flow.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend((6..len).map(|at| (at * 13 + usize::from(flow)) as u8));
    bytes
}

/// The right host gives back what it gets, until it is told to end.
fn echo(host: &Host, end: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let socket = host.spawn(|| UdpSocket::bind((ADDRESSES[1], 7)).unwrap());
    let (socket, end) = (socket.join().unwrap(), Arc::clone(end));
    socket.set_read_timeout(Some(SOON)).unwrap();
    host.spawn(move || {
        let (mut count, mut bytes) = (0, [0; 2000]);
        while !end.load(Ordering::Relaxed) {
            let Ok((len, from)) = socket.recv_from(&mut bytes) else {
                continue;
            };
            count += 1;
            assert_eq!(socket.send_to(&bytes[..len], from).unwrap(), len);
        }
        count
    })
}

/// Sockets of this thread's host, one for each flow, at ports that no other generation has.
fn sockets(generation: u16) -> Vec<UdpSocket> {
    let open = |flow| {
        let port = 10_000 + generation * FLOWS + flow;
        let socket = UdpSocket::bind((ADDRESSES[0], port)).unwrap();
        socket.connect((ADDRESSES[1], 7)).unwrap();
        socket
    };
    (0..FLOWS).map(open).collect()
}

/// The flows of the left host.
struct Flows {
    sockets: Vec<UdpSocket>,
    old: Vec<UdpSocket>,
    /// Datagrams of each flow.
    number: u32,
    /// Which of them were answered.
    answered: HashSet<(u16, u32)>,
}

impl Flows {
    fn new(host: &Host) -> Self {
        Self {
            sockets: host.spawn(|| sockets(0)).join().unwrap(),
            old: Vec::new(),
            number: 0,
            answered: HashSet::new(),
        }
    }

    /// Goes on with other flows: a TAP leaves those that it knows with the queue that had them
    /// last. Whatever still comes to the old ones finds them open.
    fn renew(&mut self, generation: u16) {
        let new = sockets(generation);
        self.old.extend(std::mem::replace(&mut self.sockets, new));
    }

    fn sent(&self) -> u64 {
        u64::from(self.number) * u64::from(FLOWS)
    }

    fn answers(&self) -> u64 {
        self.answered.len() as u64
    }

    /// Sends one of each flow, and waits so long for the answer to each. What comes is what was
    /// sent, and comes once.
    fn exchange(&mut self, patience: Duration) {
        self.number += 1;
        for (flow, socket) in (0..FLOWS).zip(&self.sockets) {
            socket.set_read_timeout(Some(patience)).unwrap();
            let bytes = payload(flow, self.number);
            assert_eq!(socket.send(&bytes).unwrap(), bytes.len());
        }
        for flow in 0..FLOWS {
            while self.answer(flow).is_some_and(|number| number < self.number) {}
        }
    }

    /// The number of the next answer, in time.
    fn answer(&mut self, flow: u16) -> Option<u32> {
        let mut bytes = [0; 2000];
        let len = match self.sockets[usize::from(flow)].recv(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => panic!("flow {flow}: {error}"),
        };
        let number = u32::from_be_bytes(bytes[2..6].try_into().unwrap());
        assert!(
            bytes[..len] == payload(flow, number),
            "flow {flow}: {number} is changed"
        );
        assert!(
            self.answered.insert((flow, number)),
            "flow {flow}: {number} came twice"
        );
        Some(number)
    }
}

fn of_queue(status: &Value, side: &str, queue: usize, what: &str) -> u64 {
    number(&node(status, &format!("{side}/{queue}"))[what])
}

/// Sum over both queues of a port.
fn of_port(status: &Value, side: &str, what: &str) -> u64 {
    [0, 1]
        .map(|queue| of_queue(status, side, queue, what))
        .iter()
        .sum()
}

/// Packets received and sent at a queue of both ports.
fn moved(status: &Value, queue: usize) -> [u64; 4] {
    let counts = ["rx_packets", "tx_packets"];
    let of = |side: &str| counts.map(|what| of_queue(status, side, queue, what));
    let ([a, b], [c, d]) = (of(SIDES[0]), of(SIDES[1]));
    [a, b, c, d]
}

/// All four have grown.
fn has_moved(now: &Value, queue: usize, before: &Value) -> bool {
    let pairs = moved(now, queue).into_iter().zip(moved(before, queue));
    pairs.into_iter().all(|(now, before)| now > before)
}

/// Packets that have come to a host's interface.
fn arrived(host: &Host, side: &'static str) -> u64 {
    let shown = host.spawn(move || {
        let shown = std::process::Command::new("ip")
            .args(["-j", "-s", "link", "show", "dev", &format!("{side}0")])
            .output();
        serde_json::from_slice::<Value>(&shown.unwrap().stdout).unwrap()
    });
    let shown = shown.join().unwrap();
    let count = &shown[0]["stats64"]["rx"]["packets"];
    count.as_u64().unwrap_or_else(|| panic!("{shown:#}"))
}

/// Packets that links of such names have taken, or given.
fn on_links(status: &Value, what: &str, is_meant: impl Fn(&str) -> bool) -> u64 {
    let links = status["links"].as_array().unwrap().iter();
    let meant = links.filter(|link| is_meant(link["name"].as_str().unwrap()));
    meant.map(|link| number(&link[what])).sum()
}

/// What a port has received went on or was dropped, at each queue; what it was given to send was
/// sent, dropped, or in the hands of one who was killed. The host to which packets came out has got
/// all that were sent, and no more than those in such hands besides.
fn assert_accounted(status: &Value, side: &str, arrived: u64) {
    for queue in [0, 1] {
        let name = format!("{side}/{queue}");
        let port = node(status, &name);
        let drops = port["drops"].as_object().unwrap();
        let of = |what: &str| number(&port[what]);
        let drops: u64 = drops.values().map(number).sum();
        let taken = on_links(status, "tx_packets", |link| {
            link.starts_with(&format!("{name} "))
        });
        assert_eq!(of("rx_packets"), taken, "{name} in {status:#}");
        let given = on_links(status, "rx_packets", |link| {
            link.ends_with(&format!(" {name}"))
        });
        let ended = of("tx_packets") + drops + of("killed");
        assert_eq!(ended, given, "{name} in {status:#}");
    }
    let sent = of_port(status, side, "tx_packets");
    let killed = of_port(status, side, "killed");
    assert!(
        (sent..=sent + killed).contains(&arrived),
        "{arrived} at {side} in {status:#}"
    );
    println!("\nSHOW {side}: {sent} sent, {killed} in hands of the killed, {arrived} arrived");
}

/// Flows pass by both queues, none is lost; then each worker is killed, and again. `join` puts the
/// hosts to the chain once that runs.
fn pass_and_kill(text: &str, join: impl FnOnce()) {
    let [left, right] = hosts();
    pass_and_kill_between(&[left, right], text, join);
}

fn pass_and_kill_between([left, right]: &[Host; 2], text: &str, join: impl FnOnce()) {
    let chain = Running::start("queues", text);
    join();
    let end = Arc::new(AtomicBool::new(false));
    let echo = echo(right, &end);
    let mut flows = Flows::new(left);
    // Ports take packets some time after their workers run.
    chain.until("all queues are attached", |status| {
        let attached = |side: &str, queue: usize| {
            let node = node(status, &format!("{side}/{queue}"));
            number(&node["counters"]["attached"]) == 1
        };
        SIDES
            .iter()
            .all(|side| attached(side, 0) && attached(side, 1))
    });
    for _ in 0..ROUNDS {
        flows.exchange(PATIENCE);
    }
    assert_eq!(flows.answers(), flows.sent());
    let all = |status: &Value| {
        let counts = ["rx_packets", "tx_packets"];
        SIDES.map(|side| counts.map(|what| of_port(status, side, what)))
    };
    let status = chain.until("all is counted", |now| all(now) == [[flows.sent(); 2]; 2]);
    for queue in [0, 1] {
        assert!(
            moved(&status, queue).iter().all(|count| *count > 0),
            "{status:#}"
        );
    }
    let mut flows = kill(&chain, left, flows);
    // Whole again: of these none is lost.
    let before = flows.answers();
    for _ in 0..ROUNDS {
        flows.exchange(PATIENCE);
    }
    let whole = u64::from(ROUNDS) * u64::from(FLOWS);
    assert!(flows.answers() - before >= whole, "answers are missing");
    end.store(true, Ordering::Relaxed);
    let echoed = echo.join().unwrap();
    assert!(flows.answers() <= echoed && echoed <= flows.sent());
    let status = chain.stop();
    assert_conserved(&status);
    assert_eq!(number(&status["deaths"]), KILLS as u64, "{status:#}");
    assert_accounted(&status, "left", arrived(left, "left"));
    assert_accounted(&status, "right", arrived(right, "right"));
    println!(
        "\nSHOW sent {} echoed {echoed} answered {}",
        flows.sent(),
        flows.answers()
    );
}

/// Kills the workers of both queues in turns, while the flows pass.
fn kill(chain: &Running, host: &Host, mut flows: Flows) -> Flows {
    let stop = Arc::new(AtomicBool::new(false));
    let generation = Arc::new(AtomicU16::new(0));
    let flooding = host.spawn({
        let (stop, generation) = (Arc::clone(&stop), Arc::clone(&generation));
        move || {
            let mut now = 0;
            while !stop.load(Ordering::Relaxed) {
                let wanted = generation.load(Ordering::Relaxed);
                if std::mem::replace(&mut now, wanted) != wanted {
                    flows.renew(wanted);
                }
                flows.exchange(SOON);
            }
            flows
        }
    });
    let mut random = seed();
    for round in 0..KILLS {
        let (victim, queue) = (format!("ports/{}", round % 2), round % 2);
        let before = chain.until("a status", |_| true);
        let status = chain.until("packets pass", |now| has_moved(now, queue, &before));
        let life = epoch(&status, &victim);
        dither(&mut random, 3_000_000);
        assert!(signal(&status, &victim, Signal::KILL));
        chain.until("it runs again", |now| runs_after(now, &victim, life));
        generation.fetch_add(1, Ordering::Relaxed);
        let after = chain.until("a status", |_| true);
        chain.until("packets pass again", |now| {
            has_moved(now, 0, &after) && has_moved(now, 1, &after)
        });
    }
    stop.store(true, Ordering::Relaxed);
    flooding.join().unwrap()
}

/// What the kernel says of the programs on both interfaces.
fn assert_hung(kind: &str, interfaces: [&str; 2]) {
    for interface in interfaces {
        let mut ip = std::process::Command::new("ip");
        let shown = ip
            .args(["link", "show", "dev", interface])
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(kind), "{shown}");
    }
}

#[test]
fn queues_of_xdp_in_the_driver_lose_no_packet() {
    let test = "queues_of_xdp_in_the_driver_lose_no_packet";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let text = chain(|side| format!("xdp: {{ interface: {side}1, mode: native }}"));
        pass_and_kill(&text, || assert_hung(" xdp ", ["left1", "right1"]));
    });
}

/// A veth pair does not tell the kernel's stack by which queue a packet came, as cards do and TAPs:
/// so a TAP of two queues stands for the card, and another chain for its wire.
const CARDS: &str = "
ports:
  left-wire:  { packet_socket: { interface: left1 } }
  left-card:  { tap: { name: left }, queues: 2 }
  right-wire: { packet_socket: { interface: right1 } }
  right-card: { tap: { name: right }, queues: 2 }
nfs:
  left:  { type: count, shards: { count: 2, key: flow } }
  right: { type: count, shards: { count: 2, key: flow } }
links:
  - left-wire -> left -> left-card
  - left-card -> left-wire
  - right-wire -> right -> right-card
  - right-card -> right-wire
run: { mode: process }
";

#[test]
fn queues_of_xdp_in_the_stack_lose_no_packet() {
    let test = "queues_of_xdp_in_the_stack_lose_no_packet";
    if !can_run(test) || !has_tun(test) {
        return;
    }
    isolated(test, || {
        let hosts = hosts();
        let cards = Running::start("cards", CARDS);
        let text = chain(|side| format!("xdp: {{ interface: {side}, mode: generic }}"));
        pass_and_kill_between(&hosts, &text, || assert_hung("xdpgeneric", SIDES));
        assert_conserved(&cards.stop());
    });
}

#[test]
fn queues_of_a_packet_socket_lose_no_packet() {
    let test = "queues_of_a_packet_socket_lose_no_packet";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let text = chain(|side| format!("packet_socket: {{ interface: {side}1 }}"));
        pass_and_kill(&text, || {});
    });
}

#[test]
fn queues_of_a_tap_lose_no_packet() {
    let test = "queues_of_a_tap_lose_no_packet";
    if !can_run(test) || !has_tun(test) {
        return;
    }
    isolated(test, || {
        let text = chain(|side| format!("tap: {{ name: {side} }}"));
        pass_and_kill(&text, || SIDES.into_iter().for_each(bridge));
    });
}

fn has_tun(test: &str) -> bool {
    let has = Path::new("/dev/net/tun").exists();
    if !has {
        println!("SKIP {test}: no /dev/net/tun");
    }
    has
}

/// Joins a TAP of the chain with the host behind that side's veth pair. The bridge, too, says
/// nothing by itself.
fn bridge(side: &str) {
    run(&format!(
        "ip link add name {side}2 type bridge mcast_snooping 0"
    ));
    for port in [format!("{side}1"), side.to_owned()] {
        run(&format!("ip link set dev {port} master {side}2"));
    }
    run(&format!("ip link set dev {side}2 up"));
}

/// `catena port list` tells how many queues an interface has, and how many it can have.
#[test]
fn queues_of_an_interface_are_listed() {
    let test = "queues_of_an_interface_are_listed";
    if !can_run(test) {
        return;
    }
    let list = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_catena"))
            .args(["port", "list"])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told = |name: &str| {
        let listed: Value = serde_json::from_str(&list(&["--json"])).unwrap();
        let interfaces = listed["machine"]["interfaces"].as_array().unwrap();
        let one = interfaces.iter().find(|one| one["name"] == name).unwrap();
        let ports = one["ports"].as_array().unwrap();
        assert!(ports.iter().all(|port| port["is_usable"] == true), "{one}");
        assert_eq!(one["driver"], "veth", "{one}");
        ["queues", "queues_max"].map(|key| number(&one[key]))
    };
    isolated(test, || {
        run(
            "ip link add name many numrxqueues 4 numtxqueues 4 type veth peer name one \
             numrxqueues 1 numtxqueues 1",
        );
        run("ip link set dev many up");
        run("ip link set dev one up");
        assert_eq!((told("many"), told("one")), ([4, 4], [1, 1]));
        run("ethtool -L many rx 2 tx 2");
        assert_eq!((told("many"), told("one")), ([2, 4], [1, 1]));
        let text = list(&[]);
        let line = |name: &str| {
            let start = format!("{name}: ");
            let mut lines = text.lines();
            lines.find(|line| line.starts_with(&start)).unwrap()
        };
        assert!(line("many").ends_with("queues: 2 of 4"), "{text}");
        assert!(line("one").ends_with("queues: 1"), "{text}");
    });
}
