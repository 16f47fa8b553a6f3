//! What `catena port list` says of DPDK: its version, the plug-in, and every driver of network
//! devices that this machine has.

use std::collections::BTreeSet;

use super::*;

/// What pkg-config says of this machine's DPDK.
fn pkg_config(question: &str) -> String {
    let output = Command::new("pkg-config")
        .args([question, "libdpdk"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Drivers whose libraries lie in a folder below DPDK's.
fn drivers() -> BTreeSet<String> {
    let folder = PathBuf::from(pkg_config("--variable=libdir")).join("dpdk");
    let below = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let pmds = below.filter(|entry| entry.file_name().to_string_lossy().starts_with("pmds-"));
    let files = pmds.flat_map(|entry| fs::read_dir(entry.path()).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let drivers = names.filter_map(|name| {
        let driver = name.strip_prefix("librte_")?.strip_suffix(".so")?;
        driver.starts_with("net_").then(|| driver.to_owned())
    });
    drivers.collect()
}

fn list(more: &[&str], plugin: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["port", "list"])
        .args(more)
        .env("CATENA_DPDK", plugin)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_and_the_drivers_of_dpdk_are_listed() {
    if !can_run("the_version_and_the_drivers_of_dpdk_are_listed") {
        return;
    }
    let plugin = PLUGIN.as_ref().unwrap();
    let version = format!("DPDK {}", pkg_config("--modversion"));
    let listed: Value = serde_json::from_str(&list(&["--json"], plugin)).unwrap();
    let dpdk = &listed["machine"]["dpdk"];
    assert_eq!(dpdk["is_usable"], true, "{dpdk}");
    assert!(dpdk["why"].is_null(), "{dpdk}");
    assert_eq!(dpdk["version"], *version, "{dpdk}");
    assert_eq!(dpdk["plugin"], *plugin.to_str().unwrap(), "{dpdk}");
    let told = dpdk["drivers"].as_array().unwrap().iter();
    let told: Vec<_> = told.map(|driver| driver.as_str().unwrap()).collect();
    let wanted = drivers();
    for name in ["net_null", "net_memif", "net_vhost", "net_af_xdp"] {
        assert!(
            wanted.contains(name),
            "{name} is not on this machine: {wanted:?}"
        );
    }
    assert_eq!(told, wanted.iter().collect::<Vec<_>>());

    let text = list(&[], plugin);
    let line = format!("DPDK: {version}, plug-in {}", plugin.display());
    let mut behind = text.lines().skip_while(|told| *told != line).skip(1);
    let drivers: Vec<_> = wanted.iter().map(String::as_str).collect();
    let line = format!("  drivers: {}", drivers.join(" "));
    assert_eq!(behind.next(), Some(&*line), "{text}");

    // Without the plug-in: why, and what changes it.
    let none = Path::new("/none/catena_dpdk.so");
    let listed: Value = serde_json::from_str(&list(&["--json"], none)).unwrap();
    let dpdk = &listed["machine"]["dpdk"];
    assert_eq!(dpdk["is_usable"], false, "{dpdk}");
    let why = dpdk["why"].as_str().unwrap();
    assert!(
        why.contains("/none/catena_dpdk.so") && why.contains("`catena port dpdk build`"),
        "{why}"
    );
}
