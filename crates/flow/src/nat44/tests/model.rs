//! Goal: whatever is sent, `nat44` does what a NAT of a few maps would.
//! Method: random histories of packets both ways, and of time; the model knows sessions and when
//! they were used, and learns from the NF only which endpoint outside a new mapping has, which it
//! holds to be free, of one address per host and within the host's blocks.

use std::collections::HashMap;

use serde_json::json;

use super::*;
use crate::tests::Random;

const HISTORIES: u64 = if cfg!(debug_assertions) { 60 } else { 2000 };
const STEPS: u64 = 400;
const SESSIONS_MAX: usize = 9;
const BLOCKS_MAX: usize = 2;

type End = (String, u16);

struct History {
    random: Random,
    bench: NfBench,
    /// Which senders are let in: 0 all, 1 by address, 2 by address and port.
    filtering: u64,
    /// When each pair of host and far end was used last.
    sessions: HashMap<(End, End), u64>,
    mappings: HashMap<End, End>,
}

impl History {
    fn new(seed: u64) -> Self {
        let names = [
            "endpoint_independent",
            "address_dependent",
            "address_and_port_dependent",
        ];
        let filtering = seed % 3;
        let bench = bench(json!({
            "filtering": names[filtering as usize], "blocks_per_subscriber": BLOCKS_MAX,
            "sessions_per_subscriber": SESSIONS_MAX,
        }));
        Self {
            random: Random(seed * 2 + 1),
            bench,
            filtering,
            sessions: HashMap::new(),
            mappings: HashMap::new(),
        }
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random.below(count)
    }

    fn host(&mut self) -> End {
        (
            format!("10.0.0.{}", 1 + self.below(5)),
            1 + self.below(5) as u16,
        )
    }

    fn far(&mut self) -> End {
        (
            format!("203.0.113.{}", 1 + self.below(3)),
            1 + self.below(3) as u16,
        )
    }

    fn frame(src: &End, dst: &End) -> Frame {
        let mut frame = Frame::udp(("0.0.0.0", 0), ("0.0.0.0", 0));
        (frame.src, frame.dst) = (src.clone(), dst.clone());
        frame
    }

    fn of_host(&self, host: &str) -> usize {
        self.sessions
            .keys()
            .filter(|(inside, _)| inside.0 == host)
            .count()
    }

    fn step(&mut self) {
        match self.below(8) {
            0..=3 => self.send(),
            4..=6 => self.answer(),
            _ => self.wait(),
        }
    }

    fn send(&mut self) {
        let (host, far) = (self.host(), self.far());
        let now = self.bench.now.0;
        let frame = Self::frame(&host, &far);
        let pair = (host.clone(), far.clone());
        if !self.sessions.contains_key(&pair) && self.of_host(&host.0) == SESSIONS_MAX {
            dropped(&mut self.bench, 0, &frame, Why::SubscriberSessions);
            return;
        }
        let left = out(&mut self.bench, &frame);
        assert_eq!((&left.dst, &left.body), (&far, &frame.body));
        match self.mappings.get(&host) {
            Some(outside) => assert_eq!(&left.src, outside),
            None => {
                assert!(
                    self.mappings.values().all(|one| *one != left.src),
                    "{left:?}"
                );
                self.mappings.insert(host.clone(), left.src);
            }
        }
        self.sessions.insert(pair, now);
        let of_host: Vec<&End> = self
            .mappings
            .iter()
            .filter(|(inside, _)| inside.0 == host.0)
            .map(|(_, outside)| outside)
            .collect();
        assert!(of_host.iter().all(|one| one.0 == of_host[0].0), "paired");
        let blocks: std::collections::BTreeSet<u16> =
            of_host.iter().map(|one| (one.1 - 1024) / 64).collect();
        assert!(blocks.len() <= BLOCKS_MAX);
    }

    fn answer(&mut self) {
        let far = self.far();
        let now = self.bench.now.0;
        let mut known: Vec<(&End, &End)> = self.mappings.iter().collect();
        known.sort();
        let known: Vec<(End, End)> = known
            .into_iter()
            .map(|(a, b)| (a.clone(), b.clone()))
            .collect();
        let at = self.below(known.len() as u64 + 1) as usize;
        let Some((host, outside)) = known.get(at) else {
            let nobody = ("192.0.2.1".to_owned(), 65_535);
            dropped(
                &mut self.bench,
                1,
                &Self::frame(&far, &nobody),
                Why::NoMapping,
            );
            return;
        };
        let frame = Self::frame(&far, outside);
        let is_known = |(inside, remote): &&(End, End)| {
            inside == host
                && (self.filtering == 0 || remote.0 == far.0)
                && (self.filtering != 2 || remote.1 == far.1)
        };
        if !self.sessions.keys().any(|pair| is_known(&pair)) {
            dropped(&mut self.bench, 1, &frame, Why::Filtered);
            return;
        }
        let heard = back(&mut self.bench, &frame);
        assert_eq!((&heard.src, &heard.dst), (&far, host));
        if let Some(used) = self.sessions.get_mut(&(host.clone(), far)) {
            *used = now;
        }
    }

    /// Never exactly as long as a session lives.
    fn wait(&mut self) {
        later(&mut self.bench, 37);
        let now = self.bench.now.0;
        self.sessions.retain(|_, used| now - *used < 300 * S);
        let sessions = &self.sessions;
        self.mappings
            .retain(|host, _| sessions.keys().any(|(inside, _)| inside == host));
    }

    fn compare(&mut self) {
        let counts = ["sessions", "mappings"].map(|name| self.bench.counter(name));
        let wanted = [self.sessions.len(), self.mappings.len()].map(|count| count as u64);
        assert_eq!(counts, wanted);
    }
}

#[test]
fn it_does_what_a_few_maps_would() {
    for seed in 0..HISTORIES {
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            history.step();
            history.compare();
        }
        nothing_is_left(&mut history.bench);
    }
}
