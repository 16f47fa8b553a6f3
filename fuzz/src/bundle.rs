// SPDX-License-Identifier: Apache-2.0
//! Bundles in memory that a hostile peer writes between our steps. For any bytes:
//!
//! - a packet that is made of a bundle lies behind its table and in its buffer, apart from all
//!   others made with it, and stays there however it is changed;
//! - every slot that a descriptor names is either a packet or reported bad;
//! - slots come home once, and only those that are out; in the end every buffer is free.

use std::cell::RefCell;

use catena_shm::Packet;
use catena_shm::bundle::{PACKETS_OFFSET, staged};
use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, PoolGeometry, PoolOwner, PoolView};
use catena_shm::region::Sharing;

const COUNT: u32 = 4;
const LOG2_STRIDE: u8 = 12;
const STRIDE: usize = 1 << LOG2_STRIDE;
const POOL: PoolGeometry = PoolGeometry {
    log2_stride: LOG2_STRIDE,
    buffer_count: COUNT,
    headroom: 32,
    bundles: true,
};
const LINK: u8 = 9;

struct Victim {
    owner: PoolOwner,
    reader: PoolView,
    /// The same memory without a table: how the peer writes it.
    peer: PoolView,
    /// Of each buffer: the slots that are out.
    out: [u64; COUNT as usize],
}

impl Victim {
    fn new() -> Self {
        let owner = PoolOwner::create(1, POOL, Sharing::ReadWrite).expect("memory for a pool");
        let attach = |bundles| {
            let (fd, len) = owner.memory();
            let fd = fd.try_clone_to_owned().expect("a descriptor");
            let geometry = PoolGeometry { bundles, ..POOL };
            PoolView::attach(1, geometry, fd, len, Sharing::ReadWrite).expect("a mapping")
        };
        Self {
            reader: attach(true),
            peer: attach(false),
            owner,
            out: [0; COUNT as usize],
        }
    }

    /// The peer overwrites 8 bytes.
    fn scribble(&self, at: u64, word: u64) {
        let descriptor = Descriptor {
            offset: u32::try_from((at % (u64::from(COUNT) * STRIDE as u64)) & !7).expect("small"),
            len: 8,
            ..Descriptor::default()
        };
        let mut bytes = self.peer.packet(&descriptor).expect("within a buffer");
        bytes.bytes_mut().copy_from_slice(&word.to_le_bytes());
    }

    /// The owner packs a bundle and sends it out.
    fn send(&mut self, count: u64, len: u64) {
        let Some(mut bundle) = self.owner.begin_bundle(POOL.headroom) else {
            return;
        };
        for n in 0..count % 65 {
            let bytes = [n.to_le_bytes()[0]; 256];
            let _ = bundle.add(&bytes[..(len % 257) as usize], 0);
        }
        if let Some(made) = self.owner.finish_bundle(bundle, 0) {
            let index = made.offset >> LOG2_STRIDE;
            self.owner.send_out_slots(index, made.mask(), LINK);
            self.out[index as usize] = made.mask();
        }
    }

    /// A descriptor arrives in place.
    fn receive(&self, descriptor: &Descriptor) {
        let mut packets = Vec::new();
        let size = self.owner.memory().1;
        if let Ok(bundle) = self.reader.bundle(descriptor) {
            let bad = bundle.into_packets(|packet| packets.push(packet));
            let good = packets
                .iter()
                .fold(0, |mask, packet| mask | 1_u64 << packet.slot());
            assert_eq!(good & bad, 0);
            assert_eq!(
                good | bad,
                descriptor.mask(),
                "every slot is one or the other"
            );
            let start = descriptor.offset as usize;
            exercise(&mut packets, start, start + STRIDE);
        }
        packets.clear();
        if let Ok(packet) = self.reader.packet(descriptor) {
            let start = packet.offset() as usize & !(STRIDE - 1);
            packets.push(packet);
            exercise(&mut packets, start, (start + STRIDE).min(size));
        }
    }

    /// Slots come home.
    fn take_home(&mut self, descriptor: &Descriptor) {
        let Some((index, mask)) = descriptor.returned_slots() else {
            return;
        };
        let mut links = LinkSet::default();
        links.insert(LINK);
        let out = self.out.get_mut(index as usize);
        let may = out.as_ref().is_some_and(|out| **out & mask == mask);
        let done = self.owner.take_home_slots(index, mask, &links);
        assert_eq!(done.is_ok(), may, "what is out, and nothing else");
        if let Some(out) = out.filter(|_| may) {
            *out &= !mask;
        }
    }

    /// A bundle arrives over a `copy` link; its bytes are what the peer left in the buffer.
    fn receive_copy(&mut self, descriptor: &Descriptor) {
        let Ok((bytes, count)) = staged(descriptor) else {
            return;
        };
        let Some(index) = self.owner.alloc_bundle() else {
            return;
        };
        let len = bytes.len as usize;
        if self.owner.bundle_bytes(index, len).is_none() {
            self.owner.free_bundle(index);
            return;
        }
        let mut packets = Vec::new();
        let bad = self
            .owner
            .check_copied(index, len, count, |packet| packets.push(packet));
        let bad = bad.expect("length and count were checked");
        assert_eq!(packets.len() as u32 + bad.count_ones(), count);
        let start = (index as usize) << LOG2_STRIDE;
        exercise(&mut packets, start, start + len);
        for packet in packets {
            self.owner.free(packet);
        }
    }

    fn account(&mut self) {
        let out = self.out.iter().map(|mask| mask.count_ones()).sum::<u32>();
        assert_eq!(self.owner.out_count(), out);
        let used = self.out.iter().filter(|mask| **mask != 0).count();
        assert_eq!(self.owner.free_count() as usize + used, COUNT as usize);
    }
}

/// Packets in slot order, in a buffer from `start` to `end`, changed in all ways.
fn exercise(packets: &mut [Packet], start: usize, end: usize) {
    let mut floor = start + PACKETS_OFFSET as usize;
    for packet in packets {
        let (first, last) = (
            packet.offset() as usize,
            packet.offset() as usize + packet.len(),
        );
        let lowest = first - packet.headroom();
        assert!(
            packet.len() > 0 && floor <= lowest && last <= end,
            "{packet:?}"
        );
        floor = last;
        let room = packet.headroom();
        packet.push_front(room).expect("what it said");
        assert!(packet.push_front(1).is_err() && packet.offset() as usize == lowest);
        packet.bytes_mut().fill(0x5a);
        if packet.len() > 1 {
            packet.set_len(packet.len() - 1).expect("shorter");
            assert!(
                packet.set_len(packet.len() + 1).is_err(),
                "never longer again"
            );
        }
        let _ = packet.pull_front(room / 2);
        assert!(packet.rewrite(), "the memory may be written");
    }
}

thread_local! {
    static VICTIM: RefCell<Victim> = RefCell::new(Victim::new());
}

/// Steps of 17 bytes: what happens, and two words of it.
pub fn bundle(data: &[u8]) {
    VICTIM.with_borrow_mut(|victim| {
        for step in data.chunks_exact(17).take(64) {
            let word =
                |at: usize| u64::from_le_bytes(step[at..at + 8].try_into().expect("eight bytes"));
            let (first, second) = (word(1), word(9));
            let said = Descriptor::from_words(first, second);
            match step[0] % 6 {
                0 => victim.send(first, second),
                1 => victim.take_home(&said),
                2 => victim.receive_copy(&said),
                3 => victim.receive(&said),
                _ => victim.scribble(first, second),
            }
            victim.account();
        }
        for index in 0..COUNT {
            let mask = victim.out[index as usize];
            victim.take_home(&Descriptor::returning_slots(1, index, mask));
        }
        assert_eq!(victim.owner.free_count(), COUNT, "allocated = free + out");
    });
}

/// A name and its entry function.
pub type Entry = (&'static str, fn(&[u8]));

/// Every entry function, by name.
pub const ALL: &[Entry] = &[("bundle", bundle)];
