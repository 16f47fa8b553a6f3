//! Packet flow descriptions: what an SMF says of the packets of an application.
//!
//! Between N4 and the data path: IEs become what packets are compared with. One PFD has flow
//! descriptions, domain names, URLs and address ranges; of each kind that it has one must fit. What
//! this UPF cannot see is refused, and never taken and left out. Specification: TS 29.244 7.4.3,
//! 8.2.39; TS 29.251 6.4.3; TS 29.122 5.11.2.1.4.
//!
//! Custom PFD Content is this UPF's own: `ip:` and addresses, networks or ranges of hosts of the
//! data network, as `ip:192.0.2.0/24,198.51.100.1-198.51.100.9`.

use std::net::IpAddr;

use catena_wire::pfcp::value::detection::PfdContents;
use catena_wire::pfcp::{Cause, IeType};

use super::hello::Seen;
use super::pattern::Pattern;
use crate::model::Fault;
use crate::sdf::{Filter, Inner, parse_flow};

/// A packet flow description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pfd {
    flows: Vec<Filter>,
    /// First and last address, of one version.
    ranges: Vec<(IpAddr, IpAddr)>,
    /// Names, and whether only TLS tells them.
    names: Vec<(Pattern, bool)>,
    urls: Vec<Pattern>,
}

fn refused(cause: Cause) -> Fault {
    cause.because_of(IeType::PFD_CONTENTS).into()
}

fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    let text = text.trim();
    if let Some((first, last)) = text.split_once('-') {
        let ends: (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let is_one = ends.0.is_ipv4() == ends.1.is_ipv4() && ends.0 <= ends.1;
        return is_one.then_some(ends);
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    match address.parse().ok()? {
        IpAddr::V4(net) => {
            let hosts = 32u32.checked_sub(bits.unwrap_or(32))?;
            let mask = u32::MAX.checked_shl(hosts).unwrap_or(0);
            let first = net.to_bits() & mask;
            Some((IpAddr::V4(first.into()), IpAddr::V4((first | !mask).into())))
        }
        IpAddr::V6(net) => {
            let hosts = 128u32.checked_sub(bits.unwrap_or(128))?;
            let mask = u128::MAX.checked_shl(hosts).unwrap_or(0);
            let first = net.to_bits() & mask;
            Some((IpAddr::V6(first.into()), IpAddr::V6((first | !mask).into())))
        }
    }
}

impl Pfd {
    /// Reads PFD Contents.
    ///
    /// # Errors
    /// Why the request is refused.
    pub fn read(contents: &PfdContents<'_>) -> Result<Self, Fault> {
        let incorrect = || refused(Cause::MANDATORY_IE_INCORRECT);
        let mut pfd = Self::default();
        let flows = contents.flow_description.into_iter();
        for text in flows.chain(contents.additional_flow_descriptions.into_iter().flatten()) {
            pfd.flows.push(parse_flow(text).map_err(|_| incorrect())?);
        }
        let urls = contents.url.into_iter();
        for text in urls.chain(contents.additional_urls.into_iter().flatten()) {
            pfd.urls.push(Pattern::of_url(text).ok_or_else(incorrect)?);
        }
        if let Some(name) = contents.domain_name {
            pfd.add_name(name, contents.domain_name_protocol)?;
        }
        let mut more = contents.additional_domain_names.into_iter().flatten();
        while let Some(name) = more.next() {
            pfd.add_name(name, more.next())?;
        }
        if let Some(custom) = contents.custom {
            let text = std::str::from_utf8(custom).map_err(|_| incorrect())?;
            let ranges = text.strip_prefix("ip:").ok_or_else(incorrect)?;
            for text in ranges.split(',') {
                pfd.ranges.push(range(text).ok_or_else(incorrect)?);
            }
        }
        // One of nothing would be every packet.
        let is_something = pfd != Self::default();
        is_something.then_some(pfd).ok_or_else(incorrect)
    }

    fn add_name(&mut self, name: &[u8], protocol: Option<&[u8]>) -> Result<(), Fault> {
        let protocol = protocol.unwrap_or_default();
        let only_tls = !protocol.is_empty();
        // Certificates are encrypted, and a name that is asked for is none that is used.
        if only_tls && !protocol.eq_ignore_ascii_case(b"TLS_SNI") {
            return Err(refused(Cause::SERVICE_NOT_SUPPORTED));
        }
        let pattern = Pattern::of_name(name);
        let pattern = pattern.ok_or_else(|| refused(Cause::MANDATORY_IE_INCORRECT))?;
        self.names.push((pattern, only_tls));
        Ok(())
    }

    /// Whether it says whom connections are to, which only their beginning tells.
    pub fn names_somebody(&self) -> bool {
        !self.names.is_empty() || !self.urls.is_empty()
    }

    /// Whether addresses, ports and protocol fit.
    #[inline]
    pub fn fits(&self, packet: &Inner, is_uplink: bool) -> bool {
        let host = if is_uplink { packet.dst } else { packet.src };
        let is_in = |(first, last): &(IpAddr, IpAddr)| {
            host.is_ipv4() == first.is_ipv4() && (*first..=*last).contains(&host)
        };
        let mut flows = self.flows.iter();
        (self.flows.is_empty() || flows.any(|flow| flow.fits(packet, is_uplink)))
            && (self.ranges.is_empty() || self.ranges.iter().any(is_in))
    }

    /// Whether it names whom a connection is to.
    pub fn is_to(&self, seen: &Seen<'_>) -> bool {
        let (scheme, host, target): (&[u8], _, &[u8]) = match seen {
            Seen::Tls(name) => (b"https://", *name, b"/"),
            Seen::Http(host, target) => (b"http://", *host, *target),
            Seen::Nothing | Seen::Incomplete | Seen::Nameless => return false,
        };
        let is_tls = matches!(seen, Seen::Tls(_));
        let mut names = self.names.iter();
        let mut urls = self.urls.iter();
        let is_named = names.any(|(name, only_tls)| (is_tls || !only_tls) && name.fits_name(host));
        (self.names.is_empty() || is_named)
            && (self.urls.is_empty() || urls.any(|url| url.fits_url(scheme, host, target)))
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::pfcp::value::detection::Strings;

    use super::*;

    fn packet(host: &str, port: u16) -> Inner {
        let host: IpAddr = host.parse().unwrap();
        Inner {
            src: match host {
                IpAddr::V4(_) => "10.45.0.1".parse().unwrap(),
                IpAddr::V6(_) => "2001:db8:45::1".parse().unwrap(),
            },
            dst: host,
            protocol: 6,
            ports: Some((40_000, port)),
            traffic_class: 0,
            flow_label: 0,
            spi: None,
            len: 40,
            is_part: false,
        }
    }

    #[test]
    fn of_each_kind_that_is_there_one_must_fit() {
        let pfd = Pfd::read(&PfdContents {
            flow_description: Some(b"permit out 6 from any 443 to assigned"),
            additional_flow_descriptions: Some(
                Strings::new(b"\0\x24permit out 6 from any 80 to assigned").unwrap(),
            ),
            domain_name: Some(b"*.video.example"),
            custom: Some(b"ip:192.0.2.0/30, 198.51.100.1-198.51.100.9,2001:db8:9::/64"),
            ..PfdContents::default()
        })
        .unwrap();
        for (host, port, fits) in [
            ("192.0.2.3", 443, true),
            ("192.0.2.4", 443, false),
            ("198.51.100.9", 80, true),
            ("198.51.100.10", 80, false),
            ("2001:db8:9::7", 443, true),
            ("192.0.2.3", 8443, false),
        ] {
            assert_eq!(pfd.fits(&packet(host, port), true), fits, "{host} {port}");
        }
        assert!(pfd.names_somebody());
        assert!(pfd.is_to(&Seen::Tls(b"a.video.example")));
        assert!(pfd.is_to(&Seen::Http(b"a.video.example", b"/")));
        assert!(!pfd.is_to(&Seen::Tls(b"video.example")));
        assert!(!pfd.is_to(&Seen::Nothing));
    }

    #[test]
    fn a_name_of_tls_is_none_of_http_and_a_url_is_of_its_scheme() {
        let mut more = Vec::new();
        for text in ["b.example", "tls_sni", "c.example", ""] {
            more.extend((text.len() as u16).to_be_bytes());
            more.extend(text.bytes());
        }
        let names = Pfd::read(&PfdContents {
            additional_domain_names: Some(Strings::new(&more).unwrap()),
            ..PfdContents::default()
        })
        .unwrap();
        assert!(names.is_to(&Seen::Tls(b"b.example")) && names.is_to(&Seen::Tls(b"c.example")));
        assert!(!names.is_to(&Seen::Http(b"b.example", b"/")));
        assert!(names.is_to(&Seen::Http(b"c.example", b"/")));
        let urls = Pfd::read(&PfdContents {
            url: Some(b"http://a.example/video"),
            ..PfdContents::default()
        })
        .unwrap();
        assert!(urls.is_to(&Seen::Http(b"a.example", b"/video/1")));
        assert!(!urls.is_to(&Seen::Tls(b"a.example")));
    }

    #[test]
    fn what_cannot_be_seen_or_says_nothing_is_refused() {
        let cause = |contents: PfdContents<'_>| Pfd::read(&contents).unwrap_err().refusal.cause;
        let incorrect = Cause::MANDATORY_IE_INCORRECT;
        assert_eq!(cause(PfdContents::default()), incorrect);
        for custom in [
            "",
            "ip:",
            "ip:192.0.2.0/33",
            "ip:9-8",
            "ip:192.0.2.9-192.0.2.1",
            "x",
        ] {
            let contents = PfdContents {
                custom: Some(custom.as_bytes()),
                ..PfdContents::default()
            };
            assert_eq!(cause(contents), incorrect, "{custom}");
        }
        let contents = PfdContents {
            flow_description: Some(b"permit out ip from any"),
            ..PfdContents::default()
        };
        assert_eq!(cause(contents), incorrect);
        let contents = PfdContents {
            domain_name: Some(b"a.example"),
            domain_name_protocol: Some(b"DNS_QNAME"),
            ..PfdContents::default()
        };
        assert_eq!(cause(contents), Cause::SERVICE_NOT_SUPPORTED);
        let contents = PfdContents {
            url: Some(b"https://a.example/secret"),
            ..PfdContents::default()
        };
        assert_eq!(cause(contents), incorrect);
    }
}
