//! Chain files with stations of a PON: links may form a circle through them, and nowhere else.

use std::path::Path;

use catena_engine::chain::{Chain, Registry};

fn registry() -> Registry {
    Registry {
        nfs: [catena_engine::nfs::KINDS, catena_epon::NFS].concat(),
        ports: catena_port::PORTS.to_vec(),
        wraps: Vec::new(),
        files: Vec::new(),
    }
}

fn pon() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../chains/epon/pon.yaml");
    std::fs::read_to_string(path).unwrap()
}

fn errors(text: &str) -> String {
    let errors = Chain::parse(text, Path::new("."), &registry(), None).unwrap_err();
    errors.to_string()
}

#[test]
fn links_lead_round_through_stations() {
    let checked = Chain::parse(&pon(), Path::new("."), &registry(), None).unwrap();
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
    let ends: Vec<&str> = checked
        .chain
        .nodes
        .iter()
        .filter(|node| node.ends_paths() && !node.is_port())
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(ends, ["olt", "onu1", "onu2", "onu3", "onu4"]);
}

#[test]
fn a_circle_beside_the_stations_is_refused() {
    let text = pon()
        .replace(
            "  - combine -> olt\n",
            "  - combine -> again -> olt\n  - again.b -> combine\n",
        )
        .replace(
            "  combine: { type: merge }",
            "  combine: { type: merge }\n  again: { type: tee }",
        )
        .replace(
            "combine -> again -> olt",
            "combine -> again\n  - again.a -> olt",
        );
    let errors = errors(&text);
    assert!(errors.contains("links form a cycle"), "{errors}");
    assert!(
        errors.contains("combine") && errors.contains("again"),
        "{errors}"
    );
}

#[test]
fn a_station_cannot_be_bypassed() {
    let text = pon().replace("type: olt_mac\n", "type: olt_mac\n    on_death: bypass\n");
    let errors = errors(&text);
    assert!(errors.contains("olt cannot be bypassed"), "{errors}");
}
