//! Open vSwitch on DPDK: a chain as a network function behind a bridge with vhost-user ports.
//!
//! The switch is the test's own: its database, sockets and logs lie in the test's folder. It
//! needs no huge pages, and it ends with the test. What passes is 500 numbered packets of a
//! capture, fewer than any ring holds, so that none may be missing.

use rustix::process::{Pid, Signal};

use super::peer::wait;
use super::support::*;
use super::*;

const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// DPDK of the switch: on small pages, without cards.
const EXTRA: &str = "--no-pci --no-huge --legacy-mem -m 512 --no-telemetry --no-shconf";
/// Of the tester, and the two of the chain.
const PORTS: usize = 3;
const PACKETS: u16 = 500;

struct Switch {
    dir: PathBuf,
    database: Child,
    daemon: Option<Child>,
}

impl Switch {
    fn start(dir: &Path) -> Self {
        tool(dir, "ovsdb-tool", &["create", &at(dir, "conf.db"), SCHEMA]);
        let remote = format!("--remote=punix:{}", at(dir, "db.sock"));
        let control = format!("--unixctl={}", at(dir, "db.ctl"));
        let words = [&*at(dir, "conf.db"), &remote, &control];
        let mut switch = Self {
            dir: dir.to_owned(),
            database: spawn(dir, "ovsdb-server", &words),
            daemon: None,
        };
        wait("ovsdb-server listens", || dir.join("db.sock").exists());
        let extra = format!("other_config:dpdk-extra=\"{EXTRA}\"");
        // Its shared pool takes nearly all memory, and is made twice if a guest calls early.
        let settings = "--no-wait init -- set Open_vSwitch . other_config:dpdk-init=true \
                        other_config:per-port-memory=true \
                        other_config:vhost-sock-dir=. other_config:pmd-cpu-mask=0x1";
        let mut words: Vec<&str> = settings.split_whitespace().collect();
        words.push(&extra);
        switch.configure(&words);
        switch.run();
        let mut text = "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure".into();
        for port in 0..PORTS {
            let number = port + 1;
            text = format!(
                "{text} -- add-port br0 p{port} -- set interface p{port} type=dpdkvhostuser \
                 ofport_request={number}"
            );
        }
        switch.configure(&text.split(' ').collect::<Vec<_>>());
        switch.join();
        switch
    }

    /// Starts the daemon that switches, with what the database says.
    fn run(&mut self) {
        let database = format!("unix:{}", at(&self.dir, "db.sock"));
        let control = format!("--unixctl={}", at(&self.dir, "switch.ctl"));
        self.daemon = Some(spawn(&self.dir, DAEMON, &[&database, &control]));
    }

    /// Ends it, as a system does that restarts it, and starts another one.
    fn restart(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        let pid = Pid::from_child(&daemon);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        daemon.wait().unwrap();
        self.run();
        // It answers once it has the bridge and the ports again.
        self.configure(&["set", "bridge", "br0", "other_config:again=true"]);
        self.join();
    }

    /// Returns when the switch has done it.
    fn configure(&self, words: &[&str]) {
        let database = format!("--db=unix:{}", at(&self.dir, "db.sock"));
        let arguments = [&["--timeout=30", &database], words].concat();
        tool(&self.dir, "ovs-vsctl", &arguments);
    }

    /// What the tester sends goes to the chain's first port, and from its second one back.
    fn join(&self) {
        let bridge = format!("unix:{}", at(&self.dir, "br0.mgmt"));
        for [from, to] in [[1, 2], [3, 1]] {
            let flow = format!("in_port={from},actions=output:{to}");
            tool(&self.dir, "ovs-ofctl", &["add-flow", &bridge, &flow]);
        }
    }

    /// Whether the chain's ports have their guest.
    fn is_joined(&self) -> bool {
        let database = format!("--db=unix:{}", at(&self.dir, "db.sock"));
        let words = ["--timeout=30", &database, "get", "interface"];
        let states = [
            "p1",
            "link_state",
            "--",
            "get",
            "interface",
            "p2",
            "link_state",
        ];
        let told = tool(&self.dir, "ovs-vsctl", &[&words[..], &states].concat());
        told.lines().filter(|state| *state == "up").count() == 2
    }

    /// Packets that the switch has sent to the chain, and from it to the tester, in this life of
    /// the switch.
    fn counts(&self) -> [u64; 2] {
        let bridge = format!("unix:{}", at(&self.dir, "br0.mgmt"));
        [1, 3].map(|from| {
            let flow = format!("in_port={from}");
            let told = tool(&self.dir, "ovs-ofctl", &["dump-flows", &bridge, &flow]);
            let behind = told.split("n_packets=").nth(1).unwrap();
            behind.split(',').next().unwrap().parse().unwrap()
        })
    }

    /// The guest's end of a port.
    fn guest(&self, number: usize, port: usize) -> String {
        let path = at(&self.dir, &format!("p{port}"));
        format!("net_virtio_user{number},path={path},queue_size=1024,mrg_rxbuf=0")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for daemon in self.daemon.iter_mut().chain([&mut self.database]) {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn at(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Nothing of a switch that the machine runs is read or written.
fn environment(command: &mut Command, dir: &Path) {
    for name in ["RUN", "LOG", "DB", "SYSCONF"] {
        command.env(format!("OVS_{name}DIR"), dir);
    }
    command.env("RUNTIME_DIRECTORY", dir);
}

fn spawn(dir: &Path, program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("nice");
    command.args(["-n", "19", program]).args(arguments);
    command.args(["--no-chdir", "-vconsole:err"]);
    let log = fs::File::create(dir.join("daemon.log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(log);
    environment(&mut command, dir);
    command.spawn().unwrap()
}

fn tool(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    environment(&mut command, dir);
    let output = command.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The frame of that number: all lengths of Ethernet, and bytes that tell it from all others.
fn frame(number: u16) -> Vec<u8> {
    let len = 60 + usize::from(number) * 7 % 1455;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..len).map(|at| (at * 31 + usize::from(number) * 17) as u8));
    frame
}

/// As it comes back from the chain, which swaps its addresses.
fn answer(number: u16) -> Vec<u8> {
    let frame = frame(number);
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

fn write_capture(file: &Path) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1_u32] {
        bytes.extend(word.to_le_bytes());
    }
    for number in 0..PACKETS {
        let frame = frame(number);
        let len = u32::try_from(frame.len()).unwrap();
        for word in [0, 0, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(file, bytes).unwrap();
}

fn read_capture(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap();
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// Has all packets go from the tester through switch, chain and switch, and looks at each of them
/// as it comes back.
fn all_come_back(switch: &Switch, chain: &Running) {
    // The switch has the lowest priority, and thus no core while others want both.
    let started = Instant::now();
    while !switch.is_joined() {
        let status = chain.try_status();
        assert!(started.elapsed() < 4 * PATIENCE, "no guests: {status:#?}");
    }
    let plugin = PLUGIN.as_ref().unwrap().display();
    let dir = tempfile::tempdir().unwrap();
    write_capture(&dir.path().join("sent.pcap"));
    let (guest, came) = (switch.guest(0, 0), at(&switch.dir, "came.pcap"));
    let text = format!(
        "
ports:
  sent: {{ pcap: {{ read: sent.pcap }} }}
  switch: {{ dpdk: {{ device: \"{guest}\", plugin: \"{plugin}\" }} }}
  came: {{ pcap: {{ write: {came} }} }}
links:
  - sent -> switch
  - switch -> came
run: {{ mode: process }}
"
    );
    let before = chain.until("a status", |_| true);
    let counts = switch.counts();
    let tester = Running::start_in("dpdk-tester", &text, dir);
    let packets = u64::from(PACKETS);
    tester.until("all packets came back", |now| {
        number(&node(now, "came")["tx_packets"]) == packets
    });
    let status = chain.until("the chain has counted them", |now| {
        received(now, "left") >= received(&before, "left") + packets
    });
    assert_eq!(
        received(&status, "left"),
        received(&before, "left") + packets
    );
    // The switch tells what its flows have counted once or twice a second.
    chain.until("the switch has counted them both ways", |_| {
        let now = switch.counts();
        (0..2).all(|at| now[at] >= counts[at] + packets)
    });
    assert_eq!(switch.counts(), counts.map(|count| count + packets));
    assert_conserved(&tester.stop());
    let came = read_capture(&switch.dir.join("came.pcap"));
    assert_eq!(came.len(), usize::from(PACKETS));
    for (came, number) in came.iter().zip(0..PACKETS) {
        assert_eq!(*came, answer(number), "packet {number}");
    }
}

/// Tester, switch, chain, switch, tester; then the chain's ports are killed, and then the switch is
/// restarted, and all packets pass again.
#[test]
fn a_chain_is_a_function_behind_a_bridge_of_open_vswitch() {
    let test = "a_chain_is_a_function_behind_a_bridge_of_open_vswitch";
    if !can_run(test) {
        return;
    }
    if !Path::new(DAEMON).exists() {
        println!("SKIP {test}: openvswitch-switch-dpdk is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut switch = Switch::start(dir.path());
    let text = chain(&switch.guest(0, 1), &switch.guest(1, 2)).replace("count", "macswap");
    let chain = Running::start("dpdk-switch", &text);
    all_come_back(&switch, &chain);

    let status = chain.until("a status", |_| true);
    chain.revive(&status, &["ports"]);
    all_come_back(&switch, &chain);

    switch.restart();
    let ports = ["left", "right"];
    chain.until("both ports have called again", |now| {
        let came = |port: &&str| counter(now, port, "attached") > counter(now, port, "detached");
        ports.iter().all(|port| counter(now, port, "detached") > 0) && ports.iter().all(came)
    });
    all_come_back(&switch, &chain);
    drop(switch);
    assert_clean(&chain.stop());
}
