//! Packets through a program whose tables are full of flows: what `programs` measures.
//!
//! A packet is made outside the time that counts, and goes through the calls that the NF `flow`
//! makes for a burst, in their order: headers and key of each packet, one lookup, code and storing,
//! verdict, then flows whose time is over. Packets lie in a pool's buffers. Ports and links are no
//! part of it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use catena_engine::packet::Packet;
use catena_flow::nf::EXPIRY_BUDGET;
use catena_flow::program::ir::Verdict;
use catena_flow::program::layout::{Layout, Portion};
use catena_flow::program::run::{Arrival, Decision, Loaded, Running};
use catena_measure::stats::random::Random;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::{Region, Sharing};
use catena_shm::tsc;

use super::bare::Bare;
use super::samples::{Sample, Step};
use super::workload::BURST;

/// Bursts that are laid out at once: their headers stay in the core's second cache.
const BLOCK_BURSTS: usize = 25;
/// Blocks of a window; of its 100 bursts, 1 % is one.
const BLOCKS: usize = 4;
/// Packets of a window.
pub(super) const WINDOW: usize = BLOCKS * BLOCK_BURSTS * BURST;
/// Flows that the tables have room for beyond those that packets come of, in whose place new ones
/// come: as many as are new in a window. Without them, new flows take the place of a small
/// table's live ones, and this measures drops.
const SPARE: u32 = WINDOW as u32 / 10;
/// Time from one burst to the next: 12.8 million packets a second.
const BURST_NS: u64 = 5000;
/// First of the flows that are never there.
const STRANGERS: u64 = 1 << 27;
/// So that a burst's packets need no more memory than they have bytes.
const LOG2_STRIDE: u8 = 11;

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Packets of flows that are there.
    Hits,
    /// Of them, those that come the other way.
    Back,
    /// Packets of flows that are not there.
    Misses,
    /// One packet in so many is the first of a new flow, which takes an old one's place.
    Churn(u64),
    /// Each asks for an entry, and the table is full.
    Attack,
    /// The first of them: nobody has been asked yet whether he gives way.
    AttackBegins,
}

impl Work {
    fn is_attack(self) -> bool {
        matches!(self, Self::Attack | Self::AttackBegins)
    }
}

/// What runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Compiled,
    Interpreted,
}

/// The program once for each engine, and by what becomes of new flows: refused, or in the place of
/// others.
type Programs = [Option<Box<Loaded>>; 4];

const fn place(engine: Engine, evicts: bool) -> usize {
    2 * (engine as usize) + evicts as usize
}

/// A program with its flows, and what comes to it.
pub(super) struct Traffic {
    running: Running<Portion<Region>>,
    /// Those that do not run now.
    programs: Programs,
    /// Which one does.
    current: usize,
    /// Why there is no machine code.
    not_compiled: Option<String>,
    sample: Sample,
    flows: u64,
    elements: usize,
    /// The next new flow; the last `flows` of those before it are there.
    next: u64,
    /// New flows since all of the last were made sure of.
    unsettled: u64,
    strangers: u64,
    /// Whether the policy that refuses has asked all flows.
    is_asked: bool,
    /// Packets laid out so far.
    count: u64,
    /// The server that a balancer has chosen for a flow, by the flow's number modulo `flows`.
    servers: Vec<[u8; 4]>,
    random: Random,
    now_ns: u64,
    pool: PoolOwner,
    packets: Vec<Packet>,
    inputs: Vec<u8>,
    /// Packets that were dropped.
    dropped: usize,
    pub(super) is_huge: bool,
}

fn programs(sample: Sample, flows: u32) -> Result<(Programs, Option<String>), String> {
    let (mut programs, mut reason) = (Programs::default(), None);
    for evicts in [false, true] {
        let program = sample.program(flows + SPARE, evicts)?;
        match catena_jit::compile(&program) {
            Ok(compiled) => {
                let loaded = Loaded::new(program, Some(compiled));
                programs[place(Engine::Compiled, evicts)] = Some(Box::new(loaded));
            }
            Err(error) => reason = Some(error),
        }
        let loaded = Loaded::new(sample.program(flows + SPARE, evicts)?, None);
        programs[place(Engine::Interpreted, evicts)] = Some(Box::new(loaded));
    }
    Ok((programs, reason))
}

impl Traffic {
    /// All flows made.
    pub(super) fn new(sample: Sample, flows: u32) -> Result<Self, String> {
        let (mut programs, not_compiled) = programs(sample, flows)?;
        let fills = [Engine::Compiled, Engine::Interpreted].map(|engine| place(engine, true));
        let first = fills.into_iter().find(|at| programs[*at].is_some());
        let current = first.ok_or("no program")?;
        let loaded = programs[current].take().ok_or("no program")?;
        let program = loaded.program();
        let layout = Layout::of(program);
        let region = |words: usize| {
            let region = Region::create_huge("flow-programs", words * 8, Sharing::ReadOnly);
            region.map(Arc::new).map_err(|error| error.to_string())
        };
        let memory = region(layout.words)?;
        memory.prefault();
        let shared = layout.share(&region(layout.shared_words.max(1))?);
        let shared = shared.map_err(|error| error.to_string())?;
        let ground = layout.create(program, &memory, || [0x5eed, 0xfeed], 0);
        let ground = ground.map_err(|error| error.to_string())?;
        let geometry = PoolGeometry {
            log2_stride: LOG2_STRIDE,
            buffer_count: (2 * BLOCK_BURSTS * BURST) as u32,
            headroom: 128,
            bundles: false,
        };
        let pool = PoolOwner::create(1, geometry, Sharing::ReadWrite);
        let has_servers = sample.has_servers();
        let mut traffic = Self {
            elements: program.elements.len(),
            running: Running::new(loaded, ground, shared),
            programs,
            current,
            not_compiled,
            sample,
            flows: u64::from(flows),
            next: u64::from(flows + SPARE),
            unsettled: 0,
            strangers: STRANGERS,
            is_asked: false,
            count: 0,
            servers: vec![[0; 4]; if has_servers { flows as usize } else { 0 }],
            random: Random::new(1),
            now_ns: 1_000_000_000,
            pool: pool.map_err(|error| error.to_string())?,
            packets: Vec::new(),
            inputs: Vec::new(),
            dropped: 0,
            is_huge: memory.is_huge(),
        };
        // Those in whose place others come first, so that the tables are full.
        traffic.settle(0)?;
        Ok(traffic)
    }

    /// Has another program run on the same flows.
    fn choose(&mut self, engine: Engine, evicts: bool) -> Result<(), String> {
        let wanted = place(engine, evicts);
        if wanted != self.current {
            self.is_asked &= !evicts;
            let next = self.programs[wanted].take();
            let next = next.ok_or_else(|| self.not_compiled.clone().unwrap_or_default())?;
            self.programs[self.current] = Some(self.running.replace(next));
            self.current = wanted;
        }
        Ok(())
    }

    /// Lays packets out, all of a burst for one input.
    fn lay_out(
        &mut self,
        packets: impl IntoIterator<Item = (u64, Step)>,
        bytes: usize,
    ) -> Result<(), String> {
        self.packets
            .drain(..)
            .for_each(|packet| self.pool.free(packet));
        self.inputs.clear();
        for (at, (flow, step)) in packets.into_iter().enumerate() {
            if at % BURST == 0 {
                self.inputs.push(self.sample.input(step));
            }
            let frame = self.sample.packet(flow, step, bytes);
            let packet = self.pool.alloc(frame.len());
            let mut packet = packet.ok_or("no buffer is left")?;
            packet.bytes_mut().copy_from_slice(&frame);
            self.packets.push(packet);
        }
        Ok(())
    }

    /// Makes sure that all flows from `first` on are there, in their lasting state.
    fn settle(&mut self, first: u64) -> Result<(), String> {
        for from in (first..self.next).step_by(BLOCK_BURSTS * BURST) {
            self.meet(from..self.next.min(from + (BLOCK_BURSTS * BURST) as u64))?;
        }
        self.unsettled = 0;
        Ok(())
    }

    /// Has flows begin.
    fn meet(&mut self, flows: Range<u64>) -> Result<(), String> {
        let steps = |step: Step| flows.clone().map(move |flow| (flow, step));
        self.lay_out(steps(Step::First), 64)?;
        self.run(&mut Vec::new());
        if self.sample.has_servers() {
            let mut answers = Vec::with_capacity(self.packets.len());
            for (flow, packet) in flows.clone().zip(&self.packets) {
                let server = packet.bytes().get(30..).and_then(<[u8]>::first_chunk);
                let server = *server.ok_or("no server was chosen")?;
                self.servers[(flow % self.flows) as usize] = server;
                answers.push((flow, Step::Answer(server)));
            }
            self.lay_out(answers, 64)?;
            self.run(&mut Vec::new());
        }
        self.lay_out(steps(Step::Later), 64)?;
        self.run(&mut Vec::new());
        Ok(())
    }

    /// Has strangers ask every flow whether it gives way: each asks those of two buckets.
    fn ask_all(&mut self) -> Result<(), String> {
        let block = (BLOCK_BURSTS * BURST) as u64;
        for _ in 0..self.flows.div_ceil(block) {
            let packets: Vec<_> = (0..block).map(|_| self.draw(Work::Attack)).collect();
            self.lay_out(packets, 64)?;
            self.run(&mut Vec::new());
        }
        self.is_asked = true;
        Ok(())
    }

    /// A flow that is there.
    fn known(&mut self) -> u64 {
        self.next - self.flows + self.random.below(self.flows)
    }

    fn stranger(&mut self) -> u64 {
        self.strangers += 1;
        self.strangers
    }

    /// The next packet of a work.
    fn draw(&mut self, work: Work) -> (u64, Step) {
        self.count += 1;
        match work {
            Work::Hits => (self.known(), Step::Later),
            Work::Misses => (self.stranger(), Step::Stranger),
            Work::Attack | Work::AttackBegins => (self.stranger(), Step::Attack),
            Work::Back => {
                let flow = self.known();
                let server = self.servers.get((flow % self.flows) as usize);
                (flow, Step::Back(server.copied().unwrap_or_default()))
            }
            Work::Churn(one_in) => {
                // One in so many packets; where those come by another input, one in so many bursts.
                let is_mixed = self.sample.input(Step::First) == self.sample.input(Step::Later);
                let number = match is_mixed {
                    true => self.count,
                    false => (self.count - 1) / BURST as u64 + 1,
                };
                if number.is_multiple_of(one_in) {
                    self.next += 1;
                    self.unsettled += 1;
                    (self.next - 1, Step::First)
                } else {
                    (self.known(), Step::Later)
                }
            }
        }
    }

    /// What the NF does with bursts; adds input and ticks of each to `times`.
    fn run(&mut self, times: &mut Vec<(u8, u64)>) {
        let running = &mut self.running;
        for (packets, input) in self.packets.chunks_mut(BURST).zip(&self.inputs) {
            let started = tsc::ticks();
            self.now_ns += BURST_NS;
            let arrival = Arrival {
                now_ns: self.now_ns,
                input: *input,
            };
            for element in 0..self.elements {
                // As the NF: headers are found in front of the first one, and those without flows
                // have no keys.
                if element == 0 || running.flows(element).is_some() {
                    for (index, packet) in packets.iter_mut().enumerate() {
                        running.make_key(element, index, packet, arrival);
                    }
                    running.look_up(element, packets.len(), self.now_ns);
                }
                for (index, packet) in packets.iter_mut().enumerate() {
                    running.step(element, index, packet, arrival);
                }
            }
            for index in 0..packets.len() {
                let (decision, _) = black_box(running.decision(index));
                let is_out = matches!(decision, Decision::Program(Verdict::Output(_)));
                self.dropped += usize::from(!is_out);
            }
            for element in 0..self.elements {
                running.expire(element, self.now_ns, EXPIRY_BUDGET);
            }
            while black_box(running.emissions.first()).is_some() {
                running.emissions.pop();
            }
            times.push((*input, tsc::ticks() - started));
        }
    }

    /// Input and ticks of each burst of a window. Most packets of flows that are there must pass,
    /// or this measures something else.
    pub(super) fn window(
        &mut self,
        engine: Engine,
        work: Work,
        bytes: usize,
    ) -> Result<Vec<(u8, u64)>, String> {
        if work != Work::Misses && self.unsettled * 50 > self.flows {
            self.choose(engine, true)?;
            self.settle(self.next - self.flows)?;
        }
        if work == Work::AttackBegins {
            // Under another policy all are asked again.
            self.choose(engine, true)?;
            self.is_asked = false;
        }
        self.choose(engine, !work.is_attack())?;
        if work == Work::Attack && !self.is_asked {
            self.ask_all()?;
        }
        self.dropped = 0;
        let mut times = Vec::with_capacity(BLOCKS * BLOCK_BURSTS);
        for _ in 0..BLOCKS {
            let packets: Vec<_> = (0..BLOCK_BURSTS * BURST).map(|_| self.draw(work)).collect();
            self.lay_out(packets, bytes)?;
            self.run(&mut times);
        }
        // Where each stranger is remembered, others have gone for it.
        let is_remembered = matches!(
            self.sample,
            Sample::Policer | Sample::States | Sample::Offload
        );
        if work == Work::Misses && is_remembered {
            self.unsettled += WINDOW as u64;
        }
        let must_pass = work != Work::Misses && !work.is_attack();
        if must_pass && self.dropped * 5 > WINDOW {
            return Err(format!("{} of {WINDOW} packets were dropped", self.dropped));
        }
        Ok(times)
    }

    /// As [`Traffic::window`], of packets of flows that are there, through the floor.
    pub(super) fn floor(
        &mut self,
        floor: &mut Bare,
        bytes: usize,
    ) -> Result<Vec<(u8, u64)>, String> {
        let mut times = Vec::with_capacity(BLOCKS * BLOCK_BURSTS);
        for _ in 0..BLOCKS {
            // The floor's table has the flows that were there at first.
            let packets: Vec<_> = (0..BLOCK_BURSTS * BURST)
                .map(|_| (self.random.below(self.flows), Step::Later))
                .collect();
            self.lay_out(packets, bytes)?;
            floor.run(&mut self.packets, &mut times)?;
        }
        Ok(times)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.packets
            .drain(..)
            .for_each(|packet| self.pool.free(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_known_flows_pass_by_either_engine_and_strangers_do_what_they_should() {
        let sizes = [1000, 5000].map(|flows| Sample::ALL.map(|sample| (sample, flows)));
        for (sample, flows) in sizes.into_iter().flatten() {
            let mut traffic = Traffic::new(sample, flows).expect("a program");
            // Passes, since what evicts has room; is unknown to a balancer; goes to the core.
            let unknown = if sample.has_servers() { WINDOW } else { 0 };
            // A passive offload passes what it has no room to learn.
            let refused = if sample == Sample::Passive { 0 } else { WINDOW };
            for (work, drops) in [
                (Work::Hits, 0..WINDOW / 50),
                (Work::Back, 0..1),
                (Work::AttackBegins, refused..refused + 1),
                (Work::Attack, refused..refused + 1),
                (Work::Misses, unknown..unknown + 1),
                (Work::Churn(10), 0..WINDOW / 10),
            ] {
                if work == Work::Back && !sample.has_two_ways() {
                    continue;
                }
                for engine in [Engine::Compiled, Engine::Interpreted] {
                    let times = traffic.window(engine, work, 64).expect("packets pass");
                    assert_eq!(times.len(), 100);
                    let dropped = traffic.dropped;
                    let what = format!("{}, {flows} flows, {work:?}, {engine:?}", sample.name());
                    assert!(drops.contains(&dropped), "{what}: {dropped}");
                }
            }
        }
    }

    #[test]
    fn the_floor_finds_all_flows() {
        for sample in Sample::ALL {
            let mut traffic = Traffic::new(sample, 1000).expect("a program");
            let mut floor = Bare::new(sample, 1000).expect("a table");
            for bytes in [64, 1024] {
                let times = traffic.floor(&mut floor, bytes).expect("all are found");
                assert_eq!(times.len(), 100);
            }
        }
    }
}
