//! Latencies in bounded memory: exact count, sum and ends, and evenly spaced samples in order.
//!
//! When the list is full every second sample is dropped and from then on only every second packet
//! is kept, and so on: what remains covers the whole trial evenly, so that it can be cut into
//! blocks in time.

use super::arrival::Arrival;

/// A packet's arrival and how long it took, both in ticks, and which packet it was: two samples
/// that follow each other in a flow are a pair for RFC 3393 only if their numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LatencySample {
    /// When it was received.
    pub received: u64,
    /// From the intended send time to `received`. Below 0 only if clocks disagree.
    pub latency: i64,
    /// From the intended send time to the actual one.
    pub late: u64,
    /// Its flow.
    pub flow: u32,
    /// Its number in the flow.
    pub sequence: u64,
}

/// Records latencies.
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    samples: Vec<LatencySample>,
    capacity: usize,
    /// Every so many packets is kept.
    stride: u64,
    until_next: u64,
    count: u64,
    sum: i128,
    least: i64,
    most: i64,
}

impl LatencyRecorder {
    /// Keeps at most `capacity` samples, and at least 2.
    pub fn new(capacity: usize) -> Self {
        // Even, so that halving leaves the spacing as it is.
        let capacity = capacity.max(2).next_multiple_of(2);
        Self {
            samples: Vec::with_capacity(capacity),
            capacity,
            stride: 1,
            until_next: 0,
            count: 0,
            sum: 0,
            least: i64::MAX,
            most: i64::MIN,
        }
    }

    /// Records a packet.
    #[inline]
    pub fn record(&mut self, arrival: &Arrival) {
        let (received, intended) = (arrival.received, arrival.intended);
        let latency = received.wrapping_sub(intended).cast_signed();
        self.count += 1;
        self.sum += i128::from(latency);
        self.least = self.least.min(latency);
        self.most = self.most.max(latency);
        if self.until_next > 0 {
            self.until_next -= 1;
            return;
        }
        if self.samples.len() == self.capacity {
            self.thin();
        }
        self.until_next = self.stride - 1;
        self.samples.push(LatencySample {
            received,
            latency,
            late: arrival.late,
            flow: arrival.flow,
            sequence: arrival.sequence,
        });
    }

    #[cold]
    fn thin(&mut self) {
        let mut index = 0;
        self.samples.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    /// The samples, in order of arrival.
    pub fn samples(&self) -> &[LatencySample] {
        &self.samples
    }

    /// Every so many packets is a sample.
    pub const fn stride(&self) -> u64 {
        self.stride
    }

    /// Packets recorded.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Mean latency of all packets, in ticks.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Least and most latency of all packets, in ticks.
    pub fn range(&self) -> Option<(i64, i64)> {
        (self.count > 0).then_some((self.least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(received: u64, intended: u64) -> Arrival {
        Arrival {
            flow: 3,
            sequence: received,
            intended,
            late: 0,
            received,
            is_valid: true,
        }
    }

    #[test]
    fn samples_stay_evenly_spaced_and_bounded() {
        let mut recorder = LatencyRecorder::new(8);
        for packet in 0..1000_u64 {
            recorder.record(&arrival(1000 * packet + packet % 7, 1000 * packet));
        }
        assert!((4..=8).contains(&recorder.samples().len()));
        let places: Vec<_> = recorder
            .samples()
            .iter()
            .map(|s| s.received / 1000)
            .collect();
        let expected: Vec<_> = (0..places.len() as u64)
            .map(|index| index * recorder.stride())
            .collect();
        assert_eq!(places, expected);
        assert_eq!((recorder.count(), recorder.range()), (1000, Some((0, 6))));
        let mean = (0..1000).map(|packet| packet % 7).sum::<u64>() as f64 / 1000.0;
        assert_eq!(recorder.mean(), Some(mean));
    }

    #[test]
    fn clocks_that_disagree_give_negative_latencies() {
        let mut recorder = LatencyRecorder::new(2);
        recorder.record(&arrival(90, 100));
        assert_eq!(recorder.range(), Some((-10, -10)));
        assert_eq!(LatencyRecorder::new(0).mean(), None);
    }
}
