//! `bench truth`: known truths, and what each tool of ours says of them.
//!
//! Statistics are put to simulated machines whose difference is known; the release binary is put to
//! devices whose delay, loss, rate or busy neighbours are known. Each row has what was said beside
//! the truth, and whether that is right; at the end stands the fraction that is.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;
use std::time::{Duration, Instant};

use catena_measure::compare::{Interleaving, Plan, Side, Verdict};
use catena_measure::stats::random::Random;
use serde_json::Value;

use super::Session;
use super::child::Guarded;
use super::extent::Extent;
use super::report::Row;

/// How long one measurement of the binary may take.
const LIMIT: Duration = Duration::from_secs(120);

/// One truth.
struct Case {
    name: String,
    unit: &'static str,
    truth: f64,
    said: Result<f64, String>,
    /// From and to what is right.
    right: (f64, f64),
}

impl Case {
    fn is_right(&self) -> Option<bool> {
        let said = self.said.as_ref().ok()?;
        Some((self.right.0..=self.right.1).contains(said))
    }

    fn row(self) -> Row {
        let met = self.is_right();
        let (least, most) = self.right;
        Row {
            metric: self.name,
            value: self.said.as_ref().ok().copied(),
            unit: self.unit,
            peer: Some("truth".to_owned()),
            peer_value: Some(self.truth),
            target: Some(format!("{least:.4} to {most:.4}")),
            met,
            error: self.said.err(),
            ..Row::default()
        }
    }
}

/// Puts all truths to the tools, and adds the rows.
pub(super) fn run(session: &mut Session) {
    let mut cases = statistics();
    let dir = session.own.work_dir().path().to_owned();
    match session.own.binary() {
        Ok(binary) => {
            let bench = Binary {
                path: binary.to_owned(),
                dir,
            };
            cases.extend(bench.latency());
            cases.extend(bench.loss());
            cases.extend(bench.together(session.extent));
            if session.extent != Extent::Brief {
                cases.push(bench.hog(session.cores));
            }
        }
        Err(error) => session.notes.push(format!("binary: {error}")),
    }
    let judged = cases.iter().filter_map(Case::is_right);
    let (count, right) = judged.fold((0, 0), |(count, right), is_right| {
        (count + 1, right + u32::from(is_right))
    });
    let share = f64::from(right) / f64::from(count.max(1)) * 100.0;
    let all = format!(
        "{right} of {count} right ({share:.0} %), of {} cases",
        cases.len()
    );
    session.notes.push(all);
    session.rows.extend(cases.into_iter().map(Case::row));
}

/// A machine whose speed wanders and that stalls in one slice of a hundred; B is faster by a share.
fn simulate(seed: u64, effect: f64, pairs: usize, is_whole: bool) -> Option<(Verdict, [f64; 2])> {
    let plan = Plan {
        pairs_max: pairs,
        false_alarms: 0.05,
        margin: 1e-9,
        seed: !seed,
    };
    let mut comparison = Interleaving::new(plan).ok()?;
    if is_whole {
        comparison = comparison.whole();
    }
    let (mut random, mut drift) = (Random::new(seed), 0.0);
    while let Some(side) = comparison.next() {
        drift = 0.98 * drift + 0.01 * random.normal();
        let stall = if random.unit() < 0.01 { 0.5 } else { 1.0 };
        let factor = if side == Side::B { 1.0 + effect } else { 1.0 };
        let noise = (drift + 0.02 * random.normal()).exp();
        comparison.report(1e6 * factor * noise * stall).ok()?;
    }
    let result = comparison.result()?;
    Some((result.verdict, [result.ratio.low, result.ratio.high]))
}

fn statistics() -> Vec<Case> {
    let mut cases = Vec::new();
    for (share, pairs) in [
        (0.002, 20_000),
        (0.02, 1000),
        (0.05, 300),
        (0.2, 100),
        (999.0, 100),
    ] {
        for effect in [share, 1.0 / (1.0 + share) - 1.0] {
            let wanted = if effect > 0.0 {
                Verdict::Higher
            } else {
                Verdict::Lower
            };
            let found = (0..20).filter(|seed| {
                let found = simulate(*seed, effect, pairs, false);
                found.is_some_and(|(verdict, _)| verdict == wanted)
            });
            cases.push(Case {
                name: format!(
                    "compare: signs of {:+.2} % right, simulated",
                    effect * 100.0
                ),
                unit: "%",
                truth: 100.0,
                said: Ok(found.count() as f64 * 5.0),
                right: (95.0, 100.0),
            });
        }
    }
    let alarms = (0..200).filter(|seed| {
        let found = simulate(1000 + seed, 0.0, 500, false);
        found.is_some_and(|(verdict, _)| matches!(verdict, Verdict::Higher | Verdict::Lower))
    });
    cases.push(Case {
        name: "compare: alarms of 200 comparisons of equals, simulated".to_owned(),
        unit: "%",
        truth: 5.0,
        said: Ok(alarms.count() as f64 / 2.0),
        right: (0.0, 7.0),
    });
    let covered = (0..300).filter(|seed| {
        let effect = 0.001 * (*seed as f64 - 150.0);
        let found = simulate(5000 + seed, effect, 400, true);
        found.is_some_and(|(_, [low, high])| (low..=high).contains(&(1.0 + effect)))
    });
    cases.push(Case {
        name: "compare: 95 % intervals that cover the truth, of 300, simulated".to_owned(),
        unit: "%",
        truth: 95.0,
        said: Ok(covered.count() as f64 / 3.0),
        right: (93.0, 97.0),
    });
    cases
}

/// The release binary, and where its files go.
struct Binary {
    path: PathBuf,
    dir: PathBuf,
}

/// A chain with a wrapper around its receiver, and NFs in between.
fn chain(name: &str, nfs: &str, way: &str, wrap: &str) -> String {
    let wrap = if wrap.is_empty() {
        String::new()
    } else {
        format!(", wrap: [{wrap}]")
    };
    format!(
        "name: {name}\nports:\n  in: {{ traffic: {{ profile: {{}} }} }}\n  \
         out: {{ receiver: {{}}{wrap} }}\nnfs: {{ {nfs} }}\nlinks: [in -> {way} -> out]\n"
    )
}

const SWAP: &str = "swap: { type: macswap }";

impl Binary {
    fn write(&self, name: &str, text: &str) -> Result<String, String> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    }

    /// Runs a measurement; gives its report.
    fn measure(&self, arguments: &[String]) -> Result<Value, String> {
        let out = self.dir.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let mut all = vec!["measure".to_owned()];
        all.extend_from_slice(arguments);
        let rest = ["--noise", "0s", "--json", "--out"];
        all.extend(rest.map(str::to_owned));
        all.push(out.display().to_string());
        let log = self.dir.join("truth.log");
        let deadline = Instant::now() + LIMIT;
        let mut child =
            Guarded::start(&self.path, all, &[], log).map_err(|error| error.to_string())?;
        let mut text = String::new();
        while let Some((_, line)) = child.next_line(deadline) {
            text += &line;
            text.push('\n');
        }
        // A measurement that was cut short has a report, too.
        let _ = child.wait(deadline);
        serde_json::from_str(&text).map_err(|_| child.error_tail())
    }

    fn of_chain(&self, text: &str, arguments: &str) -> Result<Value, String> {
        let chain = self.write("truth.yaml", text)?;
        let profile = self.write("profile.yaml", "sizes: 64\n")?;
        let (verb, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        let mut all = vec![verb.to_owned(), profile, "--chain".to_owned(), chain];
        all.extend(rest.split_whitespace().map(str::to_owned));
        self.measure(&all)
    }

    /// Delay boxes: the least latency with one, less that without.
    fn latency(&self) -> Vec<Case> {
        let least = |wrap: &str| {
            let text = chain("truth", SWAP, "swap", wrap);
            let arguments = "latency --rate 5kpps --trial 500ms --trials 1 --rivals 1";
            let document = self.of_chain(&text, arguments)?;
            let least = document["latency"][0]["latency"]["delay"]["min_ns"].as_f64();
            least.ok_or_else(|| "no packet came back".to_owned())
        };
        let without = least("");
        let case = |ms: f64| Case {
            name: format!("latency: a delay box of {ms} ms"),
            unit: "ms",
            truth: ms,
            said: without.clone().and_then(|without| {
                let with = least(&format!(
                    "fault: {{ tx: {{ delay: {{ fixed: {ms}ms }} }} }}"
                ))?;
                Ok((with - without) / 1e6)
            }),
            right: (ms - 0.05, ms + 0.05 + 0.02 * ms),
        };
        [1.0, 4.0, 10.0].map(case).into()
    }

    /// Loss by chance, and by a device that takes less than it is offered, though its links block.
    fn loss(&self) -> Vec<Case> {
        let share = |wrap: &str, arguments: &str| {
            let document = self.of_chain(&chain("truth", SWAP, "swap", wrap), arguments)?;
            let number = |name: &str| {
                row(&document, name).and_then(|text| text.parse::<f64>().map_err(|e| e.to_string()))
            };
            Ok(number("lost")? / number("packets of trials that count")? * 100.0)
        };
        let random = |percent: f64| Case {
            name: format!("loss: {percent} % by chance"),
            unit: "%",
            truth: percent,
            said: share(
                &format!("fault: {{ tx: {{ loss: {percent}% }} }}"),
                "latency --rate 20kpps --trial 1s --trials 1 --rivals 1",
            ),
            // Three standard deviations of 20,000 packets.
            right: (
                percent - 3.0 * (percent * (100.0 - percent) / 20_000.0).sqrt(),
                percent + 3.0 * (percent * (100.0 - percent) / 20_000.0).sqrt(),
            ),
        };
        let held = |kpps: u32| {
            let truth = 100.0 - f64::from(kpps);
            Case {
                name: format!("loss: {kpps} kpps of 100 kpps taken, links block"),
                unit: "%",
                truth,
                said: share(
                    &format!("pace: {{ tx: {kpps}kpps }}"),
                    "latency --rate 100kpps --trial 1s --trials 1 --rivals 1",
                ),
                right: (truth - 1.0, truth + 3.0),
            }
        };
        vec![random(1.0), random(5.0), held(20), held(50), held(90)]
    }

    /// Two chains in turns: paced at known rates, policed, and with functions added.
    fn together(&self, extent: Extent) -> Vec<Case> {
        let ratio = |a: &str, b: &str| {
            let (a, b) = (self.write("a.yaml", a)?, self.write("b.yaml", b)?);
            let within = match extent {
                Extent::Brief => "500ms",
                Extent::Quick => "4s",
                Extent::Whole => "20s",
            };
            let rest = [
                "--together",
                "--trial",
                "10ms",
                "--rivals",
                "1",
                "--within",
                within,
            ];
            let mut all = vec!["compare".to_owned(), a, b];
            all.extend(rest.map(str::to_owned));
            let document = self.measure(&all)?;
            let found = document["comparisons"][0][1]["ratio"]["estimate"].as_f64();
            found.ok_or_else(|| document["summary"].to_string())
        };
        let paced = |name: &str, kpps: f64| {
            chain(
                name,
                SWAP,
                "swap",
                &format!("pace: {{ tx: {}pps }}", kpps * 1e3),
            )
        };
        let mut cases = Vec::new();
        for (a, b) in [
            (100.0, 98.0),
            (98.0, 100.0),
            (100.0, 80.0),
            (80.0, 100.0),
            (100.0, 100.0),
        ] {
            let truth = b / a;
            cases.push(Case {
                name: format!("compare --together: {b} kpps over {a} kpps"),
                unit: "ratio",
                truth,
                said: ratio(&paced("a", a), &paced("b", b)),
                right: (truth - 0.01, truth + 0.01),
            });
        }
        let policer = |name: &str, rate: &str| {
            let nf = format!("police: {{ type: policer, rate: {rate}, burst: 8 }}");
            chain(name, &nf, "police", "pace: { tx: 1Mpps }")
        };
        cases.push(Case {
            name: "compare --together: a policer of 10 kpps over one of 500 kpps".to_owned(),
            unit: "ratio",
            truth: 0.02,
            said: ratio(&policer("a", "500kpps"), &policer("b", "10kpps")),
            right: (0.015, 0.025),
        });
        let three = "one: { type: macswap }, two: { type: macswap }, three: { type: macswap }";
        cases.push(Case {
            name: "compare --together: two functions more, in one loop".to_owned(),
            unit: "ratio",
            truth: 0.955,
            said: ratio(
                &inline(&chain("a", SWAP, "swap", "")),
                &inline(&chain("b", three, "one -> two -> three", "")),
            ),
            // More functions never make a chain faster.
            right: (0.5, 0.999),
        });
        cases
    }

    /// A hog on every core of the tester: trials do not count, by that cause.
    fn hog(&self, cores: [usize; 2]) -> Case {
        let hogs = cores.map(|core| {
            let script = format!("taskset -cp {core} $$ >/dev/null; while :; do :; done");
            let log = self.dir.join("hog.log");
            Guarded::start("sh", ["-c".to_owned(), script], &[], log)
        });
        let text = chain("truth", SWAP, "swap", "");
        let arguments = "latency --rate 20kpps --trial 300ms --trials 1 --repeats 2";
        let said = self.of_chain(&text, arguments).and_then(|document| {
            row(&document, "trials that do not count")?
                .parse::<f64>()
                .map_err(|error| error.to_string())
        });
        let started = hogs.iter().all(Result::is_ok);
        Case {
            name: "latency: trials that do not count beside a hog on each core".to_owned(),
            unit: "of 3",
            truth: 3.0,
            said: if started {
                said
            } else {
                Err("no hog started".to_owned())
            },
            right: (3.0, 3.0),
        }
    }
}

/// The same chain as one loop.
fn inline(chain: &str) -> String {
    format!("{chain}run: {{ mode: inline }}\n")
}

/// A row of a report's results.
fn row(document: &Value, name: &str) -> Result<String, String> {
    let rows = document["results"].as_array().into_iter().flatten();
    let mut found = rows.filter(|row| row[0] == name);
    let value = found.next().and_then(|row| row[1].as_str());
    value
        .map(str::to_owned)
        .ok_or_else(|| format!("the report has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_simulated_truth_is_told_right() {
        for case in statistics() {
            assert_eq!(
                case.is_right(),
                Some(true),
                "{}: {:?}",
                case.name,
                case.said
            );
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_and_not_a_zero() {
        let document = serde_json::json!({ "results": [["lost", "7"]] });
        assert_eq!(row(&document, "lost").as_deref(), Ok("7"));
        assert!(row(&document, "found").is_err());
    }
}
