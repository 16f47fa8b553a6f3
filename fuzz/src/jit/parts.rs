// SPDX-License-Identifier: Apache-2.0
//! Tables and meters that random programs use: always the same ones.

use catena_flow::meter::{Gcra, SrTcm, TrTcm, Window};
use catena_flow::program::ir::{Meter, MeterKind, Width};
use catena_flow::program::table::{Maglev, Match, Pattern, TableEntry, TableShape};

/// Exact ones and a ternary one, with the same data, and slots that follow from one of them.
pub fn tables() -> Vec<TableShape> {
    let table = |key: &[(Match, Width)], entries: &[(Vec<Pattern>, [u128; 2])]| TableShape {
        name: format!("t{}", key.len()),
        key: key.to_vec(),
        data: vec![("a".to_owned(), 8), ("b".to_owned(), 70)],
        default: vec![3, 1 << 66],
        entries: entries
            .iter()
            .map(|(key, data)| TableEntry {
                key: key.clone(),
                priority: 1,
                data: data.to_vec(),
            })
            .collect(),
        capacity: 8,
        maglev: None,
    };
    let exact = |a, b| vec![Pattern::exact(a, 16), Pattern::exact(b, 100)];
    let slots = TableShape {
        name: "slots".to_owned(),
        key: vec![(Match::Exact, 16)],
        data: vec![("server".to_owned(), 8)],
        default: vec![9],
        entries: Vec::new(),
        capacity: 7,
        maglev: Some(Maglev {
            of: 2,
            weight: Some(0),
            slots: 7,
        }),
    };
    let one = |key| vec![Pattern::exact(key, 8)];
    vec![
        table(
            &[(Match::Exact, 16), (Match::Exact, 100)],
            &[(exact(0, 0), [1, 2]), (exact(80, 1), [9, 1 << 69])],
        ),
        table(
            &[(Match::Ternary, 8)],
            &[(vec![Pattern::Masked(1, 1)], [7, 8])],
        ),
        table(&[(Match::Exact, 8)], &[(one(1), [1, 1]), (one(2), [3, 5])]),
        slots,
    ]
}

/// One of each kind. Nanoseconds are no whole credits of theirs.
pub fn meters() -> Vec<Meter> {
    let kinds = [
        Gcra::new(2_101_000, 3).map(MeterKind::Gcra),
        SrTcm::new(1_000_003, 500, 700).map(MeterKind::SrTcm),
        TrTcm::new(1_000_003, 500, 2_000_001, 700).map(MeterKind::TrTcm),
        Window::new(1000, 3).map(MeterKind::Window),
    ];
    let meter = |kind| Meter {
        name: "m".to_owned(),
        kind,
    };
    kinds.into_iter().flatten().map(meter).collect()
}
