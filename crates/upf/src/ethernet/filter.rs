//! Ethernet packet filters: which frames of a UE a PDR is for.
//!
//! On N4 they are read from IEs, of which several MAC addresses make several records; on a frame's
//! way any of a PDR's must fit. Specification: TS 29.244 7.5.2.2-3, 8.2.93 to 8.2.99.

use catena_wire::ethernet::MacAddr;
use catena_wire::pfcp::value::PdrId;
use catena_wire::pfcp::value::detection::MacAddresses;
use catena_wire::pfcp::value::flags::EthernetFilterProperties;
use catena_wire::pfcp::value::forwarding::VlanTag;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Group, IeType, key};

use crate::frame::{FrameFilter, Header};
use crate::model::{Fault, Image, Session};

/// Whether a frame fits a PDR: any of its filters, if it has some.
pub fn fits(image: &Image<'_>, pdr_id: u16, frame: &[u8]) -> bool {
    let its = || image.frame_filters().filter(|one| one.pdr_id == pdr_id);
    if its().next().is_none() {
        return true;
    }
    Header::parse(frame).is_some_and(|header| its().any(|one| one.fits(&header)))
}

fn number(address: MacAddr) -> u64 {
    let octets = address.0.iter();
    octets.fold(0, |all, one| all << 8 | u64::from(*one))
}

fn range(low: Option<MacAddr>, high: Option<MacAddr>) -> Option<[u64; 2]> {
    let low = number(low?);
    Some([low, high.map_or(low, number)])
}

fn tag(tag: VlanTag) -> [u16; 2] {
    let field = |mask: u16, value: Option<u16>| value.map(|value| [mask, value & mask]);
    let fields = [
        field(0xe000, tag.pcp.map(|pcp| u16::from(pcp) << 13)),
        field(0x1000, tag.dei.map(|dei| u16::from(dei) << 12)),
        field(0x0fff, tag.vid),
    ];
    let fields = fields.into_iter().flatten();
    fields.fold([0; 2], |[mask, value], [more, its]| {
        [mask | more, value | its]
    })
}

/// Reads an Ethernet Packet Filter: a filter for each of its MAC addresses.
///
/// # Errors
/// Why the request is refused.
pub fn read_filter(
    group: &Group<'_>,
    pdr_id: u16,
    filters: &mut Vec<FrameFilter>,
) -> Result<(), Fault> {
    let properties = group.get(key::ETHERNET_FILTER_PROPERTIES)?;
    let properties = properties.unwrap_or_default();
    let common = FrameFilter {
        filter_id: group.get(key::ETHERNET_FILTER_ID)?,
        is_bidirectional: properties.contains(EthernetFilterProperties::BIDE),
        ether_type: group.get(key::ETHERTYPE)?,
        c_tag: group.get(key::C_TAG)?.map(tag),
        s_tag: group.get(key::S_TAG)?.map(tag),
        ..FrameFilter::all(pdr_id)
    };
    let before = filters.len();
    for addresses in group.each(key::MAC_ADDRESS) {
        let MacAddresses {
            src,
            dst,
            src_upper,
            dst_upper,
        } = addresses?;
        let (src, dst) = (range(src, src_upper), range(dst, dst_upper));
        let is_empty = |range: Option<[u64; 2]>| range.is_some_and(|[low, high]| low > high);
        if is_empty(src) || is_empty(dst) || src.or(dst).is_none() {
            let failed = FailedRuleId::Pdr(PdrId(pdr_id));
            return Err(Fault::of_rule(failed, IeType::MAC_ADDRESS));
        }
        filters.push(FrameFilter { src, dst, ..common });
    }
    if filters.len() == before {
        filters.push(common);
    }
    Ok(())
}

/// Filters that only name the ID of a bidirectional one are that one, for the other direction.
///
/// # Errors
/// The first one that names none.
pub fn refer(session: &mut Session) -> Result<(), Fault> {
    let all = session.pdrs.iter().flat_map(|one| &one.frames);
    let whole: Vec<_> = all.filter(|one| one.is_bidirectional).copied().collect();
    for one in &mut session.pdrs {
        let mut frames = Vec::with_capacity(one.frames.len());
        for filter in &one.frames {
            if !filter.is_reference() {
                frames.push(*filter);
                continue;
            }
            let its = whole.iter().filter(|one| one.filter_id == filter.filter_id);
            let before = frames.len();
            frames.extend(its.map(|whole| FrameFilter {
                pdr_id: one.pdr.id,
                src: whole.dst,
                dst: whole.src,
                is_bidirectional: false,
                ..*whole
            }));
            if frames.len() == before {
                let failed = FailedRuleId::Pdr(PdrId(one.pdr.id));
                return Err(Fault::of_rule(failed, IeType::ETHERNET_FILTER_ID));
            }
        }
        one.frames = frames;
    }
    Ok(())
}
