//! Where packets of a simulated chain come from, and where they end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::Random;
use super::fuse::FUSE;
use crate::chain::Registry;
use crate::nf::Nanos;
use crate::port::{Port, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst};

/// What has come and gone in this history.
#[derive(Debug)]
pub(super) struct Account {
    random: Random,
    /// Packets that sources have given.
    pub(super) given: u64,
    /// Packets that sinks have taken.
    pub(super) taken: u64,
    /// How many more packets sources give.
    pub(super) left: u64,
    /// Whether sinks take nothing.
    is_blocked: bool,
    lives: u64,
    /// By number of a sink and life of a source, the last packet that has arrived.
    last: BTreeMap<(u64, u64), u64>,
    /// Packets that came twice, or late.
    pub(super) wrong: Vec<String>,
}

thread_local! {
    pub(super) static ACCOUNT: RefCell<Account> = RefCell::new(Account::new(0, 0));
}

/// Has sinks take nothing, or go on.
pub(super) fn block(is_blocked: bool) {
    ACCOUNT.with_borrow_mut(|account| account.is_blocked = is_blocked);
}

/// Packets with the number of this life and their own.
struct Source {
    life: u64,
    next: u64,
}

impl Source {
    fn new() -> Self {
        let life = ACCOUNT.with_borrow_mut(|account| {
            account.lives += 1;
            account.lives
        });
        Self { life, next: 1 }
    }
}

/// Gives packets and takes some.
struct Both(Source, Sink);

impl Port for Both {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.0.rx(burst, now)
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        self.1.tx(burst, now)
    }

    fn tx_room(&mut self, now: Nanos) -> usize {
        self.1.tx_room(now)
    }
}

/// Least packet, with both numbers behind an Ethernet header.
const LEN: usize = 60;
const LIFE_AT: usize = 20;
const NUMBER_AT: usize = 28;

impl Port for Source {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        ACCOUNT.with_borrow_mut(|account| {
            let wanted = account.random.below(12);
            if account.left == 0 {
                return RxState::Finished;
            }
            for _ in 0..wanted {
                if account.left == 0 || burst.room() == 0 || !burst.has_buffer(LEN) {
                    break;
                }
                let mut bytes = [0; LEN];
                // Every second one is of another type, for NFs that tell packets apart.
                bytes[12..14].copy_from_slice(&[0x88, 0xb5 + u8::from(self.next % 2 == 1)]);
                bytes[LIFE_AT..NUMBER_AT].copy_from_slice(&self.life.to_be_bytes());
                bytes[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&self.next.to_be_bytes());
                if !burst.push_copy(&bytes) {
                    break;
                }
                self.next += 1;
                account.given += 1;
                account.left -= 1;
            }
            RxState::Idle
        })
    }
}

/// Takes all, or for a while nothing. Order counts for each sink by itself.
struct Sink {
    number: u64,
}

impl Port for Sink {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        ACCOUNT.with_borrow_mut(|account| {
            let mut count = 0;
            burst.read(|bytes| {
                count += 1;
                account.take(self.number, bytes);
            });
            account.taken += count as u64;
            count
        })
    }

    fn tx_room(&mut self, _now: Nanos) -> usize {
        let rests =
            ACCOUNT.with_borrow_mut(|account| account.is_blocked || account.random.once_in(4));
        if rests { 0 } else { usize::MAX }
    }
}

impl Account {
    /// That of a history in which sources give `left` packets.
    pub(super) fn new(seed: u64, left: u64) -> Self {
        Self {
            random: Random(seed),
            given: 0,
            taken: 0,
            left,
            is_blocked: false,
            lives: 0,
            last: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    fn take(&mut self, sink: u64, bytes: &[u8]) {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map_or(u64::MAX, u64::from_be_bytes)
        };
        let (life, number) = (word(LIFE_AT), word(NUMBER_AT));
        let before = self.last.insert((sink, life), number);
        if before.is_some_and(|before| before >= number) || number == u64::MAX {
            self.wrong
                .push(format!("{number} of source {life} after {before:?}"));
        }
    }
}

/// The kinds that simulated chains are made of.
pub(in crate::supervisor) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry {
        nfs: [crate::nfs::KINDS, &[&FUSE]].concat(),
        ports: vec![&SOURCE, &SINK, &BOTH],
        wraps: Vec::new(),
        files: Vec::new(),
    })
}

fn schema() -> schemars::Schema {
    schemars::schema_for!(Value)
}

const SOURCE: PortKind = PortKind {
    name: "source",
    summary: "Numbered packets",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema,
    check: |_| Ok(PortRole::of(true, false)),
    open: |_, _| Ok(Box::new(Source::new())),
};

const SINK: PortKind = PortKind {
    name: "drain",
    summary: "Sees that numbers rise",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema,
    check: |_| Ok(PortRole::of(false, true)),
    open: |config, _| {
        let number = config["number"].as_u64().unwrap_or(0);
        Ok(Box::new(Sink { number }))
    },
};

const BOTH: PortKind = PortKind {
    name: "both",
    summary: "A source, and a sink of its own",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema,
    check: |_| Ok(PortRole::of(true, true)),
    open: |_, _| {
        let source = Source::new();
        // No chain file numbers a sink so high.
        let number = u64::MAX - source.life;
        Ok(Box::new(Both(source, Sink { number })))
    },
};
