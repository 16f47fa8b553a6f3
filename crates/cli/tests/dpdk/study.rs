//! The port `dpdk` of the study of containers, by that study's own file.

use super::*;

#[test]
fn the_study_of_containers_measures_dpdk_where_it_is() {
    const NAME: &str = "the_study_of_containers_measures_dpdk_where_it_is";
    if !can_run(NAME) || !netns::has(NAME, &["unshare", "ip"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["measure", "study"])
        .arg(repository.join("chains/studies/cnf-vs-bnf.yaml"))
        .args(["--only", "port=dpdk", "--only", "mode=process"])
        .args(["--only", "rate=max", "--states", "+c", "--blocks", "1"])
        .args(["--trial", "50ms", "--noise", "0s", "--rivals", "1"])
        .args(["--repeats", "40", "--json", "--out"])
        .arg(dir.path().join("out"))
        .env("CATENA_DPDK", PLUGIN.as_ref().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = document["study"]["cells"].as_array().unwrap();
    // The smallest and the largest frames.
    assert_eq!(cells.len(), 2, "{document}");
    for cell in cells {
        assert_eq!(cell["levels"][1], "dpdk", "{cell}");
        let rate = cell["values"]["rate at max"]["estimate"].as_f64();
        assert!(rate > Some(1000.0), "{cell}");
    }
}
