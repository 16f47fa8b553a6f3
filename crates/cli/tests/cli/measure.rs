//! `catena measure` on real chains: what its reports hold, and that no packet is miscounted.
//!
//! The machine may be busy, so nothing here asserts how fast anything is. Injected loss is found to
//! the packet; an injected delay shows in the least latency, to which a busy machine adds nothing.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::harness::{Place, named, until};

/// Options that make a measurement short, and patient with a busy machine.
const SHORT: &str = "--noise 10ms --repeats 40 --rivals 1 --out out --force";
/// Length of the warm-up of measurements that do not say another.
const WARMUP: [&str; 2] = ["--warmup", "10ms"];

pub(super) fn place() -> Place {
    let place = Place::new();
    place.write(
        "profile.yaml",
        "name: small\nsizes: 64\nflows: { count: 3 }\n",
    );
    place
}

pub(super) fn report(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path("out").join(name)).unwrap()
}

pub(super) fn result<'a>(document: &'a Value, name: &str) -> &'a str {
    let rows = document["results"].as_array().unwrap();
    let row = rows.iter().find(|row| row[0] == name);
    row.unwrap_or_else(|| panic!("no {name} in {rows:?}"))[1]
        .as_str()
        .unwrap()
}

/// A row of what a report says of the device and its surroundings.
fn described<'a>(document: &'a Value, name: &str) -> &'a str {
    let rows = document["environment"].as_array().unwrap();
    let row = rows.iter().find(|row| row[0] == name);
    row.unwrap_or_else(|| panic!("no {name} in {rows:?}"))[1]
        .as_str()
        .unwrap()
}

/// What holds of every report: all forms agree, every trial is there, nothing came from nowhere.
#[track_caller]
fn assert_whole(place: &Place, document: &Value) {
    assert_eq!(document["schema"], "catena.measure.report/1");
    let written: Value = serde_json::from_str(&report(place, "report.json")).unwrap();
    assert_eq!(&written, document);
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(
        report(place, "trials.csv").lines().count(),
        trials.len() + 1
    );
    let page = report(place, "report.html");
    assert!(
        page.starts_with("<!DOCTYPE html>") && !page.contains("<script"),
        "{page:.200}"
    );
    let (mut intended, mut lost, mut invalid) = (0, 0, 0);
    for trial in trials {
        let count = |name: &str| trial[name].as_u64().unwrap();
        if trial["invalid"].is_null() {
            assert!(count("forwarded") <= count("intended"), "{trial}");
            intended += count("intended");
            lost += count("intended") - count("forwarded");
        } else {
            invalid += 1;
        }
    }
    let number = |name: &str| result(document, name).parse::<u64>().unwrap();
    assert_eq!(number("packets of trials that count"), intended);
    assert_eq!(number("lost"), lost);
    assert_eq!(number("trials that do not count"), invalid);
    let environment = document["environment"].as_array().unwrap();
    for name in [
        "kernel",
        "processor",
        "device",
        "workers",
        "run",
        "build",
        "commit of the build",
        "kernel command line",
        "mitigations",
        "preemption",
        "kernel tick",
        "steal",
        "wake-up",
        "trials",
    ] {
        // Of two chains, each has its own.
        let of_a = format!(": {name}");
        let is_it = |text: &str| text == name || text.starts_with("A (") && text.ends_with(&of_a);
        let mut rows = environment.iter();
        assert!(
            rows.any(|row| is_it(row[0].as_str().unwrap())),
            "{name}: {environment:?}"
        );
    }
    let entries = std::fs::read_dir(place.path("out")).unwrap().flatten();
    let names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(
        !names.iter().any(|name| name.starts_with("trial-")),
        "{names:?}"
    );
    let figures = names.iter().filter(|name| name.ends_with(".svg")).count();
    assert_eq!(figures, page.matches("<figure>").count(), "{names:?}");
    let has = |name: String| names.contains(&name);
    let data = (1..=figures).map(|number| format!("figure-{number}.csv"));
    assert!(data.into_iter().all(has), "{names:?}");
    let has_latency = !document["latency"].as_array().unwrap().is_empty();
    assert_eq!(names.contains(&"latency.csv".to_owned()), has_latency);
}

pub(super) fn measure(place: &Place, arguments: &[&str]) -> Value {
    let mut all = vec!["measure"];
    all.extend(arguments);
    all.extend(SHORT.split(' '));
    if !arguments.contains(&WARMUP[0]) {
        all.extend(WARMUP);
    }
    all.push("--json");
    let ended = place.catena(&all);
    let document = ended.assert_code(0).json();
    assert_whole(place, &document);
    place.assert_nothing_left();
    document
}

#[test]
fn a_search_ends_with_bounds_and_says_what_it_deviates_from() {
    let place = place();
    let arguments = "search profile.yaml --nf ttl --mode process --max 20kpps --min 1kpps \
                     --trial 50ms --sum 100ms --width 0.5";
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let document = measure(&place, &arguments);
    // What a reader needs to do the same: RFC 9971 asks for all of it (4.9.3, 4.5.4).
    let rows = document["environment"].as_array().unwrap();
    for (name, parts) in [
        // With what is left out, here all of it.
        (
            "NF ",
            &["\"type\":\"ttl\"", "\"settings\":{\"non_ip\":\"pass\"}"][..],
        ),
        ("entry buffer", &["512 packets"]),
        ("tester's traffic", &["\"entry\":512"]),
        (
            "link ",
            &["\"overflow\":\"block\"", "\"slots\":", "\"trust\":"],
        ),
        ("run", &["\"wait\":\"auto\"", "\"burst\":"]),
        ("wait policy", &["sleep"]),
        (
            "profile of the last trial",
            &["\"rate\":", "\"seed\":", "\"sizes\":", "\"dst_port\":9"],
        ),
    ] {
        let is_named = |row: &&Value| row[0].as_str().is_some_and(|own| own.starts_with(name));
        let row = rows.iter().find(is_named);
        let value = row.unwrap_or_else(|| panic!("no {name} in {rows:?}"))[1]
            .as_str()
            .unwrap();
        assert!(
            parts.iter().all(|part| value.contains(part)),
            "{name}: {value}"
        );
    }
    assert!(result(&document, "tester's own baseline").contains(" at "));
    assert!(!result(&document, "bias").is_empty());
    let first = document["results"][0][0].as_str().unwrap();
    assert!(
        first.starts_with("throughput at "),
        "{first} before what was found"
    );
    let steady = result(&document, "steady state");
    assert!(
        steady.contains("the first halves lost ") || steady.starts_with("not known"),
        "{steady}"
    );
    let limits = result(&document, "load limits");
    assert!(
        limits.starts_with("1.000 kpps to ") && limits.ends_with("pps"),
        "{limits}"
    );
    let summary = document["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("Conditional throughput ") && summary.contains(" PARTIAL: "),
        "{summary}"
    );
    let found = &document["throughput"][0];
    assert_eq!(
        (&found["preset"], &found["traffic"]),
        (&"vm".into(), &"small".into())
    );
    let reasons = found["standing"]["partial"].as_array().unwrap();
    let deviates = |reason: &Value| reason.as_str().unwrap().contains("not those of the preset");
    assert!(reasons.iter().any(deviates), "{found:#}");
    let goals = found["goals"].as_array().unwrap();
    assert_eq!(goals.len(), 3);
    for goal in goals {
        let of = |name: &str| goal[name].as_f64();
        let (lower, upper) = (
            of("relevant_lower_bound_pps"),
            of("relevant_upper_bound_pps"),
        );
        assert!(lower.or(upper).is_some(), "{goal}");
        assert!(
            lower.zip(upper).is_none_or(|(lower, upper)| lower < upper),
            "{goal}"
        );
        let most = lower.unwrap_or(0.0) * 1.000_001;
        assert!(
            of("conditional_throughput_pps").is_none_or(|pps| pps <= most),
            "{goal}"
        );
    }
}

/// A policer of 20 kpps with a burst of 1000 passes 5000 packets in 200 ms: 25 kpps without loss.
/// Below, its bucket makes up for stalls of 50 ms; what is sent up to 20 ms late finds more tokens.
#[test]
fn a_device_of_known_capacity_is_found() {
    let place = place();
    let chain = "name: policed\n\
                 ports: { in: { traffic: { profile: {} } }, out: { receiver: {} } }\n\
                 nfs: { police: { type: policer, rate: 20kpps, burst: 1000 } }\n\
                 links: [in -> police -> out]\n";
    place.write("policed.yaml", chain);
    let arguments = "search profile.yaml --chain policed.yaml --max 200kpps --min 2kpps \
                     --preset rfc2544 --trial 200ms --sum 200ms --width 0.1";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    // What has no default is told with what it means to leave it out.
    let traffic: Value = serde_json::from_str(described(&document, "tester's traffic")).unwrap();
    let slices = "Take turns with another chain's generator; without it, send all the time.";
    assert_eq!(traffic["not set"]["slices"], slices);
    assert!(traffic["settings"].get("slices").is_none(), "{traffic:#}");
    let found = &document["throughput"][0]["goals"][0];
    let of = |name: &str| found[name].as_f64().unwrap();
    assert_eq!(
        found["irregularities"].as_array().unwrap().len(),
        0,
        "{found:#}"
    );
    for bound in ["relevant_lower_bound_pps", "conditional_throughput_pps"] {
        assert!((15e3..28e3).contains(&of(bound)), "{found:#}");
    }
    let (lower, upper) = (
        of("relevant_lower_bound_pps"),
        of("relevant_upper_bound_pps"),
    );
    assert!(lower < upper && lower >= upper * 0.899, "{found:#}");
}

#[test]
fn mrr_and_soak_count_every_packet() {
    let place = place();
    let mrr = "search profile.yaml --nf count --mode thread --method mrr --max 10kpps \
               --trials 2 --trial 30ms";
    let mrr = measure(&place, &mrr.split_whitespace().collect::<Vec<_>>());
    assert_eq!(result(&mrr, "offered"), "10.00 kpps");
    assert!(result(&mrr, "MRR").contains("standard deviation"));
    assert_eq!(mrr["results"][0][0], "MRR");
    assert!(result(&mrr, "steady state").starts_with("not known"));
    let figure = report(&place, "figure-1.csv");
    assert!(figure.contains("\nMRR,measured,"), "{figure}");
    let soak = "search profile.yaml --nf ttl --mode inline --method soak --max 10kpps \
                --sum 60ms --trial 30ms";
    let soak = measure(&place, &soak.split_whitespace().collect::<Vec<_>>());
    assert_eq!(result(&soak, "load"), "10.00 kpps");
    assert_eq!(soak["results"][0][0], "loss ratio");
    let figure = report(&place, "figure-1.csv");
    assert!(figure.contains("\nloss of a soak,measured,"), "{figure}");
    // The result comes first, with its unit and interval.
    let [mrr, soak] = [mrr, soak].map(|document| document["summary"].to_string());
    assert!(
        mrr.contains("pps (95 % interval ") && !mrr.starts_with("\"MRR"),
        "{mrr}"
    );
    assert!(
        soak.contains(" % of the packets are lost at 10.00 kpps"),
        "{soak}"
    );
}

/// A chain whose receiver stands behind a fault.
fn faulty(fault: &str) -> String {
    format!(
        "name: faulty\nports:\n  in: {{ traffic: {{ profile: profile.yaml }} }}\n  \
         out: {{ receiver: {{}}, wrap: [fault: {{ tx: {fault} }}] }}\n\
         nfs: {{ swap: {{ type: macswap }} }}\nlinks: [in -> swap -> out]\n"
    )
}

#[test]
fn injected_loss_is_found_to_the_packet() {
    let place = place();
    let chain = faulty("{ loss: 5% }");
    place.write("faulty.yaml", &chain);
    // The same packets once more, with the fault's own count.
    place.write(
        "slow.yaml",
        "sizes: 64\nflows: { count: 3 }\nload: { rate: 20kpps }\n",
    );
    let counted = chain.replace("profile.yaml", "slow.yaml, duration: 100ms");
    place.write("counted.yaml", counted);
    let status = place
        .catena(&["run", "counted.yaml", "--json"])
        .assert_code(0)
        .json();
    let injected = named(&status["nodes"], "out")["counters"]["tx_lost"]
        .as_u64()
        .unwrap();
    assert!(injected > 50, "{injected}");

    // Packets of a warm-up would meet the fault's first random numbers.
    let arguments = "latency profile.yaml --chain faulty.yaml --rate 20kpps --trial 100ms \
                     --trials 1 --warmup 0s";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!(result(&document, "packets of trials that count"), "2000");
    assert_eq!(result(&document, "lost"), injected.to_string());
    assert!(result(&document, "tester's own baseline").contains("without a device"));
    assert_eq!(
        document["latency"][0]["latency"]["delay"]["count"],
        2000 - injected
    );
}

#[test]
fn duplicates_are_no_arrivals_and_damage_is_loss() {
    let place = place();
    place.write("faulty.yaml", faulty("{ corrupt: 10%, duplicate: 10% }"));
    let arguments = "latency profile.yaml --chain faulty.yaml --rate 20kpps --trial 100ms \
                     --trials 1";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    let number = |name: &str| result(&document, name).parse::<u64>().unwrap();
    assert!(
        number("duplicated") > 50 && number("corrupted") > 20,
        "{document:#}"
    );
    assert!(
        number("lost") > 20 && number("lost") <= number("corrupted"),
        "{document:#}"
    );
    let samples = &document["latency"][0]["latency"]["delay"]["count"];
    assert_eq!(samples.as_u64().unwrap(), 2000 - number("lost"));
}

#[test]
fn an_injected_delay_is_recovered() {
    let place = place();
    // In one thread, and as good as it gets: on a busy machine threads wait for each other's time
    // slices, or one for others' for a whole trial, and so does the delay of the best tenth.
    let best_tenth = |fault: &str| {
        let chain = faulty(fault) + "run: { mode: inline }\n";
        place.write("faulty.yaml", chain);
        let arguments = "latency profile.yaml --chain faulty.yaml --rate 5kpps --trial 200ms \
                         --trials 1";
        let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
        let latency = &document["latency"][0];
        let count = |name: &str| latency["attribution"][name]["count"].as_u64().unwrap();
        assert_eq!(count("raw"), count("clean") + count("stalled"));
        assert_eq!(count("raw"), count("net"));
        let delay = &latency["latency"]["delay"];
        let quantiles = delay["quantiles_ns"].as_array().unwrap();
        let tenth = quantiles.iter().find(|pair| pair[0] == 0.1).unwrap();
        (
            delay["min_ns"].as_f64().unwrap(),
            tenth[1].as_f64().unwrap(),
        )
    };
    let (mut without, mut delays) = (f64::INFINITY, Vec::new());
    let is_right = (0..30).any(|_| {
        without = without.min(best_tenth("{}").1);
        let (least, tenth) = best_tenth("{ delay: { fixed: 4ms } }");
        assert!(least >= 4e6, "{least} ns: a delay is never shorter");
        let delay = tenth - without;
        delays.push(delay);
        (delay / 4e6 - 1.0).abs() <= 0.03
    });
    assert!(is_right, "{delays:?} ns of 4 ms");
}

#[test]
fn an_interrupted_measurement_keeps_what_it_has() {
    let place = place();
    let arguments = "measure latency profile.yaml --nf macswap --mode process --rate 1kpps \
                     --trial 30s --trials 1 --noise 0s --out out";
    let mut command = place.command(&arguments.split_whitespace().collect::<Vec<_>>());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the workers of the first trial run", || {
        (place.processes().len() > 2).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(1) && words.contains("interrupted"),
        "{ended:?}"
    );
    let document: Value = serde_json::from_str(&report(&place, "report.json")).unwrap();
    assert!(
        document["summary"]
            .as_str()
            .unwrap()
            .contains("interrupted")
    );
    place.assert_nothing_left();
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_starts() {
    let place = place();
    place.write(
        "steps.yaml",
        "load: { pattern: steps, steps: [{ rate: 1kpps, for: 1s }] }\n",
    );
    place.write(
        "none.yaml",
        "name: none\nports: { in: { generator: {} }, out: { sink: {} } }\n\
                              links: [in -> out]\n",
    );
    place.write("short.yaml", "sizes: 20\n");
    place.write("line.yaml", "line: 1Mbps\n");
    for (arguments, words) in [
        ("search short.yaml --nf count", "give 64 or more"),
        ("search steps.yaml --nf count", "rates of its own"),
        (
            "search profile.yaml --chain none.yaml",
            "0 ports of type traffic",
        ),
        ("search profile.yaml --nf nothing", "catena nf list"),
        ("search profile.yaml --method soak", "give it as --max"),
        ("search profile.yaml --method back-to-back", "--throughput"),
        ("search line.yaml --method mrr --max 1Mpps", "line carries"),
        ("latency profile.yaml --nf count", "give --rate"),
        ("latency profile.yaml --rate 0pps", "must be above 0"),
        ("compare none.yaml none.yaml --pairs 10", "too few"),
    ] {
        let mut all = vec!["measure"];
        all.extend(arguments.split_whitespace());
        all.extend(["--noise", "0s", "--out", "out"]);
        let ended = place.catena(&all);
        assert!(
            ended.assert_code(2).stderr.contains(words),
            "{arguments}: {ended:#?}"
        );
    }
    place.assert_nothing_left();
}

/// A chain whose receiver takes packets at a rate, behind a link that blocks.
fn paced(name: &str, rate: &str) -> String {
    format!(
        "name: {name}\nports:\n  in: {{ traffic: {{ profile: {{}}, entry: 64 }} }}\n  \
         out: {{ receiver: {{}}, wrap: [pace: {{ tx: {rate} }}] }}\n\
         nfs: {{ swap: {{ type: macswap }} }}\nlinks: [in -> swap -> out]\n"
    )
}

/// 20 kpps at a device of 5 kpps whose links block: what it does not take is lost when it is due,
/// and what it makes wait is its latency. A busy machine makes it pass less, never more.
#[test]
fn a_device_that_holds_the_tester_back_loses_and_is_late_itself() {
    let place = place();
    place.write("paced.yaml", paced("paced", "5kpps"));
    let arguments = "latency profile.yaml --chain paced.yaml --rate 20kpps --trial 1s --trials 1 \
                     --warmup 300ms";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    let number = |name: &str| result(&document, name).parse::<u64>().unwrap();
    assert_eq!(number("packets of trials that count"), 20_000);
    // Of its own packets 5,000 pass in the second, if those of the warm-up fill it before.
    let lost = number("lost");
    assert!((13_700..20_000).contains(&lost), "{lost} of 15,000");
    let latency = &document["latency"][0]["latency"];
    let median = |name: &str| {
        let quantiles = latency[name]["quantiles_ns"].as_array().unwrap();
        let found = quantiles.iter().find(|pair| pair[0] == 0.5).unwrap();
        found[1].as_f64().unwrap()
    };
    // Some hundred packets wait for a device that takes 200 us for each.
    assert!(median("delay_from_sent") > 40e6, "{latency:#}");
    assert!(median("tester_lateness") < 20e6, "{latency:#}");
    let held = result(&document, "held back by the device at its entry");
    assert!(!held.starts_with("0 packets"), "{held}");
    assert_eq!(described(&document, "entry buffer"), "64 packets");
    let receiver = described(&document, "tester's receiver");
    assert!(receiver.contains("\"samples\":131072"), "{receiver}");
}

/// A device of 2 kpps that blocks and has room for 2,560 packets and more: in trials of 0.2 s six
/// times as many come without loss, however long a busy machine lets it stand still. What it holds
/// at the end is told, and what passed meanwhile is never more than its rate.
#[test]
fn what_a_device_holds_at_the_end_is_told_beside_its_throughput() {
    let place = place();
    let chain = paced("paced", "2kpps").replace(", entry: 64", "");
    place.write("paced.yaml", chain);
    let arguments = "search profile.yaml --chain paced.yaml --max 20kpps --min 1kpps --sum 200ms \
                     --warmup 20ms";
    let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
    let found = &document["throughput"][0];
    let throughput = found["goals"][0]["relevant_lower_bound_pps"].as_f64();
    let throughput = throughput.unwrap();
    let held = result(&document, "held at 0 % loss");
    let share = held.split(" ended: ").nth(1).unwrap();
    let share = share.split(' ').next().unwrap().parse::<f64>().unwrap() / 100.0;
    // What passed in the trial: never more than the device does.
    let passed = throughput * (1.0 - share);
    assert!(throughput > 5e3 && passed < 3e3, "{throughput} {held}");
    let reasons = found["standing"]["partial"].as_array().unwrap();
    let mut reasons = reasons.iter().filter_map(Value::as_str);
    let is_said = reasons.any(|reason| reason.contains("held when sending ended"));
    assert!(is_said, "{found:#}");
}

/// A difference of known sign that no busy machine hides: a policer of 10 kpps against none.
/// Buffers empty as fast for both, so by what leaves the generators they are alike. Small
/// differences are found in simulated time, and by `cargo xtask bench truth`.
#[test]
fn differences_that_are_there_are_found_by_what_arrives() {
    let place = place();
    let policed = "name: policed\n\
                   ports: { in: { traffic: { profile: {} } }, out: { receiver: {} } }\n\
                   nfs: { police: { type: policer, rate: 10kpps, burst: 4 } }\n\
                   links: [in -> police -> out]\n";
    place.write("policed.yaml", policed);
    place.write(
        "plain.yaml",
        policed.replace("10kpps, burst: 4", "100Mpps, burst: 100000"),
    );
    for (a, b, least, most, verdict) in [
        ("plain.yaml", "policed.yaml", 0.0, 0.5, "lower"),
        ("policed.yaml", "plain.yaml", 2.0, f64::INFINITY, "higher"),
    ] {
        let arguments = format!("compare {a} {b} --together --trial 4ms --pairs 200");
        let document = measure(&place, &arguments.split_whitespace().collect::<Vec<_>>());
        let found = &document["comparisons"][0][1];
        assert_eq!(found["verdict"], verdict, "{a} {b}: {found:#}");
        let ratio = found["ratio"]["estimate"].as_f64().unwrap();
        assert!((least..=most).contains(&ratio), "{a} {b}: {ratio}");
        let power = result(&document, "power, said before the run");
        assert!(power.contains("200 pairs"), "{power}");
        // Both chains are called alike, so by their files.
        let summary = document["summary"].as_str().unwrap();
        let says = format!(": {b} is {verdict} than {a}. ");
        let begins = format!("{b} is ");
        assert!(
            summary.starts_with(&begins) && summary.contains(&says),
            "{summary}"
        );
        let name = document["comparisons"][0][0].as_str().unwrap();
        assert!(name.ends_with(&format!(": {b} over {a}")), "{name}");
        let row = "pairs that do not count, because the machine disturbed them";
        result(&document, row);
    }
}

/// A delay that no probe sees is a row of the table of blame, not a residence that nobody missed.
#[test]
fn a_delay_outside_the_probes_is_told() {
    let place = place();
    place.write("faulty.yaml", faulty("{ delay: { fixed: 4ms } }"));
    let arguments = "latency profile.yaml --chain faulty.yaml --rate 20kpps --trial 200ms \
                     --trials 1 --probes --gap 16";
    let document = measure_with_probes(&place, arguments);
    let shares = document["blame"][0][1]["shares"].as_array().unwrap();
    let of = |share: &Value| share["component"] == "outside residence";
    let outside = shares.iter().find(|share| of(share)).unwrap();
    let ns = outside["mean_ns"].as_f64().unwrap();
    assert!((3.5e6..100e6).contains(&ns), "{outside}");
}

/// A measurement that writes `probes.json` as well.
fn measure_with_probes(place: &Place, arguments: &str) -> Value {
    let mut all = vec!["measure"];
    all.extend(arguments.split_whitespace());
    all.extend(SHORT.split(' '));
    all.push("--json");
    place.catena(&all).assert_code(0).json()
}
