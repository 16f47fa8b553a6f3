//! Keys of packets without flows: for whoever has to know whose a packet is before it gets there.
//!
//! In front of a program that runs in several shards: the key code of one element, as
//! [`run`](super::run) runs it, and nothing else of the program. Packets are only looked at, and no
//! memory is shared with those who keep the flows.

use crate::KEY_WORDS_MAX;
use crate::hash::KeyedHash;

use super::env::{Env, FlowWords, Outcome};
use super::frame::Frame;
use super::globals::Globals;
use super::header::Headers;
use super::interpret::Unwatched;
use super::lookup::pack_key;
use super::queue::{Emissions, Notices};
use super::run::{Arrival, Loaded, Part, Sight, run_code};

/// Makes the keys of one element of a program.
#[derive(Debug)]
pub struct Keys {
    loaded: Box<Loaded>,
    element: usize,
    words: usize,
    flow: FlowWords,
    hash: KeyedHash,
    emissions: Emissions,
    notices: Notices,
}

impl Keys {
    /// Of an element of a verified program; none if it has no flows. Its key is a function of the
    /// packet and its input only: no other element has written metadata, and it hashes
    /// ([`Op::Hash`](super::ir::Op::Hash)) by the program's seed or not at all.
    pub fn new(loaded: Box<Loaded>, element: usize) -> Option<Self> {
        let flows = loaded.program.elements.get(element)?.flows.as_ref()?;
        Some(Self {
            words: (flows.shape.key_words as usize).min(KEY_WORDS_MAX),
            element,
            flow: FlowWords::default(),
            hash: loaded.hash([0; 2]),
            emissions: Emissions::none(),
            notices: Notices::new(false),
            loaded,
        })
    }

    /// The key of a packet, from its Ethernet header on, that arrives at `input`; none if it has
    /// none, or is malformed and the program drops such.
    pub fn of(&mut self, packet: &[u8], input: u8) -> Option<([u64; KEY_WORDS_MAX], usize)> {
        let Loaded {
            program,
            compiled,
            tables,
            slots,
            ..
        } = &mut *self.loaded;
        let mut headers = Headers::parse(packet);
        if headers.is_malformed() && !program.takes_malformed {
            return None;
        }
        let key = &program.elements[self.element].key;
        let slots = &mut slots[..key.code.slots.len()];
        slots.fill(0);
        let mut words = [0; KEY_WORDS_MAX];
        let sight = Sight {
            bytes: packet,
            headers: &headers,
            arrival: Arrival { now_ns: 0, input },
        };
        let made = compiled
            .as_mut()
            .and_then(|code| code.key(self.element, Part::Key, sight, slots, &mut words));
        if let Some(has_key) = made {
            return has_key.then_some((words, self.words));
        }
        let mut frame = Looked(packet);
        let mut env = Env {
            program,
            frame: Some(&mut frame),
            headers: &mut headers,
            now_ns: 0,
            input,
            is_found: false,
            is_full: false,
            registers: &[],
            flow: &mut self.flow,
            globals: Globals {
                words: &[],
                shared: &[],
                starts: &[],
            },
            tables,
            hash: &self.hash,
            outcome: &mut Outcome::default(),
            emissions: &mut self.emissions,
            notices: &mut self.notices,
        };
        run_code(
            &key.code,
            (self.element, Part::Key),
            compiled.as_deref_mut(),
            slots,
            &mut env,
            &mut Unwatched,
        );
        pack_key(key, slots, &mut words).then_some((words, self.words))
    }
}

/// A packet that nobody may change: code of keys does not.
struct Looked<'p>(&'p [u8]);

impl Frame for Looked<'_> {
    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn push_front(&mut self, _count: usize) -> bool {
        false
    }

    fn pull_front(&mut self, _count: usize) -> bool {
        false
    }

    fn truncate(&mut self, _len: usize) {}

    fn tag(&self) -> u16 {
        0
    }
}
