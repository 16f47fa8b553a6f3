//! What a worker opens: ports and NFs by their specifications, and neighbours' regions.
//!
//! Control path. Everything named here comes from the supervisor; memory comes from a neighbour and
//! is checked before it is mapped.

use std::os::fd::OwnedFd;

use catena_shm::pool::{PoolMemory, PoolView};
use catena_shm::region::{HUGE_PAGE_BYTES, PAGE_BYTES, RegionError};
use catena_shm::ring_memory::{RingEnd, Side};

use crate::chain::files::named;
use crate::chain::registry::Registry;
use crate::config::ConfigErrors;
use crate::geometry::{lane_geometry, pool_geometry, pool_sharing, ring_geometry};
use crate::nf::exchange::NfControl;
use crate::nf::{BuildContext, NfKind, NfPlan, NfState};
use crate::port::{Opening, RxState};
use crate::protocol::{Assignment, NodeSpec, RegionName};
use crate::shard::split;
use crate::worker::build_error::BuildError;
use crate::worker::work::Work;

/// A neighbour's region, mapped.
#[derive(Debug)]
pub enum Attached {
    /// One side of a ring.
    End(RingEnd),
    /// A pool.
    View(PoolView),
}

/// Maps a neighbour's region, which must be named in the assignment.
///
/// # Errors
/// What was wrong with it.
pub fn attach(
    assignment: &Assignment,
    name: RegionName,
    len: usize,
    fd: OwnedFd,
) -> Result<Attached, BuildError> {
    let unknown = BuildError::Inconsistent("memory that this worker was not assigned");
    let lane_of = |from, to| {
        assignment
            .lanes
            .iter()
            .find(|lane| (lane.from, lane.to) == (from, to))
            .map(lane_geometry)
    };
    let ring_of = |link| {
        assignment
            .rings
            .iter()
            .find(|ring| ring.link == link && ring.tcp.is_none())
            .map(ring_geometry)
    };
    let (side, geometry) = match name {
        RegionName::LinkProducer(link) => (Side::Producer, ring_of(link)),
        RegionName::LinkConsumer(link) => (Side::Consumer, ring_of(link)),
        RegionName::LaneProducer { from, to } => (Side::Producer, lane_of(from, to)),
        RegionName::LaneConsumer { from, to } => (Side::Consumer, lane_of(from, to)),
        RegionName::Pool(id) => {
            let spec = assignment
                .pools
                .iter()
                .find(|pool| pool.id == id)
                .ok_or(unknown)?;
            let (geometry, sharing) = (pool_geometry(spec), pool_sharing(spec));
            check_len(len, geometry.bytes())?;
            return Ok(Attached::View(PoolView::attach(
                id, geometry, fd, len, sharing,
            )?));
        }
        RegionName::Ledger(_) | RegionName::Counters | RegionName::Records => return Err(unknown),
    };
    Ok(Attached::End(RingEnd::attach(
        fd,
        side,
        geometry.ok_or(unknown)?,
    )?))
}

/// Refuses memory that is larger or smaller than what is said to lie in it, `bytes`, needs: its
/// maker rounds up to pages, or to huge pages, and nothing else. A region that is far larger costs
/// its maker nothing, and whoever touches all of it before use a lot.
///
/// # Errors
/// [`RegionError::WrongSize`].
pub fn check_len(len: usize, bytes: u64) -> Result<(), RegionError> {
    let pages = [PAGE_BYTES, HUGE_PAGE_BYTES].map(|page| bytes.next_multiple_of(page as u64));
    if pages.contains(&(len as u64)) {
        return Ok(());
    }
    Err(RegionError::WrongSize {
        has: len as u64,
        announced: bytes,
    })
}

/// The kind and the plan of a node, if it is an NF.
pub(super) fn plan_of(
    spec: &NodeSpec,
    registry: &Registry,
) -> Result<Option<(&'static NfKind, NfPlan)>, BuildError> {
    if spec.is_port {
        return Ok(None);
    }
    let failed = |message: String| BuildError::Node {
        node: spec.index,
        message,
    };
    let is_splitter = spec.type_name == split::NAME;
    let kind = is_splitter
        .then_some(&split::KIND)
        .or_else(|| registry.nf(&spec.type_name));
    let kind = kind.ok_or_else(|| failed(format!("unknown NF type {}", spec.type_name)))?;
    let plan = (kind.plan)(&spec.config, &spec.outputs)
        .map_err(|errors| failed(errors.first().map(ToString::to_string).unwrap_or_default()))?;
    Ok(Some((kind, plan)))
}

/// Opens a port with its wrappers, which may show `pools` to a device, or builds an NF, with the
/// memory that its plan asks for. What people are to know of it goes to `notices`. `before` is what
/// the node is in this worker now, if that is running.
pub(super) fn open(
    (spec, before): (&NodeSpec, Option<&NodeSpec>),
    assignment: &Assignment,
    registry: &Registry,
    (pools, notices): (&[PoolMemory], &mut Vec<String>),
    memory: impl FnOnce(&NfPlan) -> Result<Vec<NfState>, String>,
) -> Result<(Work, Option<Box<dyn NfControl>>), BuildError> {
    let failed = |message: String| BuildError::Node {
        node: spec.index,
        message,
    };
    let is_splitter = spec.type_name == split::NAME && !spec.is_port;
    if !spec.is_port && !is_splitter && assignment.is_bypass {
        return Ok((Work::Bypass, None));
    }
    if let Some((kind, plan)) = plan_of(spec, registry)? {
        let first = |errors: ConfigErrors| {
            failed(errors.first().map(ToString::to_string).unwrap_or_default())
        };
        let mut context = BuildContext {
            shard: spec.shard,
            shard_count: spec.shard_count,
            core: assignment.core,
            state: memory(&plan).map_err(failed)?,
            ..BuildContext::alone(&plan.outputs)
        };
        let built = if is_splitter {
            split::build(&spec.config, &mut context, assignment.split_seed, registry)
        } else {
            (kind.build)(&spec.config, &mut context)
        };
        let built = built.map_err(first)?;
        if built.nf.ends_paths() != plan.ends_paths() {
            return Err(failed(format!("{} contradicts its plan", spec.type_name)));
        }
        let of_node = |notice| format!("{}: {notice}", spec.name);
        notices.extend(built.notices.into_iter().map(of_node));
        return Ok((Work::Nf(built.nf), built.control));
    }
    let kind = registry.port(&spec.type_name);
    let kind = kind.ok_or_else(|| failed(format!("unknown port type {}", spec.type_name)))?;
    let goes_on = files_to_go_on_in(spec, before, registry, assignment.epoch);
    let files = assignment.files.iter();
    let others = files.filter(|(node, _)| *node != spec.index);
    let taken: Vec<_> = others.map(|(_, id)| *id).collect();
    let opening = Opening {
        receives: spec.receives,
        sends: assignment.edges.iter().any(|edge| edge.to == spec.index),
        is_wrapped: !spec.wraps.is_empty(),
        queue: spec.shard,
        queues: spec.shard_count,
        pools,
        goes_on: &goes_on,
        taken: &taken,
        ..Opening::alone(&assignment.dir)
    };
    let mut port =
        (kind.open)(&spec.config, &opening).map_err(|error| failed(error.to_string()))?;
    for (name, config) in &spec.wraps {
        let wrap = registry.wrap(name);
        let wrap = wrap.ok_or_else(|| failed(format!("unknown wrapper {name}")))?;
        port = (wrap.wrap)(config, &opening, port).map_err(|error| failed(error.to_string()))?;
    }
    let work = Work::Port {
        port,
        receives: spec.receives,
        state: RxState::More,
    };
    Ok((work, None))
}

/// Files that a former instance of a port has written: all that it writes, if its worker has died;
/// else those that it writes in its place.
fn files_to_go_on_in(
    spec: &NodeSpec,
    before: Option<&NodeSpec>,
    registry: &Registry,
    epoch: u32,
) -> Vec<String> {
    let mut files = written_files(spec, registry);
    match before {
        Some(before) => {
            let had = written_files(before, registry);
            files.retain(|file| had.contains(file));
        }
        None if epoch == 0 => files.clear(),
        None => {}
    }
    files
}

fn written_files(spec: &NodeSpec, registry: &Registry) -> Vec<String> {
    let wraps = spec.wraps.iter().map(|(name, config)| (&**name, config));
    let parts = std::iter::once((&*spec.type_name, &spec.config)).chain(wraps);
    let files = named(parts, registry).into_iter();
    let written = files.filter(|file| file.writes);
    written.map(|file| file.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_another_size_than_planned_is_refused() {
        for (len, bytes) in [(4096, 1), (4096, 4096), (2 << 20, 4096), (6 << 20, 5 << 20)] {
            assert!(check_len(len, bytes).is_ok(), "{len} {bytes}");
        }
        let lies = [
            (0, 1),
            (4096, 4097),
            (8192, 4096),
            (1 << 40, 5 << 20),
            (4 << 20, 4096),
        ];
        for (len, bytes) in lies {
            let error = check_len(len, bytes).unwrap_err();
            assert!(error.to_string().contains("announced were"), "{error}");
        }
    }
}
