//! Shards of the NF `flow`: by the key of its program, if the program has one that a splitter can
//! know.
//!
//! Before any packet: whether a program can be split, and why not. Then in the loops of those who
//! send to the shards: the key's code runs on each packet, and packets of one key go to one shard.
//! So whatever is a flow to the program (both directions of a connection, what a tunnel carries, a
//! tunnel's end) has its state in one place.

use catena_engine::config::ConfigErrors;
use catena_engine::shard::table::Buckets;
use catena_engine::shard::{Choice, Chooser, OwnKey, Sharding};
use serde_json::{Value, json};

use super::planned::{load, plan};
use crate::KeyedHash;
use crate::program::field::ones;
use crate::program::ir::{Element, Fact, Key, Op, Program, Scope, Value as Operand};
use crate::program::keys::Keys;

/// Registers of an array that are shown, at most.
pub(super) const GLOBAL_COUNT_SHOWN: u32 = 1024;

/// Apart from the seeds of flow tables, which are random, and of the engine's own hash.
pub(super) const SEED_OF_SHARDS: u64 = 0x666c_6f77;

/// Whether a program can run in shards: as a sentence about its node if not.
pub(super) fn of(program: &Program) -> Sharding {
    match whole(program) {
        Err(why) => Sharding::No(why.into()),
        Ok(None) => Sharding::Any,
        Ok(Some(_)) => Sharding::Own(OwnKey(chooser)),
    }
}

/// What decides which shard a packet belongs to, as a text that is the same for the same keys. A
/// program takes the place of another one in shards only if its text is the same, since splitters
/// go on with the first one's.
pub(super) fn signature(program: &Program) -> String {
    match whole(program) {
        Err(why) => why,
        Ok(None) => String::new(),
        Ok(Some(element)) => {
            let key = shown(&program.elements[element].key);
            format!("{key} {:?}", program.hash_seed)
        }
    }
}

/// What a key is made of, but for the names of its parts.
fn shown(key: &Key) -> String {
    let mut key = key.clone();
    key.parts.iter_mut().for_each(|part| part.name.clear());
    format!("{key:?}")
}

/// The element whose key decides, if there are flows at all.
fn whole(program: &Program) -> Result<Option<usize>, String> {
    let keyed: Vec<usize> = (0..program.elements.len())
        .filter(|number| program.elements[*number].flows.is_some())
        .collect();
    let (Some(&first), Some(&last)) = (keyed.first(), keyed.last()) else {
        return Ok(None);
    };
    let key = &program.elements[first].key;
    for &number in &keyed {
        let element = &program.elements[number];
        known_from_packets(element, program.hash_seed.is_some())?;
        if element
            .update
            .as_ref()
            .is_some_and(|update| shown(update) != shown(&element.key))
        {
            return Err(format!(
                "its element {} writes flows of another key than it reads",
                element.name
            ));
        }
        if shown(&element.key) != shown(key) {
            return Err(format!(
                "its elements {} and {} have different keys",
                program.elements[first].name, element.name
            ));
        }
    }
    let in_front = &program.elements[..last];
    if let Some(element) = in_front.iter().find(|element| element.writes()) {
        return Err(format!(
            "its element {} changes packets before {} reads their keys",
            element.name, program.elements[last].name
        ));
    }
    if last > 0 && reads_metadata(key, program.metadata.len()) {
        return Err(format!(
            "the key of its element {} depends on metadata",
            program.elements[last].name
        ));
    }
    Ok(Some(first))
}

/// Whether a splitter, which sees a packet and nothing else, can make the key.
fn known_from_packets(element: &Element, knows_hash: bool) -> Result<(), String> {
    let what = element.key.code.ops().find_map(|op| match op {
        Op::Lookup { .. } => Some("a table"),
        Op::Hash { .. } if !knows_hash => {
            Some("a hash, which each shard has of its own: write hash_seed")
        }
        Op::Fact { fact, .. } => match fact {
            Fact::Input | Fact::Len => None,
            Fact::Now => Some("the time"),
            Fact::Tag => Some("the packet's tag"),
            Fact::Found | Fact::Full => Some("what is known of flows"),
        },
        _ => None,
    });
    match what {
        None => Ok(()),
        Some(what) => Err(format!(
            "the key of its element {} depends on {what}",
            element.name
        )),
    }
}

/// Whether a key's code reads one of the first `count` slots: metadata, which elements in front may
/// have written. What it has written itself counts too: it may be read on one way only.
fn reads_metadata(key: &Key, count: usize) -> bool {
    let is_metadata = |value: &Operand| match value {
        Operand::Slot(slot) => usize::from(*slot) < count,
        Operand::Const(..) => false,
    };
    let of_parts = key.parts.iter().map(|part| part.slot);
    let mut kept = of_parts.chain([key.present]).map(Operand::Slot);
    kept.any(|slot| is_metadata(&slot))
        || key.code.ops().any(|op| match op {
            Op::Set { from, .. } | Op::Resize { from, .. } | Op::Slice { from, .. } => {
                is_metadata(from)
            }
            Op::Unary { a, .. } => is_metadata(a),
            Op::Binary { a, b, .. } => [a, b].into_iter().any(is_metadata),
            Op::Select {
                when,
                then,
                otherwise,
                ..
            } => [when, then, otherwise].into_iter().any(is_metadata),
            Op::Concat { high, low, .. } => [high, low].into_iter().any(is_metadata),
            Op::Bytes { at, .. } => is_metadata(at),
            _ => false,
        })
}

/// Registers that are one value of the node, of what shards answer to `{"show": "globals"}`. Those
/// that are `merged` are summed, in their width, as one register would have counted, from its
/// initial value on; one that is `shared` is what any shard says, here the first.
pub(super) fn sum(config: &Value, request: &Value, answers: &[&Value]) -> Option<Value> {
    if request.get("show").and_then(Value::as_str) != Some("globals") {
        return None;
    }
    let program = plan(config).ok()?.program;
    let whole = program.globals.iter();
    let whole = whole.filter(|global| global.scope != Scope::PerCore);
    let sums = whole.map(|global| {
        if global.scope == Scope::Shared {
            let first = answers.first().map(|answer| answer[&global.name].clone());
            return (global.name.clone(), first.unwrap_or_default());
        }
        let add = |a: u64, b: &Value| a.wrapping_add(b.as_u64().unwrap_or(0));
        let others = (answers.len() as u64).saturating_sub(1);
        let begun = global.initial.wrapping_mul(others);
        let within = |sum: u64| sum.wrapping_sub(begun) & ones(global.width) as u64;
        let of_shards = answers.iter().map(|answer| &answer[&global.name]);
        let value = match global.count {
            1 => json!(within(of_shards.fold(0, add))),
            count => {
                let at = |at: u32| of_shards.clone().map(move |all| &all[at as usize]);
                let shown = 0..count.min(GLOBAL_COUNT_SHOWN);
                shown.map(|one| within(at(one).fold(0, add))).collect()
            }
        };
        (global.name.clone(), value)
    });
    let sums: serde_json::Map<String, Value> = sums.collect();
    (!sums.is_empty()).then_some(Value::Object(sums))
}

fn chooser(config: &Value, choice: Choice) -> Result<Box<dyn Chooser>, ConfigErrors> {
    let planned = plan(config)?;
    let element = whole(&planned.program).ok().flatten().unwrap_or(0);
    let (loaded, _) = load(planned);
    let keys = Keys::new(Box::new(loaded), element);
    Ok(Box::new(ByKey {
        keys,
        hash: KeyedHash::new([choice.seed, SEED_OF_SHARDS]),
        buckets: Buckets::of(choice.shards),
        input: choice.input,
    }))
}

/// Chooses by the program's key.
struct ByKey {
    /// None if the program has no flows.
    keys: Option<Keys>,
    hash: KeyedHash,
    buckets: Buckets,
    input: u8,
}

impl Chooser for ByKey {
    fn shard_of(&mut self, packet: &[u8]) -> Option<u8> {
        let (key, words) = self.keys.as_mut()?.of(packet, self.input)?;
        Some(self.buckets.shard_of(self.hash.hash(&key[..words])))
    }
}
