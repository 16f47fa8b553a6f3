//! IPACT: how much each ONU is granted for what it reports.
//!
//! Interleaved polling with adaptive cycle time (Kramer, Mukherjee, Pesavento, "IPACT: a dynamic
//! protocol for an Ethernet PON", IEEE Communications Magazine, February 2002): the OLT answers
//! each REPORT with a GATE for the ONU's next slot, while bursts of others still arrive. The length
//! of a cycle follows the load; what bounds it is a limit for each ONU. This file decides on
//! lengths, [`super::olt`] on when.
//!
//! Limits share the cycle: each ONU first gets what it is guaranteed, and the rest is divided by
//! weight. Every report is answered, if with a slot for the next REPORT only: nobody starves.

use super::ONU_COUNT_MAX;
use super::burst_time::{GRANT_LENGTH_MAX, MAC_RATE_BPS, frame_octets, quanta_for};

/// The least limit of an ONU in quanta: one frame of 2000 octets, so that none waits for ever.
pub const LIMIT_MIN: u32 = quanta_for(frame_octets(1996)) as u32;

/// How much of what an ONU reports is granted (the paper's service disciplines).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Its limit, whatever it reports.
    Fixed,
    /// What it reports, up to its limit.
    #[default]
    Limited,
    /// What it reports, up to what a GATE can say.
    Gated,
    /// What it reports and so many quanta more, for what arrives meanwhile; up to its limit.
    ConstantCredit(u32),
    /// What it reports and so many hundredths of it more; up to its limit.
    LinearCredit(u32),
}

/// What one ONU gets of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its part of what nobody is guaranteed, beside the weights of the others.
    pub weight: u32,
    /// What it may send in any case, in bits per second of frames with preamble and gap.
    pub guaranteed_bps: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            weight: 1,
            guaranteed_bps: 0,
        }
    }
}

/// Settings of bandwidth allocation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is granted.
    pub discipline: Discipline,
    /// Longest cycle in quanta: after so long each ONU has had its turn, if all use their limits.
    pub cycle_max: u32,
    /// Shares by index of the ONU; those that are missing have the default.
    pub shares: Vec<Share>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            discipline: Discipline::Limited,
            cycle_max: super::quanta_of_us(1000) as u32,
            shares: Vec::new(),
        }
    }
}

/// Why settings cannot be met.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// More ONUs than an OLT serves.
    #[error("there are shares for {0} ONUs; an OLT serves at most {ONU_COUNT_MAX}")]
    TooMany(usize),
    /// The cycle has no room for frames.
    #[error(
        "a cycle of {cycle_max} quanta has no room for {onus} bursts of {overhead} quanta without \
         frames; make it longer"
    )]
    CycleTooShort {
        /// Length of the cycle.
        cycle_max: u32,
        /// ONUs.
        onus: usize,
        /// Quanta of a burst without frames, guard included.
        overhead: u32,
    },
    /// More is guaranteed than there is.
    #[error(
        "{guaranteed_bps} bit/s are guaranteed and a cycle has room for {available_bps}; \
         guarantee less, or make the cycle longer"
    )]
    TooMuchGuaranteed {
        /// Sum of the guarantees.
        guaranteed_bps: u64,
        /// What can be guaranteed.
        available_bps: u64,
    },
}

/// Bandwidth allocation.
#[derive(Clone, Debug)]
pub struct Ipact {
    settings: Settings,
    /// Quanta of a burst without frames, and the guard before it.
    overhead: u32,
    /// Limit of each ONU in quanta of frames.
    limits: [u32; ONU_COUNT_MAX],
}

impl Ipact {
    /// Allocation for up to `onus` ONUs, whose bursts take `overhead` quanta beside frames, guard
    /// included.
    ///
    /// # Errors
    /// Settings that leave no room for frames when all ONUs are there.
    pub fn new(settings: Settings, onus: usize, overhead: u32) -> Result<Self, SettingsError> {
        if settings.shares.len() > ONU_COUNT_MAX || onus > ONU_COUNT_MAX {
            return Err(SettingsError::TooMany(settings.shares.len().max(onus)));
        }
        let mut ipact = Self {
            settings,
            overhead,
            limits: [0; ONU_COUNT_MAX],
        };
        let room = ipact.room(onus);
        if room < onus as f64 {
            return Err(SettingsError::CycleTooShort {
                cycle_max: ipact.settings.cycle_max,
                onus,
                overhead,
            });
        }
        let guaranteed_bps = (0..onus).map(|onu| ipact.share(onu).guaranteed_bps).sum();
        let available_bps = (room / ipact.quanta_per_bps()) as u64;
        if guaranteed_bps > available_bps {
            return Err(SettingsError::TooMuchGuaranteed {
                guaranteed_bps,
                available_bps,
            });
        }
        ipact.share_among(u32::MAX >> (32 - onus.clamp(1, 32)));
        Ok(ipact)
    }

    fn share(&self, onu: usize) -> Share {
        self.settings.shares.get(onu).copied().unwrap_or_default()
    }

    /// Quanta of a cycle that are left when each ONU has sent one frame.
    fn room(&self, onus: usize) -> f64 {
        let least = f64::from(self.overhead + LIMIT_MIN);
        f64::from(self.settings.cycle_max) - least * onus as f64
    }

    /// Quanta of a cycle that a bit per second takes.
    fn quanta_per_bps(&self) -> f64 {
        f64::from(self.settings.cycle_max) / MAC_RATE_BPS
    }

    /// Divides the cycle among these ONUs, a bit for each.
    pub fn share_among(&mut self, onus: u32) {
        let present = |onu: &usize| onus >> onu & 1 == 1;
        let count = onus.count_ones() as usize;
        let guaranteed = |share: Share| share.guaranteed_bps as f64 * self.quanta_per_bps();
        let all = (0..ONU_COUNT_MAX)
            .filter(present)
            .map(|onu| self.share(onu));
        let promised: f64 = all.clone().map(guaranteed).sum();
        let weights: f64 = all.map(|share| f64::from(share.weight)).sum();
        let rest = (self.room(count) - promised).max(0.0);
        let mut limits = [0; ONU_COUNT_MAX];
        for onu in (0..ONU_COUNT_MAX).filter(present) {
            let share = self.share(onu);
            let part = if weights > 0.0 {
                rest * f64::from(share.weight) / weights
            } else {
                0.0
            };
            let quanta = (guaranteed(share) + part).min(f64::from(self.most() - LIMIT_MIN));
            limits[onu] = LIMIT_MIN + quanta as u32;
        }
        self.limits = limits;
    }

    /// Most quanta of frames that a GATE can grant.
    fn most(&self) -> u32 {
        GRANT_LENGTH_MAX.saturating_sub(self.overhead)
    }

    /// The limit of an ONU in quanta of frames.
    pub fn limit(&self, onu: usize) -> u32 {
        self.limits.get(onu).copied().unwrap_or(0)
    }

    /// How many quanta of frames an ONU gets that reports `demand`. The slot for its next REPORT
    /// comes on top.
    pub fn grant(&self, onu: usize, demand: u32) -> u32 {
        let limit = self.limit(onu);
        match self.settings.discipline {
            Discipline::Fixed => limit,
            Discipline::Limited => demand.min(limit),
            Discipline::Gated => demand.min(self.most()),
            Discipline::ConstantCredit(quanta) => demand.saturating_add(quanta).min(limit),
            Discipline::LinearCredit(percent) => {
                let credit = u64::from(demand) * u64::from(percent) / 100;
                let wanted = u64::from(demand) + credit;
                u32::try_from(wanted).unwrap_or(u32::MAX).min(limit)
            }
        }
    }

    /// Share of a cycle that carries frames when `onus` ONUs use their limits.
    pub fn efficiency(&self, onus: usize) -> f64 {
        let fixed = f64::from(self.overhead) * onus as f64;
        (1.0 - fixed / f64::from(self.settings.cycle_max)).max(0.0)
    }
}

/// Bits per second that so many quanta of each cycle carry.
pub fn bps_of(quanta: u32, cycle: u32) -> f64 {
    MAC_RATE_BPS * f64::from(quanta) / f64::from(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(discipline: Discipline, shares: Vec<Share>) -> Settings {
        Settings {
            discipline,
            cycle_max: 62_500,
            shares,
        }
    }

    fn ipact(discipline: Discipline) -> Ipact {
        Ipact::new(settings(discipline, Vec::new()), 4, 500).unwrap()
    }

    #[test]
    fn each_discipline_grants_what_its_name_says() {
        let limit = (62_500 - 4 * 500) / 4;
        let table = [
            (Discipline::Fixed, [limit, limit, limit]),
            (Discipline::Limited, [0, 1000, limit]),
            (Discipline::Gated, [0, 1000, 65_035]),
            (Discipline::ConstantCredit(200), [200, 1200, limit]),
            (Discipline::LinearCredit(50), [0, 1500, limit]),
        ];
        for (discipline, expected) in table {
            let ipact = ipact(discipline);
            let granted = [0, 1000, u32::MAX].map(|demand| ipact.grant(0, demand));
            assert_eq!(granted, expected, "{discipline:?}");
        }
    }

    #[test]
    fn absent_onus_leave_their_part_to_the_others() {
        let mut ipact = ipact(Discipline::Limited);
        ipact.share_among(0b0101);
        assert_eq!(ipact.limit(0), (62_500 - 2 * 500) / 2);
        assert_eq!(ipact.limit(1), 0);
        assert_eq!(ipact.limit(32), 0);
    }

    #[test]
    fn guarantees_come_first_and_weights_divide_the_rest() {
        let share = |weight, guaranteed_bps| Share {
            weight,
            guaranteed_bps,
        };
        let shares = vec![share(0, 4_000_000_000), share(1, 0), share(3, 0)];
        let ipact = Ipact::new(settings(Discipline::Limited, shares), 3, 500).unwrap();
        let beyond = |onu| ipact.limit(onu) - LIMIT_MIN;
        let guaranteed = bps_of(beyond(0), 62_500);
        assert!((guaranteed / 4e9 - 1.0).abs() < 1e-3, "{guaranteed}");
        let ratio = f64::from(beyond(2)) / f64::from(beyond(1));
        assert!((ratio - 3.0).abs() < 1e-3, "{ratio}");
        // Ten codewords hold a frame of 1996 octets.
        assert_eq!(LIMIT_MIN, 124);
    }

    #[test]
    fn what_cannot_be_met_is_refused() {
        let refused = |settings, onus| Ipact::new(settings, onus, 2000).unwrap_err().to_string();
        let short = refused(settings(Discipline::Limited, Vec::new()), 32);
        assert!(short.contains("make it longer"), "{short}");
        let greedy = Share {
            weight: 1,
            guaranteed_bps: 5_000_000_000,
        };
        let much = refused(settings(Discipline::Limited, vec![greedy; 2]), 2);
        assert!(much.contains("guarantee less"), "{much}");
        let many = refused(settings(Discipline::Limited, vec![greedy; 33]), 2);
        assert!(many.contains("33"), "{many}");
        let many = refused(settings(Discipline::Limited, Vec::new()), 33);
        assert!(many.contains("33"), "{many}");
    }

    #[test]
    fn a_limit_is_within_what_a_gate_can_say() {
        let long = Settings {
            cycle_max: 4_000_000,
            ..settings(Discipline::Fixed, Vec::new())
        };
        let ipact = Ipact::new(long, 2, 500).unwrap();
        assert_eq!(ipact.limit(0), GRANT_LENGTH_MAX - 500);
        assert_eq!(ipact.grant(0, 0), GRANT_LENGTH_MAX - 500);
    }

    #[test]
    fn what_can_just_be_met_is_accepted() {
        let of = |cycle_max: u32, shares: Vec<Share>| Settings {
            cycle_max,
            ..settings(Discipline::Limited, shares)
        };
        let long = |shares: usize| of(4_000_000, vec![Share::default(); shares]);
        assert!(Ipact::new(long(32), 32, 500).is_ok());
        for (shares, onus) in [(33, 32), (0, 33)] {
            let error = Ipact::new(long(shares), onus, 500).unwrap_err();
            assert_eq!(error, SettingsError::TooMany(33));
        }
        // A quantum is left for each of two ONUs, or one less.
        let least = 2 * (500 + LIMIT_MIN) + 2;
        assert!(Ipact::new(of(least, Vec::new()), 2, 500).is_ok());
        assert!(Ipact::new(of(least - 1, Vec::new()), 2, 500).is_err());
        let promise = |guaranteed_bps: u64| {
            let share = Share {
                weight: 0,
                guaranteed_bps,
            };
            Ipact::new(of(62_500, vec![share]), 1, 500)
        };
        let Err(SettingsError::TooMuchGuaranteed { available_bps, .. }) = promise(u64::MAX) else {
            panic!("more than there is")
        };
        assert!(promise(available_bps).is_ok());
        assert!(promise(available_bps + 1).is_err());
        // Without weights what nobody is guaranteed stays free.
        let none = promise(0).unwrap();
        assert_eq!(none.limit(0), LIMIT_MIN);
    }

    #[test]
    fn no_onus_need_no_room_and_more_than_fit_leave_nothing() {
        let none = Ipact::new(settings(Discipline::Limited, Vec::new()), 0, 500).unwrap();
        // 125 slots of 500 quanta fill the cycle.
        assert_eq!(none.efficiency(0), 1.0);
        assert_eq!((none.efficiency(125), none.efficiency(126)), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn limits_fit_the_cycle_and_no_grant_exceeds_a_gate(
            shares in proptest::collection::vec((0_u32..10, 0_u64..200_000_000), 1..=32),
            present: u32, demand: u32, onu in 0_usize..40, kind in 0..5, credit: u32,
        ) {
            let shares: Vec<Share> = shares.into_iter()
                .map(|(weight, guaranteed_bps)| Share { weight, guaranteed_bps }).collect();
            let count = shares.len();
            let discipline = match kind {
                0 => Discipline::Fixed,
                1 => Discipline::Limited,
                2 => Discipline::Gated,
                3 => Discipline::ConstantCredit(credit),
                _ => Discipline::LinearCredit(credit),
            };
            let Ok(mut ipact) = Ipact::new(settings(discipline, shares), count, 200) else {
                return Ok(());
            };
            ipact.share_among(present & (u32::MAX >> (32 - count)));
            let present = (present & (u32::MAX >> (32 - count))).count_ones();
            let sum: u32 = (0..ONU_COUNT_MAX).map(|onu| ipact.limit(onu)).sum();
            prop_assert!(sum + 200 * present <= 62_500 || present == 0);
            let granted = ipact.grant(onu, demand);
            prop_assert!(granted + 200 <= GRANT_LENGTH_MAX);
            if discipline != Discipline::Gated {
                prop_assert!(granted <= ipact.limit(onu));
            }
        }
    }
}
