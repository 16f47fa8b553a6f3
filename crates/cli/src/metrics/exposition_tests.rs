//! The text is what Prometheus takes, and what the reference says.

use std::collections::BTreeSet;

use super::*;
use crate::sample::status;

/// Samples of one family, each as the line between the name and the end of it.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("{name}{{");
    text.lines()
        .filter_map(|line| line.strip_prefix(&start))
        .collect()
}

#[test]
fn every_sample_stands_under_its_family_and_no_series_twice() {
    let text = exposition(&status(), &Vec::new());
    let mut families = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap();
            assert!(families.insert(current), "{current} stands twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split(' ').next().unwrap(), current);
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            let bare = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| family.strip_suffix(suffix))
                .unwrap_or(family);
            assert!(family == current || bare == current, "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(name), "{name} stands twice");
        }
    }
    assert_eq!(families.len(), FAMILIES.len());
    assert!(text.ends_with('\n'));
}

#[test]
fn names_end_by_what_they_are() {
    for family in FAMILIES {
        let is_counter = family.kind == Type::Counter;
        assert_eq!(
            family.name.ends_with("_total"),
            is_counter,
            "{}",
            family.name
        );
        assert!(!family.help.ends_with('.'), "{}", family.name);
    }
}

#[test]
fn numbers_are_those_of_the_status() {
    let text = exposition(&status(), &Vec::new());
    let drops = lines(&text, "catena_node_drops_total");
    assert!(
        drops.contains(&r#"chain="web",node="police",type="policer",reason="policer_red"} 40"#)
    );
    assert_eq!(
        drops.len(),
        status().nodes.len() * DropReason::ENGINE_COUNT + 1,
        "and one of an own"
    );
    let own = lines(&text, "catena_node_own");
    assert_eq!(
        own,
        [r#"chain="web",node="police",type="policer",counter="marked"} 3"#]
    );
    let links = lines(&text, "catena_link_packets_total");
    assert_eq!(
        links,
        [
            r#"chain="web",link="in -> police",trust="shared"} 1000"#,
            r#"chain="web",link="swap -> out",trust="copy"} 950"#
        ],
        "the inline link counts nothing and is left out"
    );
    assert_eq!(
        lines(&text, "catena_buffers"),
        [
            r#"chain="web",state="free"} 4000"#,
            r#"chain="web",state="in_flight"} 90"#,
            r#"chain="web",state="held"} 6"#,
            r#"chain="web",state="unread"} 0"#
        ]
    );
    assert_eq!(
        lines(&text, "catena_uptime_seconds"),
        [r#"chain="web"} 12.5"#]
    );
}

#[test]
fn a_histogram_is_cumulative_and_ends_with_all() {
    let text = exposition(&status(), &Vec::new());
    let all = lines(&text, "catena_link_pull_packets_bucket");
    let buckets: Vec<&&str> = all
        .iter()
        .filter(|line| line.contains("in -> police"))
        .collect();
    let of = |le: &str| {
        let wanted = format!("le=\"{le}\"}} ");
        let line = buckets.iter().find(|line| line.contains(&wanted)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((of("0"), of("1"), of("3"), of("7")), (0, 2, 5, 5));
    assert_eq!(of("63"), 5);
    assert_eq!(of("127"), 20);
    assert_eq!(of("+Inf"), 20);
    let count = lines(&text, "catena_link_pull_packets_count");
    assert!(count[0].ends_with("} 20"), "{count:?}");
}

#[test]
fn label_values_are_escaped() {
    let mut text = String::new();
    escape(&mut text, "a\\b\"c\nd");
    assert_eq!(text, r#"a\\b\"c\nd"#);
}

#[test]
fn the_reference_lists_every_family() {
    let mut table = String::from("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
    let mut list = |name: &str, kind: &str, labels: &[&str], help: &str| {
        let labels = ["chain"].iter().chain(labels);
        let labels: Vec<_> = labels.map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {help} |");
    };
    for one in FAMILIES {
        list(one.name, one.kind.name(), one.labels, one.help);
    }
    for one in UPF_FAMILIES {
        list(one.name, one.kind.name(), one.labels, one.help);
    }
    crate::reference::check_part("metrics.md", "families", &table);
    let reasons = DropReason::ALL.map(|reason| format!("`{}`", reason.name()));
    let reasons = format!("{}\n", reasons.join(", "));
    crate::reference::check_part("metrics.md", "reasons", &reasons);
}

#[test]
fn a_upfs_metrics_are_by_network_instance_and_slice() {
    let answer = serde_json::json!({
        "network_instances": [
            { "name": "internet", "ul_packets": 1, "dl_packets": 2, "ul_bytes": 3, "dl_bytes": 4 },
        ],
        "dropped": [{ "name": "internet", "gate_closed": 8, "quota_exhausted": 9 }],
        "slices": [
            { "name": "1-0000a1", "sessions": 5, "ul_packets": 6, "dl_packets": 7 },
        ],
    });
    let text = exposition(&status(), &vec![("upf/0".to_owned(), answer)]);
    let instances = lines(&text, "catena_upf_instance_bytes_total");
    assert_eq!(
        instances,
        [
            r#"chain="web",node="upf/0",network_instance="internet",direction="uplink"} 3"#,
            r#"chain="web",node="upf/0",network_instance="internet",direction="downlink"} 4"#,
        ]
    );
    let drops = lines(&text, "catena_upf_instance_drops_total");
    assert_eq!(drops.len(), DROP_REASONS.len());
    for (reason, count) in [("gate_closed", 8), ("quota_exhausted", 9), ("spoofed", 0)] {
        let of = r#"chain="web",node="upf/0",network_instance="internet",reason="#;
        let wanted = format!("{of}\"{reason}\"}} {count}");
        assert!(drops.contains(&wanted.as_str()), "{drops:?}");
    }
    let sessions = lines(&text, "catena_upf_slice_sessions");
    assert_eq!(
        sessions,
        [r#"chain="web",node="upf/0",slice="1-0000a1"} 5"#]
    );
    assert_eq!(lines(&text, "catena_upf_slice_packets_total").len(), 2);
    for family in UPF_FAMILIES {
        let is_counter = family.kind == Type::Counter;
        assert_eq!(family.name.ends_with("_total"), is_counter);
        assert!(!family.help.ends_with('.'), "{}", family.name);
    }
}
