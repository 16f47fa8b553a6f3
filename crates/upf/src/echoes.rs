//! Echo Requests to the peers of GTP-U paths, and what SMFs are told of them.
//!
//! Beside packets: `paths` says who is due, the questions leave as frames of the UPF's own, and a
//! path that fails, or is there again, is told to all SMFs by Node Report Requests. Specification:
//! TS 29.281 7.2.1; TS 29.244 5.14 and 7.4.5.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::gtpu::{self, MessageType};
use catena_wire::pfcp::value::address::RemoteGtpUPeer;
use catena_wire::pfcp::value::flags::NodeReportType;
use catena_wire::pfcp::{IeType, MessageType as PfcpType, key};

use crate::association::ASSOCIATION_COUNT;
use crate::paths::{Due, End};
use crate::settings::node_id_of;
use crate::transactions::Subject;
use crate::tunnel::{Signal, written};
use crate::upf::Upf;

impl Upf {
    /// Asks the peers that are due, and tells SMFs of those that do not answer; gives when to do so
    /// again.
    pub(crate) fn check_paths(
        &mut self,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Option<u64> {
        for (end, due) in self.paths.check(now_ns) {
            match due {
                Due::Ask(sequence) => self.ask_peer(end, sequence, signals),
                Due::Failed => {
                    self.counters.path_failures += 1;
                    self.report_path(end, NodeReportType::UPFR, now_ns);
                }
            }
        }
        self.paths.next_ns()
    }

    fn ask_peer(&mut self, (place, peer): End, sequence: u16, signals: &mut VecDeque<Signal>) {
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
            self.signal(signals, (peer, gtpu::PORT, own), written(message, &[]));
        }
    }

    /// A peer has answered.
    pub(crate) fn hear_echo(&mut self, from: IpAddr, sequence: u16, now_ns: u64) {
        if let Some(end) = self.paths.heard(from, sequence) {
            self.report_path(end, NodeReportType::UPRR, now_ns);
        }
    }

    /// Tells all SMFs what has become of a path.
    fn report_path(&mut self, (place, peer): End, kind: NodeReportType, now_ns: u64) {
        let group = match kind {
            NodeReportType::UPFR => IeType::USER_PLANE_PATH_FAILURE_REPORT,
            _ => IeType::USER_PLANE_PATH_RECOVERY_REPORT,
        };
        let instance = self.settings.interfaces.get(usize::from(place));
        let instance = instance.and_then(|one| self.instance_name(one.instance));
        let instance = instance.map(<[u8]>::to_vec);
        let (name, address) = (self.settings.node_name.clone(), self.settings.node_address);
        for number in 0..ASSOCIATION_COUNT {
            let Some(smf) = self.store.association(number).peer() else {
                continue;
            };
            if !self.transactions.has_room() {
                self.counters.unsent += 1;
                continue;
            }
            let remote = RemoteGtpUPeer {
                v4: if let IpAddr::V4(v4) = peer {
                    Some(v4)
                } else {
                    None
                },
                v6: if let IpAddr::V6(v6) = peer {
                    Some(v6)
                } else {
                    None
                },
                destination_interface: None,
                network_instance: instance.as_deref(),
            };
            let subject = Subject::Path(u8::try_from(number).unwrap_or(0));
            let request = PfcpType::NODE_REPORT_REQUEST;
            let is_sent = self.request(smf, request, None, subject, now_ns, |writer| {
                writer.put(key::NODE_ID, &node_id_of(&name, address))?;
                writer.put(key::NODE_REPORT_TYPE, &kind)?;
                writer.group(group, |writer| writer.put(key::REMOTE_GTP_U_PEER, &remote))
            });
            self.counters.reports += u64::from(is_sent);
            self.counters.unsent += u64::from(!is_sent);
        }
    }
}
