//! What a worker opens: ports and NFs by their specifications, and neighbours' regions.
//!
//! Control path. Everything named here comes from the supervisor; memory comes from a neighbour and
//! is checked before it is mapped.

use std::os::fd::OwnedFd;

use catena_shm::pool::PoolView;
use catena_shm::ring_memory::{RingEnd, Side};

use crate::chain::registry::Registry;
use crate::config::ConfigErrors;
use crate::nf::BuildContext;
use crate::port::RxState;
use crate::protocol::{Assignment, NodeSpec, RegionName};
use crate::worker::build::{BuildError, lane_geometry, pool_geometry, pool_sharing, ring_geometry};
use crate::worker::graph::Work;

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

/// Opens a port with its wrappers, or builds an NF.
pub(super) fn open(
    spec: &NodeSpec,
    assignment: &Assignment,
    registry: &Registry,
) -> Result<Work, BuildError> {
    let failed = |message: String| BuildError::Node {
        node: spec.index,
        message,
    };
    if !spec.is_port {
        if assignment.is_bypass {
            return Ok(Work::Bypass);
        }
        let kind = registry.nf(&spec.type_name);
        let kind = kind.ok_or_else(|| failed(format!("unknown NF type {}", spec.type_name)))?;
        let first = |errors: ConfigErrors| {
            failed(errors.first().map(ToString::to_string).unwrap_or_default())
        };
        let plan = (kind.plan)(&spec.config, &spec.outputs).map_err(first)?;
        let mut context = BuildContext {
            core: assignment.core,
            ..BuildContext::alone(&plan.outputs)
        };
        let built = (kind.build)(&spec.config, &mut context).map_err(first)?;
        if built.nf.ends_paths() != plan.ends_paths() {
            return Err(failed(format!("{} contradicts its plan", spec.type_name)));
        }
        return Ok(Work::Nf(built.nf));
    }
    let kind = registry.port(&spec.type_name);
    let kind = kind.ok_or_else(|| failed(format!("unknown port type {}", spec.type_name)))?;
    let dir = &assignment.dir;
    let mut port = (kind.open)(&spec.config, dir).map_err(|error| failed(error.to_string()))?;
    for (name, config) in &spec.wraps {
        let wrap = registry.wrap(name);
        let wrap = wrap.ok_or_else(|| failed(format!("unknown wrapper {name}")))?;
        port = (wrap.wrap)(config, dir, port).map_err(|error| failed(error.to_string()))?;
    }
    Ok(Work::Port {
        port,
        receives: spec.receives,
        state: RxState::More,
    })
}
