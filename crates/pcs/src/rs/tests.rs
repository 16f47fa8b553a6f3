// SPDX-License-Identifier: Apache-2.0
//! Goal: every level of vector instructions corrects exactly what the bit-by-bit reference
//! corrects. Method: random data with 0 to 20 wrong symbols, in batches of every size class.

use proptest::prelude::*;

use super::*;
use crate::reference::reed_solomon;

/// Data octets: three zeros, then 0 to 219. Parity as computed by two unrelated programs,
/// reedsolo 1.7.0 and libfec 1.0.
const GOLDEN: &str = "3368ccaac8ceccfaab9b3132e86287613e2b90af2dfc77410ec283cd52ec8526";

fn golden_data() -> Vec<u8> {
    [0, 0, 0].into_iter().chain(0..220).collect()
}

#[test]
fn the_golden_vector_is_made_at_every_level() {
    for simd in Simd::all() {
        let parity = Codec::new(Code::FULL, simd).parity(&golden_data());
        let hex: String = parity.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN, "{}", simd.name());
    }
    let parity = reed_solomon::parity(&golden_data());
    let hex: String = parity.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, GOLDEN);
}

/// A row of this code with random data.
fn row(code: Code, seed: &mut impl FnMut() -> u8) -> Row {
    let mut row = Row::ZERO;
    let first = usize::from(code.first_byte);
    row.0[first..ROW - PARITY].fill_with(&mut *seed);
    row.0[first] &= code.first_mask;
    row
}

fn generator(mut state: u64) -> impl FnMut() -> u8 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    }
}

fn spoil(code: Code, row: &mut Row, count: usize, random: &mut impl FnMut() -> u8) {
    let mut places = Vec::new();
    while places.len() < count {
        let place = random();
        if place > code.first_byte && !places.contains(&place) {
            places.push(place);
            row.0[usize::from(place)] ^= random().max(1);
        }
    }
}

#[test]
fn up_to_sixteen_errors_are_corrected_and_more_are_refused() {
    let mut random = generator(1);
    for code in [Code::FULL, Code::EPON] {
        for simd in Simd::all() {
            let codec = Codec::new(code, simd);
            for batch in [1, 2, 5, 11, 12, 31, 32, 40] {
                let mut rows: Vec<Row> = (0..batch).map(|_| row(code, &mut random)).collect();
                codec.encode_rows(&mut rows);
                let sent = rows.clone();
                for (i, row) in rows.iter_mut().enumerate() {
                    spoil(code, row, i % 21, &mut random);
                }
                let spoiled = rows.clone();
                let mut verdicts = vec![Correction::Clean; batch];
                codec.decode_rows(&mut rows, &mut verdicts);
                for (i, verdict) in verdicts.iter().enumerate() {
                    match (i % 21, verdict) {
                        (0, Correction::Clean) => assert_eq!(rows[i], sent[i]),
                        (1..=16, Correction::Corrected { symbols, .. }) => {
                            assert_eq!(usize::from(*symbols), i % 21);
                            assert_eq!(rows[i], sent[i]);
                        }
                        (17.., Correction::Uncorrectable) => assert_eq!(rows[i], spoiled[i]),
                        other => panic!("{other:?} at {}", simd.name()),
                    }
                }
            }
        }
    }
}

#[test]
fn a_correction_in_bits_that_are_not_sent_is_refused() {
    for simd in Simd::all() {
        let codec = Codec::new(Code::EPON, simd);
        for (byte, bit, is_sent) in [(4, 4, false), (4, 5, true), (3, 0, false), (5, 0, true)] {
            let mut rows = [Row::ZERO];
            rows[0].0[byte] = 1 << bit;
            let mut verdict = [Correction::Clean];
            codec.decode_rows(&mut rows, &mut verdict);
            assert_eq!(
                verdict[0] != Correction::Uncorrectable,
                is_sent,
                "{byte}.{bit}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_level_decides_as_the_reference(
        seed in 1_u64.., errors in 0_usize..=20, batch in prop_oneof![1_usize..4, 12_usize..33],
    ) {
        let mut random = generator(seed);
        let mut sent = vec![Row::ZERO; batch];
        for sent in &mut sent {
            *sent = row(Code::EPON, &mut random);
            let parity = reed_solomon::parity(&sent.0[1..ROW - PARITY]);
            sent.0[ROW - PARITY..].copy_from_slice(&parity);
            spoil(Code::EPON, sent, errors, &mut random);
        }
        // The reference takes its time: the first row of a batch speaks for it.
        let mut word: [u8; 255] = sent[0].0[1..].try_into().unwrap();
        let expected = reed_solomon::decode(&mut word);
        let mut first: Option<(Vec<Row>, Vec<Correction>)> = None;
        for simd in Simd::all() {
            let mut rows = sent.clone();
            let mut verdicts = vec![Correction::Clean; batch];
            Codec::new(Code::EPON, simd).decode_rows(&mut rows, &mut verdicts);
            prop_assert_eq!(verdicts[0], expected);
            prop_assert_eq!(&rows[0].0[1..], &word[..]);
            let found = (rows, verdicts);
            if let Some(first) = &first {
                prop_assert_eq!(first, &found);
            }
            first = Some(found);
        }
    }
}
