// SPDX-License-Identifier: Apache-2.0
//! Tests of values: one row of a table and more for each IE that has one.

use crate::pfcp::coding::Fault;
use crate::pfcp::element::Ie;
use crate::pfcp::ie_type::{Form, IeType};
use crate::pfcp::key;
use crate::testing::hex;
use proptest::prelude::*;
use table::TABLE;

mod table;

#[test]
fn values_and_bytes_agree() {
    for &(ie_type, text, _, shown) in TABLE {
        let value = hex(text);
        assert_eq!(key::check(ie_type, &value), Ok(()), "{ie_type} {text}");
        let ie = Ie {
            ie_type,
            enterprise: None,
            value: &value,
        };
        assert_eq!(ie.to_string(), format!("{ie_type}: {shown}"));
        let mut written = [0xee; 64];
        let len = key::rewrite(ie_type, &value, &mut written);
        assert_eq!(
            len.map(|len| &written[..len]),
            Some(&value[..]),
            "{ie_type} {text}"
        );
        let form = ie_type.definition().expect("it is in the table").form;
        assert!(form.allows(value.len()), "{ie_type} {text} {form:?}");
    }
}

#[test]
fn every_key_has_a_row() {
    for ie_type in key::TYPED {
        assert!(TABLE.iter().any(|row| row.0 == *ie_type), "{ie_type}");
    }
}

#[test]
fn short_values_have_an_invalid_length() {
    for &(ie_type, text, least, _) in TABLE {
        let value = hex(text);
        for len in 0..least {
            let cut = key::check(ie_type, &value[..len]);
            assert_eq!(cut, Err(Fault::Length), "{ie_type} {text} cut at {len}");
        }
        assert_eq!(key::check(ie_type, &value), Ok(()), "{ie_type} {text}");
    }
}

/// IEs whose last field takes what is there, or is there when there is more.
const OPEN_ENDED: &[IeType] = &[
    IeType::APPLY_ACTION,
    IeType::CP_FUNCTION_FEATURES,
    IeType::FQ_CSID,
    IeType::NODE_ID,
    IeType::OUTER_HEADER_REMOVAL,
    IeType::REPORTING_TRIGGERS,
    IeType::SMF_SET_ID,
    IeType::UP_FUNCTION_FEATURES,
    IeType::USAGE_REPORT_TRIGGER,
];

/// What later releases append is no error, and is not written again.
#[test]
fn octets_behind_an_extendable_value_are_ignored() {
    for &(ie_type, text, ..) in TABLE {
        let form = ie_type.definition().map(|definition| definition.form);
        let is_extendable = matches!(form, Some(Form::Extendable(_)));
        if !is_extendable || OPEN_ENDED.contains(&ie_type) {
            continue;
        }
        let value = hex(text);
        let longer = [&value[..], &[0xff, 0xff]].concat();
        let mut written = [0; 64];
        let len = key::rewrite(ie_type, &longer, &mut written).expect("it is readable");
        assert_eq!(written[..len], value, "{ie_type} {text}");
    }
}

#[test]
fn contradictions_and_reserved_values_are_refused() {
    let table = [
        (IeType::CAUSE, "00"),
        (IeType::NODE_ID, "03 c0000201"),
        (IeType::NODE_ID, "02"),
        (IeType::NODE_ID, "02 04736d66"),
        (IeType::NODE_ID, "02 40736d66"),
        (IeType::NODE_ID, "02 0000"),
        (IeType::F_SEID, "00 0000000000000001"),
        (IeType::F_TEID, "00 00000001"),
        (IeType::F_TEID, "04"),
        (IeType::F_TEID, "09 00000001 c0000201 07"),
        (IeType::UE_IP_ADDRESS, "04"),
        (IeType::UE_IP_ADDRESS, "12 0a000001"),
        (IeType::UE_IP_ADDRESS, "60 81"),
        (IeType::UE_IP_ADDRESS, "28 41"),
        (IeType::REMOTE_GTP_U_PEER, "00"),
        (IeType::CP_IP_ADDRESS, "00"),
        (IeType::IP_MULTICAST_ADDRESS, "03 00000000"),
        (IeType::FQ_CSID, "31 00000000 0001"),
        (IeType::OUTER_HEADER_CREATION, "0000"),
        (IeType::OUTER_HEADER_CREATION, "0080"),
        (IeType::APPLY_ACTION, "00"),
        (IeType::APPLY_ACTION, "03"),
        (IeType::APPLY_ACTION, "08"),
        (IeType::REPORTING_TRIGGERS, "0000"),
        (IeType::USAGE_REPORT_TRIGGER, "0000"),
        (IeType::MEASUREMENT_METHOD, "00"),
        (IeType::REPORT_TYPE, "00"),
        (IeType::REPORT_TYPE, "80"),
        (IeType::NODE_REPORT_TYPE, "00"),
        (IeType::VOLUME_THRESHOLD, "00"),
        (IeType::VOLUME_MEASUREMENT, "00"),
        (IeType::PACKET_RATE, "04"),
        (IeType::REQUESTED_QOS_MONITORING, "10"),
        (IeType::REPORTING_FREQUENCY, "00"),
        (IeType::PACKET_DELAY_THRESHOLDS, "08"),
        (IeType::QOS_REPORT_TRIGGER, "08"),
        (IeType::GTP_U_PATH_INTERFACE_TYPE, "04"),
    ];
    for (ie_type, text) in table {
        assert_eq!(
            key::check(ie_type, &hex(text)),
            Err(Fault::Value),
            "{ie_type} {text}"
        );
    }
    for (len, is_name) in [(63, true), (64, false)] {
        let name = [&[2, len][..], &[b'a'; 64][..len.into()]].concat();
        assert_eq!(
            key::check(IeType::NODE_ID, &name).is_ok(),
            is_name,
            "a label of {len}"
        );
    }
    for (labels, is_name) in [(127, true), (128, false)] {
        let name = [&[2][..], &b"\x01a".repeat(labels)].concat();
        assert_eq!(
            key::check(IeType::NODE_ID, &name).is_ok(),
            is_name,
            "{labels} labels"
        );
    }
    let count = IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT;
    assert_eq!(
        key::check(count, &[0, 0, 1]),
        Err(Fault::Length),
        "one octet or two"
    );
}

#[test]
fn timers_are_seconds() {
    use super::node::Timer;
    let table = [
        (0, 0),
        (1, 2),
        (62, 62),
        (63, 120),
        (1860, 1860),
        (1861, 2400),
        (1_116_000, 1_116_000),
    ];
    for (seconds, shown) in table {
        assert_eq!(Timer::at_least(seconds).seconds(), Some(shown), "{seconds}");
    }
    assert_eq!(Timer::at_least(1_116_001), Timer::INFINITE);
    assert_eq!(Timer::INFINITE.seconds(), None);
    assert_eq!(
        Timer { unit: 6, value: 3 }.seconds(),
        Some(180),
        "spare units are minutes"
    );
}

proptest! {
    /// Whatever can be read can be written and reads back the same; `rewrite` compares.
    #[test]
    fn emit_then_parse_is_identity(
        index in 0..key::TYPED.len(), value in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let ie_type = key::TYPED[index];
        let mut written = [0; 256];
        let len = key::rewrite(ie_type, &value, &mut written);
        prop_assert_eq!(len.is_some(), key::check(ie_type, &value).is_ok());
        if let Some(len) = len {
            let mut again = [0; 256];
            let second = key::rewrite(ie_type, &written[..len], &mut again);
            prop_assert_eq!(second.map(|len| &again[..len]), Some(&written[..len]));
        }
        let ie = Ie { ie_type, enterprise: None, value: &value };
        prop_assert!(ie.to_string().starts_with(&ie_type.to_string()));
    }

    /// The same near values that are right.
    #[test]
    fn spoiled_values_do_not_panic(index in 0..TABLE.len(), at: usize, octet: u8, cut: usize) {
        let (ie_type, text, ..) = TABLE[index];
        let mut value = hex(text);
        let len = value.len();
        value[at % len] = octet;
        value.truncate(cut % (len + 1));
        let mut written = [0; 256];
        let is_read = key::rewrite(ie_type, &value, &mut written).is_some();
        prop_assert_eq!(is_read, key::check(ie_type, &value).is_ok());
    }
}

/// Found by fuzzing: the zero of a label was taken for the name's end, and what was written then
/// read as another name, or as none.
#[test]
fn a_zero_within_the_last_label_does_not_end_a_name() {
    use super::Name;
    let label = [1, b'a', 1, 0];
    let name = Name::new(&label).unwrap();
    assert_eq!(name.as_bytes(), label);
    let ended = [1, b'a', 1, 0, 0];
    assert_eq!(Name::new(&ended).unwrap().as_bytes(), label);
    assert!(Name::new(&[1, b'a', 0, 0]).is_err());
    assert!(Name::new(&[0]).is_err() && Name::new(&[2, 0]).is_err());
}
