//! The ring of records: a property test against a list, hostile writers, and a loom model.

use super::*;

#[cfg(loom)]
use loom::sync::Arc;

/// A ring's words on the heap.
#[derive(Debug)]
struct Heap {
    begun: AtomicU64,
    head: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Heap {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            begun: AtomicU64::new(0),
            head: AtomicU64::new(0),
            words: (0..capacity * RECORD_WORDS)
                .map(|_| AtomicU64::new(0))
                .collect(),
        })
    }
}

impl RecordMemory for Arc<Heap> {
    fn capacity(&self) -> usize {
        self.words.len() / RECORD_WORDS
    }
    fn begun(&self) -> &AtomicU64 {
        &self.begun
    }
    fn head(&self) -> &AtomicU64 {
        &self.head
    }
    fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        &self.words[slot * RECORD_WORDS + word]
    }
}

/// Goal: a reader gets whole records, in order, whatever the writer does meanwhile. Method: a
/// writer goes round a ring of one slot while a reader copies; every order of their steps.
#[cfg(loom)]
#[test]
fn loom_a_reader_never_sees_half_a_record() {
    loom::model(|| {
        let heap = Heap::new(1);
        let mut reader = RecordReader::from_now(heap.clone());
        let mut writer = RecordWriter::new(heap);
        let thread = loom::thread::spawn(move || {
            writer.push([1; RECORD_WORDS]);
            writer.push([2; RECORD_WORDS]);
        });
        let mut seen = Vec::new();
        reader.read(&mut seen);
        thread.join().unwrap();
        reader.read(&mut seen);
        let first: Vec<u64> = seen.iter().map(|record| record[0]).collect();
        assert!(
            seen.iter()
                .all(|record| *record == [record[0]; RECORD_WORDS])
        );
        assert!(first.is_sorted() && first.ends_with(&[2]), "{first:?}");
        assert_eq!(seen.len() as u64 + reader.lost(), 2);
        assert_eq!(reader.violations(), 0);
    });
}

#[cfg(not(loom))]
mod plain {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any rhythm of writing and reading gives a list's last records, and counts the others.
        #[test]
        fn what_is_read_or_lost_is_what_was_written(
            rhythm in prop::collection::vec(0_u64..20, 1..60),
        ) {
            let heap = Heap::new(8);
            let mut reader = RecordReader::from_now(heap.clone());
            let mut writer = RecordWriter::new(heap);
            let (mut written, mut expected, mut lost) = (0, Vec::new(), 0);
            let mut seen = Vec::new();
            for count in rhythm {
                for _ in 0..count {
                    writer.push([written, written + 1, written + 2, written + 3]);
                    written += 1;
                }
                let kept = count.min(8);
                lost += count - kept;
                expected.extend((written - kept..written).map(|n| [n, n + 1, n + 2, n + 3]));
                prop_assert_eq!(reader.read(&mut seen) as u64, kept);
            }
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(reader.lost(), lost);
            prop_assert_eq!(reader.violations(), 0);
        }

        /// A writer that scribbles over all it can write costs a reader nothing but records.
        #[test]
        fn scribbles_are_survived(
            scribbles in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..40),
        ) {
            let heap = Heap::new(8);
            let mut reader = RecordReader::from_now(heap.clone());
            for (begun, head, word) in scribbles {
                heap.begun.store(begun, Ordering::Relaxed);
                heap.head.store(head, Ordering::Relaxed);
                heap.words.iter().for_each(|here| here.store(word, Ordering::Relaxed));
                let mut seen = Vec::new();
                prop_assert!(reader.read(&mut seen) <= 8);
                prop_assert_eq!(reader.read(&mut seen), 0, "the same head twice");
            }
        }
    }

    #[test]
    fn a_page_travels_as_a_sealed_region() {
        let page = RecordPage::create().unwrap();
        let (fd, len) = page.memory();
        let theirs = RecordPage::attach(fd.try_clone_to_owned().unwrap(), len).unwrap();
        let mut reader = RecordReader::from_now(theirs);
        let mut writer = RecordWriter::new(page);
        for number in 0..RECORD_CAPACITY as u64 + 10 {
            writer.push([number; RECORD_WORDS]);
        }
        let mut seen = Vec::new();
        assert_eq!(reader.read(&mut seen), RECORD_CAPACITY);
        assert_eq!((reader.lost(), seen[0]), (10, [10; RECORD_WORDS]));
        assert_eq!(reader.read(&mut seen), 0);
        let counters = crate::counters::Counters::create(8).unwrap();
        let (fd, len) = counters.memory();
        assert!(RecordPage::attach(fd.try_clone_to_owned().unwrap(), len).is_err());
    }
}
