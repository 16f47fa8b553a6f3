//! Echo Requests to the peers of GTP-U paths, and what SMFs are told of them.
//!
//! Beside packets: `paths` says who is due, the questions leave as frames of the UPF's own, and
//! paths that fail, or are there again, are told to all SMFs by Node Report Requests, many by one.
//! What there is no room to tell waits. Specification: TS 29.281 7.2.1; TS 29.244 5.14 and 7.4.5.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::gtpu::{self, MessageType};
use catena_wire::pfcp::value::address::RemoteGtpUPeer;
use catena_wire::pfcp::value::flags::NodeReportType;
use catena_wire::pfcp::{IeType, MessageType as PfcpType, key};

use crate::association::ASSOCIATION_COUNT;
use crate::paths::End;
use crate::settings::node_id_of;
use crate::transactions::Subject;
use crate::tunnel::{Signal, written};
use crate::upf::Upf;

/// Most paths that one request tells of: their reports fit into a message.
const TOLD_COUNT_MAX: usize = 32;
/// After so long, what there was no room to tell is tried again.
const AGAIN_NS: u64 = 1_000_000_000;

impl Upf {
    /// Asks the peers that are due, and tells SMFs of paths that have failed, or are there again;
    /// gives when to do so again.
    pub(crate) fn check_paths(
        &mut self,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Option<u64> {
        for (end, sequence) in self.paths.check(now_ns) {
            self.ask_peer(end, sequence, 0, signals);
        }
        let is_told = self.tell_paths(true, now_ns) && self.tell_paths(false, now_ns);
        let again_ns = (!is_told).then_some(now_ns.saturating_add(AGAIN_NS));
        let of_qos_ns = self.check_path_qos(signals, now_ns);
        let next = [self.paths.next_ns(), again_ns, of_qos_ns];
        next.into_iter().flatten().min()
    }

    /// Has an Echo Request leave, in a packet with this DSCP.
    pub(crate) fn ask_peer(
        &mut self,
        (place, peer): End,
        sequence: u16,
        dscp: u8,
        signals: &mut VecDeque<Signal>,
    ) {
        let Some(one) = self.settings.interfaces.get(usize::from(place)) else {
            return;
        };
        let own = match peer {
            IpAddr::V4(_) => one.v4.map(IpAddr::V4),
            IpAddr::V6(_) => one.v6.map(IpAddr::V6),
        };
        if let Some(own) = own {
            self.counters.echo_requests += 1;
            let message = gtpu::Header::new(MessageType::ECHO_REQUEST, 0, Some(sequence));
            let to = (peer, gtpu::PORT, own);
            self.signal_marked(signals, to, written(message, &[]), dscp << 2);
        }
    }

    /// A peer has answered, from its port to this address.
    pub(crate) fn hear_echo(
        &mut self,
        (from, port, own): (IpAddr, u16, IpAddr),
        sequence: u16,
        now_ns: u64,
    ) {
        if port != gtpu::PORT {
            return;
        }
        let mut has_news = false;
        let places = self.settings.interfaces.iter().zip(0_u8..);
        for (interface, place) in places {
            let is_its = match own {
                IpAddr::V4(own) => interface.v4 == Some(own),
                IpAddr::V6(own) => interface.v6 == Some(own),
            };
            if is_its {
                self.paths.heard((place, from), sequence);
                has_news |= self.path_qos.heard((place, from), sequence, now_ns);
            }
        }
        if has_news {
            self.tell_path_qos(now_ns);
        }
    }

    /// Tells all SMFs of paths that have failed, or are there again; false if there is no room now.
    fn tell_paths(&mut self, is_down: bool, now_ns: u64) -> bool {
        let smfs = (0..ASSOCIATION_COUNT).filter_map(|number| {
            let smf = self.store.association(number).peer()?;
            Some((u8::try_from(number).unwrap_or(0), smf))
        });
        let smfs: Vec<_> = smfs.collect();
        loop {
            let ends = self.paths.untold(is_down, TOLD_COUNT_MAX);
            if ends.is_empty() {
                return true;
            }
            // All hear of it, or none yet.
            if self.transactions.room() < smfs.len() {
                return false;
            }
            for (number, smf) in &smfs {
                self.report_paths((*number, *smf), &ends, is_down, now_ns);
            }
            self.counters.path_failures += if is_down { ends.len() as u64 } else { 0 };
            self.paths.told(&ends, is_down);
        }
    }

    fn report_paths(
        &mut self,
        (number, smf): (u8, IpAddr),
        ends: &[End],
        is_down: bool,
        now_ns: u64,
    ) {
        let (kind, group) = match is_down {
            true => (NodeReportType::UPFR, IeType::USER_PLANE_PATH_FAILURE_REPORT),
            false => (
                NodeReportType::UPRR,
                IeType::USER_PLANE_PATH_RECOVERY_REPORT,
            ),
        };
        let (name, address) = (self.settings.node_name.clone(), self.settings.node_address);
        let instances = ends.iter().map(|(place, _)| {
            let interface = self.settings.interfaces.get(usize::from(*place));
            let instance = interface.and_then(|one| self.instance_name(one.instance));
            instance.map(<[u8]>::to_vec)
        });
        let instances: Vec<_> = instances.collect();
        let request = PfcpType::NODE_REPORT_REQUEST;
        let subject = Subject::Path(number);
        let is_sent = self.request(smf, request, None, subject, now_ns, |writer| {
            writer.put(key::NODE_ID, &node_id_of(&name, address))?;
            writer.put(key::NODE_REPORT_TYPE, &kind)?;
            writer.group(group, |writer| {
                let mut all = ends.iter().zip(&instances);
                all.try_for_each(|((_, peer), instance)| {
                    let peer = remote_peer(*peer, instance.as_deref());
                    writer.put(key::REMOTE_GTP_U_PEER, &peer)
                })
            })
        });
        self.counters.reports += u64::from(is_sent);
        self.counters.unsent += u64::from(!is_sent);
    }
}

/// The peer of a path, as SMFs are told of it.
pub(crate) const fn remote_peer(peer: IpAddr, instance: Option<&[u8]>) -> RemoteGtpUPeer<'_> {
    let (v4, v6) = match peer {
        IpAddr::V4(v4) => (Some(v4), None),
        IpAddr::V6(v6) => (None, Some(v6)),
    };
    RemoteGtpUPeer {
        v4,
        v6,
        destination_interface: None,
        network_instance: instance,
    }
}
