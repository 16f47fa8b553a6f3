//! A program at work: bursts of packets through its elements, and flows whose time is over.
//!
//! The step between a burst that has arrived and its verdicts. For each element: keys of all
//! packets, one lookup for all of them, then the element's code packet by packet, in order. What a
//! packet writes is stored before the next one is looked at, and a packet whose flow came or went
//! within the burst is looked up again: so each sees the effects of all before it.
//!
//! The caller shows its packets one after the other, twice per element, by
//! [`Running::make_key`] and [`Running::step`]; between them it calls [`Running::look_up`]
//! (`lookup.rs`).

use std::sync::atomic::Ordering;

use crate::hash::KeyedHash;
use crate::table::lookup::BURST_MAX;
use crate::{Flow, FlowTable, KEY_WORDS_MAX, Memory};

use super::env::{Env, Exit, FlowWords, Outcome};
use super::frame::Frame;
use super::gate::Gate;
use super::globals::Globals;
use super::header::Headers;
use super::interpret::{self, Unwatched, Watch};
use super::ir::{Code, Element, FlowRegister, Program, Verdict};
use super::layout::{Ground, Layout};
use super::maglev::refilled;
use super::mirror::Arrived;
use super::queue::{Emissions, Notices};
use super::sparing::set_sparing;
use super::table::MatchTable;

/// Which code of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// [`Element::key`].
    Key,
    /// [`Element::update`].
    Update,
    /// [`Element::body`].
    Body,
    /// [`Element::keyless`].
    Keyless,
    /// [`Element::timeout`].
    Timeout,
}

/// What code that only makes a key sees of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The packet's bytes.
    pub bytes: &'a [u8],
    /// Its headers.
    pub headers: &'a Headers,
    /// When and where it has come from.
    pub arrival: Arrival,
}

/// A backend other than the interpreter: code that was compiled from a verified program.
pub trait Compiled: Send {
    /// Makes a key by [`Part::Key`] or [`Part::Update`]: gives whether the packet has one, and puts
    /// it into as many of `words` as a key of the element has. None if it cannot by what it sees,
    /// and then it has changed nothing: [`Compiled::run`] is asked next. Of `slots`, metadata alone
    /// is set.
    fn key(
        &mut self,
        element: usize,
        part: Part,
        sight: Sight<'_>,
        slots: &mut [u128],
        words: &mut [u64; KEY_WORDS_MAX],
    ) -> Option<bool>;

    /// Runs a part of an element as [`interpret::run`] does; none if it has not compiled it, and
    /// then it has changed nothing. Of `slots`, metadata alone is set, and there are no others but
    /// for keys: what these hold is left from another packet, and counts as zero.
    fn run(
        &mut self,
        element: usize,
        part: Part,
        slots: &mut [u128],
        env: &mut Env<'_>,
    ) -> Option<Exit>;
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// As the program says.
    Program(Verdict),
    /// Dropped: a header is malformed.
    Malformed,
    /// Dropped: no room in front for a header.
    NoHeadroom,
    /// Dropped: a flow that had to be remembered found no room.
    FlowFull,
}

/// What a program has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that had no key, by elements.
    pub keyless: u64,
    /// Changes of flows that found no room and were lost.
    pub not_stored: u64,
    /// Flows that gave way to others.
    pub evicted: u64,
    /// Flows whose time was over.
    pub expired: u64,
}

/// A packet of the burst between two steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand {
    pub(super) headers: Headers,
    pub(super) is_done: bool,
    pub(super) decision: Option<Decision>,
    pub(super) clones: u64,
    pub(super) mirrors: u64,
}

/// Where a packet's flow was found; none without a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) has_key: bool,
    pub(super) has_update: bool,
    /// Which of the burst's keys is its.
    pub(super) key: u16,
}

/// A program made ready beside packets: what is needed to run it but the ground.
pub struct Loaded {
    pub(super) program: Program,
    pub(super) compiled: Option<Box<dyn Compiled>>,
    pub(super) tables: Vec<MatchTable>,
    pub(super) global_starts: Vec<u32>,
    pub(super) marks: Vec<u64>,
    pub(super) metadata_count: usize,
    pub(super) metadata: Vec<u128>,
    pub(super) slots: Vec<u128>,
    /// Packets as they came.
    pub(super) arrived: Arrived,
    /// Of each element, what says that it does nothing.
    gates: Vec<Option<Gate>>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("is_compiled", &self.compiled.is_some())
            .finish_non_exhaustive()
    }
}

impl Loaded {
    /// A verified program, with a compiled form of it if there is one.
    pub fn new(program: Program, compiled: Option<Box<dyn Compiled>>) -> Self {
        let metadata = program.metadata.len();
        let codes = program.elements.iter().flat_map(Element::codes);
        let gates = program.elements.iter().map(|one| Gate::of(one, metadata));
        let slots = codes.map(|code| code.slots.len()).max().unwrap_or(0);
        let mut tables: Vec<MatchTable> = program.tables.iter().map(MatchTable::new).collect();
        for (at, table) in refilled(&tables, None) {
            tables[at] = table;
        }
        Self {
            tables,
            global_starts: Layout::global_starts(&program),
            marks: vec![0; program.notes.len()],
            metadata_count: metadata,
            metadata: vec![0; BURST_MAX * metadata],
            slots: vec![0; slots.max(metadata)],
            arrived: Arrived::new(program.mirrors()),
            gates: gates.collect(),
            compiled,
            program,
        }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its tables.
    pub fn tables(&self) -> &[MatchTable] {
        &self.tables
    }

    /// The hash of its code, where the program says which; else that of this secret.
    pub(super) fn hash(&self, secret: [u64; 2]) -> KeyedHash {
        KeyedHash::new(self.program.hash_seed.map_or(secret, |seed| [seed, HASH]))
    }
}

/// In place of the second half of a secret.
const HASH: u64 = u64::from_le_bytes(*b"hashseed");

/// A program with its flows, running.
#[derive(Debug)]
pub struct Running<M> {
    pub(super) loaded: Box<Loaded>,
    /// A flow table for each element that has flows.
    pub(super) flows: Vec<Option<FlowTable<M>>>,
    pub(super) globals: M,
    pub(super) shared: M,
    pub(super) hash: KeyedHash,
    secret: [u64; 2],
    /// Packets of its own making that wait.
    pub emissions: Emissions,
    /// Events that wait.
    pub notices: Notices,
    /// What it has counted.
    pub counts: Counts,
    pub(super) packets: Vec<InHand>,
    pub(super) places: Vec<Place>,
    /// Keys of the packets that have one, one behind the other, and how many there are.
    pub(super) keys: Vec<u64>,
    pub(super) key_count: usize,
    pub(super) found: Vec<Option<Flow>>,
    pub(super) updates: Vec<[u64; KEY_WORDS_MAX]>,
    pub(super) words: FlowWords,
    /// Flows came since the burst was looked up.
    pub(super) has_inserted: bool,
    /// Flows went since then.
    pub(super) has_removed: bool,
}

/// When and where a packet has come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// The burst's time, in ns.
    pub now_ns: u64,
    /// Number of the input link.
    pub input: u8,
}

impl<M: Memory> Running<M> {
    /// A program on its ground. `shared` are words of registers that others use as well, at the
    /// same time ([`Layout::share`]).
    pub fn new(loaded: Box<Loaded>, mut ground: Ground<M>, shared: M) -> Self {
        set_sparing(&mut ground.flows, &loaded.program);
        let in_hand = InHand {
            headers: Headers::default(),
            is_done: false,
            decision: None,
            clones: 0,
            mirrors: 0,
        };
        Self {
            hash: loaded.hash(ground.seed),
            secret: ground.seed,
            emissions: Emissions::of(&loaded.program),
            notices: Notices::new(!loaded.program.events.is_empty()),
            counts: Counts::default(),
            packets: vec![in_hand; BURST_MAX],
            places: vec![Place::default(); BURST_MAX],
            // With room for a whole one behind the last.
            keys: vec![0; (BURST_MAX + 1) * KEY_WORDS_MAX],
            key_count: 0,
            found: vec![None; BURST_MAX],
            updates: vec![[0; KEY_WORDS_MAX]; BURST_MAX],
            words: FlowWords::default(),
            has_inserted: false,
            has_removed: false,
            flows: ground.flows,
            globals: ground.globals,
            shared,
            loaded,
        }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.loaded.program
    }

    /// Whether compiled code runs.
    pub fn is_compiled(&self) -> bool {
        self.loaded.compiled.is_some()
    }

    /// The flows of an element.
    pub fn flows(&self, element: usize) -> Option<&FlowTable<M>> {
        self.flows.get(element)?.as_ref()
    }

    /// The flows of an element, to be changed.
    pub fn flows_mut(&mut self, element: usize) -> Option<&mut FlowTable<M>> {
        self.flows.get_mut(element)?.as_mut()
    }

    /// The tables of the program.
    pub fn tables(&self) -> &[MatchTable] {
        &self.loaded.tables
    }

    /// How often each note was marked: transitions.
    pub fn marks(&self) -> &[u64] {
        &self.loaded.marks
    }

    /// A register of the program.
    pub fn global(&self, global: usize, index: u32) -> Option<u64> {
        let globals = Globals {
            words: self.globals.words(),
            shared: self.shared.words(),
            starts: &self.loaded.global_starts,
        };
        let number = u16::try_from(global).ok()?;
        let all = &self.program().globals;
        let (word, raised) = globals.word(number, u128::from(index), all)?;
        // Pairs with the stores in `Env::set_global` and `Env::step_global`.
        Some(raised.value(word.load(Ordering::Relaxed)))
    }

    /// Runs another program from now on, on the same ground: its [`Layout`] is the same, and it
    /// makes packets and tells events only if the old one did. Gives the old one back.
    pub fn replace(&mut self, loaded: Box<Loaded>) -> Box<Loaded> {
        self.hash = loaded.hash(self.secret);
        // What waits would be told by the names and keys of the other one.
        if !self.loaded.program.tells_as(&loaded.program) {
            self.notices.forget();
        }
        set_sparing(&mut self.flows, &loaded.program);
        std::mem::replace(&mut self.loaded, loaded)
    }

    /// Third step of packet `index` at an element: its code.
    #[inline]
    pub fn step(&mut self, element: usize, index: usize, frame: &mut dyn Frame, arrival: Arrival) {
        self.step_watched(element, index, frame, arrival, &mut Unwatched);
    }

    /// As [`Running::step`], interpreted, with somebody who looks on.
    pub fn step_watched<W: Watch>(
        &mut self,
        element: usize,
        index: usize,
        frame: &mut dyn Frame,
        arrival: Arrival,
        watch: &mut W,
    ) {
        if self.packets[index].is_done || (!W::LOOKS_ON && self.is_shut(element, index)) {
            return;
        }
        // Of an element without flows no key is made: what stands there is another one's.
        let place = match self.flows[element] {
            Some(_) => self.places[index],
            None => Place::default(),
        };
        let (mut part, mut flow, mut facts) = (Part::Body, None, [false; 2]);
        if place.has_key && self.found[usize::from(place.key)].is_none() {
            self.look_ahead(element, usize::from(place.key));
        }
        if let Some(table) = self.flows[element].as_mut() {
            let key = usize::from(place.key);
            let words = table.shape().key_words as usize;
            let key_words = &self.keys[key * words..][..words];
            if place.has_key {
                flow = self.found[key];
                if self.has_removed || (flow.is_none() && self.has_inserted) {
                    flow = table.find(key_words);
                    if let Some(flow) = flow {
                        table.touch(flow, arrival.now_ns);
                    }
                }
                facts = [flow.is_some(), flow.is_none() && table.is_full()];
            } else {
                self.counts.keyless += 1;
                part = Part::Keyless;
            }
            match flow {
                Some(flow) => self.words.load(table.state_words(flow)),
                None => self.words.clear(table.shape().state_words as usize),
            }
            if place.has_key {
                watch.flow(element, key_words, flow.is_some(), &self.words);
            }
        }
        let mut outcome = Outcome::default();
        let part = (element, part);
        let exit = self.run_part(part, index, frame, (arrival, facts), &mut outcome, watch);
        let packet = &mut self.packets[index];
        packet.clones |= outcome.clones;
        packet.is_done = exit != Exit::Next;
        if let Some(verdict) = outcome.verdict {
            packet.decision = Some(Decision::Program(verdict));
        }
        if exit == Exit::NoHeadroom {
            packet.decision = Some(Decision::NoHeadroom);
        }
        if let Some(mark) = outcome.mark
            && let Some(count) = self.loaded.marks.get_mut(usize::from(mark))
        {
            *count += 1;
        }
        if place.has_key {
            watch.written(&self.words);
            self.store(element, index, flow, &outcome, arrival.now_ns);
        }
        self.emissions.make(&self.loaded.program.templates);
        if outcome.mirrors != 0 {
            self.mirror(index, outcome.mirrors);
        }
    }

    /// Whether an element does nothing with a packet.
    #[inline(always)]
    fn is_shut(&self, element: usize, index: usize) -> bool {
        let Some(gate) = self.loaded.gates[element] else {
            return false;
        };
        let count = self.loaded.metadata_count;
        !gate.is_open(&self.loaded.metadata[index * count..][..count])
    }

    /// Runs a part on a packet. What it leaves in slots can be read behind it.
    #[inline(always)]
    pub(super) fn run_part<W: Watch>(
        &mut self,
        (element, part): (usize, Part),
        index: usize,
        frame: &mut dyn Frame,
        (arrival, [is_found, is_full]): (Arrival, [bool; 2]),
        outcome: &mut Outcome,
        watch: &mut W,
    ) -> Exit {
        let Loaded {
            program,
            compiled,
            tables,
            global_starts,
            metadata,
            slots,
            ..
        } = &mut *self.loaded;
        let of = &program.elements[element];
        let Some(code) = code_of(of, part) else {
            return Exit::Next;
        };
        let count = program.metadata.len();
        let metadata = &mut metadata[index * count..][..count];
        let mut env = Env {
            program,
            frame: Some(frame),
            headers: &mut self.packets[index].headers,
            now_ns: arrival.now_ns,
            input: arrival.input,
            is_found,
            is_full,
            registers: registers_of(of),
            flow: &mut self.words,
            globals: Globals {
                words: self.globals.words(),
                shared: self.shared.words(),
                starts: global_starts,
            },
            tables,
            hash: &self.hash,
            outcome,
            emissions: &mut self.emissions,
            notices: &mut self.notices,
        };
        let makes_key = matches!(part, Part::Key | Part::Update);
        if !W::LOOKS_ON
            && !makes_key
            && let Some(compiled) = compiled.as_deref_mut()
            && let Some(exit) = compiled.run(element, part, metadata, &mut env)
        {
            return exit;
        }
        let slots = &mut slots[..code.slots.len().max(count)];
        if count > 0 {
            slots[..count].copy_from_slice(metadata);
        }
        let exit = run_code(
            code,
            (element, part),
            compiled.as_deref_mut(),
            slots,
            &mut env,
            watch,
        );
        if count > 0 {
            metadata.copy_from_slice(&slots[..count]);
        }
        exit
    }

    /// Sends copies of packet `index` as it came to outputs, a bit for each, that have got none.
    #[cold]
    pub(super) fn mirror(&mut self, index: usize, outputs: u64) {
        let packet = &mut self.packets[index];
        let mut left = outputs & !packet.mirrors;
        packet.mirrors |= outputs;
        while left != 0 {
            let output = left.trailing_zeros() as u8;
            left &= left - 1;
            match self.loaded.arrived.get(index) {
                Some(bytes) => {
                    self.emissions
                        .push(output, bytes.len(), |to| to.copy_from_slice(bytes));
                }
                None => self.emissions.lost += 1,
            }
        }
    }

    /// What becomes of packet `index`, and the outputs that get a copy, a bit for each.
    pub fn decision(&self, index: usize) -> (Decision, u64) {
        let packet = &self.packets[index];
        let default = Decision::Program(self.loaded.program.verdict);
        (packet.decision.unwrap_or(default), packet.clones)
    }

    /// The headers of packet `index`.
    pub fn headers(&self, index: usize) -> &Headers {
        &self.packets[index].headers
    }
}

fn code_of(element: &Element, part: Part) -> Option<&Code> {
    match part {
        Part::Key => Some(&element.key.code),
        Part::Update => element.update.as_ref().map(|key| &key.code),
        Part::Body => Some(&element.body),
        Part::Keyless => Some(&element.keyless),
        Part::Timeout => Some(&element.timeout),
    }
}

fn registers_of(element: &Element) -> &[FlowRegister] {
    element.flows.as_ref().map_or(&[], |flows| &flows.registers)
}

/// By compiled code if there is any, and nobody looks on. Slots behind the metadata count as zero.
#[inline]
pub(super) fn run_code<W: Watch>(
    code: &Code,
    (element, part): (usize, Part),
    compiled: Option<&mut (dyn Compiled + 'static)>,
    slots: &mut [u128],
    env: &mut Env<'_>,
    watch: &mut W,
) -> Exit {
    if !W::LOOKS_ON
        && let Some(compiled) = compiled
        && let Some(exit) = compiled.run(element, part, slots, env)
    {
        return exit;
    }
    interpret::run_anew(code, slots, env, watch)
}
