//! Frames of UEs: what is looked at of them, and the filters that compare it.
//!
//! Below sessions and the data path: `model` keeps filters in its images, `ethernet` reads them
//! from N4 and asks them, and nothing here knows of either. Specification: TS 29.244 8.2.93 to
//! 8.2.99.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use catena_wire::ethernet::HEADER_LEN;
use catena_wire::pfcp::value::forwarding::{RemovedHeader, VlanTag};

use crate::sdf::Inner;
use crate::stored;

/// Length of a tag, and of the addresses in front of it.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;
/// Bit of an address that is a group's.
pub(crate) const GROUP: u64 = 1 << 40;

/// What is looked at of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination.
    pub dst: u64,
    /// Source.
    pub src: u64,
    /// Ethertype behind all tags.
    pub ether_type: u16,
    /// Tag of the customer: priority and identifier.
    pub c_tag: Option<u16>,
    /// Tag of the service.
    pub s_tag: Option<u16>,
    /// Where its payload begins.
    pub len: usize,
}

impl Header {
    const C_TAG: u16 = 0x8100;
    const S_TAG: u16 = 0x88a8;

    /// Reads that of a frame; none of one that ends in it.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let address = |at: usize| {
            let octets = frame.get(at..at + 6)?;
            Some(octets.iter().fold(0, |all, one| all << 8 | u64::from(*one)))
        };
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let mut header = Self {
            dst: address(0)?,
            src: address(6)?,
            ether_type: word(12)?,
            c_tag: None,
            s_tag: None,
            len: HEADER_LEN,
        };
        if header.ether_type == Self::S_TAG {
            header.s_tag = Some(word(header.len)?);
            header.ether_type = word(header.len + 2)?;
            header.len += 4;
        }
        if header.ether_type == Self::C_TAG {
            header.c_tag = Some(word(header.len)?);
            header.ether_type = word(header.len + 2)?;
            header.len += 4;
        }
        Some(header)
    }
}

/// Priority, drop eligibility and identifier, as a tag has them; what is not said is 0.
pub(crate) fn tag_control(tag: Option<VlanTag>) -> u16 {
    let tag = tag.unwrap_or_default();
    let priority = u16::from(tag.pcp.unwrap_or(0)) << 13;
    priority | u16::from(tag.dei.unwrap_or(false)) << 12 | tag.vid.unwrap_or(0)
}

/// Bytes of the tags that an Outer Header Removal takes from a frame, the outermost first, of those
/// that it has (TS 29.244 8.2.64).
pub(crate) fn removed_len(frame: &[u8], removal: u8) -> usize {
    let wanted = match RemovedHeader(removal) {
        RemovedHeader::VLAN_TAG_POP => 1,
        RemovedHeader::VLAN_TAGS_POP_POP => 2,
        _ => return 0,
    };
    // More of a frame than the addresses and its type must be left.
    let tag = |at: usize| {
        let ether_type = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        let is_tag = matches!(ether_type, Header::S_TAG | Header::C_TAG);
        (is_tag && frame.len() >= at + TAG_LEN + 2).then_some(())
    };
    let tags = (0..wanted).map_while(|number| tag(ADDRESSES_LEN + number * TAG_LEN));
    tags.count() * TAG_LEN
}

/// Takes so many bytes of tags from a frame: the first ones are no longer the frame's.
pub(crate) fn remove_tags(frame: &mut [u8], len: usize) {
    if len != 0 && frame.len() >= ADDRESSES_LEN + len {
        frame.copy_within(..ADDRESSES_LEN, len);
    }
}

/// A frame without the tags that an Outer Header Removal takes.
pub(crate) fn without_tags(frame: &[u8], removal: u8) -> Cow<'_, [u8]> {
    match removed_len(frame, removal) {
        0 => Cow::Borrowed(frame),
        len => Cow::Owned([&frame[..ADDRESSES_LEN], &frame[ADDRESSES_LEN + len..]].concat()),
    }
}

/// Puts tags into a frame, in front of which there is room for them.
pub(crate) fn set_tags(bytes: &mut [u8], tags: [Option<u16>; 2]) {
    let len = tags_len(tags);
    if len == 0 || bytes.len() < len + ADDRESSES_LEN {
        return;
    }
    bytes.copy_within(len..len + ADDRESSES_LEN, 0);
    let types = [Header::S_TAG, Header::C_TAG];
    let mut at = ADDRESSES_LEN;
    for (ether_type, control) in types.into_iter().zip(tags) {
        if let Some(control) = control {
            bytes[at..at + 2].copy_from_slice(&ether_type.to_be_bytes());
            bytes[at + 2..at + TAG_LEN].copy_from_slice(&control.to_be_bytes());
            at += TAG_LEN;
        }
    }
}

/// Length of tags.
pub(crate) fn tags_len(tags: [Option<u16>; 2]) -> usize {
    tags.into_iter().flatten().count() * TAG_LEN
}

/// What rules of bits and bytes see of a frame: all else is looked at where it lies.
pub(crate) const fn inner(len: usize) -> Inner {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    Inner::opaque(nobody, nobody, len)
}

stored! {
    /// An Ethernet packet filter, ready to be compared with frames. All that is there must fit.
    pub struct FrameFilter {
        /// PDR ID.
        pub pdr_id: u16,
        /// Lowest and highest source.
        pub src: Option<[u64; 2]>,
        /// Lowest and highest destination.
        pub dst: Option<[u64; 2]>,
        /// Ethertype.
        pub ether_type: Option<u16>,
        /// Tag of the customer: what of it is compared, and with which value.
        pub c_tag: Option<[u16; 2]>,
        /// Tag of the service.
        pub s_tag: Option<[u16; 2]>,
        /// Ethernet Filter ID.
        pub filter_id: Option<u32>,
        /// Whether another PDR may name it, for the other direction.
        pub is_bidirectional: bool,
    }
}

impl FrameFilter {
    /// One that every frame fits.
    pub const fn all(pdr_id: u16) -> Self {
        Self {
            pdr_id,
            src: None,
            dst: None,
            ether_type: None,
            c_tag: None,
            s_tag: None,
            filter_id: None,
            is_bidirectional: false,
        }
    }

    /// Whether a frame fits.
    pub fn fits(&self, frame: &Header) -> bool {
        let holds = |range: Option<[u64; 2]>, address| {
            range.is_none_or(|[low, high]| (low..=high).contains(&address))
        };
        let is_tagged = |wanted: Option<[u16; 2]>, tag: Option<u16>| {
            wanted.is_none_or(|[mask, value]| tag.is_some_and(|tag| tag & mask == value))
        };
        holds(self.src, frame.src)
            && holds(self.dst, frame.dst)
            && self.ether_type.is_none_or(|one| one == frame.ether_type)
            && is_tagged(self.c_tag, frame.c_tag)
            && is_tagged(self.s_tag, frame.s_tag)
    }

    /// The one UE's address that frames of the data network are for.
    pub fn station(&self) -> Option<u64> {
        let [low, high] = self.dst?;
        (low == high && low & GROUP == 0).then_some(low)
    }

    /// Whether it is no more than the ID of another one.
    pub(crate) fn is_reference(&self) -> bool {
        *self
            == Self {
                filter_id: self.filter_id,
                ..Self::all(self.pdr_id)
            }
            && self.filter_id.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::NONE;

    /// A frame from 2 to 1 with these tags and this type behind them.
    fn frame(tags: &[(u16, u16)], ether_type: u16) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2];
        for (kind, tag) in tags {
            bytes.extend(kind.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(ether_type.to_be_bytes());
        bytes
    }

    #[test]
    fn tags_are_read_and_a_frame_that_ends_in_its_header_is_none() {
        let both = frame(&[(0x88a8, 0x2003), (0x8100, 0x4005)], 0x0800);
        let read = Header::parse(&both).unwrap();
        assert_eq!((read.dst, read.src, read.len), (1, 2, 22));
        let tags = (read.s_tag, read.c_tag, read.ether_type);
        assert_eq!(tags, (Some(0x2003), Some(0x4005), 0x0800));
        for len in 0..both.len() {
            assert_eq!(Header::parse(&both[..len]), None);
        }
        assert_eq!(Header::parse(&frame(&[], 0x0806)).unwrap().len, 14);
    }

    #[test]
    fn tags_that_are_set_can_be_removed_again() {
        let plain = frame(&[], 0x0800);
        let tag = |vid| VlanTag {
            pcp: Some(5),
            dei: Some(true),
            vid: Some(vid),
        };
        let both = [
            Some(tag_control(Some(tag(7)))),
            Some(tag_control(Some(tag(9)))),
        ];
        let tagged = frame(&[(0x88a8, 0xb007), (0x8100, 0xb009)], 0x0800);
        let [service, customer] = both;
        for (tags, bytes) in [
            (both, tagged.clone()),
            ([service, None], frame(&[(0x88a8, 0xb007)], 0x0800)),
            ([None, customer], frame(&[(0x8100, 0xb009)], 0x0800)),
            ([None; 2], plain.clone()),
        ] {
            let mut made = vec![0; tags_len(tags)];
            made.extend(&plain);
            set_tags(&mut made, tags);
            assert_eq!(made, bytes);
            let len = removed_len(&made, 8);
            assert_eq!(len, tags_len(tags));
            assert_eq!(*without_tags(&made, 8), plain);
            remove_tags(&mut made, len);
            assert_eq!(made[len..], plain);
        }
        // One alone is the outermost; others of 8.2.64 are no tags.
        assert_eq!(removed_len(&tagged, 7), 4);
        let mut once = tagged.clone();
        remove_tags(&mut once, 4);
        assert_eq!(once[4..], frame(&[(0x8100, 0xb009)], 0x0800));
        assert_eq!(
            [0, 4, 6, 9, NONE].map(|one| removed_len(&tagged, one)),
            [0; 5]
        );
        for (tags, most) in [
            (&[(0x8100, 1), (0x8100, 2)], 8),
            (&[(0x8100, 1), (0x88a8, 2)], 8),
        ] {
            assert_eq!(
                removed_len(&frame(tags, 0x0800), 8),
                most,
                "whatever they are"
            );
        }
        for len in 0..tagged.len() {
            let whole = [22, 18].into_iter().position(|least| len >= least);
            let wanted = whole.map_or(0, |at| [8, 4][at]);
            assert_eq!(removed_len(&tagged[..len], 8), wanted, "{len}");
        }
        assert_eq!(tag_control(None), 0);
    }

    #[test]
    fn all_that_a_filter_says_must_fit() {
        let tagged = Header::parse(&frame(&[(0x8100, 0x4005)], 0x0800)).unwrap();
        let with = |change: fn(&mut FrameFilter)| {
            let mut filter = FrameFilter::all(1);
            change(&mut filter);
            filter.fits(&tagged)
        };
        assert!(with(|_| {}));
        assert!(with(|one| one.src = Some([2, 9])) && !with(|one| one.src = Some([3, 9])));
        assert!(with(|one| one.dst = Some([1, 1])) && !with(|one| one.dst = Some([2, 2])));
        assert!(with(|one| one.ether_type = Some(0x0800)));
        assert!(!with(|one| one.ether_type = Some(0x8100)));
        assert!(with(|one| one.c_tag = Some([0xfff, 5])));
        assert!(!with(|one| one.c_tag = Some([0xe000, 0x2000])));
        assert!(!with(|one| one.s_tag = Some([0, 0])));
    }
}
