//! What the supervisor has seen of a data path's turns, and of a control thread's answers.
//! `watchdog` looks.

use std::time::{Duration, Instant};

/// How long a data path may stand still until it is called stuck.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// What passes between two looks counts for so long at most: when the whole machine has stood
/// still, everybody did.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// What the supervisor has seen of a data path's turns.
#[derive(Debug, Default)]
pub(super) struct Watch {
    turns: u64,
    looked: Option<Instant>,
    pub(super) still: Duration,
}

impl Watch {
    /// The data path has made so many turns by `now`.
    pub(super) fn look(&mut self, turns: u64, now: Instant) {
        let passed = self
            .looked
            .map(|before| now.saturating_duration_since(before));
        let is_first = self.looked.replace(now).is_none();
        if is_first || turns != self.turns {
            self.still = Duration::ZERO;
        } else {
            self.still += passed.unwrap_or_default().min(LOOK_COUNTS_FOR);
        }
        self.turns = turns;
    }

    /// Whether it has stood still for so long that it is called stuck.
    pub(super) fn is_stuck(&self) -> bool {
        self.still >= SHOWN_AFTER
    }
}

/// What the supervisor has seen of a control thread: it is asked from time to time, and answers
/// when its data path has come by.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Answers so far, and how long there has been no further one.
    watch: Watch,
    answers: u64,
    /// The question that is open.
    asked: Option<u64>,
    /// When the next one is due.
    due: Option<Instant>,
}

/// How often a control thread is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long one may be silent until its worker is called stuck: it may be building an NF.
pub(super) const SILENCE_SHOWN_AFTER: Duration = Duration::from_secs(10);

impl Hearing {
    /// Whether it is time for a question at `now`, since none is open.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.watch.look(self.answers, now);
        let due = *self.due.get_or_insert(now + ASK_EVERY);
        self.asked.is_none() && now >= due
    }

    /// It is asked, under this number.
    pub(super) fn ask(&mut self, id: u64, now: Instant) {
        self.asked = Some(id);
        self.due = Some(now + ASK_EVERY);
        // No longer than since then.
        self.watch = Watch::default();
    }

    /// It answers.
    pub(super) fn answered(&mut self, id: u64) {
        if self.asked == Some(id) {
            self.asked = None;
            self.answers += 1;
        }
    }

    /// It says something else: it comes to the question when what stands before that is done.
    pub(super) fn speaks(&mut self) {
        self.watch = Watch::default();
    }

    /// How long its answer has been missing, and it has said nothing else.
    pub(super) fn silence(&self) -> Duration {
        match self.asked {
            Some(_) => self.watch.still,
            None => Duration::ZERO,
        }
    }

    /// Whether it has been silent for so long that its worker is called stuck.
    pub(super) fn is_stuck(&self) -> bool {
        self.silence() >= SILENCE_SHOWN_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_path_that_stands_still_is_stuck_and_one_that_turns_is_not() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for tick in 0..100 {
            watch.look(tick, at(tick * 100));
            assert_eq!(watch.still, Duration::ZERO);
        }
        for step in 1..20 {
            watch.look(99, at(9_900 + step * 100));
            assert!(!watch.is_stuck(), "{step}");
        }
        watch.look(99, at(11_900));
        assert!(watch.is_stuck());
        watch.look(100, at(12_000));
        assert_eq!(watch.still, Duration::ZERO);
    }

    #[test]
    fn a_control_thread_that_is_busy_with_requests_is_not_stuck() {
        let (mut hearing, start) = (Hearing::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        hearing.ask(1, at(0));
        for step in 1..400 {
            let _ = hearing.is_due(at(step * 100));
            assert!(!hearing.is_stuck(), "{step}");
            if step.is_multiple_of(80) {
                hearing.speaks();
            }
        }
        for step in 400..510 {
            let _ = hearing.is_due(at(step * 100));
        }
        assert!(hearing.is_stuck());
    }

    #[test]
    fn a_control_thread_that_does_not_answer_is_stuck_and_one_that_answers_late_is_not() {
        let (mut hearing, start) = (Hearing::default(), Instant::now());
        let mut id = 0;
        for tick in 0..2_000_u64 {
            let now = start + Duration::from_millis(tick * 100);
            // Each answer comes after five seconds.
            if tick % 50 == 49 {
                hearing.answered(id);
            }
            if hearing.is_due(now) {
                id += 1;
                hearing.ask(id, now);
            }
            assert!(!hearing.is_stuck(), "{tick}");
        }
        for tick in 2_000..2_200 {
            hearing.is_due(start + Duration::from_millis(tick * 100));
        }
        assert!(hearing.is_stuck());
        hearing.answered(id);
        assert_eq!(hearing.silence(), Duration::ZERO);
    }

    /// A machine that was paused, or a supervisor that was: nobody turned, and nobody is to blame.
    #[test]
    fn one_look_after_a_long_time_proves_nothing() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        watch.look(7, start);
        watch.look(7, start + Duration::from_secs(3600));
        assert!(!watch.is_stuck());
        watch.look(8, start + Duration::from_secs(3601));
        assert_eq!(watch.still, Duration::ZERO);
    }
}
