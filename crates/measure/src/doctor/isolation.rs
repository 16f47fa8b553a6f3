//! Probes of what else runs on the cores: hypervisor, scheduler, ticks, page tables.

use super::{Finding, Tree};

pub(super) fn virtualization(tree: &Tree) -> Finding {
    let name = "virtualization";
    let is_container = tree.exists("/.dockerenv") || tree.exists("/run/.containerenv");
    if tree.has_flag("hypervisor") {
        let vendor = tree.read("/sys/class/dmi/id/sys_vendor");
        let vendor = vendor.map_or(String::new(), |vendor| format!(" ({vendor})"));
        let within = if is_container { "a container in " } else { "" };
        let seen = format!(
            "{within}a virtual machine{vendor}: above p99.5 latencies are mostly the hypervisor's; \
             compare by interleaving"
        );
        return Finding::warning(name, seen, "measure on bare metal for absolute tails");
    }
    if is_container {
        let seen = "a container: it shares its kernel and cores with others";
        return Finding::warning(name, seen, "measure on the host, or pin with --cpuset-cpus");
    }
    Finding::ok(name, "bare metal")
}

/// The cores a kernel file lists, and the parameter that would fill it.
fn core_list(tree: &Tree, name: &'static str, file: &str, without: &str) -> Finding {
    match tree.read(&format!("/sys/devices/system/cpu/{file}")) {
        None => Finding::unsupported(name, "this kernel is built without it"),
        // The kernel prints (null) for a list that was never set.
        Some(cores) if cores.is_empty() || cores == "(null)" => Finding::warning(
            name,
            without,
            format!("boot with {name}=2-7 (the cores to measure on), beside rcu_nocbs=2-7"),
        ),
        Some(cores) => Finding::ok(name, format!("cores {cores}")),
    }
}

pub(super) fn isolcpus(tree: &Tree) -> Finding {
    let without = "no core is isolated: the scheduler puts other work on every core";
    core_list(tree, "isolcpus", "isolated", without)
}

pub(super) fn nohz(tree: &Tree) -> Finding {
    let without = "every core takes a timer tick, busy or not";
    core_list(tree, "nohz_full", "nohz_full", without)
}

pub(super) fn huge_pages(tree: &Tree) -> Finding {
    let name = "huge_pages";
    let folder = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    match tree.number(&format!("{folder}/free_hugepages")) {
        None => Finding::unsupported(name, "no pages of 2 MiB"),
        Some(0) => Finding::warning(
            name,
            "none is free: packet memory lies on 4 KiB pages",
            "sudo sysctl -w vm.nr_hugepages=512",
        ),
        Some(free) => Finding::ok(name, format!("{free} of 2 MiB are free")),
    }
}
