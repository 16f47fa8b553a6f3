//! A test bench for one NF: bytes in, verdicts and bytes out, at a time of the test's choosing.
//!
//! Not part of a chain. NF authors use it in unit tests and fuzz targets; packets lie in real
//! pools.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use serde_json::Value;

use crate::config::{ConfigError, ConfigErrors};
use crate::nf::{BuiltNf, Burst, Copies, DropReason, Nanos, NfKind, Verdict};
use crate::pools::Pools;

/// An NF on the bench.
#[derive(Debug)]
pub struct NfBench {
    built: BuiltNf,
    pools: Pools,
    copies: Copies,
    /// The time the next burst is processed at.
    pub now: Nanos,
}

/// What became of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processed {
    /// The NF's verdict.
    pub verdict: Verdict,
    /// The packet's bytes after the NF.
    pub bytes: Vec<u8>,
    /// The packet's tag after the NF.
    pub tag: u16,
}

/// What became of a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessedBurst {
    /// One entry per packet.
    pub packets: Vec<Processed>,
    /// Copies: output and bytes.
    pub copies: Vec<(u8, Vec<u8>)>,
    /// Why copies could not be made.
    pub copies_failed: Vec<DropReason>,
}

impl NfBench {
    /// Builds the NF from its configuration, with the names of the links that leave it.
    ///
    /// # Errors
    /// What is wrong with the configuration, or that there is no memory.
    pub fn new(kind: &NfKind, config: &Value, outputs: &[&str]) -> Result<Self, ConfigErrors> {
        let outputs: Vec<String> = outputs.iter().map(ToString::to_string).collect();
        let built = (kind.build)(config, &outputs)?;
        let sizes = [(1, 7, 256), (2, 11, 256), (3, 18, 2)];
        let own = sizes.into_iter().map(|(id, log2_stride, buffer_count)| {
            let geometry = PoolGeometry {
                log2_stride,
                buffer_count,
                headroom: 64,
                frames: false,
            };
            PoolOwner::create(id, geometry, Sharing::ReadWrite)
                .map_err(|error| vec![ConfigError::new("", error.to_string(), "free some memory")])
        });
        let pools = Pools::new(own.collect::<Result<_, _>>()?);
        Ok(Self {
            built,
            pools,
            copies: Copies::default(),
            now: Nanos(0),
        })
    }

    /// Names of the NF's outputs.
    pub fn outputs(&self) -> &[String] {
        &self.built.outputs
    }

    /// The NF.
    pub fn nf(&mut self) -> &mut dyn crate::nf::Nf {
        self.built.nf.as_mut()
    }

    /// Processes one frame.
    pub fn process_one(&mut self, frame: &[u8]) -> Processed {
        self.process(&[frame]).packets.remove(0)
    }

    /// Processes a burst that came from input 0.
    pub fn process(&mut self, frames: &[&[u8]]) -> ProcessedBurst {
        self.process_from(0, frames)
    }

    /// Processes a burst that came from `input`.
    ///
    /// # Panics
    /// If there are more frames than buffers on the bench.
    pub fn process_from(&mut self, input: u8, frames: &[&[u8]]) -> ProcessedBurst {
        let mut packets: Vec<_> = frames
            .iter()
            .map(|frame| {
                let mut packet = self
                    .pools
                    .alloc(frame.len())
                    .expect("a buffer on the bench");
                packet.bytes_mut().copy_from_slice(frame);
                packet
            })
            .collect();
        let mut verdicts = vec![Verdict::Output(0); packets.len()];
        let mut burst = Burst::new(
            &mut packets,
            &mut verdicts,
            &mut self.copies,
            &mut self.pools,
            input,
        );
        self.built.nf.process(&mut burst, self.now);
        let mut result = ProcessedBurst::default();
        for (packet, verdict) in packets.into_iter().zip(verdicts) {
            let bytes = packet.bytes().to_vec();
            result.packets.push(Processed {
                verdict,
                bytes,
                tag: packet.tag(),
            });
            self.pools.free(packet);
        }
        for (output, copy) in self.copies.packets.drain(..) {
            result.copies.push((output, copy.bytes().to_vec()));
            self.pools.free(copy);
        }
        result.copies_failed.append(&mut self.copies.failed);
        result
    }

    /// Buffers in use: 0 after every burst, unless the NF keeps packets it should not.
    pub fn buffers_in_use(&self) -> u32 {
        let own = self.pools.own().iter();
        own.map(|pool| pool.geometry().buffer_count - pool.free_count())
            .sum()
    }
}
