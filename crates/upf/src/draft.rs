//! What a request draws from ranges and pools before it is known whether it is accepted.
//!
//! On N4. [`Draft::undo`] gives everything back; who accepts the request forgets the draft.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::application::Table;
use crate::model::Key;
use crate::ranges::{Index, Pool, Teids};
use crate::rules::NONE;
use crate::settings::Settings;
use crate::usage::WallClock;

/// How many TEIDs are tried before there are said to be none.
const TRIES: usize = 256;

/// What was drawn.
#[derive(Debug)]
pub struct Draft<'a> {
    /// The UPF's settings.
    pub settings: &'a Settings,
    /// Now, on the engine's clock.
    pub now_ns: u64,
    /// The wall clock.
    pub clock: WallClock,
    /// Applications with PFDs.
    pub applications: &'a Table,
    teids: &'a mut Teids,
    pools: &'a mut [Pool],
    index: &'a Index,
    drawn: Vec<Key>,
    chosen: Vec<(u8, u32)>,
}

impl<'a> Draft<'a> {
    /// Nothing yet.
    pub fn new(
        settings: &'a Settings,
        teids: &'a mut Teids,
        pools: &'a mut [Pool],
        index: &'a Index,
        applications: &'a Table,
        (now_ns, clock): (u64, WallClock),
    ) -> Self {
        Self {
            settings,
            now_ns,
            clock,
            applications,
            teids,
            pools,
            index,
            drawn: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// A TEID that nobody has; the same one for the same CHOOSE ID.
    pub fn teid(&mut self, choose_id: Option<u8>) -> Option<u32> {
        let same = self.chosen.iter().find(|(id, _)| Some(*id) == choose_id);
        if let Some((_, teid)) = same {
            return Some(*teid);
        }
        for _ in 0..TRIES {
            let teid = self.teids.draw();
            let key = Key::Teid(teid);
            if self.index.find(key).is_none() && !self.drawn.contains(&key) {
                self.drawn.push(key);
                self.chosen.extend(choose_id.map(|id| (id, teid)));
                return Some(teid);
            }
        }
        None
    }

    fn pools(&mut self, instance: u8, name: Option<&[u8]>) -> impl Iterator<Item = &mut Pool> {
        // An uplink PDR's instance may be that of the access network, which has no pool.
        let has_own = self.pools.iter().any(|pool| pool.instance == instance);
        let is_any = instance == NONE || !has_own;
        self.pools.iter_mut().filter(move |pool| {
            (is_any || pool.instance == instance)
                && name.is_none_or(|name| pool.name.as_bytes() == name)
        })
    }

    /// A free address of the pools of a network instance, or of the one named.
    pub fn ue_v4(&mut self, instance: u8, pool: Option<&[u8]>) -> Option<Ipv4Addr> {
        let address = self.pools(instance, pool).find_map(Pool::draw_v4)?;
        self.drawn.push(Key::V4(address));
        Some(address)
    }

    /// A free prefix, as [`Draft::ue_v4`].
    pub fn ue_v6(&mut self, instance: u8, pool: Option<&[u8]>) -> Option<Ipv6Addr> {
        let address = self.pools(instance, pool).find_map(Pool::draw_v6)?;
        self.drawn.push(Key::of_v6(address));
        Some(address)
    }

    /// Gives everything back: the request is refused.
    pub fn undo(self) {
        for key in self.drawn {
            self.pools.iter_mut().for_each(|pool| pool.give_back(key));
        }
    }
}
