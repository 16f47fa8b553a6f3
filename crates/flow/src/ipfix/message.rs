//! Messages of IPFIX: a header, sets, and the records in them.
//!
//! Behind the flow table and in front of UDP: `exporter` appends records here until one does not
//! fit, and sends what there is. Nothing is allocated once a message is made. Specification: RFC
//! 7011 section 3; elements by IANA's registry; the sampling that options tell by RFC 5477.

/// Length of a message's header.
pub(super) const HEADER_LEN: usize = 16;
/// Length of a set's header.
const SET_HEADER_LEN: usize = 4;
/// Version of the protocol.
const VERSION: u16 = 10;
/// Sets of templates, and of templates of options.
const TEMPLATE_SET: u16 = 2;
const OPTIONS_SET: u16 = 3;
/// Templates: flows of IPv4, of IPv6, and how packets were selected.
pub(super) const FLOW_V4: u16 = 256;
pub(super) const FLOW_V6: u16 = 257;
pub(super) const SELECTION: u16 = 258;
/// selectorAlgorithm: systematic count-based sampling (RFC 5477 section 8.2.1).
const COUNT_BASED: u16 = 1;

/// Elements of a flow behind its addresses, and their lengths: ports, protocolIdentifier,
/// tcpControlBits, flowEndReason, packetDeltaCount, octetDeltaCount, flowStartMilliseconds,
/// flowEndMilliseconds.
const FLOW: [(u16, u16); 9] = [
    (7, 2),
    (11, 2),
    (4, 1),
    (6, 2),
    (136, 1),
    (2, 8),
    (1, 8),
    (152, 8),
    (153, 8),
];
/// sourceIPv4Address, destinationIPv4Address; the same of IPv6.
const ADDRESSES_V4: [(u16, u16); 2] = [(8, 4), (12, 4)];
const ADDRESSES_V6: [(u16, u16); 2] = [(27, 16), (28, 16)];
/// observationDomainId as scope; selectorAlgorithm, samplingPacketInterval, samplingPacketSpace.
const OPTIONS: [(u16, u16); 4] = [(149, 4), (304, 2), (305, 4), (306, 4)];

/// Why a record of a flow is told (flowEndReason, RFC 5102 section 5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    Idle = 1,
    Active = 2,
    EndOfFlow = 3,
    Forced = 4,
    LackOfResources = 5,
}

/// A flow as a record tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowRecord {
    pub(super) key: [u64; super::key::KEY_WORDS],
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) tcp_flags: u16,
    pub(super) reason: EndReason,
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
}

/// A message in the making.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    len_max: usize,
    /// Where the last set begins, and its number; none in an empty message.
    set: Option<(usize, u16)>,
    /// Records that count for the sequence number.
    pub(super) records: u32,
}

impl Message {
    /// An empty one of so many bytes at most: 200 have room for all templates, or for a flow.
    pub(super) fn new(len_max: usize) -> Self {
        let mut bytes = Vec::with_capacity(len_max);
        bytes.resize(HEADER_LEN, 0);
        Self {
            bytes,
            len_max,
            set: None,
            records: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.truncate(HEADER_LEN);
        (self.set, self.records) = (None, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_none()
    }

    /// Writes the header; gives the whole message.
    pub(super) fn finish(&mut self, export_s: u32, sequence: u32, domain: u32) -> &[u8] {
        let len = self.bytes.len() as u16;
        self.bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        self.bytes[2..4].copy_from_slice(&len.to_be_bytes());
        self.bytes[4..8].copy_from_slice(&export_s.to_be_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_be_bytes());
        self.bytes[12..16].copy_from_slice(&domain.to_be_bytes());
        &self.bytes
    }

    /// Whether there is room for a record of so many bytes in a set; begins the set if need be.
    fn begin(&mut self, set: u16, len: usize) -> bool {
        let is_open = self.set.is_some_and(|(_, number)| number == set);
        let needed = len + if is_open { 0 } else { SET_HEADER_LEN };
        if self.bytes.len() + needed > self.len_max {
            return false;
        }
        if !is_open {
            self.set = Some((self.bytes.len(), set));
            self.put(u64::from(set), 2);
            self.put(0, 2);
        }
        true
    }

    /// Writes the length of the last set.
    fn end(&mut self) {
        if let Some((at, _)) = self.set {
            let len = (self.bytes.len() - at) as u16;
            self.bytes[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
        }
    }

    /// The lowest bytes of a number, big-endian.
    fn put(&mut self, value: u64, len: usize) {
        self.bytes.extend(&value.to_be_bytes()[8 - len..]);
    }

    /// Appends a flow; `false`, and nothing, if it does not fit.
    pub(super) fn push_flow(&mut self, flow: &FlowRecord) -> bool {
        let is_v6 = flow.key[4] & 0xff == 6;
        let (set, addresses) = match is_v6 {
            true => (FLOW_V6, ADDRESSES_V6),
            false => (FLOW_V4, ADDRESSES_V4),
        };
        let lengths = addresses
            .iter()
            .chain(&FLOW)
            .map(|(_, len)| usize::from(*len));
        if !self.begin(set, lengths.sum()) {
            return false;
        }
        for [high, low] in [[flow.key[0], flow.key[1]], [flow.key[2], flow.key[3]]] {
            if is_v6 {
                self.put(high, 8);
            }
            self.put(low, if is_v6 { 8 } else { 4 });
        }
        let values = [
            flow.key[4] >> 48,
            flow.key[4] >> 32 & 0xffff,
            flow.key[4] >> 8 & 0xff,
            flow.tcp_flags.into(),
            flow.reason as u64,
            flow.packets,
            flow.octets,
            flow.start_ms,
            flow.end_ms,
        ];
        for ((_, len), value) in FLOW.iter().zip(values) {
            self.put(value, usize::from(*len));
        }
        self.end();
        self.records += 1;
        true
    }

    /// Appends all templates, and how packets are selected, to an empty message.
    pub(super) fn push_templates(&mut self, domain: u32, sample: u32) {
        for (number, addresses) in [(FLOW_V4, ADDRESSES_V4), (FLOW_V6, ADDRESSES_V6)] {
            let fields = addresses.iter().chain(&FLOW);
            if self.begin(TEMPLATE_SET, 4 + 4 * (addresses.len() + FLOW.len())) {
                self.put(u64::from(number), 2);
                self.put((addresses.len() + FLOW.len()) as u64, 2);
                for (element, len) in fields {
                    self.put(u64::from(*element), 2);
                    self.put(u64::from(*len), 2);
                }
                self.end();
            }
        }
        if self.begin(OPTIONS_SET, 6 + 4 * OPTIONS.len()) {
            self.put(u64::from(SELECTION), 2);
            self.put(OPTIONS.len() as u64, 2);
            self.put(1, 2);
            for (element, len) in OPTIONS {
                self.put(u64::from(element), 2);
                self.put(u64::from(len), 2);
            }
            self.end();
        }
        if self.begin(SELECTION, 14) {
            self.put(u64::from(domain), 4);
            self.put(u64::from(COUNT_BASED), 2);
            self.put(1, 4);
            self.put(u64::from(sample - 1), 4);
            self.end();
            self.records += 1;
        }
    }
}
