//! Thousands of steps in any order, with an invariant behind each: where each octet is.

use std::collections::HashSet;

use super::*;

/// A world in which anything may happen, in any order.
struct World {
    smf: Smf,
    seed: u64,
    now_ns: u64,
    counted: Octets,
    told: Octets,
    /// What sessions had counted that an SMF ended without asking for it.
    given_up: Octets,
    /// Numbers of the requests that have come.
    known: HashSet<u32>,
    /// Those that may be answered still.
    heard: Vec<Heard>,
}

impl World {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// Takes what the UPF says; a request that comes again is told already.
    fn listen(&mut self) {
        for one in hear_all(&mut self.smf.upf) {
            if !self.known.insert(one.header.sequence) {
                continue;
            }
            self.told += one.told;
            let is_over = one
                .wants
                .is_some_and(|wants| wants.contains(AssociationReleaseRequest::URSS));
            let waits = self.heard.iter().any(|other| other.ends);
            assert!(!(is_over && waits), "all is said before all is answered");
            self.heard.push(one);
        }
    }

    fn step(&mut self) {
        let now_ns = self.now_ns;
        match self.random(12) {
            0..3 => {
                let is_taken = self.smf.upf.store.association(0).is_some()
                    && !self.smf.upf.is_parting(0)
                    && self.smf.upf.session_count() < 60;
                if is_taken {
                    let octets = self.random(3) as usize * 50;
                    let before = untold(&self.smf.upf);
                    count(&mut self.smf.upf, octets);
                    self.counted += untold(&self.smf.upf) - before;
                }
            }
            3 => {
                prepare(&mut self.smf);
            }
            4 => drop(
                self.smf
                    .upf
                    .ask_for_release(&json!({ "release": "all" }), now_ns),
            ),
            5..8 => {
                if !self.heard.is_empty() {
                    let at = self.random(self.heard.len() as u64) as usize;
                    let one = self.heard.remove(at);
                    let cause = match self.random(4) {
                        0 => Cause::REQUEST_REJECTED,
                        _ => Cause::REQUEST_ACCEPTED,
                    };
                    answer(&mut self.smf.upf, &one, cause, now_ns);
                }
            }
            8 => {
                // Nobody answers: all is given up.
                for _ in 0..10 {
                    self.now_ns += 3 * SECOND_NS;
                    self.smf.upf.wake(self.now_ns);
                    self.heard.clear();
                    self.listen();
                }
            }
            9 => {
                let left = untold(&self.smf.upf);
                let is_over = self.smf.upf.shown_parting(0) == "to be released"
                    && self.smf.upf.is_enhanced(0);
                if release(&mut self.smf) == Cause::REQUEST_ACCEPTED {
                    assert!(left == 0 || !is_over, "all was said, and {left} are left");
                    self.given_up += left;
                    self.heard.retain(|one| !one.ends);
                    self.smf.upf.wake(now_ns);
                }
            }
            10 => {
                // It begins anew, and its sessions of before end.
                let left = untold(&self.smf.upf);
                assert_eq!(set_up(&mut self.smf), Cause::REQUEST_ACCEPTED);
                self.given_up += left;
                self.heard.retain(|one| !one.ends);
                self.smf.upf.wake(now_ns);
                let is_enhanced = self.random(4) > 0;
                enhance(&mut self.smf.upf, is_enhanced);
            }
            _ => {
                // Another UPF comes in its place, over the same memory.
                let requests = self.smf.upf.give_up_requests();
                assert!(self.smf.upf.take_requests(requests));
            }
        }
    }
}

/// Whatever happens, in whichever order: each octet is told in a last report, is still counted by
/// its session, or was given up by the SMF itself; and all is said only when all is answered.
#[test]
fn no_octet_is_lost_between_preparations_answers_refusals_and_releases() {
    for seed in 0..400 {
        let mut world = World {
            smf: smf_that(true, 64),
            seed,
            now_ns: SECOND_NS,
            counted: 0,
            told: 0,
            given_up: 0,
            known: HashSet::new(),
            heard: Vec::new(),
        };
        for step in 0..60 {
            world.step();
            world.smf.upf.wake(world.now_ns);
            world.listen();
            let known = world.told + untold(&world.smf.upf) + world.given_up;
            assert_eq!(world.counted, known, "seed {seed}, step {step}");
            let partings = &world.smf.upf.partings;
            assert!(partings.len() <= ASSOCIATION_COUNT);
        }
    }
}
