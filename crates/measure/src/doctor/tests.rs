//! The doctor on other machines' trees: bare metal of two makers, a virtual machine, a container.

use std::path::Path;
use std::process::Command;

use super::states::{self, StateGuard, States};
use super::*;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        Self { dir }
    }

    fn tree(&self) -> Tree {
        Tree::new(self.dir.path())
    }

    fn journal(&self) -> std::path::PathBuf {
        self.dir.path().join("run/states.journal")
    }

    fn read(&self, path: &str) -> String {
        let text = std::fs::read_to_string(self.dir.path().join(path)).unwrap();
        text.trim().to_owned()
    }

    /// Every file but the journal, with its text.
    fn snapshot(&self) -> Vec<(std::path::PathBuf, String)> {
        let mut found = Vec::new();
        let mut open = vec![self.dir.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else if !entry.path().ends_with("states.journal") {
                    let text = std::fs::read_to_string(entry.path()).unwrap();
                    found.push((entry.path(), text.trim().to_owned()));
                }
            }
        }
        found.sort();
        found
    }
}

const CPU: &str = "sys/devices/system/cpu";

/// Two cores of an Intel server with intel_pstate.
fn intel() -> Fixture {
    let mut files = vec![
        (
            "proc/cpuinfo".to_owned(),
            "flags : fpu constant_tsc nonstop_tsc rdtscp",
        ),
        ("proc/stat".to_owned(), "cpu  10 0 10 80 0 0 0 0 0 0"),
        ("proc/loadavg".to_owned(), "0.02 0.01 0.00 1/100 1"),
        ("proc/self/cgroup".to_owned(), "0::/user.slice"),
        ("sys/fs/cgroup/user.slice/cpu.max".to_owned(), "max 100000"),
        ("dev/cpu_dma_latency".to_owned(), ""),
        (
            "sys/bus/event_source/devices/cpu_core/rdpmc".to_owned(),
            "1",
        ),
        ("proc/sys/kernel/perf_event_paranoid".to_owned(), "2"),
        ("usr/bin/podman".to_owned(), ""),
        (format!("{CPU}/intel_pstate/no_turbo"), "0"),
        (format!("{CPU}/smt/control"), "on"),
        (format!("{CPU}/smt/active"), "1"),
        (format!("{CPU}/isolated"), "1"),
        (format!("{CPU}/nohz_full"), "(null)"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
            "tsc",
        ),
        (
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages".to_owned(),
            "512",
        ),
        (
            "sys/class/powercap/intel-rapl:0/energy_uj".to_owned(),
            "999000000",
        ),
        (
            "sys/class/powercap/intel-rapl:0/max_energy_range_uj".to_owned(),
            "1000000000",
        ),
    ];
    for cpu in 0..2 {
        let freq = format!("{CPU}/cpu{cpu}/cpufreq");
        let idle = format!("{CPU}/cpu{cpu}/cpuidle");
        files.extend([
            (format!("{freq}/scaling_driver"), "intel_pstate"),
            (format!("{freq}/scaling_governor"), "powersave"),
            (
                format!("{freq}/scaling_available_governors"),
                "performance powersave",
            ),
            (
                format!("{freq}/energy_performance_preference"),
                "balance_power",
            ),
            (
                format!("{freq}/energy_performance_available_preferences"),
                "default performance balance_performance balance_power power",
            ),
            (format!("{idle}/state0/name"), "POLL"),
            (format!("{idle}/state0/latency"), "0"),
            (format!("{idle}/state0/disable"), "0"),
            (format!("{idle}/state1/name"), "C1"),
            (format!("{idle}/state1/latency"), "2"),
            (format!("{idle}/state1/disable"), "0"),
            (format!("{idle}/state2/name"), "C6"),
            (format!("{idle}/state2/latency"), "133"),
            (format!("{idle}/state2/disable"), "0"),
        ]);
    }
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    Fixture::new(&files)
}

/// One core of an AMD server, tuned.
fn amd() -> Fixture {
    Fixture::new(&[
        ("proc/cpuinfo", "flags : constant_tsc nonstop_tsc"),
        ("proc/stat", "cpu  1 0 1 8 0 0 0 0"),
        ("proc/loadavg", "0.00 0.00 0.00 1/9 1"),
        ("proc/self/cgroup", "0::/"),
        ("dev/cpu_dma_latency", ""),
        ("usr/bin/docker", ""),
        ("sys/bus/event_source/devices/cpu/rdpmc", "2"),
        ("proc/sys/kernel/perf_event_paranoid", "4"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
            "acpi-cpufreq",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors",
            "ondemand performance schedutil",
        ),
        ("sys/devices/system/cpu/cpufreq/boost", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "1"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "400"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1"),
        ("sys/devices/system/cpu/smt/control", "off"),
        ("sys/devices/system/cpu/isolated", "2-7"),
        ("sys/devices/system/cpu/nohz_full", "2-7"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc",
        ),
        (
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "64",
        ),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "5"),
        (
            "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
            "65532610987",
        ),
    ])
}

/// A small virtual machine under load.
fn virtual_machine() -> Fixture {
    Fixture::new(&[
        (
            "proc/cpuinfo",
            "flags : constant_tsc nonstop_tsc hypervisor",
        ),
        ("proc/stat", "cpu  40 0 40 10 0 0 0 10"),
        ("proc/loadavg", "1.50 0.00 0.00 3/9 1"),
        ("proc/self/cgroup", "1:cpu,cpuacct:/"),
        ("dev/cpu_dma_latency", ""),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
        ("sys/devices/system/cpu/smt/control", "notsupported"),
        ("sys/devices/system/cpu/isolated", ""),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "kvm-clock",
        ),
        (
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "0",
        ),
    ])
}

/// A container with half a core.
fn container() -> Fixture {
    Fixture::new(&[
        (".dockerenv", ""),
        ("proc/cpuinfo", "flags : tsc"),
        ("proc/self/cgroup", "0::/docker/abc"),
        ("sys/fs/cgroup/docker/abc/cpu.max", "max 100000"),
        ("sys/fs/cgroup/docker/cpu.max", "50000 100000"),
        (
            "sys/fs/cgroup/docker/cpu.stat",
            "nr_periods 10\nnr_throttled 7",
        ),
    ])
}

fn verdicts(fixture: &Fixture) -> String {
    let letter = |finding: &Finding| match finding.verdict {
        Verdict::Ok => format!("{} ok", finding.name),
        Verdict::Warning => format!("{} WARNING", finding.name),
        Verdict::Unsupported => format!("{} -", finding.name),
    };
    let all: Vec<_> = examine(&fixture.tree()).iter().map(letter).collect();
    all.join(", ")
}

#[test]
fn each_kind_of_machine_has_its_verdicts() {
    assert_eq!(
        verdicts(&intel()),
        "virtualization ok, cpufreq WARNING, turbo WARNING, cpuidle WARNING, cpu_dma_latency ok, \
         smt WARNING, tsc ok, counters ok, rapl ok, isolcpus ok, nohz_full WARNING, \
         huge_pages ok, load ok, steal ok, cgroup_quota ok, containers ok, \
         kernel command line -, mitigations -, preemption -, kernel tick ok"
    );
    assert_eq!(
        verdicts(&amd()),
        "virtualization ok, cpufreq ok, turbo ok, cpuidle ok, cpu_dma_latency ok, smt ok, tsc ok, \
         counters WARNING, rapl ok, isolcpus ok, nohz_full ok, huge_pages ok, load ok, steal ok, \
         cgroup_quota ok, containers ok, \
         kernel command line -, mitigations -, preemption -, kernel tick ok"
    );
    assert_eq!(
        verdicts(&virtual_machine()),
        "virtualization WARNING, cpufreq -, turbo -, cpuidle -, cpu_dma_latency -, smt -, tsc ok, \
         counters -, rapl -, isolcpus WARNING, nohz_full -, huge_pages WARNING, load WARNING, \
         steal WARNING, cgroup_quota ok, containers WARNING, \
         kernel command line -, mitigations -, preemption -, kernel tick ok"
    );
    assert_eq!(
        verdicts(&container()),
        "virtualization WARNING, cpufreq -, turbo -, cpuidle -, cpu_dma_latency -, smt -, \
         tsc WARNING, counters -, rapl -, isolcpus -, nohz_full -, huge_pages -, load -, steal -, \
         cgroup_quota WARNING, containers WARNING, \
         kernel command line -, mitigations -, preemption -, kernel tick ok"
    );
}

#[test]
fn counters_that_only_the_kernel_reads_are_told() {
    let kernel_only = Fixture::new(&[
        ("sys/bus/event_source/devices/cpu/rdpmc", "0"),
        ("proc/sys/kernel/perf_event_paranoid", "1"),
    ]);
    let findings = examine(&kernel_only.tree());
    let found = findings
        .iter()
        .find(|found| found.name == "counters")
        .unwrap();
    let repair = "echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc";
    assert_eq!(found.repair.as_deref(), Some(repair));
}

#[test]
fn warnings_have_repairs_and_others_have_none() {
    for fixture in [intel(), amd(), virtual_machine(), container()] {
        for finding in examine(&fixture.tree()) {
            let is_warning = finding.verdict == Verdict::Warning;
            assert_eq!(finding.repair.is_some(), is_warning, "{finding:?}");
        }
    }
    let quota = contention::quota(&container().tree());
    assert_eq!(
        quota.seen,
        "/sys/fs/cgroup/docker limits this process to 0.50 cores (held back 7 times)"
    );
    let quota = Fixture::new(&[
        ("proc/self/cgroup", "4:cpu,cpuacct:/a"),
        ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ]);
    assert!(contention::quota(&quota.tree()).seen.contains("1.50 cores"));
}

#[test]
fn settings_of_states_are_read_and_written() {
    for text in ["+pc", "-pc", "+p-c", "-p+c", "-c", "+p"] {
        assert_eq!(text.parse::<States>().unwrap().to_string(), text);
    }
    assert_eq!(states::parse_list("+pc,-pc").unwrap().len(), 2);
    for text in ["", "pc", "+", "+pp", "+x", "+pc,"] {
        let error = states::parse_list(text).unwrap_err();
        assert!(error.contains("+p-c"), "{text}: {error}");
    }
}

#[test]
fn states_are_set_and_restored() {
    let fixture = intel();
    let before = fixture.snapshot();
    let plan = states::plan(&fixture.tree(), "-pc".parse().unwrap());
    assert!(plan.unsupported.is_empty() && plan.holds_dma_latency);
    let guard = StateGuard::apply(&fixture.tree(), &plan, &fixture.journal(), None).unwrap();
    let of = |file: &str| fixture.read(&format!("{CPU}/{file}"));
    assert_eq!(of("cpu1/cpufreq/scaling_governor"), "performance");
    assert_eq!(
        of("cpu1/cpufreq/energy_performance_preference"),
        "performance"
    );
    assert_eq!(of("intel_pstate/no_turbo"), "1");
    assert_eq!(of("cpu0/cpuidle/state0/disable"), "0");
    assert_eq!(of("cpu0/cpuidle/state2/disable"), "1");
    let second = StateGuard::apply(&fixture.tree(), &plan, &fixture.journal(), None);
    assert!(matches!(second, Err(states::StateError::Busy(_))));
    // Nobody restores under a running study.
    assert!(!states::restore_leftovers(&fixture.tree(), &fixture.journal()).unwrap());
    assert_eq!(of("cpu0/cpuidle/state2/disable"), "1");
    guard.restore().unwrap();
    let dma = Path::new("dev/cpu_dma_latency");
    let without_dma = |snapshot: Vec<(std::path::PathBuf, String)>| {
        let files = snapshot
            .into_iter()
            .filter(|(path, _)| !path.ends_with(dma));
        files.collect::<Vec<_>>()
    };
    assert_eq!(without_dma(fixture.snapshot()), without_dma(before));
    // On again, on the machine that had them off.
    let plan = states::plan(&amd().tree(), "+pc".parse().unwrap());
    let values: Vec<_> = plan
        .changes
        .iter()
        .map(|change| change.value.as_str())
        .collect();
    assert_eq!(values, ["schedutil", "0", "0"]);
}

#[test]
fn a_machine_without_states_says_so_and_is_left_alone() {
    let fixture = virtual_machine();
    let before = fixture.snapshot();
    let plan = states::plan(&fixture.tree(), "-pc".parse().unwrap());
    let names = plan
        .unsupported
        .iter()
        .map(|line| line.split(':').next().unwrap());
    let names: Vec<_> = names.collect();
    assert_eq!(
        names,
        [
            "governor (P states)",
            "turbo (P states)",
            "idle states (C states)",
            "cpu_dma_latency (C states)",
        ]
    );
    assert!(plan.changes.is_empty());
    assert!(!plan.holds_dma_latency);
    drop(StateGuard::apply(&fixture.tree(), &plan, &fixture.journal(), None).unwrap());
    assert_eq!(fixture.snapshot(), before);
}

/// A killed process runs no destructor: its guard is forgotten, its lock goes with its file.
#[test]
fn what_a_killed_process_left_is_restored_at_the_next_start() {
    let fixture = amd();
    let before = fixture.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let journal = fixture.journal();
    let left =
        r#"{"path":"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor","original":"ondemand"}"#;
    std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
    // The last line was being written when the power went.
    std::fs::write(&journal, format!("{left}\n{{\"path\":\"/proc/st")).unwrap();
    assert!(states::restore_leftovers(&fixture.tree(), &journal).unwrap());
    assert_eq!(before, "performance");
    let governor = fixture.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    assert_eq!(governor, "ondemand");
    assert!(!states::restore_leftovers(&fixture.tree(), &journal).unwrap());
}

#[test]
fn a_failure_half_way_restores_what_was_changed() {
    let fixture = intel();
    let mut plan = states::plan(&fixture.tree(), "-c".parse().unwrap());
    plan.changes.push(states::Change {
        path: "/sys/none".to_owned(),
        value: "1".to_owned(),
    });
    let error = StateGuard::apply(&fixture.tree(), &plan, &fixture.journal(), None).unwrap_err();
    assert!(error.to_string().contains("run as root"), "{error}");
    let state = fixture.read(&format!("{CPU}/cpu0/cpuidle/state2/disable"));
    assert_eq!(state, "0");
}

#[test]
fn the_guardian_restores_when_its_input_ends() {
    let fixture = amd();
    let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let journal = fixture.journal();
    std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
    let left = format!("{{\"path\":\"/{governor}\",\"original\":\"ondemand\"}}\n");
    std::fs::write(&journal, left).unwrap();
    states::guard_until_end(&fixture.tree(), &journal, &b"still here"[..]).unwrap();
    assert_eq!(fixture.read(governor), "ondemand");
    // A guardian that is let go ends, whatever it is.
    let plan = states::plan(&fixture.tree(), "-p".parse().unwrap());
    let command = Command::new("cat");
    let guard = StateGuard::apply(&fixture.tree(), &plan, &journal, Some(command)).unwrap();
    assert_eq!(fixture.read(governor), "performance");
    guard.restore().unwrap();
    assert_eq!(fixture.read(governor), "ondemand");
}

#[test]
fn energy_is_counted_over_the_end_of_the_meter() {
    let fixture = intel();
    let meter = energy::EnergyMeter::open(&fixture.tree()).unwrap();
    let before = meter.read().unwrap();
    let file = "sys/class/powercap/intel-rapl:0/energy_uj";
    std::fs::write(fixture.dir.path().join(file), "4000000\n").unwrap();
    let joules = meter.joules(&before, &meter.read().unwrap());
    assert!((joules - 5.0).abs() < 1e-9, "{joules}");
    assert_eq!(energy::gbps_per_watt(40e9, 200.0), Some(0.2));
    assert_eq!(energy::gbps_per_watt(40e9, 0.0), None);
    assert!(energy::EnergyMeter::open(&virtual_machine().tree()).is_none());
}
