//! Ports that cannot be opened: `catena run` says in one line what is wrong and what to do, ends
//! with 2, and leaves nothing attached.

#[path = "../../port/tests/netns/mod.rs"]
mod netns;
#[path = "dpdk/plugin.rs"]
mod plugin;
mod support;

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use netns::{has, isolated, run};
use plugin::PLUGIN;
use support::*;

/// As root, with all that root may do taken away.
const WITHOUT_RIGHTS: &[&str] = &["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// Whether interfaces can be made here; says why not.
fn can_run(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return false;
    }
    has(test, &["ip", "setpriv", "timeout"])
}

/// `catena run` of a chain with this port, below other programs, for half a minute at most.
fn start(dir: &Path, below: &[&str], port: &str) -> Output {
    let text = format!(
        "name: refused\nports:\n  p: {port}\nnfs:\n  n: {{ type: count }}\nlinks:\n  - p -> n -> p\n\
         run: {{ mode: process }}\n"
    );
    let file = dir.join("chain.yaml");
    fs::write(&file, text).unwrap();
    Command::new("timeout")
        .arg("30")
        .args(below)
        .args([env!("CARGO_BIN_EXE_catena"), "run"])
        .arg(&file)
        .env("CATENA_RUNTIME_DIR", dir.join("run"))
        .output()
        .unwrap()
}

/// Names of interfaces, how many want all packets of each, and whether a program hangs there.
fn attached() -> Vec<String> {
    let shown = Command::new("ip").args(["-d", "-o", "link"]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let lines = shown.lines().map(|line| {
        let mut words = line.split_whitespace();
        let name = words.nth(1).unwrap();
        let wanted = words.skip_while(|word| *word != "promiscuity").nth(1);
        let wanted = wanted.unwrap_or_default();
        format!("{name} {wanted} {}", line.contains("prog/xdp"))
    });
    lines.collect()
}

/// That the port is refused in one line, with all of `words`, and nothing is left of it.
fn refused(dir: &Path, below: &[&str], port: &str, words: &[&str]) {
    let before = attached();
    let output = start(dir, below, port);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{port}: {told}");
    assert_eq!(told.lines().count(), 1, "{port}: {told}");
    assert!(told.starts_with("catena: "), "{port}: {told}");
    for word in words {
        assert!(told.contains(word), "{port}: no {word}: {told}");
    }
    assert_eq!(attached(), before, "{port}");
}

#[test]
fn interfaces_that_cannot_be_used_are_refused_with_what_to_do() {
    let test = "interfaces_that_cannot_be_used_are_refused_with_what_to_do";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        netns::veth("left", "right");
        run("ip link add name idle type veth peer name other");
        run("ip link add name wide mtu 9000 type veth peer name wider");
        run("ip link add name more mtu 3000 type veth peer name most");
        run("ip link set dev wide up");
        run("ip link set dev more up");
        let mut holder = Running::idle("holder");
        holder.again(
            "
ports:
  a: { xdp: { interface: right } }
  b: { tap: { name: held } }
nfs:
  n: { type: count }
links:
  - a -> n -> b
run: { mode: process }
",
        );
        let dir = tempfile::tempdir().unwrap();
        for (port, words) in [
            // Missing.
            (
                "xdp: { interface: none }",
                ["no interface 'none'", "`ip link`"],
            ),
            (
                "packet_socket: { interface: none }",
                ["no interface 'none'", "`ip link`"],
            ),
            // Down.
            (
                "xdp: { interface: idle }",
                ["is down", "`ip link set dev idle up`"],
            ),
            (
                "packet_socket: { interface: idle }",
                ["is down", "`ip link set dev idle up`"],
            ),
            // Busy, or somebody else's.
            (
                "xdp: { interface: right }",
                ["is in use", "another `queue`"],
            ),
            (
                "xdp: { interface: right, steer: { vlans: [4] } }",
                ["another XDP program", "`ip link set dev right xdp off`"],
            ),
            ("tap: { name: held }", ["is busy", "multi-queue"]),
            ("tap: { name: left }", ["is not a TAP", "delete it"]),
            // A queue that is not there.
            (
                "xdp: { interface: left, queue: 9 }",
                ["has no queue 9", "it has 1"],
            ),
            // Larger than buffers.
            (
                "xdp: { interface: more }",
                ["3018 bytes", "`buffers: { 4KiB: 4096 }`"],
            ),
            (
                "xdp: { interface: wide }",
                ["9018 bytes", "`ip link set dev wide mtu 3822`"],
            ),
            // What the driver has not.
            (
                "xdp: { interface: left, bind: zero_copy }",
                ["refuses zero-copy", "`bind: copy`"],
            ),
        ] {
            refused(dir.path(), &[], &format!("{{ {port} }}"), &words);
        }
        refused(
            dir.path(),
            &[],
            "{ xdp: { interface: left }, queues: 2 }",
            &["has no queue 1", "it has 1"],
        );
        for (port, words) in [
            (
                "xdp: { interface: left }",
                ["no permission", "CAP_NET_ADMIN"],
            ),
            (
                "packet_socket: { interface: left }",
                ["no permission", "CAP_NET_RAW"],
            ),
            (
                "tap: { name: tap0 }",
                ["no permission", "'sudo ip tuntap add dev tap0 "],
            ),
        ] {
            refused(dir.path(), WITHOUT_RIGHTS, &format!("{{ {port} }}"), &words);
        }
        // The one who has them keeps them.
        assert_conserved(&holder.stop());
        assert!(!attached().iter().any(|line| line.contains("true")));
    });
}

/// Where DPDK or its plug-in is missing or does not fit.
#[test]
fn a_dpdk_that_is_missing_or_too_old_is_refused_with_what_to_do() {
    let test = "a_dpdk_that_is_missing_or_too_old_is_refused_with_what_to_do";
    if !has(test, &["ip", "timeout", "pkg-config", "cc"]) {
        return;
    }
    // Nobody else's interfaces come or go meanwhile.
    isolated(test, || {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let with = |plugin: &str| {
            format!(
                "{{ dpdk: {{ device: net_null0, plugin: {} }} }}",
                at(plugin)
            )
        };
        refused(
            dir.path(),
            &[],
            &with("none.so"),
            &["no DPDK plug-in", "`catena port dpdk build`"],
        );
        let build = |variable: &str, to: &Path| {
            let output = Command::new(env!("CARGO_BIN_EXE_catena"))
                .args(["port", "dpdk", "build", "--output", &at("built.so")])
                .env(variable, to)
                .output()
                .unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(!dir.path().join("built.so").exists());
            told
        };
        let told = build("PATH", &dir.path().join("empty"));
        assert!(told.contains("`apt install pkg-config`"), "{told}");
        let told = build("PKG_CONFIG_LIBDIR", &dir.path().join("empty"));
        assert!(told.contains("`apt install libdpdk-dev`"), "{told}");
        let old = "Name: DPDK\nDescription: old\nVersion: 20.11.3\n";
        fs::write(dir.path().join("libdpdk.pc"), old).unwrap();
        let told = build("PKG_CONFIG_LIBDIR", dir.path());
        assert!(
            told.contains("DPDK is 20.11.3, and 22.11 or newer"),
            "{told}"
        );

        let compile = |output: &str, text: &str, more: &[&str]| {
            let source = at("source.c");
            fs::write(&source, text).unwrap();
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-o", &at(output), &source])
                .args(more);
            assert!(cc.status().unwrap().success(), "{output}");
        };
        // A plug-in of this Catena's version whose DPDK says that it is an older one.
        let source = include_str!("../../port/src/dpdk/plugin/catena_dpdk.c");
        let abi = source
            .split("#define CATENA_DPDK_ABI ")
            .nth(1)
            .and_then(|rest| rest.lines().next())
            .unwrap();
        let aged = format!(
            "static const char *version(void) {{ return \"DPDK 20.11.3\"; }}\n\
             struct {{ unsigned abi, size; const char *(*version)(void); void *others[11]; }}\n\
             catena_dpdk = {{ {abi}, sizeof(catena_dpdk), version }};\n"
        );
        compile("aged.so", &aged, &[]);
        refused(
            dir.path(),
            &[],
            &with("aged.so"),
            &[
                "aged.so has DPDK 20.11.3, and DPDK 22.11 or newer is needed",
                "install a newer one",
                "`catena port dpdk build`",
            ],
        );
        // `catena port list` loads it as workers do.
        let listed = Command::new(env!("CARGO_BIN_EXE_catena"))
            .args(["port", "list", "--json"])
            .env("CATENA_DPDK", at("aged.so"))
            .output()
            .unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let dpdk = &listed["machine"]["dpdk"];
        assert_eq!(dpdk["is_usable"], false, "{dpdk}");
        let why = dpdk["why"].as_str().unwrap();
        assert!(why.contains("has DPDK 20.11.3"), "{why}");

        // Another version of the plug-in, no plug-in, and one for a DPDK that is here no longer.
        compile("old.so", "const unsigned catena_dpdk[2] = {1, 8};", &[]);
        refused(
            dir.path(),
            &[],
            &with("old.so"),
            &["version 1", "`catena port dpdk build`"],
        );
        compile("other.so", "int other;", &[]);
        refused(
            dir.path(),
            &[],
            &with("other.so"),
            &["no DPDK plug-in", "`catena port dpdk build`"],
        );
        compile("gone.so", "int gone;", &["-Wl,-soname,librte_gone.so.99"]);
        let needs_it = ["-Wl,--no-as-needed", &at("gone.so")];
        compile("needs.so", "int needs;", &needs_it);
        fs::remove_file(at("gone.so")).unwrap();
        let words = ["librte_gone.so.99", "`catena port dpdk build`"];
        refused(dir.path(), &[], &with("needs.so"), &words);
    });
}

/// The folder with DPDK's drivers.
fn driver_dir() -> String {
    let output = Command::new("pkg-config")
        .args(["--variable=libdir", "libdpdk"])
        .output()
        .unwrap();
    let folder = String::from_utf8(output.stdout).unwrap();
    let folder = Path::new(folder.trim()).join("dpdk");
    let mut found = fs::read_dir(&folder).unwrap();
    let found = found.find_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        name.starts_with("pmds-")
            .then(|| path.display().to_string())
    });
    found.unwrap_or_else(|| panic!("no drivers in {}", folder.display()))
}

/// What DPDK itself refuses.
#[test]
fn devices_that_dpdk_cannot_open_are_refused_with_what_to_do() {
    let test = "devices_that_dpdk_cannot_open_are_refused_with_what_to_do";
    if !can_run(test) || !plugin::can_run(test) {
        return;
    }
    isolated(test, || {
        let plugin = PLUGIN.as_ref().unwrap().display();
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let _listener = UnixListener::bind(at("taken")).unwrap();
        let device = |device: &str, more: &str| {
            format!("{{ dpdk: {{ device: \"{device}\", plugin: \"{plugin}\"{more} }} }}")
        };
        let arguments = "are the arguments in `device` right?";
        let memif = |socket: &str, role: &str| {
            format!(
                "net_memif0,role={role},socket={},socket-abstract=no",
                at(socket)
            )
        };
        let vhost = format!("net_vhost0,iface={},queues=1", at("vhost"));
        for (name, more, words) in [
            ("net_pcap0,iface=none", "", [arguments, "No such device"]),
            (
                "net_af_packet0,iface=none",
                "",
                [arguments, "No such device"],
            ),
            ("net_null0,nonsense=1", "", [arguments, "net_null0"]),
            (
                "net_nothing0",
                "",
                ["no driver net_nothing", "`catena port list`"],
            ),
            (
                "ffff:ff:1f.6",
                "",
                ["`dpdk-devbind.py --status`", "ffff:ff:1f.6"],
            ),
            (
                &memif("nobody", "client"),
                "",
                ["nobody listens at", "start the peer first"],
            ),
            (
                &memif("taken", "server"),
                "",
                ["another process listens at", "another path"],
            ),
            (
                &vhost,
                ", queues: 9",
                ["has 1 queues at most", "write `queues: 1`"],
            ),
            (
                "net_null0",
                ", mtu: 20000",
                ["need buffers of 32768", "`buffers: { 32KiB: 4096 }`"],
            ),
            (
                "net_null0",
                ", check_sums: true",
                ["checks no checksums", "leave out `check_sums`"],
            ),
        ] {
            refused(dir.path(), &[], &device(name, more), &words);
        }
        assert!(!Path::new(&at("vhost")).exists(), "a socket is left");
        let tap = device("net_tap0,iface=dtap0", "");
        refused(
            dir.path(),
            WITHOUT_RIGHTS,
            &tap,
            &[arguments, "Unable to create TAP"],
        );

        // DPDK's runtime without its drivers does not start.
        let hide = format!("mount -t tmpfs none {} && exec \"$@\"", driver_dir());
        let below = ["unshare", "--mount", "--", "sh", "-c", &hide, "sh"];
        let words = ["DPDK does not start", "`catena port dpdk build`"];
        refused(dir.path(), &below, &device("net_null0", ""), &words);

        // What needs huge pages is found out before anything starts, in the chain file: one error,
        // which is told with its place and the repair.
        let zero_copy = format!("{},zero-copy=yes", memif("nobody", "client"));
        let before = attached();
        let output = start(dir.path(), &[], &device(&zero_copy, ""));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let file = at("chain.yaml");
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines.len(), 6, "{told}");
        assert_eq!(
            lines[0],
            format!(
                "catena: {file}:3:24: error: device: zero-copy of memif needs DPDK on huge pages in \
                 single files"
            )
        );
        assert!(
            lines[1].contains("device: \"net_memif0,role=client"),
            "{told}"
        );
        assert_eq!(lines[2].trim_start(), "|                        ^");
        assert_eq!(
            lines[3..],
            [
                "  repair: leave out zero-copy: the client copies each packet once",
                "",
                &format!("{file} is wrong; nothing was started"),
            ]
        );
        assert_eq!(attached(), before);
        assert!(!Path::new(&at("nobody")).exists(), "a socket is left");
    });
}
