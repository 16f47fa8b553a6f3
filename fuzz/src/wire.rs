// SPDX-License-Identifier: Apache-2.0
//! The parsers of `catena-wire`. What every format promises, for any bytes:
//!
//! - parsing ends with a view or an error, never with a panic;
//! - once there is a view, no accessor panics, even after its length fields were overwritten;
//! - a header written over the bytes it was read from reads back the same.

use catena_wire::dissect::Dissected;
use catena_wire::ip::Addresses;
use catena_wire::tcp::option::{TcpOption, sack_blocks};
use catena_wire::{arp, ethernet, gtpu, icmpv4, icmpv6, ipv4, ipv6, mpcp, pfcp, tcp, udp, vlan};
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

const V4: Addresses = Addresses::V4 {
    src: Ipv4Addr::LOCALHOST,
    dst: Ipv4Addr::LOCALHOST,
};
const V6: Addresses = Addresses::V6 {
    src: Ipv6Addr::LOCALHOST,
    dst: Ipv6Addr::LOCALHOST,
};

/// Formats without keeping the text.
struct Void;

impl Write for Void {
    fn write_str(&mut self, _text: &str) -> fmt::Result {
        Ok(())
    }
}

fn show(value: &impl fmt::Display) {
    write!(Void, "{value}").expect("nothing is written");
}

/// The function of one format; `$view` names the view over a copy of the bytes in `$more`, which
/// exercises what only this format has.
macro_rules! entry {
    ($name:ident, $format:ident, $view:ident => $more:block) => {
        #[doc = concat!("`", stringify!($format), "`")]
        pub fn $name(data: &[u8]) {
            let Ok(view) = $format::View::parse(data) else {
                assert!($format::Header::parse(data).is_err());
                return;
            };
            show(&view);
            let header = $format::Header::from(&view);
            assert_eq!($format::Header::parse(data), Ok(header));
            assert!(view.header_len() >= header.header_len());
            let mut bytes = data.to_vec();
            header.emit(&mut bytes);
            assert_eq!($format::Header::parse(&bytes), Ok(header));
            #[allow(unused_mut, reason = "a format may have nothing more to write")]
            let mut $view = $format::View::parse(&mut bytes[..]).expect("parsed just now");
            $more
            show(&$view);
        }
    };
}

entry!(wire_arp, arp, view => {
    view.set_target_ip(view.sender_ip());
});

entry!(wire_ethernet, ethernet, view => {
    view.payload_mut().fill(0xff);
    view.set_ether_type(ethernet::EtherType(0));
    assert!(view.payload().iter().all(|&byte| byte == 0xff));
});

entry!(wire_gtpu, gtpu, view => {
    let len = view.payload().len();
    let count = view.extensions().into_iter().inspect(show).count();
    assert!(count <= gtpu::extension::EXTENSIONS_MAX);
    let _ = view.extensions().not_understood(gtpu::Role::Endpoint, |_| false);
    if let Ok(Some(session)) = view.extensions().pdu_session() {
        let mut content = [0; gtpu::pdu_session::CONTENT_LEN_MAX];
        session.emit(&mut content);
        assert_eq!(gtpu::pdu_session::PduSession::parse(&content), Ok(session));
    }
    for element in gtpu::element::Elements::new(view.payload()).flatten() {
        show(&element);
        let mut bytes = vec![0; element.len()];
        element.emit(&mut bytes);
        let mut again = gtpu::element::Elements::new(&bytes);
        assert_eq!(again.next(), Some(Ok(element)));
    }
    view.set_len(0xffff);
    view.payload_mut().fill(0xff);
    assert_eq!(view.payload().len(), len);
});

entry!(wire_icmpv4, icmpv4, view => {
    view.fill_checksum();
    assert!(view.checksum_is_valid() || view.checksum() == 0xffff);
    view.payload_mut().fill(0xff);
});

entry!(wire_icmpv6, icmpv6, view => {
    view.fill_checksum(&V6);
    assert!(view.checksum_is_valid(&V6));
    let _ = view.target();
    view.payload_mut().fill(0xff);
});

entry!(wire_ipv4, ipv4, view => {
    assert!(view.checksum_is_valid());
    if view.decrement_ttl() {
        assert!(view.checksum_is_valid());
    }
    let len = view.payload().len();
    view.set_total_len(0);
    view.payload_mut().fill(0xff);
    assert_eq!(view.payload().len(), len);
    assert_eq!(view.options().len() % 4, 0);
});

entry!(wire_ipv6, ipv6, view => {
    let len = view.payload().len();
    let extensions = view.extensions().filter(Result::is_ok).count();
    assert!(extensions <= ipv6::extension::HEADERS_MAX);
    if let Ok(upper) = view.extensions().upper_layer() {
        assert!(upper.offset <= len);
    }
    view.set_payload_len(0xffff);
    view.payload_mut().fill(0xff);
    assert_eq!(view.payload().len(), len);
});

entry!(wire_mpcp, mpcp, view => {
    if let mpcp::Message::Report(report) = view.message() {
        assert!(report.queue_sets().count() < mpcp::BODY_LEN);
    }
    view.set_timestamp(u32::MAX);
    assert_eq!(view.timestamp(), u32::MAX);
});

entry!(wire_tcp, tcp, view => {
    let mut options = view.options();
    loop {
        let before = options.offset();
        let Some(option) = options.next() else { break };
        assert!(options.offset() > before, "each option moves on");
        if let Ok(TcpOption::Sack(data)) = option {
            assert!(sack_blocks(data).count() <= 4);
        }
    }
    view.fill_checksum(&V4);
    assert!(view.checksum_is_valid(&V4));
    view.option_bytes_mut().fill(0xff);
    view.payload_mut().fill(0xff);
});

entry!(wire_udp, udp, view => {
    for addresses in [V4, V6] {
        view.fill_checksum(&addresses);
        assert!(view.checksum_is_valid(&addresses));
    }
    let len = view.payload().len();
    view.set_len(0);
    view.payload_mut().fill(0xff);
    assert_eq!(view.payload().len(), len);
});

entry!(wire_vlan, vlan, view => {
    view.payload_mut().fill(0xff);
    view.set_vid(0xffff);
    assert_eq!(view.vid(), vlan::VID_MAX);
});

/// `pfcp`: headers as all formats, the messages of a datagram, every value that can be read.
pub fn wire_pfcp(data: &[u8]) {
    pfcp_header(data);
    let messages: Vec<_> = pfcp::Messages::new(data).collect();
    assert!(messages.len() <= pfcp::MESSAGES_MAX + 1);
    for view in messages.into_iter().flatten() {
        show(&view);
        // What passes has all mandatory IEs, and none of them is a surprise later.
        if view.check().is_ok() && !view.header().message_type.is_response() {
            let members = view.ies().place().members();
            for ie_type in members.map_or(&[][..], |members| members.mandatory) {
                assert!(view.ies().has(*ie_type), "{view}");
            }
        }
        values(&view.ies(), 0);
        copy(&view);
    }
}

entry!(pfcp_header, pfcp, view => {
    view.payload_mut().fill(0xff);
    assert!(view.check().is_err() || view.ies().ies().all(|ie| ie.is_ok()));
});

/// Every value that can be read is written and read again, which `rewrite` compares.
fn values(group: &pfcp::Group<'_>, depth: usize) {
    for ie in group.ies().flatten() {
        let mut bytes = vec![0; ie.value.len() + 64];
        let _ = pfcp::key::rewrite(ie.ie_type, ie.value, &mut bytes);
        match ie.group() {
            Some(inner) if depth < pfcp::grammar::DEPTH_MAX => values(&inner, depth + 1),
            _ => {}
        }
    }
}

/// A message of the same IEs is the same message, up to the first IE whose length is wrong.
fn copy(view: &pfcp::View<&[u8]>) {
    let header = *view.header();
    let mut bytes = vec![0; view.header_len() + view.payload().len()];
    let mut writer = pfcp::Writer::new(&mut bytes, &header).expect("there is room");
    let mut len = view.header_len();
    for ie in view.ies().ies().flatten() {
        let vendor = if ie.enterprise.is_some() { 2 } else { 0 };
        len += pfcp::element::IE_HEADER_LEN + vendor + ie.value.len();
        writer.put_ie(&ie).expect("there is room");
    }
    assert_eq!(writer.finish(), Ok(len));
    assert_eq!(
        bytes[view.header_len()..len],
        view.payload()[..len - view.header_len()]
    );
}

/// `dissect`: the offsets are ordered and inside the frame.
pub fn wire_dissect(data: &[u8]) {
    for found in [Dissected::parse(data), Dissected::parse_ip(data)] {
        let Ok(found) = found else { continue };
        dissected(data, &found);
    }
}

fn dissected(data: &[u8], found: &Dissected) {
    show(found);
    assert!(
        found.l3 <= found.l4 && found.l4 <= found.payload,
        "{found:?}"
    );
    assert!(
        found.payload <= found.end && found.end <= data.len(),
        "{found:?}"
    );
    assert!(found.ip.is_some() || found.ports().is_none(), "{found:?}");
}

/// A function of this file.
pub type Entry = fn(&[u8]);

/// Every function above, by name.
pub const ALL: [(&str, Entry); 13] = [
    ("wire_arp", wire_arp),
    ("wire_dissect", wire_dissect),
    ("wire_ethernet", wire_ethernet),
    ("wire_gtpu", wire_gtpu),
    ("wire_icmpv4", wire_icmpv4),
    ("wire_icmpv6", wire_icmpv6),
    ("wire_ipv4", wire_ipv4),
    ("wire_ipv6", wire_ipv6),
    ("wire_mpcp", wire_mpcp),
    ("wire_pfcp", wire_pfcp),
    ("wire_tcp", wire_tcp),
    ("wire_udp", wire_udp),
    ("wire_vlan", wire_vlan),
];
