//! Images and the sessions that they are read back as; links between rules.

use super::*;
use crate::rules::UrrTerms;
use crate::sdf::parse_flow;

/// A session of two PDRs, as most are.
pub(crate) fn session(seid: u64) -> Session {
    let mut uplink = Pdr::empty(1);
    uplink.precedence = 200;
    uplink.teid = 0x1000;
    uplink.far_id = 1;
    assert!(uplink.qer_ids.push(9) && uplink.urr_ids.push(5));
    let mut downlink = Pdr::empty(2);
    downlink.precedence = 100;
    downlink.source_interface = 1;
    downlink.far_id = 2;
    let filter = parse_flow(b"permit out ip from any to assigned").unwrap();
    let mut head = Head::empty();
    head.seid = seid;
    head.ue_v4 = Some(Ipv4Addr::new(10, 45, 0, 2));
    Session {
        pdrs: vec![
            Detection {
                pdr: uplink,
                filters: vec![],
                routes: vec![],
                frames: Vec::new(),
            },
            Detection {
                pdr: downlink,
                filters: vec![filter, Filter::all()],
                routes: vec![],
                frames: Vec::new(),
            },
        ],
        fars: vec![Far::empty(1), Far::empty(2)],
        qers: vec![Qer::open(9)],
        urrs: vec![Urr::new(5, UrrTerms::NONE, 0)],
        bars: vec![],
        copies: vec![],
        redirections: vec![],
        endpoints: vec![],
        monitors: vec![],
        head,
    }
}

#[test]
fn an_image_reads_back_as_its_session() {
    let mut one = session(3);
    one.pdrs[1].routes = vec![Route::parse(2, b"192.0.2.0/24", false).unwrap()];
    one.copies = vec![Copied::of(2), Copied::of(9)];
    let mut location = List::default();
    assert!(location.push(b'a'));
    one.redirections = vec![Redirection {
        far_id: 1,
        location,
    }];
    one.endpoints = vec![Ending {
        endpoint: Endpoint {
            teid: 0x2000,
            ..Endpoint::empty(0)
        },
        routes: vec![Route {
            endpoint: Some(0),
            ..Route::parse(0, b"198.51.100.0/24", false).unwrap()
        }],
    }];
    one.pdrs[0].pdr.endpoint = Some(0);
    one.link().unwrap();
    assert_eq!(one.copies, [Copied::of(2)], "FAR 9 is not there");
    let mut bytes = vec![0xee; one.image_len() + 1];
    one.write(&mut bytes);
    assert_eq!(Session::read(&bytes).unwrap(), one);
    assert_eq!(*bytes.last().unwrap(), 0xee);
    let image = Image::new(&mut bytes).unwrap();
    let first = image.pdr(0).unwrap();
    assert_eq!((first.id, first.far_at, first.filters), (2, 1, [0, 2]));
    let second = image.pdr(1).unwrap();
    assert_eq!(
        (second.qers_at.as_slice(), second.urrs_at.as_slice()),
        (&[0][..], &[0][..])
    );
    assert!(image.pdr(2).is_none() && image.bar(0).is_none());
    assert_eq!(
        image.routes().map(|route| route.pdr_id).collect::<Vec<_>>(),
        [2, 0]
    );
    assert_eq!(image.copies().count(), 1);
    assert!(image.redirection(1).is_some() && image.redirection(2).is_none());
}

/// Else its packets would be counted and metered twice.
#[test]
fn a_rule_that_is_named_twice_is_one() {
    let mut one = session(1);
    let pdr = &mut one.pdrs[0].pdr;
    assert!(pdr.urr_ids.push(5) && pdr.qer_ids.push(9));
    one.link().unwrap();
    let pdr = one.pdrs.iter().map(|one| one.pdr).find(|pdr| pdr.id == 1);
    let pdr = pdr.unwrap();
    assert_eq!(
        (pdr.urrs_at.as_slice(), pdr.qers_at.as_slice()),
        (&[0][..], &[0][..])
    );
    assert_eq!(pdr.urr_ids.as_slice(), [5, 5], "as the SMF has said it");
}

#[test]
fn a_rule_that_names_a_missing_one_is_the_fault() {
    let mut no_far = session(1);
    no_far.fars.remove(0);
    let fault = no_far.link().unwrap_err();
    assert_eq!(fault.rule, Some(FailedRuleId::Pdr(PdrId(1))));
    assert_eq!(fault.refusal.offending, Some(IeType::FAR_ID));
    let mut no_bar = session(1);
    no_bar.fars[1].bar_id = Some(4);
    let fault = no_bar.link().unwrap_err();
    assert_eq!(fault.rule, Some(FailedRuleId::Far(FarId(2))));
}

#[test]
fn spoiled_memory_is_no_session_and_no_panic() {
    for byte in [0xff, 0x80, 7] {
        let mut bytes = vec![byte; 4096];
        let _ = Session::read(&bytes);
        assert!(Image::new(&mut bytes).is_none_or(|image| image.filter(0).is_none() || byte < 9));
    }
}

#[test]
fn what_an_ordinary_session_takes_is_known() {
    let mut one = session(1);
    one.link().unwrap();
    assert_eq!(one.image_len(), 1702);
}
