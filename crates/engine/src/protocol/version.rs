//! The version of the protocol and of the memory that it hands over: a fingerprint of their source.
//!
//! It changes with any change there, so that nobody has to remember: what runs in a container comes
//! from an image that may be older than the supervisor. All of `shm` counts, since any file there
//! may say where something lies; a test sees to it that none is left out.

/// Both sides must have the same.
#[expect(clippy::cast_possible_truncation, reason = "folded to half its width")]
pub const VERSION: u32 = {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < SOURCES.len() {
        hash = fingerprint(hash, SOURCES[at].1);
        at += 1;
    }
    (hash ^ (hash >> 32)) as u32
};

/// FNV-1a of some text, continued from `hash`, eight bytes at a time.
const fn fingerprint(mut hash: u64, text: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let (mut at, mut rest) = (0, text);
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        // Multiplying carries upwards only: high bits come down by the shift.
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME);
        hash ^= hash >> 29;
        rest = after;
    }
    while at < rest.len() {
        hash = (hash ^ rest[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    (hash ^ text.len() as u64).wrapping_mul(PRIME)
}

macro_rules! sources {
    ($($path:literal,)*) => {
        /// What counts, by its path from here.
        const SOURCES: &[(&str, &[u8])] = &[$(($path, include_bytes!($path))),*];
    };
}

sources! {
    "../protocol.rs",
    "parts.rs",
    "version.rs",
    "../stats.rs",
    "../probe.rs",
    "../chain/files.rs",
    "../chain/link.rs",
    "../chain/run.rs",
    "../drop_reason.rs",
    "../geometry.rs",
    "../link/counters.rs",
    "../own_counters.rs",
    "../link/tcp/inflow.rs",
    "../link/tcp/record.rs",
    "../link/tcp/tx.rs",
    "../shard/hash.rs",
    "../shard/key.rs",
    "../shard/split.rs",
    "../shard/table.rs",
    "../wait.rs",
    "../worker/connect.rs",
    "../supervisor/book.rs",
    "../supervisor/keeper.rs",
    "../supervisor/reclaims.rs",
    "../../../shm/src/anonymous.rs",
    "../../../shm/src/bell.rs",
    "../../../shm/src/counters.rs",
    "../../../shm/src/descriptor.rs",
    "../../../shm/src/fd_passing.rs",
    "../../../shm/src/bundle.rs",
    "../../../shm/src/bundle/table.rs",
    "../../../shm/src/bundle/view.rs",
    "../../../shm/src/lib.rs",
    "../../../shm/src/offload.rs",
    "../../../shm/src/packet.rs",
    "../../../shm/src/peer.rs",
    "../../../shm/src/pmc.rs",
    "../../../shm/src/pool.rs",
    "../../../shm/src/pool/bundles.rs",
    "../../../shm/src/pool/geometry.rs",
    "../../../shm/src/pool/link_set.rs",
    "../../../shm/src/pool/memory.rs",
    "../../../shm/src/pool/owner.rs",
    "../../../shm/src/pool/search.rs",
    "../../../shm/src/pool/slabs.rs",
    "../../../shm/src/pool/units.rs",
    "../../../shm/src/pool/view.rs",
    "../../../shm/src/confine.rs",
    "../../../shm/src/confine/list.rs",
    "../../../shm/src/prefetch.rs",
    "../../../shm/src/record_ring.rs",
    "../../../shm/src/region.rs",
    "../../../shm/src/ring.rs",
    "../../../shm/src/ring/consumer.rs",
    "../../../shm/src/ring/estate.rs",
    "../../../shm/src/ring/inlet.rs",
    "../../../shm/src/ring/producer.rs",
    "../../../shm/src/ring/slot.rs",
    "../../../shm/src/ring_memory.rs",
    "../../../shm/src/schedule.rs",
    "../../../shm/src/snapshots.rs",
    "../../../shm/src/staging.rs",
    "../../../shm/src/state.rs",
    "../../../shm/src/sync.rs",
    "../../../shm/src/tsc.rs",
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Source files below `folder`, by their path from `root`; those with tests only are none.
    fn sources_in(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name == "tests" || name.ends_with("tests.rs") {
                continue;
            }
            if path.is_dir() {
                sources_in(&path, root, found);
            } else if name.ends_with(".rs") {
                let path = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.push(format!("../../../shm/src/{path}"));
            }
        }
    }

    /// A file that is missing here could lay out memory in another way, and nobody would notice.
    #[test]
    fn every_file_that_can_shape_shared_memory_counts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shm/src");
        let mut found = Vec::new();
        sources_in(&root, &root, &mut found);
        assert!(found.len() > 10, "{found:?}");
        // What benchmarks compare with is no memory of a chain.
        found.retain(|path| !path.ends_with("src/floor.rs"));
        found.retain(|path| !SOURCES.iter().any(|(counted, _)| counted == path));
        assert!(found.is_empty(), "add these to SOURCES: {found:?}");
    }

    #[test]
    fn any_change_of_a_file_shows() {
        let text = b"offset 64: settled; offset 72: read.";
        let before = fingerprint(1, text);
        for at in 0..text.len() {
            let mut other = *text;
            other[at] ^= 1;
            assert_ne!(fingerprint(1, &other), before, "{at}");
        }
        assert_ne!(fingerprint(1, &text[..text.len() - 1]), before);
    }
}
