//! Snapshots: sessions in a file, for a UPF that begins where nothing is left of its memory.
//!
//! Beside a packet's life. What a UPF has is asked of it page by page between its bursts, and
//! whoever asks writes the lines to a file ([`Writer`]); a UPF that is built over new memory reads
//! it ([`restore`]). Each session is whole, of the instant at which its page was asked for; pages
//! of higher slots are later. A file that is not what it says, or is of other settings, is refused
//! whole, and one whose reader is killed is read again by the next one.
//!
//! ```text
//! {"catena_upf_snapshot":1,"shape":{..},"now_ns":..,"recovery":..,"associations":[..],
//!  "pfds":"..",..}
//! {"slots":[[0,"image in hexadecimal"],..],"now_ns":..}
//! {"end":<lines before>,"sum":"<FNV-1a of them, each with its end>"}
//! ```
//!
//! Time stands still while there is no UPF: what was 10 s ago when a page was asked for is 10 s ago
//! when it is read, but no earlier than the machine's start. Limit: [`SESSIONS_AT_ONCE`] sessions
//! in a page. Held packets, meters and what was learned of connections are not in it.

use std::io::{BufRead, Seek};

use catena_flow::efsm::{hex, to_hex};
use serde_json::{Value, json};

use crate::association::{ASSOCIATION_COUNT, Association};
use crate::config::SnapshotConfig;
use crate::model::Session;
use crate::monitoring;
use crate::path_qos::control::PathControls;
use crate::places::Places;
use crate::rules::{Head, PacketRate, Usage};
use crate::settings::Settings;
use crate::store::{LAYOUT, Memory, Store};
use crate::stored::{List, Stored};

mod file;

use file::{KIND, Lines, damaged};
pub use file::{Writer, is_of, is_same};

/// Sessions in one answer, for which packets wait.
pub const SESSIONS_AT_ONCE: usize = 16;
/// Slots that are looked at for it.
const SLOTS_AT_ONCE: u32 = 4096;

/// What must be the same where a file is read: places in rules mean the same then.
fn shape(settings: &Settings) -> Value {
    let names = |names: Vec<&[u8]>| names.into_iter().map(to_hex).collect::<Vec<_>>();
    let interfaces = settings.interfaces.iter().map(|one| one.name.as_bytes());
    let instances = settings.instances.iter().map(Vec::as_slice);
    let policies = settings.policies.iter().map(|one| one.name.as_bytes());
    json!({
        "layout": LAYOUT, "sessions": settings.sessions, "bytes": settings.session_bytes,
        "shard": settings.shard.0, "shards": settings.shard.1,
        "interfaces": names(interfaces.collect()), "instances": names(instances.collect()),
        "policies": names(policies.collect()),
    })
}

/// A page of what a store has, from a slot on: its lines, and which slot is next.
pub(crate) fn page(store: &Store, settings: &Settings, from: u32, now_ns: u64) -> Value {
    let mut lines = Vec::new();
    if from == 0 {
        let associations = (0..ASSOCIATION_COUNT).filter_map(|number| {
            let one = store.association(number);
            let mut bytes = vec![0; Association::LEN];
            one.store(&mut bytes);
            one.is_some().then(|| json!([number, to_hex(&bytes)]))
        });
        let controls = (0..ASSOCIATION_COUNT).filter_map(|number| {
            let all = store.path_controls(number);
            let mut bytes = vec![0; PathControls::LEN];
            all.store(&mut bytes);
            (!all.as_slice().is_empty()).then(|| json!([number, to_hex(&bytes)]))
        });
        let head = json!({
            KIND: 1, "shape": shape(settings), "now_ns": now_ns, "recovery": store.recovery(),
            "associations": associations.collect::<Vec<_>>(), "pfds": to_hex(store.pfds()),
            "path_controls": controls.collect::<Vec<_>>(),
        });
        lines.push(head.to_string());
    }
    let end = store.fresh().min(from.saturating_add(SLOTS_AT_ONCE));
    let (mut slot, mut images) = (from, Vec::new());
    while slot < end && images.len() < SESSIONS_AT_ONCE {
        let is_used = store.head(slot).seid != 0;
        if let Some(session) = is_used.then(|| store.session(slot)).flatten() {
            let mut bytes = vec![0; session.image_len()];
            session.write(&mut bytes);
            images.push(json!([slot, to_hex(&bytes)]));
        }
        slot += 1;
    }
    let next = (slot < store.fresh()).then_some(slot);
    lines.push(json!({ "slots": images, "now_ns": now_ns }).to_string());
    json!({ "lines": lines, "next": next })
}

fn pair(value: &Value) -> Option<(u64, Vec<u8>)> {
    Some((value[0].as_u64()?, hex(value[1].as_str()?)?))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Puts what is common to all sessions back.
fn read_head(head: &Value, settings: &Settings, store: &mut Store) -> Result<(), String> {
    if head[KIND] != 1 {
        return Err("it is no snapshot of a UPF that this version knows".to_owned());
    }
    if head["shape"] != shape(settings) {
        return Err("it is of other settings, or of another version".to_owned());
    }
    let recovery = head["recovery"].as_u64();
    let recovery = recovery.and_then(|one| one.try_into().ok());
    store.set_recovery(recovery.ok_or_else(damaged)?);
    let pfds = head["pfds"].as_str().and_then(hex).ok_or_else(damaged)?;
    store.set_pfds(&pfds);
    for one in list(&head["associations"]) {
        let (at, bytes) = of_association(one, Association::LEN)?;
        store.set_association(at, &Association::load(&bytes));
    }
    for one in list(&head["path_controls"]) {
        let (at, bytes) = of_association(one, PathControls::LEN)?;
        store.set_path_controls(at, &PathControls::load(&bytes));
    }
    Ok(())
}

/// The number of an association, and a record of so many bytes.
fn of_association(one: &Value, len: usize) -> Result<(usize, Vec<u8>), String> {
    let (at, bytes) = pair(one).ok_or_else(damaged)?;
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    match at < ASSOCIATION_COUNT && bytes.len() == len {
        true => Ok((at, bytes)),
        false => Err(damaged()),
    }
}

/// A session as a page has it, and its slot.
fn read_session(one: &Value, settings: &Settings) -> Option<(u32, Session)> {
    let (slot, bytes) = pair(one)?;
    let slot = u32::try_from(slot).ok()?;
    let has_head = bytes.len() >= Head::LEN;
    let session = has_head.then(|| Session::read(&bytes)).flatten();
    let fits = |one: &Session| {
        slot < settings.sessions
            && one.image_len() == bytes.len()
            && bytes.len() <= settings.session_bytes
            && Store::slot_in(one.head.seid) == Some(slot)
    };
    Some((slot, session.filter(fits)?))
}

/// Puts what a file has, which was written for these settings, into a store that nobody finds yet;
/// how many sessions.
fn read(
    file: &mut (impl BufRead + Seek),
    settings: &Settings,
    now_ns: u64,
    store: &mut Store,
) -> Result<usize, String> {
    let mut lines = Lines::of(file)?;
    let head = lines.next()?.ok_or_else(damaged)?;
    read_head(&head, settings, store)?;
    let (mut last, mut count) = (None, 0);
    while let Some(page) = lines.next()? {
        let then_ns = page["now_ns"].as_u64().ok_or_else(damaged)?;
        for one in list(&page["slots"]) {
            let (slot, mut session) = read_session(one, settings).ok_or_else(damaged)?;
            // Behind each other, each slot once.
            if last >= Some(slot) {
                return Err(damaged());
            }
            (last, count) = (Some(slot), count + 1);
            Shift { then_ns, now_ns }.session(&mut session);
            // What was to be swept was swept, or its request is repeated.
            session.head.sweeps = 0;
            store.put_back(slot, &session);
        }
    }
    Ok(count)
}

/// Moves instants from one run of the engine's clock to another: `then` was what `now` is.
#[derive(Clone, Copy)]
struct Shift {
    then_ns: u64,
    now_ns: u64,
}

impl Shift {
    const fn of(self, at_ns: u64) -> u64 {
        match at_ns > self.then_ns {
            true => self.now_ns.saturating_add(at_ns - self.then_ns),
            false => self.now_ns.saturating_sub(self.then_ns - at_ns),
        }
    }

    fn usage(self, usage: &mut Usage) {
        usage.start_ns = self.of(usage.start_ns);
        usage.first_ns = usage.first_ns.map(|at_ns| self.of(at_ns));
        usage.last_ns = usage.last_ns.map(|at_ns| self.of(at_ns));
    }

    fn rate(self, rate: &mut PacketRate) {
        if rate.ends_ns > 0 {
            rate.ends_ns = self.of(rate.ends_ns);
        }
    }

    /// All instants of a session. Meters begin anew.
    fn session(self, session: &mut Session) {
        session.head.last_packet_ns = self.of(session.head.last_packet_ns);
        for urr in &mut session.urrs {
            for at_ns in [
                &mut urr.active_ns,
                &mut urr.counted_to_ns,
                &mut urr.quota_at_ns,
                &mut urr.period_at_ns,
            ] {
                *at_ns = self.of(*at_ns);
            }
            urr.envelope_ns = urr.envelope_ns.map(|at_ns| self.of(at_ns));
            self.usage(&mut urr.usage);
            if let Some(before) = &mut urr.before {
                self.usage(before);
            }
            let mut events = List::default();
            for event in urr.events.as_slice() {
                let at_ns = self.of(u64::from(*event) * 1_000_000_000);
                events.push(u32::try_from(at_ns / 1_000_000_000).unwrap_or(u32::MAX));
            }
            urr.events = events;
        }
        for qer in &mut session.qers {
            (qer.ul_meter, qer.dl_meter) = ([0; 2], [0; 2]);
            self.rate(&mut qer.ul_packets);
            self.rate(&mut qer.dl_packets);
        }
        monitoring::shift(session, |at_ns| self.of(at_ns));
    }
}

/// Puts what a file has into memory in which nothing is kept; how many sessions, or why none. With
/// what is kept, which is newer, the file is left alone. Until all is in it, memory is as new for
/// whoever opens it: a kill in between loses nothing.
pub fn restore(
    memory: Memory,
    settings: &Settings,
    now_ns: u64,
    file: &mut (impl BufRead + Seek),
) -> (Memory, Result<Option<usize>, String>) {
    let mut store = Store::begin(memory, settings.session_bytes, settings.sessions, 0);
    store.set_shard(settings.shard.0);
    if !store.is_new() {
        return (store.into_memory(), Ok(None));
    }
    store.begin_places(&Places::of(settings));
    let restored = read(file, settings, now_ns, &mut store);
    if restored.is_ok() {
        store.remember();
    }
    (store.into_memory(), restored.map(Some))
}

impl SnapshotConfig {
    /// The file of one shard of so many: both who writes it and who reads it ask here.
    pub fn file_of(&self, (shard, count): (u16, u16)) -> String {
        match count {
            1 => self.file.clone(),
            _ => format!("{}.{shard}", self.file),
        }
    }
}

#[cfg(test)]
mod tests;
