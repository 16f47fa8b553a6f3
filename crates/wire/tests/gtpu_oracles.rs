// SPDX-License-Identifier: Apache-2.0
//! Goal: GTP-U means here what it means to others. Method: messages of scapy are read, and ours are
//! read by scapy, pycrate and tshark.

#[path = "oracle/asked.rs"]
mod asked;

use asked::{ask_python, bytes, has_tshark, hex, tshark};
use catena_wire::gtpu;
use catena_wire::gtpu::element::Elements;
use catena_wire::gtpu::pdu_session::{Downlink, PduSession, Uplink};

#[test]
fn scapy_makes_gtp_u_that_we_read() {
    let names = ["uplink", "downlink", "echo", "error_indication"];
    let questions = names.map(|name| format!("gtp-build {name}"));
    let Some(answers) = ask_python("scapy_makes_gtp_u_that_we_read", &questions) else {
        return;
    };
    let found: Vec<Vec<u8>> = answers.iter().map(|answer| bytes(answer)).collect();
    let views: Vec<_> = found
        .iter()
        .map(|bytes| gtpu::View::parse(&bytes[..]).expect("a message"))
        .collect();
    let uplink = PduSession::Uplink(Uplink {
        qfi: 9,
        ..Uplink::default()
    });
    assert_eq!(views[0].extensions().pdu_session(), Ok(Some(uplink)));
    assert_eq!((views[0].teid(), views[0].payload().len()), (7, 20));
    let downlink = PduSession::Downlink(Downlink {
        qfi: 5,
        rqi: true,
        ppi: Some(3),
        sending_time: Some(1 << 40),
        sequence: Some(6),
        mbs_sequence: None,
    });
    assert_eq!(views[1].extensions().pdu_session(), Ok(Some(downlink)));
    assert_eq!(
        views[1].payload()[0],
        0x45,
        "the packet follows the padding"
    );
    assert_eq!(
        (views[2].message_type(), views[2].sequence()),
        (gtpu::MessageType::ECHO_RESPONSE, Some(5))
    );
    let mut elements = Elements::new(views[2].payload());
    assert_eq!(
        elements.next(),
        Some(Ok(gtpu::element::Element::Recovery(0)))
    );
    let peer = "192.0.2.3".parse().expect("an address");
    assert_eq!(
        Elements::new(views[3].payload()).error_indication(),
        Ok((7, peer))
    );
}

/// G-PDUs of our own with the fields that scapy (of release 15) and pycrate (of release 16) know.
fn g_pdus() -> Vec<(PduSession, Vec<u8>)> {
    let frames = [
        PduSession::Uplink(Uplink {
            qfi: 9,
            dl_delay: Some(4),
            ul_delay: Some(5),
            n3_n9_delay: Some(6),
            ..Uplink::default()
        }),
        PduSession::Downlink(Downlink {
            qfi: 63,
            rqi: true,
            ppi: Some(7),
            sequence: Some(0x01_0203),
            ..Downlink::default()
        }),
    ];
    let packet = [
        &[0x45, 0, 0, 20][..],
        &[0; 4],
        &[64, 17, 0, 0],
        &[10, 0, 0, 1],
        &[10, 0, 0, 2],
    ]
    .concat();
    let make = |frame: PduSession| {
        let mut content = vec![0; frame.content_len()];
        frame.emit(&mut content);
        let extension = gtpu::Extension {
            extension_type: gtpu::ExtensionType::PDU_SESSION_CONTAINER,
            content: &content,
        };
        let mut chain = [0; 64];
        let header = gtpu::Header {
            message_type: gtpu::MessageType::G_PDU,
            teid: 0x0102_0304,
            sequence: None,
            n_pdu: None,
            extensions: gtpu::Extensions::write(&mut chain, &[extension]).expect("it fits"),
            payload_len: packet.len(),
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(&packet);
        (frame, bytes)
    };
    frames.map(make).to_vec()
}

#[test]
fn scapy_and_pycrate_read_our_gtp_u() {
    let ours = g_pdus();
    let by_scapy = ours
        .iter()
        .map(|(_, bytes)| format!("gtp-scapy {}", hex(bytes)));
    let by_pycrate = ours
        .iter()
        .map(|(_, bytes)| format!("gtp-pycrate {}", hex(bytes)));
    let questions: Vec<String> = by_scapy.chain(by_pycrate).collect();
    let Some(answers) = ask_python("scapy_and_pycrate_read_our_gtp_u", &questions) else {
        return;
    };
    for (index, (frame, bytes)) in ours.iter().enumerate() {
        let kind = u8::from(matches!(frame, PduSession::Uplink(_)));
        let expected = format!("{} {kind} {} 20", 0x0102_0304, frame.qfi());
        assert_eq!(answers[index], expected, "scapy {frame}");
        assert_eq!(answers[ours.len() + index], hex(bytes), "pycrate {frame}");
    }
}

#[test]
fn tshark_reads_our_gtp_u() {
    if !has_tshark("tshark_reads_our_gtp_u") {
        return;
    }
    let fields = [
        "gtp.message",
        "gtp.teid",
        "gtp.ext_hdr.pdu_ses_con.pdu_type",
        "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
        "gtp.ext_hdr.pdu_ses_cont.ppi",
        "_ws.malformed",
        "ip.src",
    ];
    let payloads: Vec<_> = g_pdus().into_iter().map(|(_, bytes)| bytes).collect();
    let rows = tshark("gtpu.pcap", gtpu::PORT, &payloads, &fields);
    let row = |kind: &str, qfi: &str, ppi: &str| {
        [
            "0xff",
            "0x01020304",
            kind,
            qfi,
            ppi,
            "",
            "192.0.2.1,10.0.0.1",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    assert_eq!(rows, [row("1", "9", ""), row("0", "63", "7")]);
}
