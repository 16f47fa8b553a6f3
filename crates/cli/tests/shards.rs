//! Sixteen shards on however few cores there are: each flow at one shard in both directions, in
//! order, none lost, and a shard that is killed is alone with that.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Registry};
use catena_engine::config::ConfigErrors;
use catena_engine::nf::{BuildContext, BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan, Verdict};
use catena_engine::shard::{Choice, Chooser, OwnKey, Sharding};
use catena_engine::supervisor::status::Status;
use catena_engine::supervisor::{Options, Supervisor};
use catena_wire::dissect::{Dissected, Fragment};
use serde_json::Value;
use support::*;

const SHARDS: u64 = 16;

const CHAIN: &str = "ports:
  in:  { generator: { rate: 100kpps, size: 64, flows: 1000 } }
  out: { sink: { verify: true } }
nfs:
  look: { type: count, shards: { count: 16, key: flow } }
  swap: { type: macswap, shards: { count: 16, key: flow } }
links:
  - in -> look -> swap -> out
run: { mode: process }
";

fn shard(node: &str, index: u64) -> String {
    format!("{node}/{index}")
}

fn rx(status: &Value, name: &str) -> u64 {
    number(&node(status, name)["rx_packets"])
}

/// What the sink found wrong, by the numbers in the packets.
fn faults(status: &Value, which: &[&str]) -> Vec<u64> {
    let counted = &node(status, "out")["counters"];
    which.iter().map(|fault| number(&counted[*fault])).collect()
}

#[test]
fn sixteen_shards_keep_order_and_lose_nothing() {
    let chain = Running::start("sixteen", CHAIN);
    let status = chain.until("every shard has had packets", |status| {
        (0..SHARDS).all(|index| rx(status, &shard("swap", index)) > 1000)
    });
    // Like goes to like: 2 x 16 processes beside the ports, and no splitter but the first.
    assert_eq!(workers(&status).count(), 33);
    assert_eq!(status["links"].as_array().unwrap().len(), 1 + 16 + 16 + 16);
    let end = chain.stop();
    assert_conserved(&end);
    let faults = faults(
        &end,
        &["lost", "duplicated", "reordered", "stale", "corrupted"],
    );
    assert_eq!(faults, [0; 5], "{end:#}");
    assert_eq!(number(&node(&end, "in:split")["counters"]["keyless"]), 0);
    for index in 0..SHARDS {
        let (look, swap) = (shard("look", index), shard("swap", index));
        assert_eq!(rx(&end, &look), rx(&end, &swap), "the same flows");
    }
}

#[test]
fn a_killed_shard_recovers_alone() {
    let chain = Running::start("killed-shard", CHAIN);
    let mut random = seed();
    for round in 0..10 {
        let victim = shard(["look", "swap"][round % 2], random.below(SHARDS));
        let status = flows(&chain);
        dither(&mut random, 300_000);
        let after = chain.revive(&status, &[&victim]);
        for worker in workers(&after).filter(|worker| worker["name"] != victim.as_str()) {
            let name = worker["name"].as_str().unwrap();
            assert_eq!(worker["epoch"], epoch(&status, name), "{name} lives on");
        }
    }
    flows(&chain);
    let end = chain.stop();
    assert_conserved(&end);
    assert_eq!(number(&end["deaths"]), 10);
    // What is lost was in the hands of the killed; nothing was overtaken, doubled or damaged.
    let killed = killed(&end);
    assert_eq!(
        faults(&end, &["duplicated", "reordered", "stale", "corrupted"]),
        [0; 4]
    );
    let lost = faults(&end, &["lost"])[0];
    assert!(lost <= killed, "{lost} lost, {killed} killed: {end:#}");
}

#[test]
fn control_goes_to_all_shards_and_status_is_by_name() {
    let chain = Running::start("control-shards", CHAIN);
    flows(&chain);
    let asked = chain.ask(&[
        "nf",
        "control",
        "control-shards",
        "look",
        r#"{"show": "counts"}"#,
    ]);
    assert!(asked.status.success(), "{asked:?}");
    let answers: BTreeMap<String, Value> = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(answers.len(), 16);
    assert!(answers["look/7"].is_object(), "{answers:?}");
    let one = chain.ask(&[
        "nf",
        "control",
        "control-shards",
        "look/7",
        r#"{"show": "counts"}"#,
    ]);
    assert!(one.status.success(), "{one:?}");
    let refused = chain.ask(&[
        "nf",
        "control",
        "control-shards",
        "swap",
        r#"{"show": "counts"}"#,
    ]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && why.contains("swap/15:"),
        "{why}"
    );
    let text = |arguments: &[&str]| String::from_utf8(chain.ask(arguments).stdout).unwrap();
    let merged = text(&["status", "control-shards"]);
    let nodes = merged.split("NODE ").nth(1).unwrap();
    assert!(
        nodes.contains("\nlook ") && nodes.contains("\nin -> look "),
        "{merged}"
    );
    assert!(
        !nodes.contains("look/3") && !nodes.contains("split"),
        "{merged}"
    );
    let each = text(&["status", "control-shards", "--shards"]);
    assert!(
        each.contains("\nlook/3 ") && each.contains("in:split"),
        "{each}"
    );
    assert_conserved(&chain.stop());
}

#[test]
fn shards_come_and_go_under_load() {
    let chain = Running::start("resized", &CHAIN.replace("count: 16", "count: 3"));
    for count in [5, 2] {
        flows(&chain);
        let text = CHAIN.replace("count: 16", &format!("count: {count}"));
        let file = chain.dir.path().join("new.yaml");
        std::fs::write(&file, format!("name: resized\n{text}")).unwrap();
        let applied = chain.ask(&["apply", file.to_str().unwrap()]);
        assert!(applied.status.success(), "{applied:?}");
        let before = flows(&chain);
        let last = shard("swap", count - 1);
        chain.until("the last shard has packets", |now| {
            rx(now, &last) > rx(&before, &last)
        });
        assert_eq!(workers(&before).count() as u64, 1 + 2 * count);
    }
    let end = chain.stop();
    assert_conserved(&end);
    // A flow that has moved may have overtaken itself; none of its packets is gone.
    assert_eq!(
        faults(&end, &["lost", "duplicated", "corrupted"]),
        [0; 3],
        "{end:#}"
    );
}

/// One end of a flow, and both in either order.
type Flow = (String, String);

/// Which shard has seen a flow: shard and direction, each once.
static SEEN: Mutex<BTreeMap<Flow, Vec<(u16, bool)>>> = Mutex::new(BTreeMap::new());

/// Remembers the flows of its shard.
struct Witness(u16);

impl Nf for Witness {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let mut seen = SEEN.lock().unwrap();
        let shard = self.0;
        burst.judge(|packet| {
            if let Some((flow, direction)) = flow_of(packet) {
                let known = seen.entry(flow).or_default();
                if !known.contains(&(shard, direction)) {
                    known.push((shard, direction));
                }
            }
            Verdict::Output(0)
        });
    }
}

fn flow_of(packet: &[u8]) -> Option<(Flow, bool)> {
    let found = Dissected::parse(packet).ok()?;
    let ip = found.ip.as_ref()?;
    let (from, to) = found
        .ports()
        .filter(|_| ip.fragment == Fragment::Whole)
        .unwrap_or((0, 0));
    let protocol = ip.protocol.0;
    let src = format!("{} {from} {protocol}", ip.addresses.src());
    let dst = format!("{} {to} {protocol}", ip.addresses.dst());
    let is_first = src < dst;
    Some(if is_first {
        ((src, dst), true)
    } else {
        ((dst, src), false)
    })
}

fn witness(_: &Value, context: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    assert_eq!(context.shard_count, 16);
    Ok(BuiltNf::new(Witness(context.shard)))
}

const WITNESS: NfKind = NfKind {
    name: "witness",
    summary: "Remembers flows",
    example: "{}",
    schema: || schemars::schema_for!(Value),
    plan: |_, _| Ok(NfPlan::new().sharding(Sharding::Any)),
    build: witness,
};

/// Recorded traffic of real programs, over IPv4 and IPv6.
const RECORDED: &str = "name: witnessed
ports:
  in:  { pcap: { read: TRACES/web.pcap } }
  out: { sink: {} }
nfs:
  see: { type: witness, shards: { count: 16, key: flow } }
links:
  - in -> see -> out
run: { mode: thread }
";

fn run_to_the_end(text: &str) -> Status {
    let dir = tempfile::tempdir().unwrap();
    let mut nfs = catena_engine::nfs::KINDS.to_vec();
    nfs.extend([&WITNESS, &SORTED]);
    nfs.extend(catena_flow::NFS);
    let registry = Arc::new(Registry {
        nfs,
        ports: catena_port::PORTS.to_vec(),
        wraps: Vec::new(),
        files: Vec::new(),
    });
    let checked = Chain::parse(text, dir.path(), &registry, None);
    let checked = checked.unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options {
        registry,
        program: "no process is started".into(),
        runtime_root: dir.path().join("run"),
        pin: false,
    };
    let mut supervisor = Supervisor::start(checked.chain, options).unwrap();
    let start = Instant::now();
    while !(supervisor.is_finished() && supervisor.is_empty()) {
        supervisor.step(Duration::from_millis(5), &[]);
        assert!(start.elapsed() < PATIENCE, "{:#?}", supervisor.status());
    }
    supervisor.stop(Duration::from_secs(5));
    supervisor.status()
}

#[test]
fn both_directions_of_each_flow_are_in_one_shard() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/traces");
    let status = run_to_the_end(&RECORDED.replace("TRACES", traces.to_str().unwrap()));
    let out = status.nodes.iter().find(|node| node.name == "out").unwrap();
    assert_eq!(out.tx_packets, 911);
    let seen = SEEN.lock().unwrap();
    let mut shards = Vec::new();
    let mut both = 0;
    for (flow, by) in seen.iter() {
        assert!(
            by.iter().all(|(shard, _)| *shard == by[0].0),
            "{flow:?}: {by:?}"
        );
        both += usize::from(by.len() == 2);
        shards.push(by[0].0);
    }
    shards.sort_unstable();
    shards.dedup();
    assert!(
        both > 10 && shards.len() > 4,
        "{both} flows both ways, at {shards:?}"
    );
    let merged = status.by_name_in_file();
    let see = merged.nodes.iter().find(|node| node.name == "see").unwrap();
    assert_eq!((see.rx_packets, see.tx_packets), (911, 911));
    let link = merged
        .links
        .iter()
        .find(|link| link.name == "in -> see")
        .unwrap();
    assert_eq!(link.rx_packets, 911);
}

/// Which lengths of packets each shard has been given, by the number in its configuration.
static LENGTHS: Mutex<BTreeMap<u16, Vec<usize>>> = Mutex::new(BTreeMap::new());

/// By a key of its own: lengths divided by a number of its configuration.
struct ByLength {
    unit: usize,
    choice: Choice,
}

impl Chooser for ByLength {
    fn shard_of(&mut self, packet: &[u8]) -> Option<u8> {
        assert_eq!((self.choice.shards, self.choice.input), (3, 0));
        let shard = packet.len() / self.unit % usize::from(self.choice.shards);
        // Large packets have no key.
        (packet.len() < LARGE).then_some(shard as u8)
    }
}

const LARGE: usize = 1000;

fn unit_of(config: &Value) -> usize {
    usize::try_from(number(&config["unit"])).unwrap()
}

const SORTED: NfKind = NfKind {
    name: "sorted",
    summary: "Remembers lengths",
    example: r#"{"unit": 1}"#,
    schema: || schemars::schema_for!(Value),
    plan: |_, _| {
        let make = |config: &Value, choice| {
            let unit = unit_of(config);
            Ok(Box::new(ByLength { unit, choice }) as Box<dyn Chooser>)
        };
        Ok(NfPlan::new().sharding(Sharding::Own(OwnKey(make))))
    },
    build: |_, context| {
        let shard = context.shard;
        Ok(BuiltNf::new(Lengths(shard)))
    },
};

struct Lengths(u16);

impl Nf for Lengths {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let mut seen = LENGTHS.lock().unwrap();
        let lengths = seen.entry(self.0).or_default();
        burst.judge(|packet| {
            lengths.push(packet.len());
            Verdict::Output(0)
        });
    }
}

#[test]
fn an_nf_chooses_by_a_key_of_its_own() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/traces");
    let text = RECORDED
        .replace("TRACES", traces.to_str().unwrap())
        .replace(
            "type: witness, shards: { count: 16, key: flow }",
            "type: sorted, unit: 7, shards: 3",
        );
    let status = run_to_the_end(&text);
    let seen = LENGTHS.lock().unwrap();
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 911);
    for (shard, lengths) in seen.iter() {
        assert!(lengths.len() > 20, "{shard}: {lengths:?}");
        for len in lengths {
            let wanted = if *len < LARGE { len / 7 % 3 } else { 0 };
            assert_eq!(usize::from(*shard), wanted, "{len} bytes");
        }
    }
    let split = status.nodes.iter().find(|node| node.name == "in:split");
    let keyless = split.unwrap().counters["keyless"];
    let large = seen[&0].iter().filter(|len| **len >= LARGE).count();
    assert_eq!(keyless, large as u64);
}

/// A firewall: who has not been spoken to says nothing. Both directions by one way in, so that only
/// what it remembers of a connection tells them apart.
const FIREWALL: &str = "name: walled
ports:
  in:  { pcap: { read: TRACES/web.pcap } }
  out: { sink: {} }
nfs:
  wall:
    type: flow
    program:
      elements:
        - name: wall
          key: [ip.protocol]
          biflow: [[ip.src, ip.dst], [l4.src_port, l4.dst_port]]
          registers: { packets: 32 }
          initial: closed
          states: { closed: {}, open: { idle: 300s } }
          transitions:
            - if: flow.packets == 20
              next: closed
              do: [flow.packets = 0, drop(enough)]
            - { from: open, do: [flow.packets = flow.packets + 1, output(out)] }
            - { if: l4.dst_port < 1024, next: open, do: [flow.packets = 1, output(out)] }
            - { from: closed, do: [drop(unasked)] }
          keyless: [drop(other)]
SHARDS
links:
  - in -> wall -> out
run: { mode: MODE }
";

/// How many packets passed, and how many each shard has had.
fn walled(shards: &str) -> (BTreeMap<String, u64>, Vec<u64>) {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/traces");
    let text = FIREWALL
        .replace("TRACES", traces.to_str().unwrap())
        .replace("SHARDS", shards)
        .replace("MODE", "thread");
    let status = run_to_the_end(&text);
    let by = status
        .nodes
        .iter()
        .filter(|node| node.name.starts_with("wall"));
    let by: Vec<u64> = by.map(|node| node.rx_packets).collect();
    let merged = status.by_name_in_file();
    let wall = merged
        .nodes
        .iter()
        .find(|node| node.name == "wall")
        .unwrap();
    let mut found: BTreeMap<String, u64> = wall.drops.clone().into_iter().collect();
    found.insert("passed".to_owned(), wall.tx_packets);
    found.insert("flows".to_owned(), wall.counters["flows"]);
    (found, by)
}

#[test]
fn a_flow_program_decides_in_shards_as_it_does_alone() {
    let (alone, _) = walled("");
    assert!(alone["passed"] > 200 && alone["enough"] > 5, "{alone:?}");
    for count in [1, 4, 16] {
        let (sharded, by) = walled(&format!("    shards: {count}"));
        assert_eq!(sharded, alone, "with {count} shards");
        let used = by.iter().filter(|packets| **packets > 0).count();
        assert!(by.len() == count && used * 2 >= count, "{by:?}");
    }
}

/// Flows and what is counted of them lie in memory that outlives the shard; packets that it held
/// are counted.
#[test]
fn killed_shards_of_a_program_lose_no_flow_and_keep_exact_accounts() {
    let chain = Running::start("told", &counted("50kpps", 4));
    let known = |status: &Value| -> u64 {
        let all = (0..4).map(|index| &node(status, &shard("tell", index))["counters"]["flows"]);
        all.map(|flows| flows.as_u64().unwrap_or(0)).sum()
    };
    chain.until("all flows are known", |status| known(status) == 500);
    let mut random = seed();
    for _ in 0..8 {
        let victim = shard("tell", random.below(4));
        let status = flows(&chain);
        dither(&mut random, 300_000);
        chain.revive(&status, &[&victim]);
    }
    flows(&chain);
    let end = chain.stop();
    assert_conserved(&end);
    assert_eq!((number(&end["deaths"]), known(&end)), (8, 500), "{end:#}");
    let killed = killed(&end);
    let found = faults(&end, &["duplicated", "reordered", "stale", "corrupted"]);
    assert_eq!(found, [0; 4], "{end:#}");
    assert!(faults(&end, &["lost"])[0] <= killed, "{end:#}");
}

/// The plan of a chain for 64 cores, on whatever machine.
#[test]
fn a_chain_for_64_cores_is_checked_and_its_placement_printed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wide.yaml");
    let text = CHAIN.replace("count: 16", "count: 64");
    std::fs::write(&file, format!("name: wide\n{text}")).unwrap();
    let check = |more: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_catena"))
            .args(["check", "--placement", "--cores", "64"])
            .args(more)
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = check(&[]);
    assert!(
        text.contains("look/63 ") && text.contains("in, out, in:split"),
        "{text}"
    );
    let answer: Value = serde_json::from_str(&check(&["--json"])).unwrap();
    let placed = answer["files"][0]["placement"].as_array().unwrap();
    assert_eq!(placed.len(), 1 + 64 + 64);
    for worker in placed {
        let name = worker["worker"].as_str().unwrap();
        if let Some((_, index)) = name.split_once('/') {
            assert_eq!(worker["core"].to_string(), index, "{name}");
        }
    }
}
