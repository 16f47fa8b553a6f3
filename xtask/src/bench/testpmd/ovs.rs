//! Open vSwitch on DPDK, private to one run: its own database, sockets, logs and forwarding core.
//!
//! Nothing of a switch that the machine may run already is read or written: every path lies in the
//! run's directory, packet memory in memfds. Both daemons stay in the foreground as guarded
//! children, so that they end with the harness.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::child::Guarded;
use super::peer::PeerMissing;
use super::run::Run;

/// Where Debian's package puts the switch that was built with DPDK.
const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const PACKAGES: [&str; 2] = ["openvswitch-switch-dpdk", "dpdk-dev"];
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Packet memory of the switch; its packet buffers, shared by all ports, are made to fit.
pub(super) const MEMORY_MIB: u64 = 256;

const BRIDGE: &str = "br0";

/// Longest wait for the daemons to answer.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Installs what the switch needs, where this machine lets us.
pub(super) fn require(logs: &Path) -> Result<(), String> {
    super::super::install::require(DAEMON, &PACKAGES, logs)
}

/// A running switch with `vhost-user` ports 0, 1, ...
pub(super) struct Switch {
    directory: PathBuf,
    ports: usize,
    // Ended in this order.
    _daemon: Guarded,
    _database: Guarded,
}

impl Switch {
    /// Starts a switch whose one forwarding thread has `core`; its other threads go to
    /// `other_core`.
    pub(super) fn start(
        run: &Run,
        ports: usize,
        core: usize,
        other_core: usize,
    ) -> Result<Self, PeerMissing> {
        let directory = run.directory.clone();
        let at = |name: &str| directory.join(name).display().to_string();
        let failed = |reason: String| run.missing(reason);
        tool(
            "ovsdb-tool",
            &["create", &at("conf.db"), SCHEMA],
            &directory,
        )
        .map_err(failed)?;
        let arguments = [
            at("conf.db"),
            format!("--remote=punix:{}", at("db.sock")),
            format!("--unixctl={}", at("db.ctl")),
            "--no-chdir".to_owned(),
        ];
        let mut database = daemon(run, "ovsdb-server", arguments)?;
        let until = run.until(START_TIMEOUT);
        while !directory.join("db.sock").exists() {
            still_runs(run, "ovsdb-server", &mut database, until)?;
        }
        let mut settings: Vec<String> = vec!["--no-wait".into(), "init".into(), "--".into()];
        settings.extend(["set", "Open_vSwitch", "."].map(Into::into));
        settings.extend(
            [
                "dpdk-init=true".to_owned(),
                format!("dpdk-socket-mem={MEMORY_MIB}"),
                format!("pmd-cpu-mask={:#x}", 1_u128 << core),
                format!("dpdk-lcore-mask={:#x}", 1_u128 << other_core),
                "dpdk-extra=\"--no-pci --in-memory --no-telemetry\"".to_owned(),
                "vhost-sock-dir=.".to_owned(),
            ]
            .map(|setting| format!("other_config:{setting}")),
        );
        configure(&directory, &settings).map_err(failed)?;
        let arguments = [
            format!("unix:{}", at("db.sock")),
            format!("--unixctl={}", at("switch.ctl")),
            "--no-chdir".to_owned(),
        ];
        let switch_daemon = daemon(run, DAEMON, arguments)?;
        let switch = Self {
            directory,
            ports,
            _daemon: switch_daemon,
            _database: database,
        };
        switch.add_ports().map_err(failed)?;
        Ok(switch)
    }

    /// Makes the bridge and its ports; returns when the switch has them.
    fn add_ports(&self) -> Result<(), String> {
        let bridge =
            format!("add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=netdev fail_mode=secure");
        let mut words: Vec<String> = bridge.split(' ').map(Into::into).collect();
        for port in 0..self.ports {
            let number = port + 1;
            let port = format!(
                "-- add-port {BRIDGE} p{port} -- set interface p{port} type=dpdkvhostuser \
                 ofport_request={number}"
            );
            words.extend(port.split(' ').map(Into::into));
        }
        configure(&self.directory, &words)
    }

    /// Replaces all flows; each is `MATCH` and the port that its packets leave by.
    pub(super) fn set_flows(&self, flows: &[(String, usize)]) -> Result<(), String> {
        let lines: Vec<String> = flows
            .iter()
            .map(|(matched, port)| format!("{matched},actions=output:{}\n", port + 1))
            .collect();
        let file = self.directory.join("flows");
        std::fs::write(&file, lines.concat()).map_err(|error| error.to_string())?;
        let bridge = self.directory.join(format!("{BRIDGE}.mgmt"));
        let arguments = [
            "--timeout=10",
            "replace-flows",
            &bridge.display().to_string(),
            &file.display().to_string(),
        ];
        tool("ovs-ofctl", &arguments, &self.directory).map(|_| ())
    }

    /// Waits until every port has its peer and is polled.
    pub(super) fn wait_for_peers(&self, run: &Run) -> Result<(), PeerMissing> {
        let control = self.directory.join("switch.ctl").display().to_string();
        let arguments = ["--timeout=5", "-t", &control, "dpif-netdev/pmd-rxq-show"];
        let until = run.until(START_TIMEOUT);
        loop {
            let queues = tool("ovs-appctl", &arguments, &self.directory);
            let queues = queues.map_err(|reason| run.missing(reason))?;
            if queues.matches("(enabled)").count() >= self.ports {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(run.missing("not all ports found their peers in time"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What testpmd calls the guest's end of a port.
    pub(super) fn guest(&self, index: usize, port: usize) -> String {
        let path = self.directory.join(format!("p{port}"));
        format!(
            "net_virtio_user{index},path={},queues=1,queue_size=1024,mrg_rxbuf=0,in_order=1",
            path.display()
        )
    }
}

/// What the flow table matches for packets from a port.
pub(super) fn from_port(port: usize) -> String {
    format!("in_port={}", port + 1)
}

fn environment(directory: &Path) -> [(&'static str, &Path); 5] {
    [
        ("OVS_RUNDIR", directory),
        ("OVS_LOGDIR", directory),
        ("OVS_DBDIR", directory),
        ("OVS_SYSCONFDIR", directory),
        // EAL's run-time files.
        ("RUNTIME_DIRECTORY", directory),
    ]
}

fn daemon(
    run: &Run,
    program: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Result<Guarded, PeerMissing> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let log = run.directory.join(format!("{name}.log"));
    let log_option = format!("--log-file={}", log.with_extension("detail").display());
    let quiet = ["-vconsole:err".to_owned(), log_option];
    let arguments = arguments.into_iter().chain(quiet);
    Guarded::start(program, arguments, &environment(&run.directory), log)
        .map_err(|error| run.missing(format!("{name} did not start: {error}")))
}

fn still_runs(
    run: &Run,
    name: &str,
    child: &mut Guarded,
    until: Instant,
) -> Result<(), PeerMissing> {
    if let Some(status) = child.ended() {
        let cause = child.error_tail();
        return Err(run.missing(format!("{name} ended at start ({status}): {cause}")));
    }
    if Instant::now() >= until {
        return Err(run.missing(format!("{name} did not listen in time")));
    }
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

/// Runs `ovs-vsctl` on this switch's database and waits until the switch has done it.
fn configure(directory: &Path, words: &[String]) -> Result<(), String> {
    let database = format!("--db=unix:{}", directory.join("db.sock").display());
    let mut arguments = vec!["--timeout=10", &database];
    arguments.extend(words.iter().map(String::as_str));
    tool("ovs-vsctl", &arguments, directory).map(|_| ())
}

/// Runs a tool to its end; its output, or what it complained of.
fn tool(program: &str, arguments: &[&str], directory: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .envs(environment(directory))
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint: Vec<&str> = complaint.lines().take(3).map(str::trim).collect();
    Err(format!(
        "{program} {}: {}",
        output.status,
        complaint.join(" / ")
    ))
}
