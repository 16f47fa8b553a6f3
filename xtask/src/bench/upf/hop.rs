//! A hop through the UPF in a chain of real workers: its latency at half of the rate that it takes.
//!
//! `catena measure`, twice: the rate at the highest load, and latency at half of that. A
//! packet comes by a link from the tester, is let through by PDR, FAR, QER and URR of its session,
//! loses its tunnel and leaves by a link to the tester. Latency is from when a packet was due, both
//! links in it. The tester has one core, the UPF another.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt::Write;

use catena_measure::report::Document;

use super::super::extent::Extent;
use super::super::truth::binary::Binary;
use super::traffic::Pattern;

/// Sessions, each with a flow of its own.
pub(super) const fn sessions(extent: Extent) -> u16 {
    match extent {
        Extent::Brief => 16,
        _ => 1000,
    }
}

const CHAIN: &str = "name: upf-hop
ports:
  in: { traffic: { profile: {}, delay: DELAY } }
  out: { receiver: {} }
  smf: { smf: { scenario: hop-scenario.yaml } }
nfs:
  upf:
    type: upf
    node_id: 10.4.0.1
    n4: { address: 10.4.0.1, heartbeat: 0s }
    interfaces:
      - { name: n3, side: access, address: 10.3.0.1 }
      - { name: n6, side: core, network_instance: internet }
    pools: [ { network_instance: internet, v4: 10.45.0.0/16 } ]
    sessions: 1000
links: [ smf -> upf, in -> upf, upf.n3 -> smf, upf.n4 -> smf, upf.n6 -> out ]
run: { mode: process }
";

const HEAD: &str = "about: Sessions of flows that a tester sends.
smf: 10.4.0.2
n4: 10.4.0.1
ran: 10.3.0.2
n3: 10.3.0.1
host: 203.0.113.9
steps:
  - { do: associate, expect: [ answer: {} ] }
";

/// What a flood adds: its port, and ends for what strangers are answered. What keeps their answers
/// from the SMF is in the UPF's loop: a third worker would take its core from it for each.
const FLOOD_PORTS: &str = "  flood: { pcap: { read: flood.pcap, loop: forever, pace: PACE } }
  void: { sink: {} }
nfs:
  answers:
    type: acl
    mode: inline
    default: deny
    rules: [ { action: permit, dst: 10.4.0.2 } ]
";
const FLOOD_LINKS: &str = "links: [ smf -> upf, in -> upf, flood -> upf, upf.n3 -> void, \
                           upf.n4 -> answers -> smf, upf.n6 -> out ]\n";

/// The chain beside a flood of this pace.
fn flooded_chain(delay: &str, pace: &str) -> String {
    let mut text = CHAIN.replace("DELAY", delay);
    text = text.replace("nfs:\n", &FLOOD_PORTS.replace("PACE", pace));
    text = text.replace("heartbeat: 0s }", "heartbeat: 0s, peers: [10.4.0.0/16] }");
    let lines = text.lines().map(|line| match line.starts_with("links:") {
        true => FLOOD_LINKS.to_owned(),
        false => format!("{line}\n"),
    });
    lines.collect()
}

/// The sessions of the profile's flows: flow `f` has TEID 1 + `f` and UE address 10.45.0.1 + `f`.
fn scenario(sessions: u16) -> String {
    let mut text = HEAD.to_owned();
    for flow in 0..sessions {
        let teid = flow + 1;
        let ue = format!("10.45.{}.{}", teid >> 8, teid & 0xff);
        let _ = write!(
            text,
            "  - do:
      establish:
        session: {teid}
        pdrs:
          - {{ id: 1, precedence: 9, source: access, teid: {teid}, ue: {ue}, removal: 0, far: 1,
              qers: [1], urrs: [1] }}
        fars: [ {{ id: 1, action: forward, to: core, network_instance: internet }} ]
        qers: [ {{ id: 1, mbr_kbps: [100000000, 100000000] }} ]
        urrs: [ {{ id: 1, triggers: [VOLTH], volume_threshold: 1000000000000 }} ]
    expect: [ answer: {{}} ]
"
        );
    }
    text
}

/// Frames of 128 bytes with FCS, in the sessions' tunnels.
fn profile(sessions: u16, pattern: Pattern) -> String {
    let pick = match pattern {
        Pattern::Uniform => "uniform",
        Pattern::Zipf => "zipf",
    };
    format!(
        "sizes: 128\npacket:\n  src: 10.45.0.1\n  gtpu: {{ src: 10.3.0.2, dst: 10.3.0.1, teid: 1, \
         teids: {sessions} }}\nflows: {{ count: {sessions}, pick: {pick} }}\n"
    )
}

/// What was found of a chain: the rate that it takes, and latency at half of that.
pub(super) struct Hop {
    /// Millions of packets a second that the chain takes; beside a flood, that it gets.
    pub(super) rate: f64,
    /// Median, 99th and 99.9th percentile at half of it, in us.
    pub(super) latency_us: [f64; 3],
    /// The 99.9th percentile of those that no stall of the tester touched.
    pub(super) untouched_us: Option<f64>,
    /// Packets that did not come back then.
    pub(super) lost: f64,
}

/// Measures one pattern.
pub(super) fn measure(binary: &Binary, pattern: Pattern, extent: Extent) -> Result<Hop, String> {
    let setting = Setting {
        binary,
        pattern,
        extent,
        chain: CHAIN.replace("DELAY", delay(extent)),
    };
    let most = match extent {
        Extent::Brief => setting.run("search", "--method mrr --max 20kpps")?,
        _ => setting.run("search", "--method mrr")?,
    };
    let rate = passed(&most)?.0;
    let half = setting.run("latency", &format!("--rate {:.0}pps", rate / 2.0))?;
    found(&half, rate / 1e6)
}

/// Measures latency at a rate, in Mpps, beside a flood of this pace.
pub(super) fn latency(
    binary: &Binary,
    rate: f64,
    pace: &str,
    extent: Extent,
) -> Result<Hop, String> {
    let setting = Setting {
        binary,
        pattern: Pattern::Uniform,
        extent,
        chain: flooded_chain(delay(extent), pace),
    };
    let document = setting.run("latency", &format!("--rate {:.0}pps", rate * 1e6))?;
    found(&document, rate)
}

/// The tester waits until the sessions are there.
const fn delay(extent: Extent) -> &'static str {
    match extent {
        Extent::Brief => "500ms",
        _ => "5s",
    }
}

fn found(document: &Document, rate: f64) -> Result<Hop, String> {
    let lost = passed(document)?.1;
    let found = document.latency.first();
    let found = found.ok_or_else(|| document.summary.clone())?;
    let quantile = |q: f64| {
        let ns = found.latency.delay.quantile(q);
        ns.map(|ns| ns as f64 / 1000.0)
            .ok_or("disturbed: too few packets came back")
    };
    let untouched = found.attribution.as_ref();
    let untouched = untouched.and_then(|one| one.clean.quantile(0.999));
    Ok(Hop {
        rate,
        untouched_us: untouched.map(|ns| ns as f64 / 1000.0),
        latency_us: [quantile(0.5)?, quantile(0.99)?, quantile(0.999)?],
        lost,
    })
}

/// What is measured of a chain.
struct Setting<'a> {
    binary: &'a Binary,
    pattern: Pattern,
    extent: Extent,
    chain: String,
}

impl Setting<'_> {
    fn run(&self, verb: &str, more: &str) -> Result<Document, String> {
        let (binary, sessions) = (self.binary, sessions(self.extent));
        binary.write("hop-scenario.yaml", scenario(sessions))?;
        let chain = binary.write("hop-chain.yaml", &self.chain)?;
        let profile = binary.write("hop-profile.yaml", profile(sessions, self.pattern))?;
        // Whether others use the machine is no matter where only that it runs is looked at.
        let how = match self.extent {
            Extent::Brief => "--trials 1 --trial 1s --rivals 1 --repeats 20",
            Extent::Quick => "--trials 1 --trial 2s",
            Extent::Whole => "--trials 3 --trial 4s",
        };
        let first = [verb, &profile, "--chain", &chain].into_iter();
        let all = first.chain(how.split(' ')).chain(more.split_whitespace());
        let all: Vec<String> = all.map(str::to_owned).collect();
        let value = binary.measure(&all)?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

/// Packets a second that came back in trials that count, and those that did not come back.
fn passed(document: &Document) -> Result<(f64, f64), String> {
    let of_the_chain = |name: &str| !name.starts_with("tester");
    let counts = || {
        let trials = document.trials.iter();
        trials.filter(|one| one.invalid.is_none() && of_the_chain(&one.name))
    };
    let seconds: f64 = counts().map(|one| one.duration_s).sum();
    let forwarded: u64 = counts().map(|one| one.forwarded).sum();
    let intended: u64 = counts().map(|one| one.intended).sum();
    if seconds <= 0.0 || forwarded == 0 {
        return Err(format!(
            "disturbed, or no packet came back: {}",
            document.summary
        ));
    }
    let lost = intended.saturating_sub(forwarded);
    Ok((forwarded as f64 / seconds, lost as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flood comes beside all else, and its answers reach nobody who plays a scenario.
    #[test]
    fn a_flood_is_one_more_port() {
        let text = flooded_chain("5s", "20kpps");
        assert!(text.contains("pace: 20kpps"), "{text}");
        assert!(text.contains("flood -> upf"), "{text}");
        assert_eq!(text.matches("nfs:").count(), 1, "{text}");
        assert_eq!(text.matches("links:").count(), 1, "{text}");
        assert!(!text.contains("upf.n3 -> smf"), "{text}");
    }

    /// The profile's flows are those of sessions, at both ends of them.
    #[test]
    fn sessions_are_those_of_the_profiles_flows() {
        let text = scenario(300);
        assert!(text.contains("teid: 1, ue: 10.45.0.1,"), "{text}");
        assert!(text.contains("teid: 300, ue: 10.45.1.44,"), "{text}");
        assert_eq!(text.matches("establish:").count(), 300);
        assert!(profile(300, Pattern::Zipf).contains("teid: 1, teids: 300"));
    }
}
