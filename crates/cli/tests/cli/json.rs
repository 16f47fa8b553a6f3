//! The one shape of `--json`: over all verbs, when all goes well and when not.

use serde_json::Value;

use super::documents::subcommands;
use super::harness::{Place, repository};

/// Every verb with `--json`, as words: those of verbs that have verbs too.
fn verbs(place: &Place, words: &[String], found: &mut Vec<String>) {
    let refs: Vec<&str> = words.iter().map(String::as_str).collect();
    // The other half of `cargo xtask bench`, which reads what it prints.
    for name in subcommands(place, &refs)
        .into_iter()
        .filter(|name| name != "bench")
    {
        let words = [words, &[name]].concat();
        verbs(place, &words, found);
    }
    let help = place.catena(&[refs.as_slice(), &["--help"]].concat());
    if help
        .stdout
        .lines()
        .any(|line| line.trim_start().starts_with("--json"))
    {
        found.push(words.join(" "));
    }
}

/// Prepared files, and a chain that runs while `act` does.
fn with_chain(act: impl FnOnce(&Place)) {
    let place = Place::new();
    let web = repository().join("chains/traces/web.pcap");
    std::fs::copy(web, place.path("web.pcap")).unwrap();
    let scenario = repository().join("chains/upf/scenarios/first.yaml");
    std::fs::copy(scenario, place.path("first.yaml")).unwrap();
    let program = repository().join("chains/flow-policer.yaml");
    std::fs::copy(program, place.path("policer.yaml")).unwrap();
    place.write(
        "policer.test.yaml",
        "steps: [{ at: 1s, packet: 'udp 10.0.0.1:5 > 10.0.0.2:53', expect: out }]\n",
    );
    place.write("profile.yaml", "sizes: [{ size: 64 }]\n");
    place.write(
        "study.yaml",
        "name: s\nblocks: 1\ntrial: 20ms\nnf: { type: macswap }\n\
                 factors: { mode: [inline], rate: [10kpps] }\n",
    );
    let file = super::running::generating(&place, "gen");
    let chain = "name: end\nports:\n  in: { generator: { count: 10, rate: 10kpps } }\n  \
                 out: { sink: {} }\nlinks: [in -> out]\n";
    place.write("end.yaml", chain);
    let measured = "name: m\nports:\n  in: { traffic: { profile: {} } }\n  \
                    out: { receiver: {} }\nlinks: [in -> out]\n";
    place.write("measured.yaml", measured);
    let running = place.start("gen", &["--quiet", &file]);
    act(&place);
    drop(running);
}

/// What makes each verb print a document, and its form.
const GOOD: &[(&str, &str, &str)] = &[
    ("check", "gen.yaml end.yaml", "catena.check/1"),
    ("run", "--quiet end.yaml", "catena.status/1"),
    ("list", "", "catena.chains/1"),
    ("status", "gen", "catena.status/1"),
    ("top", "gen --interval 60ms", "catena.rates/1"),
    ("probe", "gen --seconds 50ms --no-tax", "catena.probes/1"),
    ("plan", "gen.yaml", "catena.plan/1"),
    ("apply", "gen.yaml", "catena.plan/1"),
    ("export", "gen", "catena.export/1"),
    ("nf list", "", "catena.nfs/1"),
    ("nf describe", "acl", "catena.nf/1"),
    ("port list", "", "catena.ports/1"),
    ("port describe", "pcap", "catena.port/1"),
    ("pcs encode", "web.pcap web.line", "catena.pcs.encode/1"),
    ("pcs decode", "web.line back.pcap", "catena.pcs.decode/1"),
    ("pcs inspect", "web.line --blocks 3", "catena.pcs.inspect/1"),
    ("pon simulate", "--onus 2 --seconds 5ms", "catena.pon/1"),
    ("doctor", "--seconds 0s", "catena.doctor/1"),
    (
        "measure search",
        "profile.yaml --nf macswap --method mrr --trials 1 --trial 20ms --noise 0s --out search",
        "catena.measure.report/1",
    ),
    (
        "measure latency",
        "profile.yaml --nf macswap --rate 1kpps --trials 1 --trial 50ms --noise 0s --out late",
        "catena.measure.report/1",
    ),
    (
        "measure cost",
        "profile.yaml --nf macswap --rate 1kpps --trials 1 --trial 50ms --noise 0s --out cost",
        "catena.measure.report/1",
    ),
    (
        "measure compare",
        "measured.yaml measured.yaml --together --pairs 100 --trial 1ms --noise 0s --out ab",
        "catena.measure.report/1",
    ),
    (
        "measure study",
        "study.yaml --noise 0s --out matrix",
        "catena.measure.report/1",
    ),
    (
        "flow test",
        "policer.yaml policer.test.yaml",
        "catena.flow.test/1",
    ),
    ("flow trace", "policer.yaml web.pcap", "catena.flow.trace/1"),
    ("upf smf", "first.yaml", "catena.upf.smf/1"),
    ("stop", "gen", "catena.status/1"),
];

/// Verbs that want a UPF in a running chain: tests/upf.rs has one; or DPDK: tests/dpdk.rs.
const IN_OTHER_TESTS: [&str; 8] = [
    "port dpdk build",
    "upf peers",
    "upf pools",
    "upf release",
    "upf reports",
    "upf session",
    "upf sessions",
    "upf trace",
];

#[test]
fn every_verb_prints_one_object_that_names_its_form() {
    with_chain(|place| {
        let mut found = Vec::new();
        verbs(place, &[], &mut found);
        let mut listed: Vec<_> = GOOD.iter().map(|(verb, ..)| (*verb).to_owned()).collect();
        listed.extend(IN_OTHER_TESTS.map(str::to_owned));
        listed.sort();
        found.sort();
        assert_eq!(
            found, listed,
            "verbs with --json, and those that are tried here"
        );
        for (verb, args, schema) in GOOD {
            let words: Vec<&str> = verb.split(' ').chain(["--json"]).collect();
            let args: Vec<&str> = args.split_whitespace().collect();
            let ended = place.catena(&[words, args].concat());
            // A busy machine may cut a measurement short; what was found is printed all the same.
            let is_cut = verb.starts_with("measure") && ended.code == 1;
            assert!(ended.code == 0 || is_cut, "{verb}: {ended:#?}");
            let document = ended.json();
            assert_eq!(document["schema"], *schema, "{verb}");
            let start = format!("{{\n  \"schema\": \"{schema}\"");
            assert!(ended.stdout.starts_with(&start), "{verb}: {}", ended.stdout);
        }
        let reference = repository().join("docs/reference/json.md");
        let reference = std::fs::read_to_string(reference).unwrap();
        for (_, _, schema) in GOOD
            .iter()
            .filter(|(_, _, schema)| !schema.contains(".pcs."))
        {
            assert!(reference.contains(&format!("`{schema}`")), "{schema}");
        }
    });
}

/// What makes a verb fail, and how.
const BAD: &[(&str, i32)] = &[
    ("run --json absent.yaml", 2),
    ("status --json absent", 1),
    ("stop --json absent", 1),
    ("top --json absent", 1),
    ("probe --json absent", 1),
    ("plan --json absent.yaml", 2),
    ("apply --json absent.yaml", 2),
    ("nf describe --json absent", 2),
    ("port describe --json absent", 2),
    ("pcs encode --json absent.pcap x.line", 1),
    ("pcs decode --json absent.line x.pcap", 1),
    ("pcs inspect --json absent.line", 1),
    ("pon simulate --json --cycle 1s --onus 40", 2),
    ("doctor --json --seconds never", 2),
    ("measure search --json absent.yaml --nf macswap --out x", 2),
    ("measure study --json absent.yaml --out x", 2),
    ("flow test --json absent.yaml x.yaml", 2),
    ("flow trace --json absent.yaml x.pcap", 2),
    ("list --json --nonsense", 2),
];

#[test]
fn what_fails_is_told_as_one_object_too() {
    let place = Place::new();
    for (line, code) in BAD {
        let args: Vec<&str> = line.split(' ').collect();
        let ended = place.catena(&args);
        assert!(
            ended.code == *code || (line.starts_with("pcs") && ended.code > 0),
            "{line}: {ended:#?}"
        );
        let document = ended.json();
        assert_eq!(document["schema"], "catena.error/1", "{line}");
        let errors = document["errors"].as_array().unwrap();
        assert!(!errors.is_empty(), "{line}");
        for error in errors {
            assert!(
                !error["message"].as_str().unwrap().is_empty(),
                "{line}: {document}"
            );
        }
        assert!(!ended.stderr.is_empty(), "{line}: people are told as well");
    }
}

#[test]
fn errors_of_files_have_their_places() {
    let place = Place::new();
    place.write(
        "wrong.yaml",
        "name: wrong\nports: { in: { pcap: { reed: x } } }\nlinks: []\n",
    );
    place.write(
        "right.yaml",
        "name: a\nports:\n  in: { generator: {} }\n  out: { sink: {} }\n\
                links: [in -> out]\n",
    );
    let ended = place.catena(&["run", "--json", "wrong.yaml"]);
    let errors = ended.assert_code(2).json()["errors"].clone();
    let errors_of_line = errors.as_array().unwrap().iter();
    let mut errors_of_line = errors_of_line.filter(|error| error["line"] == 2);
    let first = errors_of_line.next().expect("the unknown key is in line 2");
    assert_eq!(first["file"], "wrong.yaml");
    assert!(first["repair"].is_string(), "{first}");

    let ended = place.catena(&["check", "--json", "right.yaml", "wrong.yaml"]);
    let files = ended.assert_code(2).json()["files"].clone();
    assert_eq!(files[0]["errors"], Value::Array(vec![]));
    assert_eq!(
        (&files[0]["chain"], &files[0]["nodes"]),
        (&"a".into(), &2.into())
    );
    assert_eq!(files[1]["errors"], errors, "the same as run says");
}
