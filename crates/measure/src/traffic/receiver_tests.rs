//! What a receiver counts.

use super::*;
use std::sync::{Arc, Mutex};

use crate::profile::{PacketShape, Transport as Carried};
use crate::traffic::template::Template;

/// Flow, sequence number, latency, and whether the stamp was whole.
type Seen = (u32, u64, u64, bool);

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<Seen>>>);

impl ArrivalSink for Noted {
    fn arrived(&mut self, arrival: &Arrival) {
        let latency = arrival.received - arrival.intended;
        let noted = (arrival.flow, arrival.sequence, latency, arrival.is_valid);
        self.0.lock().unwrap().push(noted);
    }
}

fn frame(shape: &PacketShape, trial: u8, sequence: u64, intended: u64) -> Vec<u8> {
    let template = Template::new(shape, 100, 4);
    let mut frame = vec![0; template.len()];
    template.write(&mut frame, 3);
    Stamp {
        trial,
        flow: 3,
        sequence,
        intended,
        late: 7,
    }
    .write(&mut frame);
    frame
}

#[test]
fn each_kind_of_packet_has_its_count() {
    let shape = PacketShape::default();
    let tcp = PacketShape {
        transport: Carried::TcpSyn,
        ..shape.clone()
    };
    let mut padded = frame(&shape, 1, 2, 9_900);
    padded.extend([0x77; 9]);
    let mut damaged = frame(&shape, 1, 3, 9_900);
    let last = damaged.len() - 5;
    damaged[last] ^= 4;
    let arp = [&[0xff; 6][..], &[2; 6], &[0x08, 0x06], &[0; 46]].concat();
    let frames = [
        frame(&tcp, 1, 1, 9_990),
        padded,
        damaged,
        frame(&shape, 2, 9, 9_900),
        arp,
    ];
    let noted = Noted::default();
    let rate = TickRate::from_ns_per_tick(1.0);
    let mut port = ReceiverPort::new(Some(1), rate, 10, noted.clone());
    port.take_burst(frames.iter().map(Vec::as_slice), 10_000);
    let expected = ReceiveRecord {
        packets: 5,
        bytes: 96 + 105 + 96 + 96 + 60,
        stamped: 2,
        corrupted: 1,
        other_trial: 1,
        foreign: 1,
        bursts: 1,
        full_bursts: 1,
        ..ReceiveRecord::default()
    };
    assert_eq!(*port.record(), expected);
    let seen = noted.0.lock().unwrap().clone();
    assert_eq!(
        seen,
        [(3, 1, 10, true), (3, 2, 100, true), (0, 0, 0, false)]
    );
    assert_eq!(port.latencies().range(), Some((10, 100)));
    let late = port.latencies().samples().iter().map(|sample| sample.late);
    assert_eq!(late.collect::<Vec<_>>(), [7, 7]);
}

/// A device of one packet in 100 ns, which is offered two, in a trial of 1000 ns behind a warm-up
/// of 500 ns: it holds 5 packets at the beginning, 15 at the end.
#[test]
fn what_a_device_holds_comes_behind_warm_up_and_trial() {
    let rate = TickRate::from_ns_per_tick(1.0);
    let mut port = ReceiverPort::new(Some(3), rate, 10, ());
    let window = serde_json::json!({ "warmup": "500ns", "duration": "1us" });
    port.window = Some(Window::new(&serde_json::from_value(window).unwrap(), rate));
    for number in 0..30 {
        let intended = 10_000 + 50 * number;
        let trial = if number < 10 { 3 + 128 } else { 3 };
        let bytes = frame(&PacketShape::default(), trial, number, intended);
        port.take_burst([bytes.as_slice()].into_iter(), 10_000 + 100 * number);
    }
    let record = port.record();
    assert_eq!((record.stamped, record.other_trial), (20, 10));
    assert_eq!((record.held_before, record.held_after), (5, 15));
}

#[test]
fn a_receiver_is_stalled_only_while_more_waits_for_it() {
    let stalled_ns = |len: usize| {
        let rate = TickRate::from_ns_per_tick(1.0);
        let mut port = ReceiverPort::new(None, rate, 10, Noted::default());
        for burst in 0..100 {
            port.note_gap(len, burst * 50_000);
        }
        port.stalls().stalled()
    };
    // Packets of 20 kpps that come by ones and twos, each as large a burst as any.
    assert_eq!((stalled_ns(1), stalled_ns(2)), (0, 0));
    assert_eq!(stalled_ns(128), 99 * 50_000);
}
