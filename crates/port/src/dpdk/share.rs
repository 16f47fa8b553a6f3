//! What cards of one process are to have of a pool: a card starts only with full rings.
//!
//! Control path. Ports of a worker receive in the same pools; without an account, the second card
//! would be opened and never get the buffers that it starts with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use catena_shm::pool::PoolMemory;

use super::error::DpdkError;

/// By address of the pool: buffers that cards take.
static TAKEN: Mutex<Vec<(u64, u32)>> = Mutex::new(Vec::new());

fn taken() -> MutexGuard<'static, Vec<(u64, u32)>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers of a pool that are a card's until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    pool: u64,
    buffers: u32,
}

impl Share {
    /// So many for that card; one in `reserve_part` is for no card.
    ///
    /// # Errors
    /// That other cards leave too few.
    pub(super) fn of(
        memory: &PoolMemory,
        device: &str,
        needed: u32,
        reserve_part: u32,
    ) -> Result<Self, DpdkError> {
        let (pool, geometry) = (memory.address(), memory.geometry());
        let mut taken = taken();
        let others: u32 = taken
            .iter()
            .filter(|(other, _)| *other == pool)
            .map(|(_, buffers)| buffers)
            .sum();
        let count = geometry.buffer_count;
        let left = (count - count / reserve_part).saturating_sub(others);
        if needed > left {
            let all = u64::from(others) + u64::from(needed);
            return Err(DpdkError::PoolSmall {
                device: device.to_owned(),
                stride: 1 << geometry.log2_stride,
                needed,
                left,
                enough: (all + all / u64::from(reserve_part - 1) + 1).next_power_of_two(),
            });
        }
        taken.push((pool, needed));
        Ok(Self {
            pool,
            buffers: needed,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = taken();
        let ours = (self.pool, self.buffers);
        if let Some(at) = taken.iter().position(|share| *share == ours) {
            taken.swap_remove(at);
        }
    }
}
