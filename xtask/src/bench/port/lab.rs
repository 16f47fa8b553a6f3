//! Two veth pairs in a network namespace, with a generator at one end: what forwards from `left`
//! to `right` is put between, and what comes out is counted by the kernel, the same for all.
//!
//! The generator, and with it the kernel's work of handing packets over to `left`, has a core of
//! its own; what the kernel itself forwards, it forwards there. Packets come out at an end that
//! nobody listens at.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::child::{Guarded, output};
use super::super::install;

/// Bytes of a frame without FCS.
pub(super) const FRAME_LEN: usize = 60;
/// From the start of the generator until it is at its speed; Catena measures its clock first.
const WARM_UP: Duration = Duration::from_millis(1500);

/// The namespace.
pub(super) struct Lab {
    pub(super) namespace: String,
    pub(super) folder: PathBuf,
    generator: PathBuf,
    core: usize,
    seconds: u32,
}

impl Lab {
    /// Makes it. `generator`: the program whose generator sends, on that core.
    pub(super) fn new(
        folder: &Path,
        generator: PathBuf,
        core: usize,
        seconds: u32,
    ) -> Result<Self, String> {
        let lab = Self {
            namespace: format!("catena-ports-{}", std::process::id()),
            folder: folder.to_owned(),
            generator,
            core,
            seconds,
        };
        let name = &lab.namespace;
        output(&format!("ip netns add {name}"))?;
        lab.inside(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        )?;
        for pair in ["left", "right"] {
            output(&format!(
                "ip -n {name} link add {pair} type veth peer name {pair}-far"
            ))?;
            // Runs of packets are cut apart before the pair sees them.
            lab.inside(&format!("ethtool -K {pair}-far tx-udp-segmentation off"))?;
            // By it the kernel can hand over what XDP redirects.
            lab.inside(&format!("ethtool -K {pair}-far gro on"))?;
            for end in [pair, &format!("{pair}-far")] {
                output(&format!("ip -n {name} link set {end} up"))?;
            }
        }
        Ok(lab)
    }

    /// Whether it can be had, and what for not.
    pub(super) fn require(folder: &Path, is_brief: bool) -> Result<(), String> {
        let programs = [("ip", "iproute2"), ("ethtool", "ethtool")];
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            let left_out = if is_brief {
                "left out of a brief run: "
            } else {
                ""
            };
            return Err(format!("{left_out}interfaces of one's own need root"));
        }
        for (program, package) in programs {
            match is_brief {
                true if install::is_on_path(program) => {}
                true => return Err(format!("left out of a brief run: {program} is missing")),
                false => install::require(program, &[package], folder)?,
            }
        }
        Ok(())
    }

    /// A command within it; its output.
    pub(super) fn inside(&self, command: &str) -> Result<String, String> {
        output(&format!("ip netns exec {} {command}", self.namespace))
    }

    /// Words that run a command within it.
    pub(super) fn words(&self, command: impl IntoIterator<Item = String>) -> Vec<String> {
        let enter = ["ip", "netns", "exec", &self.namespace].map(str::to_owned);
        enter.into_iter().chain(command).collect()
    }

    /// Mpps that come out at `to` while the generator sends at `from`.
    pub(super) fn forwarded(&self, from: &str, to: &str) -> Result<f64, String> {
        let Self { core, .. } = self;
        let seconds = self.seconds + 10;
        let command = format!(
            "{} bench generator --interface {from} --size {FRAME_LEN} --seconds {seconds} \
             --cores {core} --wait spin --segment",
            self.generator.display()
        );
        let log = self.folder.join("generator.log");
        let words = self.words(command.split(' ').map(str::to_owned));
        let mut generator = Guarded::start(&words[0], &words[1..], &[], log)
            .map_err(|error| format!("generator: {error}"))?;
        std::thread::sleep(WARM_UP);
        let (before, start) = (self.received(to)?, Instant::now());
        std::thread::sleep(Duration::from_secs(self.seconds.into()));
        let (after, elapsed) = (self.received(to)?, start.elapsed());
        if generator.ended().is_some() {
            return Err(format!("generator: {}", generator.error_tail()));
        }
        if after == before {
            return Err(format!("nothing came out at {to}"));
        }
        Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
    }

    /// Takes away the programs that DPDK's AF_XDP leaves on its interfaces when it is killed.
    pub(super) fn clear(&self) {
        for interface in ["left", "right"] {
            let name = &self.namespace;
            let _ = output(&format!("ip -n {name} link set dev {interface} xdp off"));
        }
    }

    /// Packets that an interface has received.
    fn received(&self, interface: &str) -> Result<u64, String> {
        let file = format!("/sys/class/net/{interface}/statistics/rx_packets");
        let text = self.inside(&format!("cat {file}"))?;
        let number = text.trim().parse();
        number.map_err(|_| format!("{file}: no number"))
    }

    /// Number of an interface.
    pub(super) fn number(&self, interface: &str) -> Result<String, String> {
        let text = self.inside(&format!("cat /sys/class/net/{interface}/ifindex"))?;
        Ok(text.trim().to_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The pairs go with their namespace; one that is left over harms nobody.
        let _ = output(&format!("ip netns del {}", self.namespace));
    }
}
