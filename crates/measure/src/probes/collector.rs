//! Takes visits out of workers' pages. A worker may write anything there; what cannot be true of
//! it is counted and thrown away.

use std::os::fd::OwnedFd;

use catena_engine::probe::moments::CursorSpan;
use catena_engine::probe::{StageCounts, Visit, VisitFlags};
use catena_engine::supervisor::probing::ProbeMap;
use catena_shm::record_ring::{RecordPage, RecordReader};
use catena_shm::region::RegionError;

/// Most visits that are kept: beyond, they are counted as lost. About 250 MB.
pub const VISITS_MAX: usize = 1 << 21;

/// One worker's page.
#[derive(Debug)]
struct Source {
    worker: usize,
    epoch: u32,
    reader: RecordReader<RecordPage>,
}

/// Reads the pages of a chain's workers.
#[derive(Debug)]
pub struct Collector {
    map: ProbeMap,
    sources: Vec<Source>,
    /// What was noted, in no order.
    pub visits: Vec<Visit>,
    /// How far ends of links were, at moments of the chain's clock.
    pub cursors: Vec<CursorSpan>,
    refused: u64,
    left_out: u64,
}

impl Collector {
    /// A collector that reads nothing yet. `map` says what numbers stand for.
    pub fn new(map: ProbeMap) -> Self {
        Self {
            map,
            sources: Vec::new(),
            visits: Vec::new(),
            cursors: Vec::new(),
            refused: 0,
            left_out: 0,
        }
    }

    /// What numbers stand for.
    pub const fn map(&self) -> &ProbeMap {
        &self.map
    }

    /// Whether the page of this life of a worker is being read.
    pub fn reads(&self, worker: usize, epoch: u32) -> bool {
        let is_it = |source: &Source| (source.worker, source.epoch) == (worker, epoch);
        self.sources.iter().any(is_it)
    }

    /// Reads a worker's page from now on.
    ///
    /// # Errors
    ///
    /// Memory that is not what it should be.
    pub fn add(
        &mut self,
        worker: usize,
        epoch: u32,
        fd: OwnedFd,
        len: usize,
    ) -> Result<(), RegionError> {
        let reader = RecordReader::from_now(RecordPage::attach(fd, len)?);
        self.sources.push(Source {
            worker,
            epoch,
            reader,
        });
        Ok(())
    }

    /// Takes what has been written since the last time.
    pub fn poll(&mut self) {
        let mut records = Vec::new();
        for source in &mut self.sources {
            records.clear();
            source.reader.read(&mut records);
            for record in &records {
                if let Some(span) = CursorSpan::from_record(record) {
                    if !is_own_end(&self.map, source.worker, &span) {
                        self.refused += 1;
                    } else if self.cursors.len() < VISITS_MAX {
                        self.cursors.push(span);
                    } else {
                        self.left_out += 1;
                    }
                    continue;
                }
                let visit = Visit::from_record(record);
                if visit.flags.has(VisitFlags::COUNTS) {
                    let last = self.visits.last_mut();
                    let theirs = last.filter(|last| {
                        (last.mark, last.node, last.begin) == (visit.mark, visit.node, visit.begin)
                    });
                    // Without its visit, which was overwritten or is not believed, it says nothing.
                    if let Some(last) = theirs {
                        last.counts = StageCounts::from_record(record);
                    }
                } else if !is_possible(&self.map, source.worker, &visit) {
                    self.refused += 1;
                } else if self.visits.len() < VISITS_MAX {
                    self.visits.push(visit);
                } else {
                    self.left_out += 1;
                }
            }
        }
    }

    /// Records that were overwritten before they were read, or had no room here.
    pub fn lost(&self) -> u64 {
        let lost = self.sources.iter().map(|source| source.reader.lost());
        lost.fold(self.left_out, u64::saturating_add)
    }

    /// Records, and cursors, that no honest worker would write.
    pub fn refused(&self) -> u64 {
        let wrong = self.sources.iter().map(|source| source.reader.violations());
        wrong.fold(self.refused, u64::saturating_add)
    }
}

/// Whether `worker` has this end of a link.
fn is_own_end(map: &ProbeMap, worker: usize, span: &CursorSpan) -> bool {
    let link = usize::from(span.link).checked_sub(1);
    let link = link.and_then(|link| map.links.get(link)?.as_ref());
    let node = link.map(|link| if span.is_sender { link.from } else { link.to });
    let node = node.and_then(|node| map.nodes.get(node)?.as_ref());
    node.is_some_and(|node| node.worker == worker)
}

/// Whether `worker` can have seen this: a packet with a mark, at a node of its own, that came by a
/// link which leads there.
fn is_possible(map: &ProbeMap, worker: usize, visit: &Visit) -> bool {
    let node = usize::from(visit.node);
    let here = map.nodes.get(node).and_then(Option::as_ref);
    let came = match visit.input.checked_sub(1) {
        None => true,
        Some(link) => {
            let link = map.links.get(usize::from(link)).and_then(Option::as_ref);
            link.is_some_and(|link| link.to == node)
        }
    };
    visit.mark != 0 && came && here.is_some_and(|here| here.worker == worker)
}
