//! Who forwards, and how each is measured.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::Session;
use super::super::extent::Extent;
use super::super::running::Running;
use super::chain::{NAME, Shape, copied, rate, sent, text};
use super::kernel;
use super::lab::Lab;
use super::tcp::{Hosts, Way};

/// Bytes of a packet where no wire asks for more.
pub(super) const PACKET_SIZE: usize = 64;

/// Who forwards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Nothing but the loop.
    Floor,
    Null,
    TestpmdNull,
    Memif,
    TestpmdMemif,
    XdpNative,
    XdpGeneric,
    DpdkAfXdp,
    TestpmdAfXdp,
    RedirectNative,
    RedirectGeneric,
    PacketSocket,
    Bridge,
    Tap,
    /// Nobody: what the generator gives.
    Undisturbed,
}

impl Side {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "generator to sink",
            Self::Null => "dpdk, net_null",
            Self::TestpmdNull => "testpmd, net_null",
            Self::Memif => "dpdk, net_memif",
            Self::TestpmdMemif => "testpmd, net_memif",
            Self::XdpNative => "xdp, native",
            Self::XdpGeneric => "xdp, generic",
            Self::DpdkAfXdp => "dpdk, net_af_xdp",
            Self::TestpmdAfXdp => "testpmd, net_af_xdp",
            Self::RedirectNative => "XDP redirect, native",
            Self::RedirectGeneric => "XDP redirect, generic",
            Self::PacketSocket => "packet_socket",
            Self::Bridge => "Linux bridge",
            Self::Tap => "tap",
            Self::Undisturbed => "nobody between",
        }
    }
}

/// What the sides need, or why it is not to be had.
pub(super) struct Places {
    folder: PathBuf,
    is_brief: bool,
    lab: Result<Lab, String>,
    plugin: Result<PathBuf, String>,
    redirect: Result<PathBuf, String>,
    hosts: Result<Hosts, String>,
}

impl Places {
    pub(super) fn new(session: &Session) -> Self {
        let folder = session.own.work_dir().path().to_owned();
        let is_brief = session.extent == Extent::Brief;
        let binary = binary(session);
        let lab = Lab::require(&folder, is_brief).and_then(|()| {
            let core = session.cores[1];
            Lab::new(&folder, binary.clone()?, core, session.seconds)
        });
        let hosts = binary
            .clone()
            .and_then(|binary| Hosts::new(&folder, is_brief, binary));
        let plugin = binary.and_then(|binary| build_plugin(&binary, &folder));
        let redirect = match &lab {
            Ok(lab) if !is_brief => kernel::build_redirect(lab),
            Ok(_) => Err("XDP redirect: left out of a brief run".to_owned()),
            Err(why) => Err(why.clone()),
        };
        Self {
            plugin: plugin.map_err(|why| match is_brief {
                true => format!("left out of a brief run: {why}"),
                false => why,
            }),
            folder,
            is_brief,
            lab,
            redirect,
            hosts,
        }
    }

    /// Mpps of a side.
    pub(super) fn measure(&mut self, side: Side, session: &mut Session) -> Result<f64, String> {
        if session.is_late() {
            return Err("no time was left".to_owned());
        }
        let (core, seconds) = (session.cores[0], session.seconds);
        let lab = || self.lab.as_ref().map_err(Clone::clone);
        match side {
            Side::Floor => {
                let size = format!("{{ generator: {{ size: {PACKET_SIZE} }} }}");
                let text = text(&size, "{ sink: {} }", Shape::OneWay { core });
                rate(&self.chain(session, &text)?, seconds)
            }
            Side::Null => self.null(session),
            Side::TestpmdNull => {
                let rate = session.testpmd.null_swap(PACKET_SIZE, seconds, core);
                rate.map(|rate| rate.mpps).map_err(|why| why.to_string())
            }
            Side::Memif => self.memif(session),
            Side::TestpmdMemif => {
                let cores = session.cores;
                let rate = session.testpmd.memif_swap(PACKET_SIZE, seconds, cores);
                rate.map(|rate| rate.mpps).map_err(|why| why.to_string())
            }
            Side::XdpNative => self.pair(session, &xdp("native")),
            Side::XdpGeneric => self.pair(session, &xdp("generic")),
            Side::PacketSocket => self.pair(session, &|name| {
                format!("{{ packet_socket: {{ interface: {name} }} }}")
            }),
            Side::DpdkAfXdp => {
                let plugin = self.plugin()?;
                let rate = self.pair(session, &|name| {
                    let number = u8::from(name == "right");
                    dpdk(&format!("net_af_xdp{number},iface={name}"), &plugin)
                });
                lab()?.clear();
                rate
            }
            Side::TestpmdAfXdp => {
                let lab = lab()?;
                let running = session
                    .testpmd
                    .af_xdp(&lab.namespace, ["left", "right"], core)
                    .map_err(|why| why.to_string())?;
                let rate = lab.forwarded("left-far", "right-far");
                drop(running);
                lab.clear();
                rate
            }
            Side::RedirectNative => kernel::redirect(lab()?, &self.redirect, "native"),
            Side::RedirectGeneric => kernel::redirect(lab()?, &self.redirect, "generic"),
            Side::Bridge if self.is_brief => Err("bridge: left out of a brief run".to_owned()),
            Side::Bridge => kernel::bridge(lab()?),
            Side::Tap => self.tap(session),
            Side::Undisturbed => lab()?.forwarded("left-far", "left"),
        }
    }

    /// Gbit/s of TCP by that way.
    pub(super) fn tcp(&self, way: Way, session: &Session) -> Result<f64, String> {
        if session.is_late() {
            return Err("no time was left".to_owned());
        }
        let hosts = self.hosts.as_ref().map_err(Clone::clone)?;
        hosts.rate(way, session.seconds)
    }

    fn plugin(&self) -> Result<String, String> {
        let file = self.plugin.as_ref().map_err(Clone::clone)?;
        Ok(file.display().to_string())
    }

    /// A chain in this namespace.
    fn chain(&self, session: &Session, text: &str) -> Result<Running, String> {
        Running::start(
            binary(session)?,
            self.folder.clone(),
            (NAME, text),
            |words| words,
        )
    }

    /// A chain in the lab's.
    fn in_lab(&self, session: &Session, text: &str) -> Result<(&Lab, Running), String> {
        let lab = self.lab.as_ref().map_err(Clone::clone)?;
        let folder = self.folder.clone();
        let chain = Running::start(binary(session)?, folder, (NAME, text), |words| {
            lab.words(words)
        })?;
        Ok((lab, chain))
    }

    fn null(&self, session: &Session) -> Result<f64, String> {
        let plugin = self.plugin()?;
        let [left, right] =
            [0, 1].map(|at| dpdk(&format!("net_null{at},size={PACKET_SIZE}"), &plugin));
        let core = session.cores[0];
        let text = text(&left, &right, Shape::BothWays { core });
        rate(&self.chain(session, &text)?, session.seconds)
    }

    fn memif(&self, session: &mut Session) -> Result<f64, String> {
        if self.is_brief {
            return Err("dpdk, net_memif: left out of a brief run".to_owned());
        }
        let plugin = self.plugin()?;
        let sockets = ["a.sock", "b.sock"].map(|name| self.folder.join(name));
        let [left, right] = [0, 1].map(|at| {
            let socket = sockets[at].display();
            let device =
                format!("net_memif{at},role=server,socket={socket},socket-abstract=no,rsize=10");
            dpdk(&device, &plugin)
        });
        let [core, other] = session.cores;
        let text = text(&left, &right, Shape::BothWays { core });
        let _chain = self.chain(session, &text)?;
        let rate = session
            .testpmd
            .through_memifs(&sockets, PACKET_SIZE, session.seconds, other);
        rate.map(|rate| rate.mpps).map_err(|why| why.to_string())
    }

    /// From one pair of the lab to the other, by such ports.
    fn pair(&self, session: &Session, port: &dyn Fn(&str) -> String) -> Result<f64, String> {
        let core = session.cores[0];
        let text = text(&port("left"), &port("right"), Shape::OneWay { core });
        let (lab, _chain) = self.in_lab(session, &text)?;
        lab.forwarded("left-far", "right-far")
    }

    fn tap(&self, session: &Session) -> Result<f64, String> {
        let core = session.cores[0];
        let port = |name: &str| format!("{{ tap: {{ name: {name} }} }}");
        let text = text(&port("tap0"), &port("tap1"), Shape::OneWay { core });
        let (lab, _chain) = self.in_lab(session, &text)?;
        lab.forwarded("tap0", "tap1")
    }

    /// Bytes that Catena copied while packets went from an `xdp` port through an NF in a process of
    /// its own to another `xdp` port.
    pub(super) fn copied(&self, session: &Session) -> Result<f64, String> {
        if session.is_late() {
            return Err("no time was left".to_owned());
        }
        let port = xdp("native");
        let text = text(&port("left"), &port("right"), Shape::Isolated);
        let (lab, chain) = self.in_lab(session, &text)?;
        lab.forwarded("left-far", "right-far")?;
        let status = chain.status()?;
        match sent(&status) {
            0 => Err("no packet was sent, so that none could be copied".to_owned()),
            _ => Ok(copied(&status) as f64),
        }
    }
}

fn binary(session: &Session) -> Result<PathBuf, String> {
    let binary = session.own.binary();
    binary.map(Path::to_owned).map_err(|why| why.to_string())
}

/// A port with that redirect program.
fn xdp(mode: &'static str) -> impl Fn(&str) -> String {
    move |name| format!("{{ xdp: {{ interface: {name}, mode: {mode} }} }}")
}

/// A port of DPDK.
fn dpdk(device: &str, plugin: &str) -> String {
    format!("{{ dpdk: {{ device: \"{device}\", plugin: \"{plugin}\", idle: 0us }} }}")
}

/// Builds the plug-in against this machine's DPDK.
fn build_plugin(binary: &Path, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join("catena_dpdk.so");
    let output = Command::new(binary)
        .args(["port", "dpdk", "build", "--output"])
        .arg(&file)
        .output()
        .map_err(|error| format!("catena port dpdk build: {error}"))?;
    if output.status.success() {
        return Ok(file);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let line = told.lines().next().unwrap_or("failed");
    Err(format!("catena port dpdk build: {line}"))
}
