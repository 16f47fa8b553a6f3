//! What one packet answers to the fields of rules: made of its headers, then searched for.

use std::ops::RangeInclusive;

use catena_wire::ParseError;
use catena_wire::dissect::Dissected;
use catena_wire::ip::Addresses;

/// The fields of a packet other than its addresses, in the order of [`Key::fields`].
pub(super) const FIELD_COUNT: usize = 6;
/// The answer of a packet that lacks the field; no field's value is as large.
pub(super) const LACKING: u32 = u32::MAX;
/// Fits every answer, [`LACKING`] too.
pub(super) const ANY: RangeInclusive<u32> = 0..=u32::MAX;

/// What one packet answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Both addresses, if it is IP.
    pub(crate) addresses: Option<Addresses>,
    /// Source port, destination port, protocol, EtherType, VLAN, DSCP.
    pub(super) fields: [u32; FIELD_COUNT],
}

impl Key {
    /// The key of the packet in `frame`.
    ///
    /// # Errors
    /// That of [`Dissected::parse`]: no rule should guess what a malformed packet is.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Result<Self, ParseError> {
        let dissected = Dissected::parse(frame)?;
        let (src_port, dst_port) = dissected
            .ports()
            .map_or((LACKING, LACKING), |(src, dst)| (src.into(), dst.into()));
        let vlan_ids = dissected.vlan_ids();
        let vlan = vlan_ids.first().map_or(LACKING, |vlan| u32::from(*vlan));
        let (protocol, dscp) = dissected.ip.map_or((LACKING, LACKING), |ip| {
            // The dissection has read a whole IP header here.
            let word = u32::from(frame[dissected.l3]) << 8 | u32::from(frame[dissected.l3 + 1]);
            let dscp = match ip.addresses {
                Addresses::V4 { .. } => word >> 2 & 0x3f,
                Addresses::V6 { .. } => word >> 6 & 0x3f,
            };
            (ip.protocol.0.into(), dscp)
        });
        let ether_type = dissected.ether_type.0.into();
        Ok(Self {
            addresses: dissected.ip.map(|ip| ip.addresses),
            fields: [src_port, dst_port, protocol, ether_type, vlan, dscp],
        })
    }
}
