//! Transactions of PFCP: requests that wait for an answer, answers that wait for a repetition.
//!
//! On N4. A request is repeated every T1, N1 times in all; an answer is kept for as long, and a
//! repeated request gets it again without being handled again (TS 29.244, 6.4). Limits:
//! [`PENDING_COUNT_MAX`] requests, [`SESSION_PENDING_MAX`] about one session, [`ANSWER_COUNT_MAX`]
//! answers, the oldest of which goes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use crate::shards::SEQUENCE_SHIFT;

/// Most requests that wait for an answer.
pub const PENDING_COUNT_MAX: usize = 1024;
/// Most of them about one session: those of others must not have to wait for its answers.
pub const SESSION_PENDING_MAX: usize = 32;
/// Most answers that are kept.
pub const ANSWER_COUNT_MAX: usize = 4096;

/// Where a message goes or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// Address.
    pub address: IpAddr,
    /// UDP port.
    pub port: u16,
}

/// A message that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// To whom.
    pub to: Peer,
    /// Whether it is an answer: it leaves from the port to which the request came.
    pub bytes: Vec<u8>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Whether the peer is there, of the association with this number.
    Heartbeat(u8),
    /// What has become of a GTP-U path, of the association with this number.
    Path(u8),
    /// A report of the session with this UP SEID.
    Report(u64),
    /// An association with an SMF that the operator names.
    Call,
    /// The end of an association, which is prepared: the number of its parting.
    Parting(u32),
    /// The last report of a session that has ended with that.
    Farewell(u32),
}

/// A request that is waited for no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it is about.
    pub subject: Subject,
    /// What was sent, and to whom last.
    pub datagram: Datagram,
    /// To whom it was sent before.
    pub tried: Vec<IpAddr>,
}

#[derive(Debug)]
struct Pending {
    datagram: Datagram,
    subject: Subject,
    due_ns: u64,
    tries: u32,
    tried: Vec<IpAddr>,
}

/// What the passing of time brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Late {
    /// A request is sent again, unless what it is about has come otherwise.
    Again(Subject, Datagram),
    /// It was sent often enough.
    Lost(Ended),
}

/// All transactions of a node.
#[derive(Debug)]
pub struct Transactions {
    t1_ns: u64,
    n1: u32,
    sequence: u32,
    /// First sequence number, and how many there are less one: bits.
    sequences: (u32, u32),
    pending: BTreeMap<u32, Pending>,
    /// How many of them are about each session.
    of_session: HashMap<u64, usize>,
    /// Sequence numbers by the time at which they are due; some are no longer waited for.
    due: VecDeque<(u64, u32)>,
    answers: HashMap<(Peer, u32), Vec<u8>>,
    /// By the time until which they are kept.
    kept: VecDeque<(u64, (Peer, u32))>,
    /// The last instant that it was told.
    latest_ns: u64,
}

impl Transactions {
    /// None yet. T1 in nanoseconds; N1 is at least 1.
    pub fn new(t1_ns: u64, n1: u32) -> Self {
        Self {
            t1_ns,
            n1: n1.max(1),
            sequence: 0,
            sequences: (0, 0xff_ffff),
            pending: BTreeMap::new(),
            of_session: HashMap::new(),
            due: VecDeque::new(),
            answers: HashMap::new(),
            kept: VecDeque::new(),
            latest_ns: 0,
        }
    }

    /// With the sequence numbers of one of several shards, which have one peer: they begin with its
    /// number.
    pub fn of_shard(mut self, shard: u16, shards: u16) -> Self {
        if shards > 1 {
            let mask = (1 << SEQUENCE_SHIFT) - 1;
            self.sequences = (u32::from(shard) << SEQUENCE_SHIFT & 0xff_ffff, mask);
        }
        self
    }

    /// Goes on where another one has ended: with its requests, which are repeated by this one's T1
    /// and N1 from their next time on, and with its answers. None is waited for or kept for longer
    /// than what would be new to this one: so all that is new is due behind them. Those of another
    /// number of shards are forgotten: what comes of them comes to others.
    pub fn go_on_with(&mut self, before: Self) {
        if self.sequences == before.sequences {
            let Self {
                sequence,
                mut pending,
                of_session,
                mut due,
                answers,
                mut kept,
                latest_ns,
                ..
            } = before;
            self.latest_ns = latest_ns;
            let due_max_ns = latest_ns.saturating_add(self.t1_ns);
            due.retain_mut(|(due_ns, sequence)| {
                let its = pending.get_mut(sequence);
                let Some(its) = its.filter(|its| its.due_ns == *due_ns) else {
                    return false;
                };
                *due_ns = due_max_ns.min(*due_ns);
                its.due_ns = *due_ns;
                true
            });
            let until_max_ns = self.kept_until(latest_ns);
            for (until_ns, _) in &mut kept {
                *until_ns = until_max_ns.min(*until_ns);
            }
            self.sequence = sequence;
            (self.pending, self.due) = (pending, due);
            self.of_session = of_session;
            (self.answers, self.kept) = (answers, kept);
        }
    }

    /// Whether another request may be sent.
    pub fn has_room(&self) -> bool {
        self.pending.len() < PENDING_COUNT_MAX
    }

    /// Whether another one about a session may be.
    pub fn has_room_for(&self, seid: u64) -> bool {
        let own = self.of_session.get(&seid);
        self.has_room() && own.is_none_or(|own| *own < SESSION_PENDING_MAX)
    }

    /// Requests for which there is room.
    pub fn room(&self) -> usize {
        PENDING_COUNT_MAX.saturating_sub(self.pending.len())
    }

    /// Answers that are kept.
    pub fn kept(&self) -> usize {
        self.answers.len()
    }

    /// Requests that wait for an answer.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The sequence number of the next request, 24 bits.
    pub fn next_sequence(&mut self) -> u32 {
        // One that is still waited for is passed by; there are far fewer of them than numbers.
        loop {
            let (first, mask) = self.sequences;
            self.sequence = first | (self.sequence + 1) & mask;
            if !self.pending.contains_key(&self.sequence) {
                return self.sequence;
            }
        }
    }

    /// Notes that a request with a sequence number leaves now.
    pub fn sent(&mut self, sequence: u32, datagram: Datagram, subject: Subject, now_ns: u64) {
        self.sent_on(sequence, datagram, subject, Vec::new(), now_ns);
    }

    /// As [`Transactions::sent`], of one that was sent elsewhere before.
    pub fn sent_on(
        &mut self,
        sequence: u32,
        datagram: Datagram,
        subject: Subject,
        tried: Vec<IpAddr>,
        now_ns: u64,
    ) {
        self.latest_ns = now_ns;
        let due_ns = now_ns.saturating_add(self.t1_ns);
        self.due.push_back((due_ns, sequence));
        if let Subject::Report(seid) = subject {
            *self.of_session.entry(seid).or_default() += 1;
        }
        let pending = Pending {
            datagram,
            subject,
            due_ns,
            tries: 1,
            tried,
        };
        self.pending.insert(sequence, pending);
    }

    /// An answer has come: to which request, if somebody waits for it.
    pub fn answered(&mut self, from: IpAddr, sequence: u32) -> Option<Ended> {
        let pending = self.pending.get(&sequence)?;
        if pending.datagram.to.address != from {
            return None;
        }
        self.end(sequence)
    }

    /// Whether an SMF was asked for an association, and has not answered.
    pub fn is_calling(&self, to: IpAddr) -> bool {
        self.call_to(to).is_some()
    }

    /// Waits no longer for the answer to that.
    pub fn end_call(&mut self, to: IpAddr) {
        if let Some(sequence) = self.call_to(to) {
            self.end(sequence);
        }
    }

    fn call_to(&self, to: IpAddr) -> Option<u32> {
        let mut all = self.pending.iter();
        let is_it = |one: &Pending| one.subject == Subject::Call && one.datagram.to.address == to;
        all.find_map(|(sequence, one)| is_it(one).then_some(*sequence))
    }

    fn end(&mut self, sequence: u32) -> Option<Ended> {
        let Pending {
            datagram,
            subject,
            tried,
            ..
        } = self.pending.remove(&sequence)?;
        if let Subject::Report(seid) = subject
            && let Some(own) = self.of_session.get_mut(&seid)
        {
            *own -= 1;
            if *own == 0 {
                self.of_session.remove(&seid);
            }
        }
        Some(Ended {
            subject,
            datagram,
            tried,
        })
    }

    /// The next request whose time is over.
    pub fn late(&mut self, now_ns: u64) -> Option<Late> {
        self.latest_ns = now_ns;
        while let Some((due_ns, sequence)) = self.due.front().copied() {
            if due_ns > now_ns {
                break;
            }
            self.due.pop_front();
            let Some(pending) = self.pending.get_mut(&sequence) else {
                continue;
            };
            if pending.due_ns != due_ns {
                continue;
            }
            if pending.tries >= self.n1 {
                return self.end(sequence).map(Late::Lost);
            }
            pending.tries += 1;
            pending.due_ns = now_ns.saturating_add(self.t1_ns);
            self.due.push_back((pending.due_ns, sequence));
            return Some(Late::Again(pending.subject, pending.datagram.clone()));
        }
        None
    }

    /// When [`Transactions::late`] may have something, if nothing else happens.
    pub fn next_ns(&self) -> Option<u64> {
        self.due.front().map(|(due_ns, _)| *due_ns)
    }

    /// The answer that this request has got before.
    pub fn repeated(&mut self, from: Peer, sequence: u32, now_ns: u64) -> Option<&Vec<u8>> {
        self.forget(now_ns);
        self.answers.get(&(from, sequence))
    }

    /// Keeps an answer for repetitions of its request.
    pub fn keep(&mut self, to: Peer, sequence: u32, answer: Vec<u8>, now_ns: u64) {
        self.forget(now_ns);
        if self.kept.len() >= ANSWER_COUNT_MAX
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            self.answers.remove(&oldest);
        }
        if self.answers.insert((to, sequence), answer).is_none() {
            let until_ns = self.kept_until(now_ns);
            self.kept.push_back((until_ns, (to, sequence)));
        }
    }

    fn kept_until(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.t1_ns.saturating_mul(self.n1.into()))
    }

    fn forget(&mut self, now_ns: u64) {
        self.latest_ns = now_ns;
        while let Some((until_ns, key)) = self.kept.front().copied() {
            if until_ns > now_ns {
                break;
            }
            self.kept.pop_front();
            self.answers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SMF: Peer = Peer {
        address: IpAddr::V4(Ipv4Addr::new(10, 4, 0, 2)),
        port: 8805,
    };

    fn datagram(byte: u8) -> Datagram {
        Datagram {
            to: SMF,
            bytes: vec![byte],
        }
    }

    fn ended(subject: Subject) -> Ended {
        Ended {
            subject,
            datagram: datagram(1),
            tried: Vec::new(),
        }
    }

    const SUBJECT: Subject = Subject::Report(9);

    #[test]
    fn a_request_is_sent_n1_times_every_t1() {
        let mut all = Transactions::new(3000, 3);
        let sequence = all.next_sequence();
        all.sent(sequence, datagram(1), Subject::Report(9), 0);
        assert_eq!(all.late(2999), None);
        assert_eq!(all.late(3000), Some(Late::Again(SUBJECT, datagram(1))));
        assert_eq!(all.late(3000), None);
        assert_eq!(all.late(6000), Some(Late::Again(SUBJECT, datagram(1))));
        assert_eq!(all.next_ns(), Some(9000));
        assert_eq!(all.late(9000), Some(Late::Lost(ended(Subject::Report(9)))));
        assert_eq!((all.late(99_000), all.pending()), (None, 0));
    }

    #[test]
    fn an_answer_ends_it_if_it_comes_from_whom_it_was_sent_to() {
        let mut all = Transactions::new(3000, 3);
        let sequence = all.next_sequence();
        all.sent(sequence, datagram(1), Subject::Heartbeat(0), 0);
        let stranger = IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9));
        assert_eq!(all.answered(stranger, sequence), None);
        assert_eq!(all.answered(SMF.address, sequence + 1), None);
        assert_eq!(
            all.answered(SMF.address, sequence),
            Some(ended(Subject::Heartbeat(0)))
        );
        assert_eq!(all.answered(SMF.address, sequence), None);
        assert_eq!(all.late(99_000), None);
    }

    #[test]
    fn answers_are_kept_for_n1_t1_and_by_peer() {
        let mut all = Transactions::new(3000, 3);
        all.keep(SMF, 7, vec![1, 2], 100);
        assert_eq!(all.repeated(SMF, 7, 9099), Some(&vec![1, 2]));
        let other = Peer { port: 1, ..SMF };
        assert_eq!(all.repeated(other, 7, 9099), None);
        assert_eq!(all.repeated(SMF, 7, 9100), None);
    }

    #[test]
    fn a_successor_waits_for_the_answers_and_knows_the_requests_of_the_one_before() {
        let mut before = Transactions::new(3000, 3);
        let sequence = before.next_sequence();
        before.sent(sequence, datagram(1), Subject::Report(9), 0);
        before.keep(SMF, 7, vec![1, 2], 0);
        let mut next = Transactions::new(5000, 2);
        next.go_on_with(before);
        assert_eq!(next.repeated(SMF, 7, 1), Some(&vec![1, 2]));
        assert_eq!(next.late(3000), Some(Late::Again(SUBJECT, datagram(1))));
        assert_eq!(next.next_ns(), Some(8000));
        assert_ne!(next.next_sequence(), sequence);
        let mut other = Transactions::new(5000, 2).of_shard(1, 2);
        other.go_on_with(next);
        assert_eq!((other.pending(), other.kept()), (0, 0));
    }

    /// What was noted by a longer T1 is due by the shorter one, and holds nothing up.
    #[test]
    fn a_shorter_t1_is_that_of_what_was_before() {
        let mut before = Transactions::new(9000, 3);
        let old = before.next_sequence();
        before.sent(old, datagram(1), Subject::Report(9), 0);
        before.keep(SMF, 7, vec![1], 0);
        let mut next = Transactions::new(1000, 3);
        assert_eq!(before.late(50), None);
        next.go_on_with(before);
        let new = next.next_sequence();
        next.sent(new, datagram(2), Subject::Report(9), 100);
        next.keep(SMF, 8, vec![2], 100);
        assert_eq!((next.late(1049), next.next_ns()), (None, Some(1050)));
        assert_eq!(next.late(1050), Some(Late::Again(SUBJECT, datagram(1))));
        assert_eq!((next.late(1050), next.next_ns()), (None, Some(1100)));
        assert_eq!(next.late(1100), Some(Late::Again(SUBJECT, datagram(2))));
        assert_eq!((next.late(1100), next.next_ns()), (None, Some(2050)));
        assert_eq!(next.repeated(SMF, 7, 3049), Some(&vec![1]));
        assert_eq!(next.repeated(SMF, 7, 3050), None);
        assert_eq!(next.repeated(SMF, 8, 3099), Some(&vec![2]));
        assert_eq!(next.repeated(SMF, 8, 3100), None);
    }

    /// Where all places are taken by answers that a longer T1 kept, the oldest of these goes.
    #[test]
    fn a_shorter_t1_keeps_new_answers_rather_than_old_ones() {
        let mut before = Transactions::new(9000, 3);
        for sequence in 0..ANSWER_COUNT_MAX as u32 {
            before.keep(SMF, sequence, vec![0], 0);
        }
        let mut next = Transactions::new(1000, 3);
        assert_eq!(before.late(50), None);
        next.go_on_with(before);
        let (first, second) = (ANSWER_COUNT_MAX as u32, ANSWER_COUNT_MAX as u32 + 1);
        next.keep(SMF, first, vec![1], 100);
        next.keep(SMF, second, vec![2], 100);
        assert_eq!(next.repeated(SMF, first, 200), Some(&vec![1]));
        assert_eq!(next.repeated(SMF, second, 200), Some(&vec![2]));
        assert_eq!(next.repeated(SMF, 1, 200), None);
    }

    /// A request that was answered leaves no time behind at which nothing is due.
    #[test]
    fn a_successor_waits_for_nothing_that_was_answered() {
        let mut before = Transactions::new(3000, 3);
        before.sent(1, datagram(1), Subject::Report(9), 0);
        before.sent(2, datagram(2), Subject::Report(9), 100);
        before.answered(SMF.address, 1).unwrap();
        let mut next = Transactions::new(5000, 2);
        next.go_on_with(before);
        assert_eq!(next.next_ns(), Some(3100));
    }

    #[test]
    fn a_flood_of_requests_takes_bounded_memory() {
        let mut all = Transactions::new(3000, 3);
        for sequence in 0..3 * ANSWER_COUNT_MAX as u32 {
            all.keep(SMF, sequence, vec![0], 0);
        }
        assert_eq!(
            (all.answers.len(), all.kept.len()),
            (ANSWER_COUNT_MAX, ANSWER_COUNT_MAX)
        );
        assert_eq!(all.repeated(SMF, 0, 1), None);
        assert!(
            all.repeated(SMF, 3 * ANSWER_COUNT_MAX as u32 - 1, 1)
                .is_some()
        );
    }

    #[test]
    fn sequence_numbers_have_24_bits_and_pass_by_those_in_use() {
        let mut all = Transactions::new(3000, 3);
        all.sent(1, datagram(1), Subject::Heartbeat(0), 0);
        all.sequence = 0xff_ffff;
        assert_eq!(all.next_sequence(), 0);
        assert_eq!(all.next_sequence(), 2);
    }
}
