//! A session as a value: what N4 changes, and the image of it that packets read in place.
//!
//! ```text
//! | head | PDRs by precedence | FARs | QERs | URRs | BARs | filters |
//! ```
//!
//! Between N4 and the data path. [`Session`] is read from an image and written to one;
//! [`Image`] gives the records of an image where they lie.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::{FarId, PdrId};
use catena_wire::pfcp::{Cause, IeType, Refusal};

use crate::rules::{Bar, Far, Head, NONE, Pdr, Qer, Urr};
use crate::sdf::Filter;
use crate::stored::{List, Stored};

/// Most URRs of a session: what is answered to a deletion has room for a report of each.
pub const URR_COUNT_MAX: usize = 32;
/// Most rules of any other kind, and most filters.
pub const RULE_COUNT_MAX: usize = 250;

/// Why a request is turned down: what its answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Cause and offending IE.
    pub refusal: Refusal,
    /// Failed Rule ID.
    pub rule: Option<FailedRuleId>,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            rule: None,
        }
    }
}

impl Fault {
    /// Rule creation/modification Failure of this rule, because of `offending`.
    pub const fn of_rule(rule: FailedRuleId, offending: IeType) -> Self {
        Self {
            refusal: Cause::RULE_CREATION_MODIFICATION_FAILURE.because_of(offending),
            rule: Some(rule),
        }
    }
}

/// A PDR with its filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The rule.
    pub pdr: Pdr,
    /// Any of them must fit; without one every packet does.
    pub filters: Vec<Filter>,
}

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// What is common.
    pub head: Head,
    /// By precedence, the first first.
    pub pdrs: Vec<Detection>,
    /// In the order of their creation, as all that follow.
    pub fars: Vec<Far>,
    /// QoS enforcement rules.
    pub qers: Vec<Qer>,
    /// Usage reporting rules.
    pub urrs: Vec<Urr>,
    /// Buffering action rules.
    pub bars: Vec<Bar>,
}

/// What finds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A tunnel that ends here.
    Teid(u32),
    /// A UE.
    V4(Ipv4Addr),
    /// A UE, by the first 64 bits.
    V6(u64),
    /// A tunnel that ends elsewhere: TEID and address, or what is left of one of IPv6. Several
    /// sessions may name the same one; the first has the key.
    Remote(u32, u64),
}

impl Key {
    /// It as two words of a flow table's key.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        match self {
            Self::Teid(teid) => [1, teid.into()],
            Self::V4(address) => [2, address.to_bits().into()],
            Self::V6(prefix) => [3, prefix],
            Self::Remote(teid, address) => [4 << 32 | u64::from(teid), address],
        }
    }

    /// The key of a tunnel that ends at another node.
    pub fn of_remote(teid: u32, address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            #[expect(clippy::cast_possible_truncation, reason = "both halves are in it")]
            IpAddr::V6(address) => {
                (address.to_bits() >> 64) as u64 ^ (address.to_bits() as u64).rotate_left(32)
            }
        };
        Self::Remote(teid, address)
    }

    /// The key of an IPv6 address.
    #[inline]
    pub fn of_v6(address: Ipv6Addr) -> Self {
        let prefix = (address.to_bits() >> 64) as u64;
        Self::V6(prefix)
    }
}

impl Session {
    /// A session without rules.
    pub const fn new(head: Head) -> Self {
        Self {
            head,
            pdrs: Vec::new(),
            fars: Vec::new(),
            qers: Vec::new(),
            urrs: Vec::new(),
            bars: Vec::new(),
        }
    }

    /// Has each rule find those that it names, and orders PDRs.
    ///
    /// # Errors
    /// The first rule that names one which is not there, or more rules than a session may have.
    pub fn link(&mut self) -> Result<(), Fault> {
        let most = [
            (self.pdrs.len(), IeType::CREATE_PDR, RULE_COUNT_MAX),
            (self.fars.len(), IeType::CREATE_FAR, RULE_COUNT_MAX),
            (self.qers.len(), IeType::CREATE_QER, RULE_COUNT_MAX),
            (self.urrs.len(), IeType::CREATE_URR, URR_COUNT_MAX),
            (self.bars.len(), IeType::CREATE_BAR, RULE_COUNT_MAX),
            (self.filter_count(), IeType::SDF_FILTER, RULE_COUNT_MAX),
        ];
        if let Some((_, ie_type, _)) = most.iter().find(|(count, _, most)| count > most) {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(*ie_type).into());
        }
        self.pdrs.sort_by_key(|detection| detection.pdr.precedence);
        let mut filters = 0;
        for Detection { pdr, filters: own } in &mut self.pdrs {
            let fault = |ie_type| Fault::of_rule(FailedRuleId::Pdr(PdrId(pdr.id)), ie_type);
            let far_at = place(self.fars.iter().map(|far| far.id), pdr.far_id);
            pdr.far_at = far_at.ok_or(fault(IeType::FAR_ID))?;
            let qers = self.qers.iter().map(|qer| qer.id);
            pdr.qers_at = places(qers, pdr.qer_ids.as_slice()).ok_or(fault(IeType::QER_ID))?;
            let urrs = self.urrs.iter().map(|urr| urr.id);
            pdr.urrs_at = places(urrs, pdr.urr_ids.as_slice()).ok_or(fault(IeType::URR_ID))?;
            #[expect(clippy::cast_possible_truncation, reason = "counted above")]
            let count = own.len() as u8;
            pdr.filters = [filters, count];
            filters += count;
        }
        for far in &mut self.fars {
            let bars = self.bars.iter().map(|bar| bar.id);
            far.bar_at = match far.bar_id {
                None => NONE,
                Some(id) => place(bars, id).ok_or(Fault::of_rule(
                    FailedRuleId::Far(FarId(far.id)),
                    IeType::BAR_ID,
                ))?,
            };
        }
        self.head.counts = [
            self.pdrs.len(),
            self.fars.len(),
            self.qers.len(),
            self.urrs.len(),
            self.bars.len(),
            self.filter_count(),
        ]
        .map(|count| u8::try_from(count).unwrap_or(u8::MAX));
        Ok(())
    }

    fn filter_count(&self) -> usize {
        self.pdrs.iter().map(|pdr| pdr.filters.len()).sum()
    }

    /// Everything by which packets find the session, each once.
    pub fn keys(&self) -> Vec<Key> {
        let pdrs = self.pdrs.iter().map(|detection| &detection.pdr);
        let teids = pdrs.filter(|pdr| pdr.teid != 0);
        let mut keys: Vec<Key> = teids.map(|pdr| Key::Teid(pdr.teid)).collect();
        keys.extend(self.head.ue_v4.map(Key::V4));
        keys.extend(self.head.ue_v6.map(Key::of_v6));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The tunnels that it sends into, each once.
    pub fn remotes(&self) -> Vec<Key> {
        let tunnels = self.fars.iter().filter(|far| far.headers != 0);
        let mut keys: Vec<Key> = tunnels
            .filter_map(|far| Some(Key::of_remote(far.teid, far.peer()?)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Length of its image in bytes; the session is linked.
    pub fn image_len(&self) -> usize {
        Offsets::of(&self.head.counts).end
    }

    /// Writes its image; the session is linked, and `bytes` are long enough.
    pub fn write(&self, bytes: &mut [u8]) {
        let at = Offsets::of(&self.head.counts);
        self.head.store(bytes);
        let pdrs = self.pdrs.iter().map(|detection| &detection.pdr);
        write_all(&mut bytes[at.pdrs..], pdrs);
        write_all(&mut bytes[at.fars..], &self.fars);
        write_all(&mut bytes[at.qers..], &self.qers);
        write_all(&mut bytes[at.urrs..], &self.urrs);
        write_all(&mut bytes[at.bars..], &self.bars);
        let filters = self.pdrs.iter().flat_map(|detection| &detection.filters);
        write_all(&mut bytes[at.filters..], filters);
    }

    /// Reads an image. None of memory that is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let head = Head::load(bytes);
        let at = Offsets::of(&head.counts);
        if at.end > bytes.len() {
            return None;
        }
        let [pdrs, fars, qers, urrs, bars, filters] = head.counts;
        let filters: Vec<Filter> = read_all(&bytes[at.filters..], filters);
        let pdrs = read_all(&bytes[at.pdrs..], pdrs)
            .into_iter()
            .map(|pdr: Pdr| {
                let [from, count] = pdr.filters.map(usize::from);
                let own = filters.get(from..from + count)?;
                Some(Detection {
                    pdr,
                    filters: own.to_vec(),
                })
            });
        Some(Self {
            pdrs: pdrs.collect::<Option<_>>()?,
            fars: read_all(&bytes[at.fars..], fars),
            qers: read_all(&bytes[at.qers..], qers),
            urrs: read_all(&bytes[at.urrs..], urrs),
            bars: read_all(&bytes[at.bars..], bars),
            head,
        })
    }
}

fn place<T: PartialEq>(ids: impl Iterator<Item = T>, id: T) -> Option<u8> {
    let mut ids = ids;
    u8::try_from(ids.position(|one| one == id)?).ok()
}

fn places<const N: usize>(
    ids: impl Iterator<Item = u32> + Clone,
    wanted: &[u32],
) -> Option<List<u8, N>> {
    let mut list = List::default();
    for id in wanted {
        if !list.push(place(ids.clone(), *id)?) {
            return None;
        }
    }
    Some(list)
}

fn write_all<'a, T: Stored + 'a>(bytes: &mut [u8], records: impl IntoIterator<Item = &'a T>) {
    for (at, record) in records.into_iter().enumerate() {
        record.store(&mut bytes[at * T::LEN..]);
    }
}

fn read_all<T: Stored>(bytes: &[u8], count: u8) -> Vec<T> {
    (0..usize::from(count))
        .map(|at| T::load(&bytes[at * T::LEN..]))
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Offsets {
    pdrs: usize,
    fars: usize,
    qers: usize,
    urrs: usize,
    bars: usize,
    filters: usize,
    end: usize,
}

impl Offsets {
    #[inline]
    fn of(counts: &[u8; 6]) -> Self {
        let [
            pdr_count,
            far_count,
            qer_count,
            urr_count,
            bar_count,
            filter_count,
        ] = counts.map(usize::from);
        let pdrs = Head::LEN;
        let fars = pdrs + pdr_count * Pdr::LEN;
        let qers = fars + far_count * Far::LEN;
        let urrs = qers + qer_count * Qer::LEN;
        let bars = urrs + urr_count * Urr::LEN;
        let filters = bars + bar_count * Bar::LEN;
        Self {
            pdrs,
            fars,
            qers,
            urrs,
            bars,
            filters,
            end: filters + filter_count * Filter::LEN,
        }
    }
}

/// The records of an image where they lie. Places beyond the counts give none.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a mut [u8],
    at: Offsets,
    counts: [u8; 6],
}

impl<'a> Image<'a> {
    /// The image at the front of `bytes`; none of memory that is none.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let counts = Head::load(bytes).counts;
        let at = Offsets::of(&counts);
        (at.end <= bytes.len()).then_some(Self { bytes, at, counts })
    }

    /// What is common.
    #[inline]
    pub fn head(&self) -> Head {
        Head::load(self.bytes)
    }

    /// Writes what is common; its counts must be as they are.
    #[inline]
    pub fn set_head(&mut self, head: &Head) {
        head.store(self.bytes);
    }

    /// How many PDRs there are.
    #[inline]
    pub const fn pdr_count(&self) -> u8 {
        self.counts[0]
    }

    /// How many URRs there are.
    #[inline]
    pub const fn urr_count(&self) -> u8 {
        self.counts[3]
    }

    /// Whether any PDR has filters.
    #[inline]
    pub const fn has_filters(&self) -> bool {
        self.counts[5] > 0
    }

    #[inline]
    fn get<T: Stored>(&self, kind: usize, from: usize, place: u8) -> Option<T> {
        let is_there = place < self.counts[kind];
        is_there.then(|| T::load(&self.bytes[from + usize::from(place) * T::LEN..]))
    }

    #[inline]
    fn set<T: Stored>(&mut self, kind: usize, from: usize, place: u8, value: &T) {
        if place < self.counts[kind] {
            value.store(&mut self.bytes[from + usize::from(place) * T::LEN..]);
        }
    }

    /// A PDR.
    #[inline]
    pub fn pdr(&self, place: u8) -> Option<Pdr> {
        self.get(0, self.at.pdrs, place)
    }

    /// Writes a PDR.
    #[inline]
    pub fn set_pdr(&mut self, place: u8, pdr: &Pdr) {
        self.set(0, self.at.pdrs, place, pdr);
    }

    /// A FAR.
    #[inline]
    pub fn far(&self, place: u8) -> Option<Far> {
        self.get(1, self.at.fars, place)
    }

    /// A QER.
    #[inline]
    pub fn qer(&self, place: u8) -> Option<Qer> {
        self.get(2, self.at.qers, place)
    }

    /// Writes a QER.
    #[inline]
    pub fn set_qer(&mut self, place: u8, qer: &Qer) {
        self.set(2, self.at.qers, place, qer);
    }

    /// A URR.
    #[inline]
    pub fn urr(&self, place: u8) -> Option<Urr> {
        self.get(3, self.at.urrs, place)
    }

    /// Writes a URR.
    #[inline]
    pub fn set_urr(&mut self, place: u8, urr: &Urr) {
        self.set(3, self.at.urrs, place, urr);
    }

    /// A BAR.
    #[inline]
    pub fn bar(&self, place: u8) -> Option<Bar> {
        self.get(4, self.at.bars, place)
    }

    /// A filter.
    #[inline]
    pub fn filter(&self, place: u8) -> Option<Filter> {
        self.get(5, self.at.filters, place)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rules::UrrTerms;
    use crate::sdf::parse_flow;

    /// A session of two PDRs, as most are.
    pub(crate) fn session(seid: u64) -> Session {
        let mut uplink = Pdr::empty(1);
        uplink.precedence = 200;
        uplink.teid = 0x1000;
        uplink.far_id = 1;
        assert!(uplink.qer_ids.push(9) && uplink.urr_ids.push(5));
        let mut downlink = Pdr::empty(2);
        downlink.precedence = 100;
        downlink.source_interface = 1;
        downlink.far_id = 2;
        let filter = parse_flow(b"permit out ip from any to assigned").unwrap();
        let mut head = Head::empty();
        head.seid = seid;
        head.ue_v4 = Some(Ipv4Addr::new(10, 45, 0, 2));
        Session {
            pdrs: vec![
                Detection {
                    pdr: uplink,
                    filters: vec![],
                },
                Detection {
                    pdr: downlink,
                    filters: vec![filter, Filter::all()],
                },
            ],
            fars: vec![Far::empty(1), Far::empty(2)],
            qers: vec![Qer::open(9)],
            urrs: vec![Urr::new(5, UrrTerms::NONE, 0)],
            bars: vec![],
            head,
        }
    }

    #[test]
    fn an_image_reads_back_as_its_session() {
        let mut one = session(3);
        one.link().unwrap();
        let mut bytes = vec![0xee; one.image_len() + 1];
        one.write(&mut bytes);
        assert_eq!(Session::read(&bytes).unwrap(), one);
        assert_eq!(*bytes.last().unwrap(), 0xee);
        let image = Image::new(&mut bytes).unwrap();
        let first = image.pdr(0).unwrap();
        assert_eq!((first.id, first.far_at, first.filters), (2, 1, [0, 2]));
        let second = image.pdr(1).unwrap();
        assert_eq!(
            (second.qers_at.as_slice(), second.urrs_at.as_slice()),
            (&[0][..], &[0][..])
        );
        assert!(image.pdr(2).is_none() && image.bar(0).is_none());
    }

    #[test]
    fn a_rule_that_names_a_missing_one_is_the_fault() {
        let mut no_far = session(1);
        no_far.fars.remove(0);
        let fault = no_far.link().unwrap_err();
        assert_eq!(fault.rule, Some(FailedRuleId::Pdr(PdrId(1))));
        assert_eq!(fault.refusal.offending, Some(IeType::FAR_ID));
        let mut no_bar = session(1);
        no_bar.fars[1].bar_id = Some(4);
        let fault = no_bar.link().unwrap_err();
        assert_eq!(fault.rule, Some(FailedRuleId::Far(FarId(2))));
    }

    #[test]
    fn spoiled_memory_is_no_session_and_no_panic() {
        for byte in [0xff, 0x80, 7] {
            let mut bytes = vec![byte; 4096];
            let _ = Session::read(&bytes);
            assert!(
                Image::new(&mut bytes).is_none_or(|image| image.filter(0).is_none() || byte < 9)
            );
        }
    }

    #[test]
    fn what_an_ordinary_session_takes_is_known() {
        let mut one = session(1);
        one.link().unwrap();
        assert_eq!(one.image_len(), 1254);
    }
}
