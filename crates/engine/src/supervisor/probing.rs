//! Probes of a running chain: turned on and off, and handed to those who read them.
//!
//! Control plane. The supervisor reads no record itself: it passes the workers' pages on, and says
//! what the numbers in them stand for.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::chain::NodeKind;
use crate::chain::model::{is_gone, is_link_gone};
use crate::probe::{ProbeSettings, Tier};
use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;

/// What node and link numbers of records stand for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeMap {
    /// Name of the chain.
    pub chain: String,
    /// Names of workers.
    pub workers: Vec<String>,
    /// Nodes, by number; none where one has left the chain.
    pub nodes: Vec<Option<ProbeNode>>,
    /// Links, by number.
    pub links: Vec<Option<ProbeLink>>,
}

/// A node that probes pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeNode {
    /// Its name.
    pub name: String,
    /// Port or NF type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it is a port.
    pub is_port: bool,
    /// Number of its worker.
    pub worker: usize,
}

/// A link that probes pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeLink {
    /// Its name.
    pub name: String,
    /// Number of the node it leaves.
    pub from: usize,
    /// Number of the node it reaches.
    pub to: usize,
    /// Whether it joins two workers.
    pub is_ring: bool,
    /// Whether packets are copied through it.
    pub copies: bool,
}

/// The page that a worker's probes write into.
#[derive(Clone, Debug)]
pub struct ProbePage {
    /// Number of the worker.
    pub worker: usize,
    /// Which life of it: another one has another page.
    pub epoch: u32,
    /// The memory.
    pub fd: Arc<OwnedFd>,
    /// Its size in bytes.
    pub len: usize,
}

impl Supervisor {
    /// Has all workers note so much from now on, also those that are started later.
    pub fn probe(&mut self, settings: ProbeSettings) {
        self.probing = Some((settings, Instant::now()));
        for worker in 0..self.instances.len() {
            if let Some(settings) = self.probing_of(worker) {
                self.tell(worker, &ToWorker::Probe(settings));
            }
        }
    }

    /// What a worker is to note, if anything was said and the time has not passed.
    pub(super) fn probing_of(&self, worker: usize) -> Option<ProbeSettings> {
        let (settings, since) = self.probing?;
        let passed = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let number = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let left = settings.duration_ns.saturating_sub(passed);
        (left > 0 || settings.tier == Tier::Sums).then(|| ProbeSettings {
            duration_ns: left,
            marks: (number(worker + 1), number(self.instances.len())),
            ..settings
        })
    }

    /// The pages of all workers that have one.
    pub fn probe_pages(&self) -> Vec<ProbePage> {
        let instances = self.instances.iter().enumerate();
        let pages = instances.filter_map(|(worker, instance)| {
            let (fd, len) = instance.records.clone()?;
            let epoch = instance.epoch;
            Some(ProbePage {
                worker,
                epoch,
                fd,
                len,
            })
        });
        pages.collect()
    }

    /// What numbers in records stand for.
    pub fn probe_map(&self) -> ProbeMap {
        let chain = &self.chain;
        let placement = &self.placement;
        let nodes = chain.nodes.iter().enumerate().map(|(index, node)| {
            (!is_gone(node)).then(|| ProbeNode {
                name: node.name.clone(),
                type_name: node.type_name().to_owned(),
                is_port: matches!(node.kind, NodeKind::Port { .. }),
                worker: placement.worker_of[index],
            })
        });
        let links = chain.links.iter().enumerate().map(|(index, link)| {
            let ring = placement.rings.iter().find(|ring| ring.link == index);
            (!is_link_gone(link)).then(|| ProbeLink {
                name: link.name.clone(),
                from: link.from,
                to: link.to,
                is_ring: ring.is_some(),
                copies: ring.is_some_and(|ring| ring.staging_bytes > 0),
            })
        });
        let workers = placement.workers.iter();
        ProbeMap {
            chain: chain.name.clone(),
            nodes: nodes.collect(),
            links: links.collect(),
            workers: workers.map(|worker| worker.name.clone()).collect(),
        }
    }
}
