//! `catena probe` and `measure latency --probes` on real chains, in processes and inline.
//!
//! The machine may be busy, so nothing here asserts how long anything takes.

use serde_json::Value;

use super::harness::{Place, until};

fn chain(mode: &str) -> String {
    format!(
        "name: probed\nports:\n  in: {{ generator: {{ rate: 20kpps }} }}\n  out: {{ sink: {{}} }}\n\
         nfs:\n  hop: {{ type: ttl }}\n  swap: {{ type: macswap }}\n\
         links:\n  - in -> hop\n  - {{ link: hop -> swap, trust: copy }}\n  - swap -> out\n\
         run: {{ mode: {mode} }}\n"
    )
}

/// Runs `catena probe` beside the chain, until a trace of it is whole.
fn probed(place: &Place, options: &str) -> Value {
    until("packets are followed", || {
        let mut arguments = vec!["probe", "probed", "--json"];
        arguments.extend(options.split(' '));
        let ended = place.catena(&arguments);
        let report: Value = serde_json::from_str(&ended.stdout).ok()?;
        (report["journeys"].as_u64()? > 20).then_some(report)
    })
}

fn names(values: &Value, key: &str) -> Vec<String> {
    let values = values.as_array().unwrap().iter();
    let name = |value: &Value| value[key].as_str().unwrap().to_owned();
    values.map(name).collect()
}

#[test]
fn every_mode_has_the_same_points() {
    for (mode, links) in [
        ("inline", ["publish", "publish"]),
        ("thread", ["publish", "copy in"]),
        ("process", ["publish", "copy in"]),
    ] {
        let place = Place::new();
        place.write("chain.yaml", chain(mode));
        let running = place.start("probed", &["chain.yaml", "--quiet"]);
        let options = "--tier 2 --seconds 0.2 --no-tax --chrome trace.json --pcapng visits.pcapng";
        let report = probed(&place, options);
        assert_eq!(report["schema"], "catena.probes/1");
        let path = &report["paths"][0];
        assert_eq!(
            path["nodes"],
            serde_json::json!(["in", "hop", "swap", "out"])
        );
        let parts = names(&path["parts"], "component");
        assert_eq!(parts.len(), 19, "{mode}: {parts:?}");
        for part in [
            "in: port rx".to_owned(),
            "hop: NF".to_owned(),
            "swap: NF".to_owned(),
            "out: port tx".to_owned(),
            format!("in -> hop: {}", links[0]),
            format!("hop -> swap: {}", links[1]),
        ] {
            assert!(parts.contains(&part), "{mode}: no {part} in {parts:?}");
        }
        let closure = path["blame"]["closure_error"].as_f64().unwrap();
        assert!(closure < 0.01, "{mode}: {closure}");
        assert_eq!(report["refused"], 0, "{mode}");
        assert_eq!(
            report["rings"].as_array().unwrap().is_empty(),
            mode == "inline"
        );
        let trace: Value =
            serde_json::from_str(&std::fs::read_to_string(place.path("trace.json")).unwrap())
                .unwrap();
        assert!(trace["traceEvents"].as_array().unwrap().len() > 80);
        assert_tshark_reads(&place, report["journeys"].as_u64().unwrap());
        place.catena(&["stop", "probed"]).assert_code(0);
        running.end().assert_code(0);
    }
}

/// Another program reads the same file.
fn assert_tshark_reads(place: &Place, journeys: u64) {
    let fields = "-r visits.pcapng -T fields -e frame.interface_name -e frame.comment";
    let fields: Vec<_> = fields.split(' ').collect();
    let Some(ended) = place.run("tshark", &fields) else {
        println!("SKIP every_mode_has_the_same_points: no tshark to read the pcapng file with");
        return;
    };
    let lines = ended.stdout.lines();
    let swap = lines.filter(|line| line.starts_with("swap\t") && line.contains("swap: NF"));
    assert!(swap.count() as u64 >= journeys * 9 / 10, "{}", ended.stdout);
}

#[test]
fn a_report_for_people_names_cost_and_checks() {
    let place = Place::new();
    place.write("chain.yaml", chain("thread"));
    let running = place.start("probed", &["chain.yaml", "--quiet"]);
    let report = until("the cost is found", || {
        let ended = place.catena(&["probe", "probed", "--gap", "4", "--seconds", "0.3"]);
        ended
            .stdout
            .contains("cost of the probes")
            .then_some(ended.stdout)
    });
    for word in [
        "one packet in 4 followed",
        "path in -> hop -> swap -> out",
        "unattributed",
        "sum of components against residence: closes",
        "Little's law",
        "busy time per packet with probes over without",
    ] {
        assert!(report.contains(word), "no \"{word}\" in\n{report}");
    }
    place.catena(&["stop", "probed"]).assert_code(0);
    running.end().assert_code(0);
    let ended = place.catena(&["probe", "probed"]);
    assert!(ended.stderr.contains("is not running"), "{}", ended.stderr);
}

#[test]
fn trials_are_probed() {
    let place = Place::new();
    place.write("profile.yaml", "name: small\nsizes: 64\n");
    let arguments = "measure latency profile.yaml --nf ttl macswap --mode thread --rate 20kpps \
                     --trial 200ms --trials 2 --probes --gap 8 --noise 0s --repeats 40 --rivals 1 \
                     --out out";
    let ended = place.catena(&arguments.split_whitespace().collect::<Vec<_>>());
    ended.assert_code(0);
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let probes: Value = serde_json::from_str(&read("probes.json")).unwrap();
    let document: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(probes.as_array().unwrap().len(), 2);
    for report in probes.as_array().unwrap() {
        assert!(report["journeys"].as_u64().unwrap() > 50, "{report}");
        assert_eq!(report["tax"]["measure"], "throughput");
    }
    assert_eq!(document["blame"].as_array().unwrap().len(), 2);
    assert!(document["probe_tax"]["ratio"]["estimate"].as_f64().unwrap() > 0.0);
    assert!(
        ended.stdout.contains("cost of the probes"),
        "{}",
        ended.stdout
    );
}
