//! MACs with line bits between them: what reaches whom, when, and what errors on the line do.

use catena_engine::nf::{DropReason, Verdict};
use catena_engine::nf_bench::{Emitted, NfBench};
use catena_pcs::burst::TERMINATOR_BITS;
use catena_pcs::llid::{BROADCAST, MODE};
use serde_json::json;

use super::super::super::burst_time::{frame_octets, quanta_for, quanta_to};
use super::super::pon_packet::{MORE_FOLLOW, PON_HEADER_LEN, PonPacket, write_frame};
use super::super::tests::{Pon, frame, numbers};
use super::*;
use crate::chunk::{HEADER_LEN, Header};
use crate::l1sim;

fn phy(role: &str, direction: &str) -> NfBench {
    let config = json!({"role": role, "direction": direction});
    NfBench::new(&KIND, &config, &["out"]).unwrap()
}

fn pass(bench: &mut NfBench, packets: &[Emitted]) -> Vec<Emitted> {
    for packet in packets {
        bench.tag = packet.tag;
        bench.process(&[&packet.bytes]);
    }
    bench.emit(1000, false).0
}

/// Four directions of each ONU: a PHY that sends, a fibre each way, a PHY that receives. Station 0
/// is the OLT, which has one of each PHY.
pub(in super::super) struct Line {
    send: Vec<NfBench>,
    fibres: Vec<[NfBench; 2]>,
    receive: Vec<NfBench>,
}

impl Line {
    /// A line to as many ONUs as there are bit error rates.
    fn new(bers: &[f64]) -> Self {
        let mut line = Self {
            send: vec![phy("olt", "transmit")],
            receive: vec![phy("olt", "receive")],
            fibres: Vec::new(),
        };
        for (seed, ber) in bers.iter().enumerate() {
            line.send.push(phy("onu", "transmit"));
            line.receive.push(phy("onu", "receive"));
            line.fibres.push([0, 1].map(|way| {
                let config = json!({"ber": ber, "seed": 2 * seed + way});
                NfBench::new(&l1sim::KIND, &config, &["out"]).unwrap()
            }));
        }
        line
    }

    /// What a station sends becomes chunks.
    pub(in super::super) fn send(&mut self, from: usize, packets: Vec<Emitted>) -> Vec<Emitted> {
        pass(&mut self.send[from], &packets)
    }

    /// Chunks to or from ONU `onu` become packets for `node`.
    pub(in super::super) fn arrive(
        &mut self,
        node: usize,
        onu: usize,
        chunks: &[Emitted],
    ) -> Vec<Emitted> {
        let fibre = &mut self.fibres[onu - 1][usize::from(node == 0)];
        let arriving = chunks.iter().map(|chunk| {
            let processed = fibre.process_one(&chunk.bytes);
            assert_eq!(processed.verdict, Verdict::Output(0));
            Emitted {
                bytes: processed.bytes,
                ..*chunk
            }
        });
        let arriving: Vec<_> = arriving.collect();
        pass(&mut self.receive[node], &arriving)
    }
}

/// A PON in which 3 ONUs are registered and have sent and received 100 frames each.
fn served(line: Option<Line>) -> Pon {
    let mut pon = Pon::new(3, 100_000);
    pon.line = line;
    pon.run_ms(80);
    assert_eq!(pon.registered(), 3);
    for number in 0..100_u32 {
        for onu in 1..4 {
            let len = 60 + (number as usize * 37 * onu) % 1400;
            pon.nodes[onu].process_from(1, &[&frame(onu as u8, number, len)]);
        }
        let mut down = frame(9, number, 60 + (number as usize * 91) % 1400);
        down[..6].fill(0xff);
        pon.nodes[0].process_from(1, &[&down]);
        pon.run_ms(1);
    }
    pon.run_ms(20);
    pon
}

fn round_trips(pon: &mut Pon) -> Vec<serde_json::Value> {
    let shown = pon.nodes[0].nf().control(&json!("show")).unwrap();
    let mut onus: Vec<_> = shown["onus"].as_array().unwrap().clone();
    onus.sort_by_key(|onu| onu["mac"].as_str().map(str::to_owned));
    onus.iter().map(|onu| onu["rtt_quanta"].clone()).collect()
}

#[test]
fn frames_reach_both_ends_through_line_bits_with_errors() {
    let mut pon = served(Some(Line::new(&[1e-4, 3e-4, 0.0])));
    let all: Vec<u32> = (0..100).collect();
    for user in 1..4 {
        let theirs: Vec<Vec<u8>> = pon.received[0]
            .iter()
            .filter(|frame| frame[11] == user)
            .cloned()
            .collect();
        assert_eq!(numbers(&theirs), all, "upstream of {user}");
        let ours = &pon.received[usize::from(user)];
        assert_eq!(numbers(ours), all, "downstream to {user}");
    }
    for name in ["overlaps", "outside_slot", "malformed", "deregistrations"] {
        assert_eq!(pon.report(0, name), 0, "{name}");
    }
    let line = pon.line.as_mut().unwrap();
    for station in 0..4 {
        let receiver = &mut line.receive[station];
        assert_eq!(receiver.counter("codewords_uncorrectable"), 0);
        assert_eq!(receiver.counter("malformed"), 0);
        let has_errors = receiver.counter("codewords_corrected") > 0;
        assert_eq!(has_errors, station != 3, "{station}");
    }
    let ended = line.receive[0].counter("bursts_ended");
    let sent: u64 = (1..4).map(|onu| line.send[onu].counter("chunks")).sum();
    assert_eq!(ended, sent);
    // Of the first codewords downstream, lock was found.
    assert!(line.receive[1].counter("frames_unplaced") <= 2);
}

#[test]
fn a_phy_adds_no_time_that_mpcp_could_see() {
    let with = round_trips(&mut served(Some(Line::new(&[1e-4; 3]))));
    let without = round_trips(&mut served(None));
    assert_eq!(with, without);
}

#[test]
fn an_onu_behind_a_bad_fibre_stays_out_and_disturbs_nobody() {
    let mut pon = Pon::new(3, 100_000);
    pon.line = Some(Line::new(&[1e-4, 0.03, 1e-4]));
    pon.run_ms(80);
    assert_eq!(pon.registered(), 2);
    for name in ["overlaps", "outside_slot", "malformed"] {
        assert_eq!(pon.report(0, name), 0, "{name}");
    }
    assert_eq!(pon.report(2, "registered"), 0);
}

/// Packets of a burst of some frames that begins at `first`.
fn burst(llid: u16, first: u32, lens: &[usize]) -> Vec<Emitted> {
    let mut octets = 0;
    let packets = lens.iter().enumerate().map(|(index, len)| {
        let frame = frame(1, index as u32, *len);
        let instant = first.wrapping_add(quanta_to(octets) as u32);
        octets += frame_octets(*len);
        let mut bytes = vec![0; PON_HEADER_LEN + len];
        write_frame(&mut bytes, (instant, llid), (&frame, &[]));
        let tag = if index + 1 < lens.len() {
            MORE_FOLLOW
        } else {
            0
        };
        Emitted {
            output: 0,
            bytes,
            tag,
        }
    });
    packets.collect()
}

fn instants(packets: &[Emitted]) -> Vec<u32> {
    let instant = |packet: &Emitted| PonPacket::parse(&packet.bytes).unwrap().instant;
    packets.iter().map(instant).collect()
}

#[test]
fn frames_of_a_burst_come_at_their_instants_and_a_burst_is_one_chunk() {
    let (mut onu, mut olt) = (phy("onu", "transmit"), phy("olt", "receive"));
    // Any bit of an octet, and across the end of the clock.
    for first in (0..17).map(|step| u32::MAX - 40 + step) {
        let sent = burst(5, first, &[60, 1514, 61, 1996, 333, 700, 64, 1000]);
        let chunks = pass(&mut onu, &sent);
        assert_eq!(chunks.len(), 1);
        let back = pass(&mut olt, &chunks);
        let frames = |packets: &[Emitted]| -> Vec<Vec<u8>> {
            let frame = |packet: &Emitted| packet.bytes[4..].to_vec();
            packets.iter().map(frame).collect()
        };
        assert_eq!(frames(&back), frames(&sent));
        for (found, wanted) in instants(&back).into_iter().zip(instants(&sent)) {
            let apart = super::super::super::quanta_between(wanted, found);
            // The block in which it begins says when: not behind its first octet.
            assert!((-1..=0).contains(&apart), "{apart} quanta at {first}");
        }
        assert_eq!(instants(&back)[0], first);
    }
    assert_eq!(olt.counter("bursts_ended"), 17);
}

/// What an ONU is granted for a burst: its MPCPDU has a codeword of its own, as the OLT counts it.
fn granted_bits(octets: u64, sync_time: u64) -> u64 {
    let slot = sync_time + quanta_for(frame_octets(0)) + quanta_for(octets - frame_octets(0));
    slot * 165
}

#[test]
fn no_burst_is_longer_than_its_grant() {
    let mut onu = phy("onu", "transmit");
    for number in 0..400_usize {
        let count = 1 + number % 9;
        let lens: Vec<usize> = (0..=count)
            .map(|frame| match frame {
                0 => 60,
                _ => 60 + (number * 389 + frame * 727) % 1437,
            })
            .collect();
        let chunks = pass(&mut onu, &burst(5, 100_000 * number as u32, &lens));
        let header = Header::parse(&chunks[0].bytes).unwrap();
        // Its terminator is sent while the laser turns off.
        let bits = u64::from(header.count) - 3 * 66;
        let octets = lens.iter().map(|&len| frame_octets(len)).sum();
        assert!(bits <= granted_bits(octets, 50), "{lens:?}: {bits}");
        // The gap behind the last frame may need no codeword of its own.
        let codewords = (bits - 65 * 66) / 2046;
        let needed = quanta_for(octets) * 10 / 124;
        assert!(
            (needed - 1..=needed).contains(&codewords),
            "{lens:?}: {codewords}"
        );
    }
}

#[test]
fn sync_time_and_delay_bound_are_settings_of_an_onu_that_sends() {
    let length = |config: serde_json::Value| {
        let mut onu = NfBench::new(&KIND, &config, &["out"]).unwrap();
        let chunks = pass(&mut onu, &burst(5, 1000, &[60]));
        Header::parse(&chunks[0].bytes).unwrap().count
    };
    let base = length(json!({"role": "onu", "direction": "transmit"}));
    assert_eq!(base, (65 + 31 + 3) * 66);
    let with = |key: &str, value: u16| json!({"role": "onu", "direction": "transmit", key: value});
    assert_eq!(length(with("sync_blocks", 124)), base + 60 * 66);
    assert_eq!(length(with("delay_bound", 200)), base + 5 * 2046);
    for (key, most) in [("sync_blocks", 1024), ("delay_bound", 4096)] {
        for value in [1, most] {
            let right = with(key, value);
            assert!(NfBench::new(&KIND, &right, &["out"]).is_ok(), "{right}");
        }
    }
    for wrong in [
        with("sync_blocks", 0),
        with("sync_blocks", 1025),
        with("delay_bound", 0),
        with("delay_bound", 4097),
        json!({"role": "olt", "direction": "transmit", "sync_blocks": 9}),
        json!({"role": "onu", "direction": "receive", "delay_bound": 9}),
    ] {
        assert!(NfBench::new(&KIND, &wrong, &["out"]).is_err(), "{wrong}");
    }
}

#[test]
fn line_bits_of_the_other_direction_and_of_nothing_are_malformed() {
    let up = pass(&mut phy("onu", "transmit"), &burst(5, 1000, &[100]));
    let mut downstream = phy("onu", "receive");
    assert!(pass(&mut downstream, &up).is_empty());
    assert_eq!(downstream.counter("malformed"), 1);
    assert_eq!(downstream.counter("line_bits"), 0);
}

#[test]
fn a_burst_goes_on_where_its_last_frame_ended_and_nowhere_else() {
    let apart = |quanta: u32| {
        let mut packets = burst(5, 1000, &[100, 100]);
        let next = 1000 + quanta_to(frame_octets(100)) as u32 + quanta;
        packets[1].bytes[..4].copy_from_slice(&next.to_le_bytes());
        pass(&mut phy("onu", "transmit"), &packets).len()
    };
    assert_eq!((apart(0), apart(8), apart(9)), (1, 1, 2));
}

#[test]
fn a_chunk_without_a_burst_is_counted() {
    let (mut onu, mut olt) = (phy("onu", "transmit"), phy("olt", "receive"));
    let mut chunks = pass(&mut onu, &burst(5, 1000, &[100, 60]));
    // Its delimiter, behind 64 blocks of sync pattern.
    let first = HEADER_LEN + 64 * 66 / 8;
    for octet in &mut chunks[0].bytes[first..first + 9] {
        *octet ^= 0x55;
    }
    chunks.extend(pass(&mut onu, &burst(5, 9000, &[100, 60])));
    assert_eq!(instants(&pass(&mut olt, &chunks)).len(), 2);
    assert_eq!(olt.counter("chunks_burstless"), 1);
    assert_eq!(olt.counter("bursts_missed"), 1);
}

#[test]
fn a_burst_whose_end_is_missing_ends_where_another_begins() {
    let mut onu = phy("onu", "transmit");
    let mut first = burst(5, 1000, &[60, 200]);
    first[1].tag = MORE_FOLLOW;
    assert!(pass(&mut onu, &first).is_empty(), "more follow");
    let chunks = pass(&mut onu, &burst(5, 9000, &[100]));
    assert_eq!(chunks.len(), 2);
    assert_eq!(
        instants(&pass(&mut phy("olt", "receive"), &chunks)).len(),
        3
    );
}

#[test]
fn a_burst_without_a_terminator_does_not_spoil_the_next() {
    let (mut onu, mut olt) = (phy("onu", "transmit"), phy("olt", "receive"));
    let mut chunks = pass(&mut onu, &burst(5, 1000, &[600, 200]));
    chunks.extend(pass(&mut onu, &burst(5, 9000, &[100])));
    // Its last codeword and its end are noise.
    let end = chunks[0].bytes.len();
    for octet in &mut chunks[0].bytes[end - 60..] {
        *octet = octet.wrapping_mul(167) ^ 0x5c;
    }
    let back = pass(&mut olt, &chunks);
    let last = instants(&back).pop();
    assert_eq!(last, Some(9000), "{:?}", instants(&back));
}

/// Whatever part of a codeword stands where its end should.
#[test]
fn a_burst_whose_chunk_ends_too_soon_does_not_spoil_the_next() {
    let mut onu = phy("onu", "transmit");
    let whole = pass(&mut onu, &burst(5, 1000, &[600, 200])).remove(0);
    let next = pass(&mut onu, &burst(5, 9000, &[100])).remove(0);
    let header = Header::parse(&whole.bytes).unwrap();
    let end = usize::from(header.bit) + header.count as usize;
    for missing in (1..TERMINATOR_BITS).step_by(7) {
        let mut cut = whole.clone();
        // Light where darkness should be, and then nothing.
        for bit in end - TERMINATOR_BITS..end - missing {
            cut.bytes[HEADER_LEN + bit / 8] |= 1 << (bit % 8);
        }
        let count = header.count - missing as u32;
        Header { count, ..header }.write(&mut cut.bytes);
        let mut olt = phy("olt", "receive");
        let back = pass(&mut olt, &[cut, next.clone()]);
        assert_eq!(instants(&back).pop(), Some(9000), "{missing} bits less");
        assert_eq!(olt.counter("chunks_burstless"), 0, "{missing} bits less");
    }
}

#[test]
fn a_burst_that_no_chunk_holds_is_dropped_and_the_next_is_whole() {
    let mut onu = phy("onu", "transmit");
    assert!(pass(&mut onu, &burst(5, 1000, &[1500; 200])).is_empty());
    assert_eq!(onu.counter("bursts_cut"), 1);
    let chunks = pass(&mut onu, &burst(5, 1 << 20, &[100]));
    let back = pass(&mut phy("olt", "receive"), &chunks);
    assert_eq!(instants(&back), [1 << 20]);
}

#[test]
fn a_frame_is_placed_in_its_own_chunk_only() {
    let (mut olt, mut onu) = (phy("olt", "transmit"), phy("onu", "receive"));
    let send = |olt: &mut NfBench, instant: u32| {
        let mut bytes = vec![0; PON_HEADER_LEN + 60];
        let frame = frame(1, 0, 60);
        write_frame(&mut bytes, (instant, BROADCAST | MODE), (&frame, &[]));
        let tag = 0;
        pass(
            olt,
            &[Emitted {
                output: 0,
                bytes,
                tag,
            }],
        )
    };
    let mut found = Vec::new();
    for instant in 0..8 {
        let mut chunks = send(&mut olt, 1000 * instant);
        if instant == 5 {
            // It does not arrive.
            chunks.clear();
        }
        found.extend(instants(&pass(&mut onu, &chunks)));
    }
    // One codeword each: the first two make lock, and come too late for the first one. What follows
    // the one that is missing meets a descrambler that holds other bits.
    assert_eq!(found, [1000, 2000, 3000, 4000, 7000]);
    assert_eq!(onu.counter("frames_unplaced"), 0);
    assert_eq!(onu.counter("locks"), 1);
}

#[test]
fn what_is_no_packet_or_no_chunk_of_this_direction_is_malformed() {
    let chunks = pass(&mut phy("onu", "transmit"), &burst(5, 1000, &[100]));
    for mut bench in [
        phy("olt", "transmit"),
        phy("onu", "transmit"),
        phy("olt", "receive"),
        phy("onu", "receive"),
    ] {
        let is_olt_receiver = bench.counter("malformed") == 0
            && bench
                .nf()
                .report()
                .iter()
                .any(|(name, _)| *name == "bursts");
        for bytes in [&[0_u8; 70][..], &[0xff; 200], b"EPCH"] {
            let verdict = bench.process_one(bytes).verdict;
            assert_eq!(verdict, Verdict::Drop(DropReason::Malformed));
        }
        if !is_olt_receiver {
            let verdict = bench.process_one(&chunks[0].bytes).verdict;
            assert_eq!(verdict, Verdict::Drop(DropReason::Malformed));
        }
        assert!(bench.nf().control(&json!("counts")).is_err());
    }
}

#[test]
fn settings_that_are_left_out_are_those_of_the_reference() {
    let params = |more: serde_json::Value| {
        let mut config = json!({"role": "onu", "direction": "transmit"});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        parse_config::<Config>(&config).unwrap().params().unwrap()
    };
    let named = crate::documented::defaults("pon_phy");
    assert!(named.contains_key("sync_blocks"), "{named:?}");
    assert_eq!(params(json!({})), params(named.into_iter().collect()));
}

#[test]
fn a_frame_downstream_is_whole_in_its_chunk_whatever_its_length() {
    let (mut olt, mut onu) = (phy("olt", "transmit"), phy("onu", "receive"));
    for number in 0..500_u32 {
        // The first ones make lock.
        let len = 60 + number.saturating_sub(20) as usize;
        let frame = frame(1, number, len);
        let mut bytes = vec![0; PON_HEADER_LEN + len];
        let instant = 1000 * number;
        write_frame(&mut bytes, (instant, BROADCAST | MODE), (&frame, &[]));
        let packet = Emitted {
            output: 0,
            bytes,
            tag: 0,
        };
        let chunks = pass(&mut olt, &[packet]);
        let back = pass(&mut onu, &chunks);
        if number >= 20 {
            assert_eq!(instants(&back), [instant], "{len} octets");
        }
    }
}

#[test]
fn the_longest_burst_has_room_for_one_codeword_behind_it() {
    let mut onu = phy("onu", "transmit");
    let mut longest = 0;
    // 144 frames of 1500 octets, and one that makes 1,020 to 1,023 codewords.
    for (number, codewords) in (1_020..1_024).enumerate() {
        let tail = codewords * 216 - 16 - 144 * 1_524 - 24 - 20;
        let lens = [vec![1_500; 144], vec![tail]].concat();
        let first = (number as u32 + 1) << 24;
        for chunk in pass(&mut onu, &burst(5, first, &lens)) {
            let header = Header::parse(&chunk.bytes).unwrap();
            // Sync pattern, delimiter and terminator are 68 blocks.
            longest = longest.max((header.count / 66 - 68) / 31);
        }
    }
    assert_eq!(longest, 1_021);
    assert_eq!(transmit::LINE_LEN_MAX, (256 << 10) - 128 - 64);
    assert_eq!(onu.counter("bursts_cut"), 2);
}

#[test]
fn a_burst_begins_at_the_bit_of_its_instant() {
    let mut onu = phy("onu", "transmit");
    // A quantum is 165 bits.
    let bit = |instant: u32| {
        let chunks = pass(&mut onu, &burst(5, instant, &[60]));
        Header::parse(&chunks[0].bytes).unwrap().bit
    };
    let bits: Vec<u8> = (0..8).map(bit).collect();
    assert_eq!(bits, [0, 5, 2, 7, 4, 1, 6, 3]);
}

#[test]
fn a_full_output_is_tried_again_after_a_microsecond() {
    let mut onu = phy("onu", "transmit");
    onu.now.0 = 5_000_000;
    onu.process(&[&burst(5, 1000, &[60])[0].bytes]);
    let (sent, next) = onu.emit(0, false);
    assert_eq!((sent.len(), next.unwrap().0), (0, 5_001_000));
    assert_eq!(onu.emit(1, false).0.len(), 1);
    assert_eq!(QUEUE_BYTES, 4 << 20);
}
