//! Journeys, parts and exports on a simulated chain: `in -> nf1 -> nf2 -> out`, where `nf2` shares
//! a worker with `nf1`.

use catena_engine::probe::{StageCounts, Visit, VisitFlags};
use catena_engine::supervisor::probing::{ProbeLink, ProbeMap, ProbeNode};
use catena_shm::pmc::Counted;
use catena_shm::record_ring::{RECORD_CAPACITY, RecordPage, RecordWriter};
use proptest::prelude::*;

use super::collector::Collector;
use super::journey::{Journey, Journeys};
use super::parts::{KINDS, components, counts_of, times_of};
use super::{chrome, pcapng};
use crate::blame::Blame;
use crate::stats::random::Random;

fn map() -> ProbeMap {
    let nodes = [("in", 0), ("nf1", 1), ("nf2", 1), ("out", 2)];
    let links = [(0, 1, true), (1, 2, false), (2, 3, true)];
    ProbeMap {
        chain: "web".to_owned(),
        workers: vec!["in".to_owned(), "nf1".to_owned(), "out".to_owned()],
        nodes: nodes
            .iter()
            .map(|(name, worker)| {
                Some(ProbeNode {
                    name: (*name).to_owned(),
                    type_name: "test".to_owned(),
                    is_port: *worker != 1,
                    worker: *worker,
                })
            })
            .collect(),
        links: links
            .iter()
            .map(|(from, to, is_ring)| {
                let name = |node: &usize| nodes[*node].0;
                Some(ProbeLink {
                    name: format!("{} -> {}", name(from), name(to)),
                    from: *from,
                    to: *to,
                    is_ring: *is_ring,
                    copies: *from == 2,
                })
            })
            .collect(),
    }
}

/// Times of one packet: rx, then work, send, wait and take of each hop.
#[derive(Clone, Debug)]
struct Times {
    begin: u64,
    steps: [u64; 14],
    slept: bool,
}

/// A packet's visits. `early` lets receivers begin their turns before the packet is there, as far
/// as the step allows.
fn visits(mark: u16, times: &Times, early: u64) -> Vec<Visit> {
    let [rx, s0, w0, t0, n1, s1, w1, n2, s2, w2, t2, tx, ..] = times.steps;
    let at_node =
        |node: u16, input: u16, output: u16, flags: u8, [begin, take, work, send]: [u64; 4]| {
            let entered = begin + take;
            Visit {
                mark,
                node,
                input,
                output,
                burst: 32,
                flags: VisitFlags::new(flags),
                begin,
                entered,
                left: entered + work,
                sent: entered + work + send,
                resumed: None,
                counts: StageCounts::default(),
            }
        };
    let origin = at_node(0, 0, 1, VisitFlags::ORIGIN, [times.begin, rx, 0, s0]);
    let begin = origin.sent + w0;
    let mut first = at_node(1, 1, 0, 0, [begin, t0, n1, s1]);
    if times.slept {
        first.flags = VisitFlags::new(VisitFlags::SLEPT);
        first.resumed = Some(first.begin - w0 / 2);
    }
    first.begin -= early.min(first.begin);
    let second = at_node(2, 0, 3, 0, [first.sent + w1, 0, n2, s2]);
    let begin = second.sent + w2;
    let mut last = at_node(3, 3, 0, VisitFlags::TERMINAL, [begin, t2, tx, 0]);
    last.sent = last.left;
    vec![origin, first, second, last]
}

fn times() -> impl Strategy<Value = Times> {
    // Every step takes a while: of visits at the very same ns nobody could tell the order.
    let steps = prop::array::uniform14(1..=u64::from(u16::MAX));
    (1_000_000_u64..1 << 50, steps, any::<bool>()).prop_map(|(begin, steps, slept)| Times {
        begin,
        steps,
        slept,
    })
}

/// Two visits' counts are means of the table, at the node and the link that they are of.
#[test]
fn what_the_processor_counted_goes_to_its_component() {
    let page = RecordPage::create().unwrap();
    let (fd, len) = page.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let mut collector = Collector::new(map());
    collector.add(1, 0, fd, len).unwrap();
    let mut writer = RecordWriter::new(page);
    let times = Times {
        begin: 1 << 20,
        steps: [50; 14],
        slept: false,
    };
    let mut journey = visits(7, &times, 0);
    let counted = |cycles, instructions| {
        Some(Counted {
            cycles,
            instructions,
        })
    };
    journey[1].counts.work = counted(400, 900);
    journey[1].counts.send = counted(0, 0);
    journey[2].counts.work = counted(100, 50);
    for visit in &journey[1..3] {
        let record = visit.to_record();
        writer.push(record);
        writer.push(visit.counts.to_record(&record));
    }
    // Counts without a visit of their own.
    writer.push(journey[1].counts.to_record(&journey[1].to_record()));
    collector.poll();
    assert_eq!(collector.visits, journey[1..3]);
    assert_eq!((collector.lost(), collector.refused()), (0, 0));
    let journey = Journey { visits: journey };
    let names = components(&map(), &[&journey]);
    let counts = counts_of(&journey);
    let found = names
        .iter()
        .zip(&counts)
        .filter_map(|(name, count)| Some((name.name.as_str(), (*count)?)));
    let expected = [
        ("nf1: NF", (400.0, 900.0)),
        ("nf1 -> nf2: publish", (0.0, 0.0)),
        ("nf2: NF", (100.0, 50.0)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(names.len(), counts.len());
}

proptest! {
    /// Whatever the times, and whoever looked at the clock first: components add up.
    #[test]
    fn components_add_up_to_residence(times in times(), early in 0_u64..200_000) {
        let journey = Journey { visits: visits(7, &times, early) };
        let trace = times_of(&journey);
        let names = components(&map(), &[&journey]);
        prop_assert_eq!(names.len(), trace.parts_ns.len());
        prop_assert!(trace.parts_ns.iter().all(|part| *part >= 0.0));
        let sum: f64 = trace.parts_ns.iter().sum();
        prop_assert_eq!(sum, trace.residence_ns);
        if early == 0 {
            let [rx, s0, w0, t0, n1, ..] = times.steps.map(|step| step as f64);
            let wake = if times.slept { w0 - (w0 / 2.0).floor() } else { 0.0 };
            prop_assert_eq!(&trace.parts_ns[..7], [rx, s0, wake, 0.0, w0 - wake, t0, n1]);
        }
    }

    /// Marks are used again, records come in any order, some are missing: journeys are never mixed.
    #[test]
    fn journeys_are_put_together(
        all in prop::collection::vec((times(), prop::option::of(0_usize..4)), 1..40),
        seed in any::<u64>(),
    ) {
        let (mut visits_seen, mut begin, mut whole) = (Vec::new(), 1_000_000, Vec::new());
        let (mut headless, mut endless) = (0, 0);
        for (index, (mut times, missing)) in all.into_iter().enumerate() {
            times.begin = begin;
            // Two packets are under way at a time, with different marks.
            begin += 40_000;
            let mark = u16::try_from(index % 40 + 1).unwrap();
            let mut journey = visits(mark, &times, 0);
            match missing {
                None => whole.push(journey.clone()),
                Some(0) => headless += 3,
                // Without the second, neither the third nor the fourth follows from the first.
                Some(at) => {
                    headless += 3 - at as u64;
                    endless += 1;
                }
            }
            if let Some(missing) = missing {
                journey.remove(missing);
            }
            visits_seen.extend(journey);
        }
        let mut random = Random::new(seed);
        visits_seen.sort_by_cached_key(|_| random.bits());
        let journeys = Journeys::of(&map(), visits_seen);
        let mut found: Vec<_> = journeys.whole.into_iter().map(|journey| journey.visits).collect();
        prop_assert!(found.is_sorted_by_key(|visits| visits[3].entered));
        // Two may end at the very same ns.
        found.sort_by_key(|visits| (visits[3].entered, visits[3].mark));
        whole.sort_by_key(|visits| (visits[3].entered, visits[3].mark));
        prop_assert_eq!(found, whole);
        prop_assert_eq!((journeys.broken, journeys.unfinished), (headless, endless));
    }

    /// A worker that scribbles over its page costs its reader records, and breaks nothing.
    #[test]
    fn scribbled_records_are_thrown_away(
        records in prop::collection::vec(any::<[u64; 4]>(), 1..200),
        honest in times(),
    ) {
        let page = RecordPage::create().unwrap();
        let (fd, len) = page.memory();
        let mut collector = Collector::new(map());
        collector.add(1, 0, fd.try_clone_to_owned().unwrap(), len).unwrap();
        let mut writer = RecordWriter::new(page);
        // Counts that belong to no visit say nothing, and accuse nobody: a reader may be late.
        let other = u64::from(VisitFlags::COUNTS | VisitFlags::CURSOR);
        let is_visit =
            |record: &&[u64; 4]| record[0] >> 56 & other != u64::from(VisitFlags::COUNTS);
        let written = records.iter().filter(is_visit).count() as u64 + 2;
        let [_, first, second, last] = &visits(3, &honest, 0)[..] else { unreachable!() };
        for record in records {
            writer.push(record);
        }
        for visit in [first, second, last] {
            writer.push(visit.to_record());
        }
        collector.poll();
        // The last one was at a node of another worker.
        prop_assert!(collector.visits.ends_with(&[*first, *second]));
        let kept = collector.visits.len() + collector.cursors.len();
        prop_assert_eq!(kept as u64 + collector.refused(), written + 1);
        let journeys = Journeys::of(collector.map(), collector.visits.clone());
        let _ = chrome::trace(collector.map(), &journeys.whole);
        let _ = pcapng::file(collector.map(), &journeys.whole, -5);
    }
}

#[test]
fn what_was_overwritten_is_counted() {
    let page = RecordPage::create().unwrap();
    let (fd, len) = page.memory();
    let mut collector = Collector::new(map());
    collector
        .add(0, 0, fd.try_clone_to_owned().unwrap(), len)
        .unwrap();
    let mut writer = RecordWriter::new(page);
    let origin = Visit {
        mark: 1,
        ..Visit::default()
    };
    for _ in 0..RECORD_CAPACITY + 5 {
        writer.push(origin.to_record());
    }
    collector.poll();
    assert_eq!((collector.lost(), collector.refused()), (5, 0));
    assert_eq!(collector.visits.len(), RECORD_CAPACITY);
}

/// 2000 packets with random times, of which `delayed` takes 500 ns longer in one component.
fn journeys(seed: u64, delayed: Option<usize>) -> Vec<Journey> {
    let mut random = Random::new(seed);
    let one = |number: u64| {
        let mut steps = [0; 14];
        for step in &mut steps {
            *step = (-(1.0 - random.unit()).ln() * 400.0) as u64;
        }
        if let Some(delayed) = delayed {
            steps[delayed] += 500;
        }
        let times = Times {
            begin: 1_000_000 + number * 20_000,
            steps,
            slept: false,
        };
        Journey {
            visits: visits(1, &times, 0),
        }
    };
    (0..2000).map(one).collect()
}

/// Goal: a delay of 500 ns lands on its component in 95 of 100 runs. Method: visits with random
/// times, put through the ring's form, journeys and parts.
#[test]
fn an_added_delay_lands_on_its_component() {
    // A step of `Times`, and the component that it is part of.
    let places = [
        (0, 0),
        (1, 1),
        (2, 4),
        (3, 5),
        (4, 6),
        (5, 7),
        (7, 12),
        (8, 13),
        (9, 16),
        (11, 18),
    ];
    let blame = |seed: u64, delayed: Option<usize>| {
        let records = journeys(seed, delayed).into_iter();
        let visits = records.flat_map(|journey| journey.visits);
        let visits = visits.map(|visit| Visit::from_record(&visit.to_record()));
        let whole = Journeys::of(&map(), visits.collect()).whole;
        let names = components(&map(), &whole.iter().collect::<Vec<_>>());
        let names: Vec<_> = names.iter().map(|one| one.name.as_str()).collect();
        let traces: Vec<_> = whole.iter().map(times_of).collect();
        Blame::of(&names, &traces).unwrap()
    };
    let is_right = |run: &u64| {
        let (step, component) = places[*run as usize % places.len()];
        let before = blame(run * 2, None);
        let after = blame(run * 2 + 1, Some(step));
        let (name, grown) = after.grown_since(&before).unwrap();
        name == after.shares[component].component && (grown - 500.0).abs() < 100.0
    };
    let right = (0..100).filter(is_right).count();
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn components_are_named_by_place_and_kind() {
    let journeys = journeys(1, None);
    let components = components(&map(), &[&journeys[0]]);
    let names: Vec<_> = components.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names[..2], ["in: port rx", "in -> nf1: publish"]);
    assert_eq!(names[10], "nf1 -> nf2: queue");
    assert_eq!(names[13], "nf2 -> out: copy in");
    assert_eq!(names[17..], ["nf2 -> out: copy out", "out: port tx"]);
    assert_eq!(KINDS[components[13].kind], "copy");
}

#[test]
fn exports_can_be_read() {
    let journeys = &journeys(1, None)[..20];
    let trace: serde_json::Value = serde_json::from_str(&chrome::trace(&map(), journeys)).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = events.iter().filter(|event| event["ph"] == "X");
    assert_eq!(slices.count(), 4 * 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.pcapng");
    std::fs::write(
        &path,
        pcapng::file(&map(), journeys, 1_700_000_000_000_000_000),
    )
    .unwrap();
    let mut reader = catena_port::capture::CaptureReader::open(&path).unwrap();
    let (mut count, mut last) = (0, 0);
    while let Some(record) = reader.next().unwrap() {
        assert!(record.timestamp_ns >= last && record.timestamp_ns > 1_700_000_000_000_000_000);
        last = record.timestamp_ns;
        count += 1;
    }
    assert_eq!(count, 4 * 20);
}
