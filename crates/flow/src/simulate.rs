//! A program beside any chain: packets and times in, verdicts and traces out.
//!
//! For tools and tests. Flows lie on the heap, time is what the caller says, and everything is
//! interpreted unless compiled code is given; a packet goes through alone, as a burst of one.

use std::sync::Arc;

use crate::program::frame::{Buffer, Frame};
use crate::program::ir::{Program, Verdict};
use crate::program::layout::{Layout, Portion};
use crate::program::queue::Notice;
use crate::program::run::{Arrival, Compiled, Decision, Loaded, Running};
use crate::program::trace::{ElementTrace, Tracer};
use crate::{AttachError, HeapMemory};

/// A packet behind the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The output's name, or `!` and the reason for which it was dropped.
    pub verdict: String,
    /// Names of outputs that got a copy.
    pub copies: Vec<String>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A program in simulated time.
#[derive(Debug)]
pub struct Simulation {
    running: Running<Portion<HeapMemory>>,
    program: Program,
}

/// Entries that are ended for one step of time, at most.
const BUDGET: u32 = 1 << 20;
/// Instants at which timeouts are looked for on the way to another time, at most, and how far they
/// lie apart at least.
const INSTANT_COUNT_MAX: u32 = 1 << 16;
const INSTANT_NS: u64 = 1000;

impl Simulation {
    /// A verified program without any flow. The same packets give the same results each time: its
    /// hash is not random.
    ///
    /// # Errors
    /// The program wants more memory than there can be.
    pub fn new(program: Program) -> Result<Self, AttachError> {
        Self::with(program, None)
    }

    /// As [`Simulation::new`], with compiled code of the program. What is traced is interpreted.
    ///
    /// # Errors
    /// The program wants more memory than there can be.
    pub fn with(
        program: Program,
        compiled: Option<Box<dyn Compiled>>,
    ) -> Result<Self, AttachError> {
        let words = Layout::of(&program).shared_words;
        Self::beside(program, compiled, &Arc::new(HeapMemory::new(words)))
    }

    /// As [`Simulation::with`], as one of several shards: registers that they share are these
    /// words, as many as [`Layout::shared_words`] says, which were zero before the first one.
    ///
    /// # Errors
    /// The program wants more memory than there can be, or than `shared` has; or these are the
    /// words of another layout.
    pub fn beside(
        program: Program,
        compiled: Option<Box<dyn Compiled>>,
        shared: &Arc<HeapMemory>,
    ) -> Result<Self, AttachError> {
        let layout = Layout::of(&program);
        let memory = Arc::new(HeapMemory::new(layout.words));
        let ground = layout.create(&program, &memory, || [1, 2], 0)?;
        let shared = layout.share(shared)?;
        let loaded = Box::new(Loaded::new(program.clone(), compiled));
        let running = Running::new(loaded, ground, shared);
        Ok(Self { running, program })
    }

    /// The program at work.
    pub fn running(&mut self) -> &mut Running<Portion<HeapMemory>> {
        &mut self.running
    }

    /// Ends flows whose time is over by now, each when it is: what its timeout starts may be over
    /// by now too. Behind 65,536 instants the rest ends at once.
    pub fn expire(&mut self, now_ns: u64) {
        let mut earliest_ns = 0;
        for _ in 0..INSTANT_COUNT_MAX {
            let next_ns = self.running.next_expiry_ns();
            let Some(at_ns) = next_ns.map(|next_ns| next_ns.max(earliest_ns)) else {
                return;
            };
            if at_ns >= now_ns {
                break;
            }
            self.expire_at(at_ns);
            earliest_ns = at_ns + INSTANT_NS;
        }
        self.expire_at(now_ns);
    }

    fn expire_at(&mut self, now_ns: u64) {
        for element in 0..self.program.elements.len() {
            self.running.expire(element, now_ns, BUDGET);
        }
    }

    /// A packet from an input.
    pub fn packet(&mut self, bytes: &[u8], arrival: Arrival) -> Passed {
        self.run(bytes, arrival, None)
    }

    /// A packet from an input, and what it went through.
    pub fn traced(&mut self, bytes: &[u8], arrival: Arrival) -> (Passed, Vec<ElementTrace>) {
        let mut traces = Vec::new();
        let passed = self.run(bytes, arrival, Some(&mut traces));
        (passed, traces)
    }

    fn run(
        &mut self,
        bytes: &[u8],
        arrival: Arrival,
        mut seen: Option<&mut Vec<ElementTrace>>,
    ) -> Passed {
        let mut frame = Buffer::new(bytes);
        for element in 0..self.program.elements.len() {
            self.running.make_key(element, 0, &mut frame, arrival);
            self.running.look_up(element, 1, arrival.now_ns);
            let Some(seen) = &mut seen else {
                self.running.step(element, 0, &mut frame, arrival);
                continue;
            };
            let mut tracer = Tracer::new(&self.program, element);
            let running = &mut self.running;
            running.step_watched(element, 0, &mut frame, arrival, &mut tracer);
            seen.push(tracer.finish());
        }
        let (decision, copies) = self.running.decision(0);
        let outputs = self.program.outputs.iter().enumerate();
        let copied = outputs.filter(|(at, _)| copies >> at & 1 == 1);
        Passed {
            verdict: self.named(decision),
            copies: copied.map(|(_, name)| name.clone()).collect(),
            bytes: frame.bytes().to_vec(),
        }
    }

    fn named(&self, decision: Decision) -> String {
        let name = |names: &[String], at: u8| names.get(usize::from(at)).cloned();
        match decision {
            Decision::Program(Verdict::Output(at)) => {
                name(&self.program.outputs, at).unwrap_or_default()
            }
            Decision::Program(Verdict::Drop(at)) => {
                format!("!{}", name(&self.program.reasons, at).unwrap_or_default())
            }
            Decision::Malformed => "!malformed".to_owned(),
            Decision::NoHeadroom => "!no_headroom".to_owned(),
            Decision::FlowFull => "!flow_full".to_owned(),
        }
    }

    /// Packets that the program has made since it was last asked: outputs and bytes.
    pub fn emitted(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some((output, bytes)) = self.running.emissions.first() {
            let name = self.program.outputs.get(usize::from(output)).cloned();
            all.push((name.unwrap_or_default(), bytes.to_vec()));
            self.running.emissions.pop();
        }
        all
    }

    /// Events since it was last asked, with their names.
    pub fn events(&mut self) -> Vec<(String, Notice)> {
        let mut all = Vec::new();
        while let Some(notice) = self.running.notices.pop() {
            let name = self.program.events.get(usize::from(notice.event)).cloned();
            all.push((name.unwrap_or_default(), notice));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efsm::source::load;

    /// Each packet starts a timer that sends one 10 ms later, and four more as far apart.
    const RETRIES: &str = r#"
templates:
  probe:
    packet: "02000000000002000000000108004500001c00004000401166cf0a0000010a0000020007000700080000"
elements:
  - name: e
    key: [ipv4.src]
    registers: { tries: 4 }
    initial: new
    states: { new: {}, waiting: { hard: 10ms } }
    transitions:
      - { from: new, next: waiting, do: [flow.tries = 0, output(out)] }
      - { from: waiting, do: [output(out)] }
      - from: waiting
        on: timeout
        if: flow.tries < 5
        next: waiting
        do: [flow.tries = flow.tries + 1, "emit(probe, out)"]
"#;

    #[test]
    fn timeouts_follow_each_other_within_a_step_of_time() {
        let (mut found, _) = load("retries", RETRIES).unwrap_or_else(|errors| panic!("{errors}"));
        let mut simulation = Simulation::new(found.remove(0).compiled.program).unwrap();
        let packet = simulation.running().program().templates[0].bytes.clone();
        let arrival = Arrival {
            now_ns: 1_000_000_000,
            input: 0,
        };
        assert_eq!(simulation.packet(&packet, arrival).verdict, "out");
        for (at_ms, made) in [(1009, 0), (1015, 1), (1035, 2), (9000, 2), (10_000, 0)] {
            simulation.expire(at_ms * 1_000_000);
            assert_eq!(simulation.emitted().len(), made, "{at_ms} ms");
        }
        assert_eq!(simulation.running().flows(0).unwrap().len(), 0);
    }
}
