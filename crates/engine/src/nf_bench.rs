//! A test bench for one NF: bytes in, verdicts and bytes out, at a time of the test's choosing.
//!
//! Not part of a chain. NF authors use it in unit tests and fuzz targets; packets lie in real
//! pools.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::state::{self, StateRegion};
use serde_json::Value;

use crate::config::{ConfigError, ConfigErrors};
use crate::load::Load;
use crate::nf::exchange::{BUDGET, Handled};
use crate::nf::{
    BuildContext, BuiltNf, Burst, DropReason, Emission, Hold, Moved, Nanos, NfKind, NfMemory,
    NfPlan, NfState, StatePlan, Verdict,
};
use crate::packet::Offload;
use crate::pools::Pools;

/// An NF on the bench.
#[derive(Debug)]
pub struct NfBench {
    built: BuiltNf,
    plan: NfPlan,
    /// Names of the links that leave it.
    links: Vec<String>,
    /// Memory that outlives it.
    memory: Vec<(StatePlan, StateRegion)>,
    pools: Pools,
    hold: Hold,
    /// Why packets were dropped that it had kept.
    pub drops: Vec<DropReason>,
    /// The time the next burst is processed at.
    pub now: Nanos,
    /// Tag of the packets that it processes.
    pub tag: u16,
    /// What is left open of those that travel by themselves.
    pub offload: Offload,
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
    /// What is left open of it after the NF.
    pub offload: Offload,
}

/// A packet of an NF's own making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The output it leaves by.
    pub output: u8,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its tag.
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
        Self::with_buffers(kind, config, outputs, 256)
    }

    /// As [`NfBench::new`], with so many buffers of 2 KiB: for an NF that keeps many packets.
    ///
    /// # Errors
    /// As there.
    pub fn with_buffers(
        kind: &NfKind,
        config: &Value,
        outputs: &[&str],
        buffer_count: u32,
    ) -> Result<Self, ConfigErrors> {
        let outputs: Vec<String> = outputs.iter().map(ToString::to_string).collect();
        let plan = (kind.plan)(config, &outputs)?;
        plan.check()
            .map_err(|fault| vec![ConfigError::new("", fault, "mend the kind")])?;
        let memory = memory_of(&plan, &[])?;
        let built = build(kind, config, &plan, (&memory, false))?;
        let named = built.nf.report();
        if !named.iter().map(|(name, _)| *name).eq(&plan.counters) {
            let fault = format!("counts {named:?}, planned {:?}", plan.counters);
            return Err(vec![ConfigError::new("", fault, "mend the kind")]);
        }
        let sizes = [(1, 16, 2), (2, 7, 256), (3, 11, buffer_count), (4, 18, 2)];
        let own = sizes.into_iter().map(|(id, log2_stride, buffer_count)| {
            let geometry = PoolGeometry {
                log2_stride,
                buffer_count,
                headroom: 64,
                bundles: id == 1,
            };
            PoolOwner::create(id, geometry, Sharing::ReadWrite)
                .map_err(|error| vec![ConfigError::new("", error.to_string(), "free some memory")])
        });
        let pools = Pools::new(own.collect::<Result<_, _>>()?);
        Ok(Self {
            built,
            plan,
            links: outputs,
            memory,
            pools,
            hold: Hold::default(),
            drops: Vec::new(),
            now: Nanos(0),
            tag: 0,
            offload: Offload::NONE,
        })
    }

    /// Puts an NF with this configuration in its place, as `catena apply` does: one on trial, then
    /// one with the memory of the one before, if it asks for such. Gives how many packets that were
    /// held neither of them took.
    ///
    /// # Errors
    /// As [`NfBench::new`]; the NF is as before.
    pub fn replace(&mut self, kind: &NfKind, config: &Value) -> Result<usize, ConfigErrors> {
        let plan = (kind.plan)(config, &self.links)?;
        let trial = build(kind, config, &plan, (&memory_of(&plan, &[])?, false))?;
        let memory = memory_of(&plan, &self.memory)?;
        let is_taken_over = memory.iter().any(|(one, _)| self.plan.state.contains(one));
        let lost = self.succeed(trial);
        let built = build(kind, config, &plan, (&memory, is_taken_over))?;
        let lost = lost + self.succeed(built);
        (self.plan, self.memory) = (plan, memory);
        Ok(lost)
    }

    fn succeed(&mut self, next: BuiltNf) -> usize {
        let mut before = std::mem::replace(&mut self.built, next);
        let (from, to) = (before.nf.as_mut(), self.built.nf.as_mut());
        let rest = self.hold.change_hands(from, to);
        let count = rest.len();
        self.pools.free_all(rest.into_iter());
        count
    }

    /// Names of the NF's outputs.
    pub fn outputs(&self) -> &[String] {
        &self.plan.outputs
    }

    /// What it was planned as.
    pub fn plan(&self) -> &NfPlan {
        &self.plan
    }

    /// The NF.
    pub fn nf(&mut self) -> &mut dyn crate::nf::Nf {
        self.built.nf.as_mut()
    }

    /// A counter of the NF's own.
    ///
    /// # Panics
    /// If it has none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        let report = self.built.nf.report();
        let entry = report.iter().find(|(entry, _)| *entry == name);
        entry.unwrap_or_else(|| panic!("no {name} in {report:?}")).1
    }

    /// Answers a control request as a worker does: the control half first, if there is one.
    ///
    /// # Errors
    /// What the NF says.
    pub fn control(&mut self, request: &Value) -> Result<Value, String> {
        if let Some(half) = &mut self.built.control {
            let handled = half.control(request);
            while self.built.nf.exchange(BUDGET) {}
            if let Handled::Answered(result) = handled {
                return result;
            }
        }
        self.built.nf.control(request)
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
        let mut load = Load::default();
        for frame in frames {
            let packet = self.pools.alloc(frame.len());
            let mut packet = packet.expect("a buffer on the bench");
            packet.bytes_mut().copy_from_slice(frame);
            packet.set_tag(self.tag);
            let is_set = packet.set_offload(self.offload);
            is_set.expect("a packet that a descriptor can say it of");
            load.packets.push(packet);
        }
        self.process_load(&mut load, input)
    }

    /// Processes packets as one bundle from input 0; they must fit one.
    ///
    /// # Panics
    /// If they do not.
    pub fn process_bundle(&mut self, packets: &[&[u8]]) -> ProcessedBurst {
        let mut writer = self.pools.begin_bundle(64).expect("a bundle on the bench");
        for packet in packets {
            let added = writer.add(packet, self.tag.into());
            added.expect("packets that fit one bundle");
        }
        let whole = self.pools.finish_bundle(writer, 0).expect("a packet");
        self.pools.send_out_described(&[whole], 1);
        let looked = self.pools.look_at_bundle(&whole);
        let (bundle, _) = looked.expect("an honest bundle");
        let (bytes, bad) = bundle.check();
        assert_eq!(bad, 0, "the bundle's table is whole");
        let mut load = Load::default();
        load.push_bundle(bundle, bytes);
        assert_eq!(self.pools.arrived_bundles(&mut load, 0), 0);
        self.process_load(&mut load, 0)
    }

    fn process_load(&mut self, load: &mut Load, input: u8) -> ProcessedBurst {
        let mut verdicts = Vec::new();
        let mut burst = Burst::new(load, &mut verdicts, &mut self.hold, &mut self.pools, input);
        self.built.nf.process(&mut burst, self.now);
        let mut result = ProcessedBurst::default();
        self.hold.begin_moves(|at| verdicts[at] = Verdict::Kept);
        assert_eq!(
            load.take_apart(&mut self.pools),
            0,
            "the NF leaves tables whole"
        );
        let packets = load.packets.drain(..);
        for (index, (packet, verdict)) in packets.zip(verdicts).enumerate() {
            result.packets.push(Processed {
                verdict,
                bytes: packet.bytes().to_vec(),
                tag: packet.tag(),
                offload: packet.offload(),
            });
            match self.hold.move_in(index, packet) {
                Moved::Held => {}
                Moved::Copied(packet) | Moved::NotTaken(packet) => self.pools.free(packet),
            }
        }
        self.hold.end_moves();
        self.hold.take_made();
        for (output, copy) in self.hold.leaving() {
            result.copies.push((output, copy.bytes().to_vec()));
            self.pools.free(copy);
        }
        result.copies_failed.extend(self.hold.dropped());
        result
    }

    /// Packets that the NF holds.
    pub fn held(&self) -> u64 {
        self.hold.count()
    }

    /// What an NF that keeps or makes packets sends now, with room for `room` packets at each
    /// output, and when it wants to be asked again.
    pub fn emit(&mut self, room: usize, is_draining: bool) -> (Vec<Emitted>, Option<Nanos>) {
        let mut rooms = vec![room; self.plan.outputs.len()];
        let mut out = Emission::new(&mut self.pools, &mut self.hold, &mut rooms, is_draining);
        let next = self.built.nf.emit(&mut out, self.now);
        let mut emitted = Vec::new();
        self.hold.take_made();
        self.drops.extend(self.hold.dropped());
        for (output, packet) in self.hold.leaving() {
            emitted.push(Emitted {
                output,
                bytes: packet.bytes().to_vec(),
                tag: packet.tag(),
            });
            self.pools.free(packet);
        }
        (emitted, next)
    }

    /// Buffers in use: after every burst as many as it holds, unless it loses some.
    pub fn buffers_in_use(&self) -> u32 {
        let own = self.pools.own().iter();
        own.map(|pool| pool.geometry().buffer_count - pool.free_count())
            .sum()
    }
}

/// The memory that a plan asks for: what is there already, or new.
fn memory_of(
    plan: &NfPlan,
    there: &[(StatePlan, StateRegion)],
) -> Result<Vec<(StatePlan, StateRegion)>, ConfigErrors> {
    let fault = |error: String| vec![ConfigError::new("", error, "free some memory")];
    let all = plan.state.iter().map(|planned| {
        if let Some(known) = there.iter().find(|(here, _)| here == planned) {
            return Ok(known.clone());
        }
        let (fd, len) = state::create(planned.bytes).map_err(|error| fault(error.to_string()))?;
        let region = StateRegion::attach(fd, len).map_err(|error| fault(error.to_string()))?;
        Ok((planned.clone(), region))
    });
    all.collect()
}

fn build(
    kind: &NfKind,
    config: &Value,
    plan: &NfPlan,
    (memory, is_taken_over): (&[(StatePlan, StateRegion)], bool),
) -> Result<BuiltNf, ConfigErrors> {
    let state = memory.iter().map(|(planned, region)| {
        let memory = region
            .take(planned.bytes)
            .map_err(|error| vec![ConfigError::new("", error.to_string(), "report this")])?;
        Ok::<_, ConfigErrors>(NfState {
            name: planned.name.clone(),
            memory: NfMemory::of(memory, plan.has_as_words(planned)),
            is_taken_over,
        })
    });
    let mut context = BuildContext {
        state: state.collect::<Result<_, _>>()?,
        ..BuildContext::alone(&plan.outputs)
    };
    (kind.build)(config, &mut context)
}
