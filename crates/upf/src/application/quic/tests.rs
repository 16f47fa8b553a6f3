//! Initials of RFC 9001 and RFC 9369, of an independent client, and hostile ones.

use catena_flow::efsm::hex;
use proptest::prelude::*;

use super::*;
use crate::application::flows::SESSION_HELLO_COUNT;
use crate::sdf::Inner;
use crate::smf::quic::{crypto, initial};
use crate::smf::tcp::client_hello;

const TO: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// What aioquic sends first to quic.example, without the zeros at its end.
const AIOQUIC_V1: &str = "ca0000000108615e2c6750d2eb110894d6157d97fa91f70041ebc23fa43460f52619408a\
     b4c25646cfdecaa8b4b8dcb9e8e3f5cb3eb2767ad5ff91cad92be4c07391dc1137cf2ff2\
     436f1615d5a2dbba06268ba2a927aa93af721adc2cdd224a8a0ecd139ac6b496927c43d8\
     2ff63f7d8ee80c52dede7ea43fabbe98c867bcc1f3de2b434450981ba854c9b494e684e0\
     7db19d9d573953ceb24522c4ca6340696c9ce9d7371ecbb9adf7d5fd769ebc48963967d1\
     cf0d785da574d288e481ed43365caefad993362e6edb1df2d1a0a40bdb1202d8334e7c5a\
     ef959930e74ab32715c7615d1168782f4164d117116fb66449a17f61720c11c66a6b5c56\
     ab63a9cc45129e3b102eab3a5c8a649181172203595dc1bc92d07e72c765662d0ec94a1d\
     e5d98de492e6b6cd06cf08e4565c3f186d2486f271b1c331ff32ea670ccd3a604a8423a4\
     ad0e4f7257d4ad0792f68c0621324b7dd4ead18fe2962e1404732ff30e2fe01732cc675b\
     0db98dca26689e00b3f24fcb6dc2029d18bd05d3583b51ce2a239045e8bc8ef21d846471\
     6fbb6b7aab5ebe98b1020f743d7086a12f408f43b257d01d3a747fd6d584b632a0eadab1\
     93f2a0824e998b4d95cd8efe5d9770c4e073120cb7cebcfb3981a3a4990980ea164fe366\
     267880b6ff28308df847081a63286c93759a3b7aca48f04c2ae8ec1efce36294862f8778\
     3f4a4d6838564061715a3c3a3d";
/// What aioquic sends first to quic.example by version 2, without the zeros at its end.
const AIOQUIC_V2: &str = "d76b3343cf08db5aa7dc25840f5808402ba4b8c581799b0041ebc2efc2bb73a2db13f382\
     773d9efe27396772f4b5126ea93c259824ce26846612a7aaf6c765e04af1d7e2a338ebfb\
     22b51447af9217b51462a39b5b8890b3a68c026b3084d14afe3c4bd7f3c71ef42c228510\
     237e0b6de69cae183c7227e85747641826a945822321d9014ea7287ff2e5f94c4f0d4705\
     93031501a59201cd3859bc8b6197a22fda2e0f80b95da4369ccc838f0a628a4673bfdcde\
     382e0cd1b4744f9b7b28404401602657c5d4d23c4937e8d546ed1f2363cd894c4b04ba81\
     be0f28993f12eeb15e293e31a7606dc9913912f2c9d27f02d0448f0aeb7d7e34a0e1cee8\
     ef2b2433054a67d969cd7f7dee9cbd52b1e705cd357fa9d69f9dab7ad481bec07854399e\
     700f42ec3bdd20a5b389bb6664aca9e700c2aa40b84feb7ba76a35f5afa69dcb2600f058\
     a20d206e97e4eaea3b4efdf8e2cb18df3d5727cf9b512ab1c75add284187f45f4ec70db6\
     7f74d2edcb6f684b08c06528cdef4e540f3d9cce8f29bf24a905ad4bcee655e20ddc26f3\
     f57e33a25786b2fa7b2851d6ada602492540e18789fe3dafd85d0d42d9e2122644d51595\
     2e9856ed6d115466e6c75d9492652e3f5a538e67723c2946428ea1b6029209a29a4939e5\
     f060a2d5ac54fd23f95c3628d569fc345abe4fd8baec1b793085198460c2f031a14b2d95\
     926b4cdfe62c576a9db7bd937d";

/// The CRYPTO frame of RFC 9001, A.2.
const FRAME: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b\
     69484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d\
     0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fed\
     ba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305030603020308040805080600\
     2d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08011001048000753009\
     01100f088394c8f03e51570806048000ffff";

fn connection(session: u64, port: u16) -> Connection {
    let [src, dst] = ["10.45.0.1", "203.0.113.9"].map(|text| text.parse().unwrap());
    let packet = Inner {
        src,
        dst,
        protocol: 17,
        ports: Some((port, 443)),
        traffic_class: 0,
        flow_label: 0,
        spi: None,
        len: 1228,
        is_part: false,
    };
    Connection::of(&packet, session, true).unwrap()
}

/// Whom datagrams say that a connection is to, one behind the other.
fn heard(hellos: &mut Hellos, of: &Connection, datagrams: &[Vec<u8>]) -> Vec<String> {
    let mut all = Vec::new();
    for datagram in datagrams {
        assert!(may_say_hello(datagram));
        hellos.hear(of, datagram, 0, |seen| match seen {
            Seen::Tls(name) => all.push(String::from_utf8_lossy(name).into_owned()),
            other => all.push(format!("{other:?}")),
        });
    }
    all
}

/// RFC 9001, A.1 and A.2; RFC 9369, A.1 and A.2: the packet's last bytes are a tag of all of it.
#[test]
fn initials_are_those_of_the_standards() {
    let frame = hex(FRAME).unwrap();
    for (version, begins, ends) in [
        (
            &VERSIONS[0],
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            &VERSIONS[1],
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            "a18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ] {
        let sealed = initial(version, &TO, 2, &frame);
        assert_eq!(sealed.len(), 1200);
        assert_eq!(sealed[..32], hex(begins).unwrap());
        assert_eq!(sealed[1184..], hex(ends).unwrap());
        let names = heard(&mut Hellos::default(), &connection(3, 7), &[sealed]);
        assert_eq!(names, ["example.com"]);
    }
}

#[test]
fn an_independent_clients_hello_is_read() {
    for text in [AIOQUIC_V1, AIOQUIC_V2] {
        let mut datagram = hex(text).unwrap();
        datagram.resize(DATAGRAM_MIN, 0);
        let names = heard(&mut Hellos::default(), &connection(3, 7), &[datagram]);
        assert_eq!(names, ["quic.example"]);
    }
}

/// A client that fears middleboxes splits its hello over packets, in any order.
#[test]
fn a_hello_is_put_together_over_datagrams_in_any_order() {
    let hello = client_hello("www.example.com", 1500)[5..].to_vec();
    let part = |from: usize, to: usize| crypto(from, &hello[from..to]);
    let (all, version) = (hello.len(), &VERSIONS[0]);
    let first = [vec![1], part(900, 1400), part(0, 300)].concat();
    // An ACK, and one with ECN counts, do not stand in the way.
    let second = [
        vec![2, 0, 0, 1, 0, 0, 0],
        vec![3, 0, 0, 0, 0, 1, 2, 3],
        part(250, 950),
    ]
    .concat();
    let third = part(1400, all);
    let sealed = |number, frames: &[u8]| initial(version, &TO, number, frames);
    let datagrams = [sealed(0, &third), sealed(1, &first), sealed(2, &second)];
    let of = connection(3, 7);
    let mut hellos = Hellos::default();
    assert!(heard(&mut hellos, &of, &datagrams[..2]).is_empty());
    let other = connection(3, 8);
    assert!(
        heard(&mut hellos, &other, &datagrams[2..]).is_empty(),
        "of another connection"
    );
    assert_eq!(
        heard(&mut hellos, &of, &datagrams[2..]),
        ["www.example.com"]
    );
    assert_eq!(hellos.hellos.len(), 1, "that of the other connection");
    // Two Initials in a datagram.
    let both = [part(0, 400), vec![0; 700]].concat();
    let both = [sealed(0, &both), sealed(1, &part(400, all))].concat();
    assert_eq!(heard(&mut hellos, &of, &[both]), ["www.example.com"]);
}

/// What is sealed by other keys, or damaged, says nothing: nor does another version.
#[test]
fn what_is_not_sealed_by_its_client_is_not_heard() {
    let sealed = initial(&VERSIONS[0], &TO, 2, &hex(FRAME).unwrap());
    let mut hellos = Hellos::default();
    let of = connection(3, 7);
    for at in [0, 7, 20, 300, 1199] {
        let mut damaged = sealed.clone();
        damaged[at] ^= 1;
        assert!(heard(&mut hellos, &of, &[damaged]).is_empty(), "{at}");
    }
    let mut other = sealed.clone();
    other[4] = 2;
    assert!(!may_say_hello(&other) && !may_say_hello(&sealed[..1199]));
    assert!(hellos.hellos.is_empty());
}

/// So many are opened in a second, of which one UE has a fourth; what it has begun is bounded, too.
#[test]
fn one_ue_does_not_use_up_what_is_for_all() {
    let hello = client_hello("www.example.com", 1000)[5..].to_vec();
    let begun = |to: u8| initial(&VERSIONS[0], &[to; 8], 0, &crypto(0, &hello[..100]));
    let mut hellos = Hellos::default();
    for count in 0..200u8 {
        heard(&mut hellos, &connection(3, count.into()), &[begun(count)]);
    }
    let opened = 200 - hellos.unread;
    assert!((10..=30).contains(&opened), "{opened}");
    assert_eq!(hellos.hellos.len(), SESSION_HELLO_COUNT);
    let whole = initial(&VERSIONS[0], &TO, 2, &hex(FRAME).unwrap());
    assert_eq!(
        heard(&mut hellos, &connection(4, 7), &[whole]),
        ["example.com"]
    );
    let mut later = Hellos::default();
    later.hear(&connection(3, 1), &begun(1), 0, |_| {});
    later.hear(&connection(3, 2), &begun(2), HELLO_NS, |_| {});
    assert_eq!(later.hellos.len(), 1, "one waits no longer");
}

/// What opening takes is bounded by Initials and by their bytes: a long one costs nobody's share.
#[test]
fn an_initial_that_is_too_long_is_not_opened() {
    let frames = |len: usize| {
        let mut frames = hex(FRAME).unwrap();
        frames.resize(len, 0);
        frames
    };
    let mut hellos = Hellos::default();
    let long = initial(&VERSIONS[0], &TO, 2, &frames(4000));
    let of = connection(3, 7);
    assert!(heard(&mut hellos, &of, &vec![long; 100]).is_empty());
    assert_eq!(hellos.unread, 100);
    let longest = initial(&VERSIONS[0], &TO, 2, &frames(1400));
    let more = INITIAL_LEN_MAX - longest.len();
    let longest = initial(&VERSIONS[0], &TO, 2, &frames(1400 + more));
    let longer = initial(&VERSIONS[0], &TO, 2, &frames(1401 + more));
    let names = heard(&mut hellos, &of, &[longer, longest]);
    assert_eq!(
        (names, hellos.unread),
        (vec!["example.com".to_owned()], 101)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Headers of any shape, and any frames under a right seal.
    #[test]
    fn any_bytes_are_heard(
        mut bytes in proptest::collection::vec(any::<u8>(), 1200..1300),
        frames in proptest::collection::vec(any::<u8>(), 0..200),
        which in 0usize..2,
        lens: [u8; 3],
    ) {
        let mut hellos = Hellos::default();
        let version = &VERSIONS[which];
        bytes[0] |= 0x80;
        bytes[1..5].copy_from_slice(&version.number.to_be_bytes());
        hellos.hear(&connection(3, 7), &bytes, 0, |_| {});
        (bytes[5], bytes[6], bytes[7]) = (lens[0] % 24, lens[1] % 24, lens[2]);
        hellos.hear(&connection(3, 7), &bytes, 0, |_| {});
        let sealed = initial(version, &TO, 0, &frames);
        hellos.hear(&connection(3, 7), &sealed, 0, |_| {});
        crypto_frames(&bytes, |_, _| {});
    }
}
