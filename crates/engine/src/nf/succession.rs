//! One NF comes in the place of another: what the old one holds passes to the new one.
//!
//! Beside the path of a packet, between two turns, when a running chain is changed.

use super::function::Nf;
use super::keep::{Hold, Kept};
use super::nanos::Nanos;
use crate::packet::Packet;

impl Hold {
    /// Between two turns, an NF comes in the place of another one: what the one hands over and the
    /// other takes stays, under the same tickets. Gives the rest.
    pub fn change_hands(&mut self, from: &mut dyn Nf, to: &mut dyn Nf) -> Vec<Packet> {
        let handed = from.hand_over();
        let mut stays = vec![false; self.packets.len()];
        let mut mark = |held: &[(Nanos, Kept)], stay: bool| {
            for (_, kept) in held {
                if let Some(stays) = stays.get_mut(kept.0 as usize) {
                    *stays = stay;
                }
            }
        };
        mark(&handed.held, true);
        mark(&to.take_over(handed), false);
        let gone = stays.iter().enumerate().filter(|(_, stays)| !**stays);
        let mut rest = Vec::new();
        for (ticket, _) in gone {
            #[expect(clippy::cast_possible_truncation, reason = "tickets have 32 bits")]
            rest.extend(self.take(&Kept(ticket as u32)));
        }
        rest
    }
}
