//! eUPF's XDP program as a peer: cloned, built by clang, and run by the kernel's test run.
//!
//! `eupf.c` loads it and says what is run. It runs in a network namespace of its own, which goes
//! with it, whose routes it asks for each packet. It is built with and without its cache of routes,
//! and the faster one counts.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::child::Guarded;
use super::super::install;
use super::smf::Rules;

const LOADER: &str = include_str!("eupf.c");
/// The version that is measured.
const COMMIT: &str = "a8d774a0533ad71ddd59899be26f4aee8a31b5d2";
/// Where it lies in the repository.
const FOLDER: &str = "cmd/ebpf";
const PROGRAM: &str = "xdp/n3n6_entrypoint.c";
/// Macros of its two builds, by name.
const BUILDS: [(&str, Option<&str>); 2] = [
    ("routes asked", None),
    ("routes cached", Some("-DENABLE_ROUTE_CACHE")),
];
const PACKAGES: [&str; 6] = ["git", "clang", "gcc", "libbpf-dev", "libc6-dev", "iproute2"];
const CLONE_TIMEOUT: Duration = Duration::from_secs(120);
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// As many as of our side.
const SLICES: u32 = 8;

/// Routes for what `eupf.c` sends, then the program.
const NAMESPACE: &str = "ip link set lo up
ip link add out type veth peer name far
ip addr add 192.0.2.1/24 dev out
ip link set out up
ip link set far up
echo 1 > /proc/sys/net/ipv4/conf/all/forwarding
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:03 dev out nud permanent
ip route add 10.3.0.0/16 via 192.0.2.2
ip route add 10.45.0.0/16 via 192.0.2.2
exec \"$@\"";

/// The built programs, or why there are none.
pub(super) struct Eupf {
    folder: PathBuf,
    built: Result<(), String>,
}

/// How it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Millions of packets per second, both ways in turn.
    pub(super) rate: f64,
    /// Of a packet, what a program takes that does nothing.
    loop_ns: f64,
    build: &'static str,
}

impl Found {
    pub(super) fn note(&self, rules: Rules) -> String {
        format!(
            "eUPF, {}: {}, {:.0} ns a packet, of which a program that does nothing takes {:.0}",
            rules.name(),
            self.build,
            1000.0 / self.rate,
            self.loop_ns
        )
    }
}

impl Eupf {
    /// Clones `source` and builds, installing what that needs where that is allowed.
    pub(super) fn build(source: &str, work_dir: &Path) -> Self {
        let folder = work_dir.join("eupf");
        let built = build(source, &folder, work_dir).map_err(|error| format!("eUPF: {error}"));
        Self { folder, built }
    }

    /// The faster of its builds, in slices of so much time.
    pub(super) fn measure(&self, rules: Rules, time: Duration) -> Result<Found, String> {
        self.built.clone()?;
        let mut best: Option<Found> = None;
        for (build, _) in BUILDS {
            let found = self.run(build, rules, time)?;
            if best.is_none_or(|best| found.rate > best.rate) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| "eUPF: no build".to_owned())
    }

    fn run(&self, build: &'static str, rules: Rules, time: Duration) -> Result<Found, String> {
        let rules = match rules {
            Rules::Plain | Rules::Paged => "plain",
            Rules::Metered | Rules::MeteredV6 => "metered",
            Rules::Filtered => "filtered",
        };
        let millis = time.as_millis().max(1);
        let words = format!("{SLICES} {millis}");
        let [loader, object] = [loader(&self.folder), object(&self.folder, build)];
        let mut command = words_of("--net sh -e -c");
        command.extend([NAMESPACE.to_owned(), "sh".to_owned(), loader, object]);
        command.push(rules.to_owned());
        command.extend(words_of(&words));
        let line = run("unshare", &command, &self.folder, RUN_TIMEOUT)?;
        let (ns, loop_ns) = parse(&line).ok_or_else(|| format!("eUPF: {line:?} is no time"))?;
        Ok(Found {
            rate: 1000.0 / ns,
            loop_ns,
            build,
        })
    }
}

fn parse(line: &str) -> Option<(f64, f64)> {
    let (ns, loop_ns) = line.split_once(' ')?;
    let (ns, loop_ns) = (ns.parse().ok()?, loop_ns.parse().ok()?);
    (ns > 0.0).then_some((ns, loop_ns))
}

fn words_of(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn loader(folder: &Path) -> String {
    folder.join("loader").display().to_string()
}

fn object(folder: &Path, build: &str) -> String {
    let name = format!("{}.o", build.replace(' ', "-"));
    folder.join(name).display().to_string()
}

fn build(source: &str, folder: &Path, work_dir: &Path) -> Result<(), String> {
    install::require_file("bpf/libbpf.h", &PACKAGES, work_dir)?;
    for program in ["git", "clang", "cc", "ip", "unshare"] {
        install::require(program, &PACKAGES, work_dir)?;
    }
    // A folder is one of here, and not of where it is cloned to.
    let place = std::fs::canonicalize(source);
    let place = place.map_or_else(|_| source.to_owned(), |place| place.display().to_string());
    clone(&place, folder).map_err(|error| {
        format!("{error}; it is cloned from {source}: name another place by --eupf")
    })?;
    let arch = std::env::consts::ARCH;
    let folders = folder.join(FOLDER);
    let flags = format!(
        "--target=bpf -O2 -g -D__{arch}__ -I/usr/include/{arch}-linux-gnu -I {} -c {}",
        folders.display(),
        folders.join(PROGRAM).display()
    );
    for (build, macros) in BUILDS {
        let mut command = words_of(&flags);
        command.extend(macros.map(str::to_owned));
        command.extend(["-o".to_owned(), object(folder, build)]);
        run("clang", &command, folder, CLONE_TIMEOUT)?;
    }
    let file = folder.join("loader.c");
    std::fs::write(&file, LOADER).map_err(|error| format!("{}: {error}", file.display()))?;
    let command = format!("-O2 {} -o {} -lbpf", file.display(), loader(folder));
    run("cc", &words_of(&command), folder, CLONE_TIMEOUT).map(drop)
}

/// The one commit, without those before it.
fn clone(source: &str, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for command in [
        &["init", "--quiet"][..],
        &["fetch", "--quiet", "--depth", "1", "--", source, COMMIT],
        &["checkout", "--quiet", "FETCH_HEAD"],
    ] {
        let mut words = vec!["-C".to_owned(), folder.display().to_string()];
        words.extend(command.iter().map(|word| (*word).to_owned()));
        run("git", &words, folder, CLONE_TIMEOUT)?;
    }
    Ok(())
}

/// The first line that a program says.
fn run(
    program: &str,
    arguments: &[String],
    folder: &Path,
    timeout: Duration,
) -> Result<String, String> {
    let log = folder.join("errors.log");
    // Nobody is there to be asked for a password.
    let environment = [("GIT_TERMINAL_PROMPT", Path::new("0"))];
    let deadline = Instant::now() + timeout;
    let mut child = Guarded::start(program, arguments, &environment, log)
        .map_err(|error| format!("{program}: {error}"))?;
    let line = child.next_line(deadline);
    match child.wait(deadline) {
        None => Err(format!("{program}: took too long")),
        Some(status) if status.success() => Ok(line.map(|(_, line)| line).unwrap_or_default()),
        Some(_) => Err(format!("{program}: {}", child.error_tail())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_and_nothing_else() {
        assert_eq!(parse("161.0 28.0"), Some((161.0, 28.0)));
        for line in ["", "161.0", "0.0 28.0", "a b", "161.0 "] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
