//! Goal: real programs get along with flow programs between them. Method: network namespaces with
//! curl, and nginx and Python's web servers, on either side of `chains/flow-balancer.yaml`, a
//! server that vanishes, iperf3 through a policer whose rate is known, and scapy's terminals, base
//! stations and core around `chains/flow-offload.yaml`. Set up by `tests/setup/netns.sh` and
//! `tests/setup/mobile.sh`.

#[path = "flow_peers/compose.rs"]
mod compose;
#[path = "flow_peers/containers.rs"]
mod containers;
#[path = "flow_peers/health.rs"]
mod health;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// Three namespaces in a row: `left`, `middle` with the interfaces `first` and `second`, `right`.
struct Hosts {
    names: [String; 3],
    children: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Hosts {
    /// None, with the reason printed, where there can be none.
    fn new(test: &str, interfaces: [&str; 2]) -> Option<Self> {
        let skip = |reason: &str| println!("SKIP {test}: {reason}");
        if !rustix::process::geteuid().is_root() {
            skip("not root");
            return None;
        }
        for tool in [
            "ip", "ss", "ethtool", "curl", "iperf3", "nginx", "ping", "python3",
        ] {
            if Command::new(tool).arg("--version").output().is_err() {
                skip(&format!("no {tool}; run tests/setup/netns.sh"));
                return None;
            }
        }
        let probe = Command::new("unshare").args(["--net", "true"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            skip("no network namespaces here");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (count, id) = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
        let hosts = Self {
            names: ["left", "middle", "right"].map(|side| format!("flow-{count}-{side}-{id}")),
            children: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        for name in &hosts.names {
            run(Command::new("ip").args(["netns", "add", name]));
            hosts.ip(name, "link set dev lo up");
            // They are hosts, and no routers: docker has all new namespaces forward packets.
            let mut quiet = Command::new("ip");
            quiet.args(["netns", "exec", name, "sh", "-c"]);
            run(quiet.arg("echo 0 > /proc/sys/net/ipv4/ip_forward"));
        }
        let [left, middle, right] = &hosts.names;
        for (interface, host, mac) in [
            (interfaces[0], left, "02:00:00:00:00:01"),
            (interfaces[1], right, "02:00:00:00:00:02"),
        ] {
            hosts.ip(
                middle,
                &format!("link add name {interface} type veth peer name eth0 netns {host}"),
            );
            hosts.ip(middle, &format!("link set dev {interface} up"));
            hosts.ip(host, &format!("link set dev eth0 address {mac} up"));
            // Segments leave as they are, with whole checksums.
            hosts.run_in(
                host,
                "ethtool -K eth0 tso off gso off tx off tx-udp-segmentation off",
            );
        }
        Some(hosts)
    }

    fn ip(&self, namespace: &str, command: &str) {
        run(Command::new("ip")
            .args(["-n", namespace])
            .args(command.split(' ')));
    }

    fn command(&self, namespace: &str, command: &str) -> Command {
        let mut words = command.split(' ');
        let mut made = Command::new("ip");
        made.args(["netns", "exec", namespace]).args(&mut words);
        made.env("CATENA_RUNTIME_DIR", self.folder.path().join("run"));
        made.stdin(Stdio::null());
        made
    }

    /// A program with the network of the middle. Not by `ip netns exec`, which hides the control
    /// groups that container engines need.
    fn in_the_middle(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.names[1]));
        command.arg(program).stdin(Stdio::null());
        command
    }

    fn run_in(&self, namespace: &str, command: &str) -> Output {
        run(&mut self.command(namespace, command))
    }

    /// Starts a program; gives its place among the children.
    fn start(&mut self, mut command: Command) -> usize {
        let quiet = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.children.push(quiet.spawn().unwrap());
        self.children.len() - 1
    }

    /// Starts a chain in the middle, and waits for it.
    fn start_chain(&mut self, name: &str, file: &Path) {
        let catena = env!("CARGO_BIN_EXE_catena");
        let middle = self.names[1].clone();
        let command = self.command(&middle, &format!("{catena} run {}", file.display()));
        self.start(command);
        let status = format!("{catena} status {name}");
        self.until("the chain runs", &middle, &status);
    }

    /// Runs a command until it succeeds; gives what it printed.
    fn until(&self, what: &str, namespace: &str, command: &str) -> String {
        let start = Instant::now();
        loop {
            let output = self.command(namespace, command).output().unwrap();
            if output.status.success() {
                return String::from_utf8_lossy(&output.stdout).into_owned();
            }
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(start.elapsed() < PATIENCE, "{what}: {said}");
        }
    }

    /// Brings all ends of an offload to the right host, as `eth1` (radio), `eth0` (core) and `eth2`
    /// (edge): in one place, where one script plays all parts.
    fn join_ends(&self) {
        let [left, middle, right] = &self.names;
        self.ip(left, &format!("link set dev eth0 netns {right} name eth1"));
        self.ip(right, "link set dev eth1 up");
        let edge = format!("link add name edge type veth peer name eth2 netns {right}");
        self.ip(middle, &edge);
        self.ip(middle, "link set dev edge up");
        self.ip(right, "link set dev eth2 up");
    }

    /// Joins two hosts through a balancer: a client, and the addresses of three servers.
    fn join_servers(&self) {
        let [left, _, right] = &self.names;
        self.ip(left, "address add 10.0.0.1/24 dev eth0");
        self.ip(
            left,
            "neighbour add 10.0.0.100 lladdr 02:00:00:00:00:02 dev eth0",
        );
        for (_, address) in SERVERS {
            self.ip(right, &format!("address add {address}/32 dev eth0"));
        }
        self.ip(right, "route add 10.0.0.0/24 dev eth0");
        self.ip(
            right,
            "neighbour add 10.0.0.1 lladdr 02:00:00:00:00:01 dev eth0",
        );
    }

    /// Runs the command.
    fn catena(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.env("CATENA_RUNTIME_DIR", self.folder.path().join("run"));
        run(command.args(arguments))
    }

    /// The status of a chain, once it runs.
    fn status(&self, chain: &str) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.env("CATENA_RUNTIME_DIR", self.folder.path().join("run"));
        let output = command.args(["status", chain, "--json"]).output().unwrap();
        let is_there = output.status.success();
        is_there.then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Asks an NF of the chain.
    fn control(&self, chain: &str, node: &str, request: &Value) {
        self.catena(&["nf", "control", chain, node, &request.to_string()]);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path)
}

/// Servers behind a balancer: what they say, and their addresses.
const SERVERS: [(&str, &str); 3] = [
    ("one", "10.0.1.1"),
    ("two", "10.0.1.2"),
    ("three", "10.0.1.3"),
];

/// A web server that says who it is, and one path whose end comes when a file is there.
const SERVER: &str = r#"
import http.server, os, sys, time
address, name, gate = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (name + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/slow":
            self.wfile.flush()
            while not os.path.exists(gate):
                time.sleep(0.05)
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer((address, 8080), Handler).serve_forever()
"#;

/// nginx as one more of these servers, in a folder of its own.
const NGINX: &str = "
daemon off;
master_process off;
pid FOLDER/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    server {
        listen ADDRESS:8080;
        location / { return 200 'NAME\n'; }
    }
}
";

/// Starts nginx at an address, and waits for it; gives its place among the children.
fn nginx(hosts: &mut Hosts, name: &str, address: &str) -> usize {
    let folder = hosts.folder.path().join(name);
    let _ = std::fs::create_dir(&folder);
    let (conf, at) = (folder.join("nginx.conf"), folder.display().to_string());
    let text = NGINX.replace("FOLDER", &at).replace("ADDRESS", address);
    std::fs::write(&conf, text.replace("NAME", name)).unwrap();
    let right = hosts.names[2].clone();
    let command = format!("nginx -e stderr -p {at} -c {}", conf.display());
    let command = hosts.command(&right, &command);
    let child = hosts.start(command);
    let ask = format!("curl --silent --fail --max-time 5 http://{address}:8080/");
    hosts.until("the server listens", &right, &ask);
    child
}

fn server(number: u8, weight: u8, up: u8) -> Value {
    let data = serde_json::json!({
        "ipv4": format!("10.0.1.{}", number + 1), "ipv6": format!("2001:db8:1::{}", number + 1),
        "port": 8080, "weight": weight, "up": up,
    });
    serde_json::json!({"set": "servers", "key": [number], "data": data})
}

#[test]
fn curl_reaches_web_servers_through_the_balancer_and_one_of_them_vanishes() {
    let test = "curl_reaches_web_servers_through_the_balancer_and_one_of_them_vanishes";
    let Some(mut hosts) = Hosts::new(test, ["clients", "servers"]) else {
        return;
    };
    let [left, _, right] = hosts.names.clone();
    hosts.join_servers();
    let script = hosts.folder.path().join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let gate = hosts.folder.path().join("gate");
    nginx(&mut hosts, "three", "10.0.1.3");
    for (name, address) in &SERVERS[..2] {
        let (script, gate) = (script.display(), gate.display());
        let command = format!("python3 {script} {address} {name} {gate}");
        let command = hosts.command(&right, &command);
        hosts.start(command);
        let ask = format!("curl --silent --fail --max-time 5 http://{address}:8080/");
        hosts.until("the server listens", &right, &ask);
    }
    hosts.start_chain("flow-balancer", &repository("chains/flow-balancer.yaml"));
    let set = |hosts: &Hosts, request: &Value| hosts.control("flow-balancer", "balance", request);
    let ask = "curl --silent --show-error --fail --max-time 20 http://10.0.0.100/";
    let names = |hosts: &Hosts| -> Vec<String> {
        let name = || hosts.run_in(&left, ask).stdout;
        (0..20)
            .map(|_| String::from_utf8(name()).unwrap())
            .collect()
    };
    let of = |names: &[String], name: &str| names.iter().filter(|one| one.trim() == name).count();
    let all = names(&hosts);
    let counts = ["one", "two", "three"].map(|name| of(&all, name));
    assert!(counts.iter().all(|count| *count > 0), "{all:?}");
    assert_eq!(counts.iter().sum::<usize>(), 20, "{all:?}");
    set(&hosts, &server(2, 0, 0));
    let both = names(&hosts);
    assert_eq!(of(&both, "one") + of(&both, "two"), 20, "{both:?}");

    // A long answer of each: one drains while the other is asked.
    let slow = "curl --silent --show-error --keepalive-time 1 --max-time 60 http://10.0.0.100/slow";
    let mut waiting = Vec::new();
    for number in [0, 1] {
        set(&hosts, &server(1 - number, 0, 1));
        set(&hosts, &server(number, 1, 1));
        let command = hosts.command(&left, slow);
        waiting.push(hosts.start(command));
        // Its answer has begun before the other server's turn.
        let address = format!("10.0.1.{}", number + 1);
        let seen = format!("ss -Hnt state established src {address}:8080");
        let start = Instant::now();
        while hosts.run_in(&right, &seen).stdout.is_empty() {
            assert!(start.elapsed() < PATIENCE, "no connection to {address}");
        }
    }
    // The first server's host is gone, and says nothing; its client hears of it by its next packet.
    hosts.ip(&right, "address delete 10.0.1.1/32 dev eth0");
    set(&hosts, &server(0, 0, 0));
    let lost = hosts.children[waiting[0]].wait().unwrap();
    // A reset by the peer while receiving (curl's 56), or before anything came (52).
    assert!(matches!(lost.code(), Some(52 | 56)), "{lost:?}");
    // New ones get the other server, and the one that lives goes on to its end.
    let rest = names(&hosts);
    assert_eq!(of(&rest, "two"), 20, "{rest:?}");
    std::fs::write(&gate, "").unwrap();
    let child = hosts.children.swap_remove(waiting[1]);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "two");
    // nginx takes over what the last of the others leaves.
    set(&hosts, &server(2, 1, 1));
    set(&hosts, &server(1, 0, 1));
    let rest = names(&hosts);
    assert_eq!(of(&rest, "three"), 20, "{rest:?}");
}

#[test]
fn a_terminal_is_offloaded_and_its_core_is_not_told() {
    let test = "a_terminal_is_offloaded_and_its_core_is_not_told";
    let Some(mut hosts) = Hosts::new(test, ["radio", "core"]) else {
        return;
    };
    let right = hosts.names[2].clone();
    hosts.join_ends();
    hosts.start_chain("flow-offload", &repository("chains/flow-offload.yaml"));
    let script = repository("crates/cli/tests/flow_peers/offload.py");
    let command = format!("python3 {} eth1 eth0 eth2", script.display());
    let output = hosts.run_in(&right, &command);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "all as it should be\n"
    );
}

/// A Python with scapy, or none, with the reason printed.
fn scapy(test: &str) -> Option<PathBuf> {
    let python = repository("target/oracles/mobile/bin/python");
    if !python.exists() {
        println!("SKIP {test}: no scapy; run tests/setup/mobile.sh");
        return None;
    }
    Some(python)
}

/// One is learnt by a probe, others from what comes down; handovers, tunnels that get other owners,
/// end markers. The server at the edge is the kernel's, all else scapy's.
#[test]
fn terminals_of_scapy_reach_the_edge_and_never_each_other() {
    let test = "terminals_of_scapy_reach_the_edge_and_never_each_other";
    let Some(python) = scapy(test) else { return };
    let Some(mut hosts) = Hosts::new(test, ["radio", "core"]) else {
        return;
    };
    hosts.join_ends();
    hosts.start_chain("flow-offload", &repository("chains/flow-offload.yaml"));
    let right = hosts.names[2].clone();
    // What leaves a tunnel has the core's address of Ethernet, and is the edge's now.
    hosts.ip(
        &right,
        "link set dev eth2 address 02:00:00:00:00:02 arp off",
    );
    hosts.run_in(&right, "ethtool -K eth2 tx off");
    hosts.ip(&right, "address add 203.0.113.9/24 dev eth2");
    hosts.ip(&right, "route add 10.45.0.0/16 dev eth2");
    let script = repository("crates/cli/tests/flow_peers/offload_scapy.py");
    let command = format!(
        "{} {} eth1 eth0 203.0.113.9",
        python.display(),
        script.display()
    );
    let output = hosts.run_in(&right, &command);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "all as it should be\n"
    );
    // Each was dropped for its own reason; what the edge's kernel says by itself is nobody's too.
    let status = hosts.status("flow-offload").unwrap();
    let mut nodes = status["nodes"].as_array().unwrap().iter();
    let node = nodes.find(|node| node["name"] == "offload").unwrap();
    let drops = &node["drops"];
    assert_eq!(drops["probe_answer"], 2, "{drops}");
    assert_eq!(drops["not_its_tunnel"], 2, "{drops}");
    assert!(drops["unknown_terminal"].as_u64() >= Some(1), "{drops}");
    assert_eq!(drops.as_object().unwrap().len(), 3, "{drops}");
}

/// The programs of these chains are those of `crates/flow/programs`, word for word.
#[test]
fn chains_have_the_programs_that_are_tested() {
    let read = |file: &str| -> Value {
        let text = std::fs::read_to_string(repository(file)).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    };
    for (chain, node, program) in [
        ("chains/flow-balancer", "balance", "balancer"),
        ("chains/flow-offload", "offload", "gtp_offload_probe"),
        ("examples/fb5g/policer", "police", "policer"),
        ("examples/fb5g/balancer", "balance", "load_balancer"),
        ("examples/fb5g/offload", "offload", "gtp_offload_probe"),
    ] {
        let chain = read(&format!("{chain}.yaml"));
        let program = read(&format!("crates/flow/programs/{program}.yaml"));
        assert_eq!(chain["nfs"][node]["program"], program, "{node}");
    }
}

/// What the policer lets through, in bits a second, frames and their headers counted.
const RATE_BPS: f64 = 20e6;
/// Seconds that iperf3 sends.
const SECONDS: f64 = 10.0;
const BURST_BYTES: u32 = 100_000;
/// Bytes of a datagram's payload, and of the headers around it.
const PAYLOAD: f64 = 1200.0;
const HEADERS: f64 = 42.0;

#[test]
fn iperf3_measures_the_rate_of_the_policer() {
    let test = "iperf3_measures_the_rate_of_the_policer";
    let Some(mut hosts) = Hosts::new(test, ["left", "right"]) else {
        return;
    };
    let [left, _, right] = hosts.names.clone();
    for (host, address) in [(&left, "10.77.0.1/24"), (&right, "10.77.0.2/24")] {
        hosts.ip(host, &format!("address add {address} dev eth0"));
    }
    let chain = hosts.folder.path().join("chain.yaml");
    let text = format!(
        r#"
name: flow-iperf
ports:
  left: {{ packet_socket: {{ interface: left, delivery: frames }} }}
  right: {{ packet_socket: {{ interface: right, delivery: frames }} }}
nfs:
  police:
    type: flow
    program:
      metadata: {{ colour: 2 }}
      elements:
        - name: police
          keys: [{{ if: valid(udp), key: [ipv4.src] }}]
          meters: {{ limit: {{ gcra: {{ rate: {RATE_BPS}bps, burst: {BURST_BYTES} }} }} }}
          before: [meta.colour = meter(limit)]
          transitions:
            - {{ if: meta.colour == 2, do: [drop(red)] }}
            - {{ do: [output(out)] }}
links:
  - left -> police -> right
  - right -> left
"#
    );
    std::fs::write(&chain, text).unwrap();
    hosts.start_chain("flow-iperf", &chain);
    let command = hosts.command(&right, "iperf3 --server --bind 10.77.0.2");
    hosts.start(command);
    let start = Instant::now();
    let listening = "ss -Hltn sport = :5201";
    while hosts.run_in(&right, listening).stdout.is_empty() {
        assert!(start.elapsed() < PATIENCE, "iperf3 does not listen");
    }
    // Twice as much as passes.
    let send = format!(
        "iperf3 --client 10.77.0.2 --udp --bitrate 40M --length {PAYLOAD} --time {SECONDS} --json"
    );
    let output = hosts.run_in(&left, &send);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let sum = |name: &str| number(&format!("/end/sum_received/{name}"));
    let (bytes, seconds) = (sum("bytes").unwrap(), sum("seconds").unwrap());
    let frames = bytes / PAYLOAD * (PAYLOAD + HEADERS);
    // The burst is there once; the rest is the rate.
    let rate = (frames - f64::from(BURST_BYTES)) * 8.0 / seconds;
    let off = (rate / RATE_BPS - 1.0).abs();
    assert!(
        off < 0.01,
        "{rate} bit/s, {:.2} % off: {report:#}",
        off * 100.0
    );
}
