//! What a running program is asked: flows, registers, tables, events, traces, another program.
//!
//! Beside packets. The control half makes what takes time (another program, with its tables and its
//! compiled code; tables that follow from one that is changed; keys and registers of flows that are
//! set) and sends it over whole; all else the data half answers between two bursts, a bounded part
//! at a time.
//!
//! | request | answer |
//! |---|---|
//! | `{"show": "flows", ...}` | see `flows` |
//! | `{"set_flow": ELEMENT, ...}`, `{"end_flow": ELEMENT, ...}` | see `outside` |
//! | `{"show": "globals"}`, `{"show": "transitions"}`, `{"show": "program"}` | registers; counts of transitions; what runs |
//! | `{"show": "table", "table": NAME}` | its entries |
//! | `{"set": NAME, "key": [...], "data": {...}, "priority": N}`, `{"remove": NAME, "key": [...]}` | changes a table |
//! | `{"events": N}` | up to N events, which are then gone: with their values, or a flow's key and the states that it was and is in |
//! | `{"set": NAME, "entries": [{"key": [...], ...}, ...]}`, `{"remove": NAME, "entries": [...]}` | the same of many at once, all or none |
//! | `{"trace": N}`, then `{"show": "traces"}` | the next N packets, N up to 64 |
//! | `{"program": {...}}` | runs another program of the same layout; flows stay |
//!
//! What changes tables or the program is kept with the chain (`amending`).

use catena_engine::nf::Verdict as NfVerdict;
use catena_engine::nf::exchange::{BUSY, ControlEnd, Handled, NfControl};
use catena_shm::state::StateWords;
use serde_json::{Value, json};

use super::flows;
use super::interface::Interface;
use super::outside::{self, Changes, FlowChange};
use super::planned::{Engine, Planned, config_errors, load};
use super::request::{entries, text_of};
use super::sharding::GLOBAL_COUNT_SHOWN;
use crate::efsm::{Document, compile};
use crate::program::entries::{Change, Tables};
use crate::program::frame::Frame;
use crate::program::ir::Element;
use crate::program::layout::{Layout, Numbers, Portion};
use crate::program::queue::Notice;
use crate::program::run::{Arrival, Loaded, Running};
use crate::program::table::{MatchTable, Pattern, TableEntry, TableShape};
use crate::program::trace::{ElementTrace, Tracer, key_values};

/// Flows of an answer, at most; and places that are looked at for them.
const FLOW_COUNT_MAX: u64 = 1000;
/// Events of an answer, at most.
const EVENT_COUNT_MAX: u64 = 1024;
/// Values that wait between the halves.
pub(super) const EXCHANGE_CAPACITY: usize = 64;
/// Packets that are traced for one request, at most.
const TRACE_COUNT_MAX: usize = 64;

/// What the control half sends.
#[derive(Debug)]
pub(super) enum Down {
    /// Another program to run.
    Program(Box<Loaded>),
    /// Other entries of its tables.
    Tables(Change),
    /// Flows to be set or ended.
    Flows(FlowChange),
}

/// What comes back, to be freed: what came down, with what was in its place.
#[derive(Debug)]
pub(super) struct Up {
    _old: Down,
}

impl Down {
    pub(super) fn act(self, running: &mut Flows, answers: &mut Answers) -> Up {
        let _old = match self {
            Self::Program(loaded) => Self::Program(running.replace(loaded)),
            Self::Tables(mut change) => {
                // It was made of the tables that are here, and has fitted there.
                let _ = running.take(&mut change);
                Self::Tables(change)
            }
            Self::Flows(change) => {
                answers.changes.make(&change, running, answers.now_ns);
                Self::Flows(change)
            }
        };
        Up { _old }
    }
}

/// The control half.
#[derive(Debug)]
pub(super) struct Control {
    to_data: ControlEnd<Down, Up>,
    interface: Interface,
    /// Values that have not come back.
    sent: usize,
    /// Of the program that runs, with all that was changed.
    tables: Tables,
    /// Of that program, for their names.
    elements: Vec<Element>,
    layout: Numbers,
    engine: Engine,
}

impl Control {
    pub(super) fn new(
        to_data: ControlEnd<Down, Up>,
        interface: Interface,
        (tables, elements): (Tables, Vec<Element>),
        layout: Numbers,
        engine: Engine,
    ) -> Self {
        Self {
            to_data,
            sent: 0,
            interface,
            tables,
            elements,
            layout,
            engine,
        }
    }

    /// Sets or removes an entry of a table.
    fn change(&mut self, name: &str, request: &Value, is_set: bool) -> Result<Value, String> {
        self.has_room()?;
        let number = table(self.tables.all(), name)?;
        let shape = self.tables.all()[number].shape();
        let entries = entries(request)?.map(|one| entry(shape, one));
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        let change = match (entries.pop(), is_set) {
            (Some(entry), true) if entries.is_empty() => self.tables.set(number, entry),
            (Some(entry), false) if entries.is_empty() => self.tables.remove(number, &entry.key),
            (last, true) => self.tables.set_all(number, {
                entries.extend(last);
                entries
            }),
            (last, false) => {
                let keys = entries.into_iter().chain(last).map(|one| one.key);
                self.tables.remove_all(number, keys.collect())
            }
        };
        let change = change.map_err(|error| error.to_string())?;
        self.send(Down::Tables(change))?;
        Ok(json!({"entries": self.tables.all()[number].len()}))
    }

    /// Whether the data half can be sent another value.
    fn has_room(&mut self) -> Result<(), String> {
        while self.to_data.receive().is_some() {
            self.sent = self.sent.saturating_sub(1);
        }
        let has_room = self.sent < EXCHANGE_CAPACITY;
        has_room.then_some(()).ok_or_else(|| BUSY.to_owned())
    }

    /// Sends it one; there is room.
    fn send(&mut self, value: Down) -> Result<(), String> {
        self.sent += 1;
        let sent = self.to_data.send(Box::new(value));
        sent.map_err(|_| BUSY.to_owned())
    }

    /// Has the data half set or end flows; it answers.
    fn change_flows(&mut self, asked: (&str, &str), request: &Value) -> Result<(), String> {
        if self.interface.sharding.is_some() {
            return Err(format!(
                "{} goes to all shards, and a flow is in one of them: only a node without shards \
                 takes it",
                asked.0
            ));
        }
        self.has_room()?;
        let change = outside::change(&self.elements, asked, request)?;
        self.send(Down::Flows(change))
    }

    fn replace(&mut self, program: &Value) -> Result<Value, String> {
        self.has_room()?;
        let document: Document =
            serde_json::from_value(program.clone()).map_err(|error| error.to_string())?;
        let compiled = compile(&document).map_err(|problems| {
            let errors = config_errors("program", problems);
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            lines.join("; ")
        })?;
        let program = compiled.program;
        let layout = Layout::of(&program);
        let [own, shared] = self.layout;
        if layout.number == own && layout.shared_number != shared {
            return Err(
                "its shared registers are others (names, widths, counts or initial \
                        values): change the chain file and use catena apply, which begins them anew"
                    .to_owned(),
            );
        }
        if layout.number != own {
            return Err(
                "its flows have another layout (key, registers, states or size): change \
                        the chain file and use catena apply, which begins with no flows"
                    .to_owned(),
            );
        }
        if Interface::of(&program, self.interface.sharding.is_some()) != self.interface {
            return Err(
                "it has other outputs or drop reasons, changes or makes packets where the \
                        one that runs does not, or splits them otherwise among its \
                        shards: change the chain file and use catena apply"
                    .to_owned(),
            );
        }
        let (loaded, notice) = load(Planned {
            program,
            layout,
            engine: self.engine,
        });
        self.tables = Tables::of(loaded.tables());
        self.elements.clone_from(&loaded.program().elements);
        self.send(Down::Program(Box::new(loaded)))?;
        let warnings: Vec<String> = compiled
            .warnings
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .chain(notice)
            .collect();
        Ok(json!({"warnings": warnings}))
    }
}

/// Whether a request only has the data half do something, whatever else it says.
pub(super) fn acts(request: &Value) -> bool {
    request.get("trace").is_some_and(Value::is_u64) || request.get("events").is_some()
}

impl NfControl for Control {
    fn control(&mut self, request: &Value) -> Handled {
        if let Some(program) = request.get("program") {
            return Handled::Answered(self.replace(program));
        }
        if acts(request) {
            return Handled::Passed;
        }
        for (key, is_set) in [("set", true), ("remove", false)] {
            if let Some(name) = request.get(key).and_then(Value::as_str) {
                return Handled::Answered(self.change(name, request, is_set));
            }
        }
        let changed = outside::is_asked(request).map(|asked| self.change_flows(asked, request));
        match changed {
            Some(Err(error)) => Handled::Answered(Err(error)),
            Some(Ok(())) | None => Handled::Passed,
        }
    }
}

/// A packet that was traced.
#[derive(Debug, serde::Serialize)]
struct PacketTrace {
    /// Its place in its burst.
    #[serde(skip)]
    index: usize,
    #[serde(skip)]
    is_whole: bool,
    /// When, in ns.
    now_ns: u64,
    /// Its length.
    len: usize,
    /// Its headers when it came.
    headers: Vec<&'static str>,
    elements: Vec<ElementTrace>,
    verdict: String,
}

/// What the data half answers, and what it notes down for answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The time of the last burst or turn: a request brings none.
    pub(super) now_ns: u64,
    wanted: usize,
    traces: Vec<PacketTrace>,
    changes: Changes,
}

type Flows = Running<Portion<StateWords>>;

impl Answers {
    /// Runs a packet's code while it is traced; `false` if it is not to be.
    pub(super) fn step(
        &mut self,
        running: &mut Flows,
        element: usize,
        index: usize,
        frame: &mut dyn Frame,
        arrival: Arrival,
    ) -> bool {
        if self.wanted == 0 {
            return false;
        }
        if element == 0 && self.traces.len() < self.wanted {
            self.traces.push(PacketTrace {
                index,
                is_whole: false,
                now_ns: arrival.now_ns,
                len: frame.bytes().len(),
                headers: running
                    .headers(index)
                    .present()
                    .map(|one| one.name())
                    .collect(),
                elements: Vec::new(),
                verdict: String::new(),
            });
        }
        let traced = |one: &&mut PacketTrace| !one.is_whole && one.index == index;
        let Some(trace) = self.traces.iter_mut().find(traced) else {
            return false;
        };
        let seen = running.step_traced(element, index, frame, arrival);
        trace.elements.push(seen);
        true
    }

    /// A packet has got its verdict.
    pub(super) fn decided(&mut self, index: usize, verdict: NfVerdict) {
        if self.wanted == 0 {
            return;
        }
        let traced = |one: &&mut PacketTrace| !one.is_whole && one.index == index;
        if let Some(trace) = self.traces.iter_mut().find(traced) {
            trace.is_whole = true;
            trace.verdict = format!("{verdict:?}");
        }
        if self.traces.len() == self.wanted && self.traces.iter().all(|one| one.is_whole) {
            self.wanted = 0;
        }
    }

    pub(super) fn answer(&mut self, running: &mut Flows, request: &Value) -> Result<Value, String> {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let number = |key: &str, most: u64| {
            request
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or(most)
                .min(most)
        };
        if let Some(count) = request.get("trace").and_then(Value::as_u64) {
            self.wanted = TRACE_COUNT_MAX.min(usize::try_from(count).unwrap_or(TRACE_COUNT_MAX));
            self.traces = Vec::with_capacity(self.wanted);
            return Ok(json!({"packets": self.wanted}));
        }
        if request.get("events").is_some() {
            return Ok(events(running, number("events", EVENT_COUNT_MAX)));
        }
        if outside::is_asked(request).is_some() {
            return self.changes.answer();
        }
        match text("show") {
            Some("flows") => {
                let from = number("from", u64::from(u32::MAX));
                let from = if request.get("from").is_some() {
                    from
                } else {
                    0
                };
                let count = number("count", FLOW_COUNT_MAX);
                flows::shown(running, text("element"), from, count)
            }
            Some("globals") => Ok(globals(running)),
            Some("transitions") => Ok(transitions(running)),
            Some("table") => {
                let name = text("table").ok_or("which table? add \"table\": NAME")?;
                let table = table(running.tables(), name)?;
                Ok(running.tables()[table]
                    .entries()
                    .map(|entry| shown(&entry))
                    .collect())
            }
            Some("traces") => serde_json::to_value(&self.traces).map_err(|error| error.to_string()),
            Some("program") => {
                let names = running.program().elements.iter().map(|one| &*one.name);
                let runs = if running.is_compiled() {
                    "compiled"
                } else {
                    "interpreted"
                };
                Ok(json!({"elements": names.collect::<Vec<_>>(), "runs": runs}))
            }
            _ => Err(
                "flow answers {\"show\": \"flows\"}, globals, transitions, table, traces or \
                      program; {\"set\": TABLE, ...}, {\"remove\": TABLE, ...}, \
                      {\"set_flow\": ELEMENT, ...}, {\"end_flow\": ELEMENT, ...}, \
                      {\"events\": N}, {\"trace\": N} and {\"program\": {...}}"
                    .to_owned(),
            ),
        }
    }
}

impl Running<Portion<StateWords>> {
    /// As [`Running::step_watched`], with all that was seen.
    fn step_traced(
        &mut self,
        element: usize,
        index: usize,
        frame: &mut dyn Frame,
        arrival: Arrival,
    ) -> ElementTrace {
        // A copy, since the program is borrowed by what it runs on: for few packets, on demand.
        let program = self.program().clone();
        let mut tracer = Tracer::new(&program, element);
        self.step_watched(element, index, frame, arrival, &mut tracer);
        tracer.finish()
    }
}

fn globals(running: &Flows) -> Value {
    let globals = &running.program().globals;
    let values = globals.iter().enumerate().map(|(number, global)| {
        let shown = global.count.min(GLOBAL_COUNT_SHOWN);
        let all: Vec<u64> = (0..shown)
            .filter_map(|index| running.global(number, index))
            .collect();
        let value = if global.count == 1 {
            all.first().copied().into()
        } else {
            json!(all)
        };
        (global.name.clone(), value)
    });
    Value::Object(values.collect())
}

fn transitions(running: &Flows) -> Value {
    let marks = running.marks().iter().zip(&running.program().notes);
    let marks = marks.filter(|(count, _)| **count > 0);
    Value::Object(
        marks
            .map(|(count, note)| (note.clone(), (*count).into()))
            .collect(),
    )
}

fn events(running: &mut Flows, count: u64) -> Value {
    let mut found = Vec::new();
    for _ in 0..count {
        let Some(notice) = running.notices.pop() else {
            break;
        };
        let program = running.program();
        let name = program.events.get(usize::from(notice.event));
        found.push(match program.changes_of(notice.event) {
            Some(element) => {
                let [from, to] = states(element, &notice);
                let key = flows::values(&key_values(element, &notice.key));
                json!({"event": name, "now_ns": notice.now_ns, "key": key, "from": from, "to": to})
            }
            None => {
                let values = notice.values().iter().map(ToString::to_string);
                let values: Vec<String> = values.collect();
                json!({"event": name, "now_ns": notice.now_ns, "values": values})
            }
        });
    }
    json!({"events": found, "lost": running.notices.lost})
}

/// Names of the states before and behind a change; the second is null if the flow has ended.
fn states(element: &Element, notice: &Notice) -> [Option<String>; 2] {
    let states = element
        .flows
        .as_ref()
        .map_or(&[][..], |flows| &flows.states);
    [0, 1].map(|at| {
        let label = usize::try_from(*notice.values().get(at)?).ok()?;
        states.get(label).cloned()
    })
}

fn table(tables: &[MatchTable], name: &str) -> Result<usize, String> {
    let found = tables.iter().position(|table| table.shape().name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = tables.iter().map(|table| &*table.shape().name).collect();
        format!("there is no table {name}; there are: {}", names.join(", "))
    })
}

/// An entry of a request: patterns and data as in a program.
pub(super) fn entry(shape: &TableShape, request: &Value) -> Result<TableEntry, String> {
    let keys = request
        .get("key")
        .and_then(Value::as_array)
        .ok_or("add \"key\": [...]")?;
    if keys.len() != shape.key.len() {
        return Err(format!("the table's key has {} parts", shape.key.len()));
    }
    let mut key = Vec::new();
    for (value, (kind, width)) in keys.iter().zip(&shape.key) {
        key.push(crate::efsm::pattern(&text_of(value), *kind, *width)?);
    }
    let mut data = shape.default.clone();
    let given = request.get("data").and_then(Value::as_object);
    for (name, value) in given.into_iter().flatten() {
        let at = shape.data.iter().position(|(known, _)| known == name);
        let at = at.ok_or_else(|| format!("the table has no {name}"))?;
        let exact = crate::program::table::Match::Exact;
        match crate::efsm::pattern(&text_of(value), exact, shape.data[at].1)? {
            Pattern::Masked(number, _) => data[at] = number,
            Pattern::Range(..) => return Err(format!("{name} is one number")),
        }
    }
    let priority = request.get("priority").and_then(Value::as_u64).unwrap_or(0);
    Ok(TableEntry {
        key,
        priority: u32::try_from(priority).unwrap_or(u32::MAX),
        data,
    })
}

fn shown(entry: &TableEntry) -> Value {
    let key = entry.key.iter().map(|pattern| match pattern {
        Pattern::Masked(bits, mask) => format!("{bits:#x}/{mask:#x}"),
        Pattern::Range(from, to) => format!("{from}-{to}"),
    });
    let data: Vec<String> = entry.data.iter().map(ToString::to_string).collect();
    json!({"key": key.collect::<Vec<_>>(), "priority": entry.priority, "data": data})
}
