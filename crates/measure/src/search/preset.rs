//! Sets of goals by name, and how far a result may call itself after a standard.
//!
//! | preset | final / sum / initial | loss ratios | exceed | width |
//! |---|---|---|---|---|
//! | `vm` | 0.2 s / 4.2 s / 0.2 s | 0, 0.1 %, 0.5 % | 50 % | 1 % |
//! | `csit` | 1 s / 21 s / 1 s | 0, 0.5 % | 50 % | 0.5 % |
//! | `tst009` | 60 s / 120 s / 1 s | 0 | 50 % | 0.5 % |
//! | `rfc2544` | 60 s / 60 s / 1 s | 0 | 0 | 0.5 % |
//!
//! Standing fails closed: what is not known to hold counts as not holding. MLRsearch itself allows
//! deviations that are reported (RFC 9971 4.4.3), so `vm` and `csit` results are complete without a
//! laboratory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::Goal;
use super::mlr::Outcome;

/// A named set of goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// FD.io CSIT's NDR and PDR.
    Csit,
    /// RFC 2544 section 26.1.
    Rfc2544,
    /// ETSI GS NFV-TST 009 12.3.3, max(r) = 2, z infinite.
    Tst009,
    /// Short trials, many of them: for virtual machines and for CI.
    Vm,
}

impl Preset {
    /// All presets, in alphabetical order.
    pub const ALL: [Self; 4] = [Self::Csit, Self::Rfc2544, Self::Tst009, Self::Vm];

    /// The name by which users ask for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csit => "csit",
            Self::Rfc2544 => "rfc2544",
            Self::Tst009 => "tst009",
            Self::Vm => "vm",
        }
    }

    /// Its goals.
    pub fn goals(self) -> Vec<Goal> {
        let ms = Duration::from_millis;
        let (last, sum, initial, losses, exceed_ratio, width): (_, _, _, &[f64], _, _) = match self
        {
            Self::Csit => (ms(1000), ms(21_000), ms(1000), &[0.0, 0.005], 0.5, 0.005),
            Self::Rfc2544 => (ms(60_000), ms(60_000), ms(1000), &[0.0], 0.0, 0.005),
            Self::Tst009 => (ms(60_000), ms(120_000), ms(1000), &[0.0], 0.5, 0.005),
            Self::Vm => (ms(200), ms(4200), ms(200), &[0.0, 0.001, 0.005], 0.5, 0.01),
        };
        let goals = losses.iter().map(|loss_ratio| Goal {
            loss_ratio: *loss_ratio,
            exceed_ratio,
            final_trial_duration: last,
            duration_sum: sum,
            initial_trial_duration: Some(initial),
            width: Some(width),
        });
        goals.collect()
    }

    /// How far a result of this preset may call itself after it.
    pub fn standing(self, conditions: &Conditions, outcome: &Outcome) -> Standing {
        let error = conditions.offered_load_error;
        if let Some(error) = error.filter(|error| error.abs() > OFFERED_LOAD_ERROR_MAX) {
            let percent = error * 100.0;
            return Standing::Invalid(vec![format!(
                "the offered load was {percent:.2} % off the intended one, more than 0.5 %: this \
                 is the generator's result, not the device's"
            )]);
        }
        let mut reasons = Vec::new();
        if error.is_none() {
            reasons.push(String::from("the error of the offered load is not known"));
        }
        for (index, goal) in outcome.goals.iter().enumerate() {
            for irregularity in &goal.irregularities {
                reasons.push(format!("goal {}: irregular, {irregularity:?}", index + 1));
            }
        }
        if matches!(self, Self::Rfc2544 | Self::Tst009) {
            reasons.extend(conditions.laboratory_shortfalls());
        }
        if reasons.is_empty() {
            Standing::Complete
        } else {
            Standing::Partial(reasons)
        }
    }
}

/// Offered and intended load may differ by this share before a trial is the generator's result.
pub const OFFERED_LOAD_ERROR_MAX: f64 = 0.005;

/// What is known of the circumstances of a test. The default knows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The tester is another machine than the device (RFC 2544 section 6).
    pub is_external_tester: bool,
    /// Nothing else uses the network or the machine (RFC 6815 section 3).
    pub is_isolated: bool,
    /// The waits of RFC 2544 section 23: 2 s after learning, 2 s for residual frames, 5 s to
    /// restabilise.
    pub keeps_waits: bool,
    /// All frame sizes of RFC 2544 section 9.1 were measured.
    pub has_all_frame_sizes: bool,
    /// Packets are offered at equal distances: steady state, not bursts (RFC 2544 section 21).
    pub is_constant_load: bool,
    /// Largest error of the offered load over all trials, as a share of the intended.
    pub offered_load_error: Option<f64>,
}

impl Conditions {
    fn laboratory_shortfalls(&self) -> Vec<String> {
        let checks = [
            (self.is_external_tester, "no external tester (RFC 2544, 6)"),
            (self.is_isolated, "no isolated test network (RFC 6815, 3)"),
            (
                self.keeps_waits,
                "waits around trials are shorter than RFC 2544, 23",
            ),
            (
                self.has_all_frame_sizes,
                "not all frame sizes of RFC 2544, 9.1",
            ),
            (
                self.is_constant_load,
                "the load is not constant (RFC 2544, 21)",
            ),
        ];
        let missing = checks.into_iter().filter(|(holds, _)| !holds);
        missing.map(|(_, reason)| reason.to_owned()).collect()
    }
}

/// How far a result may call itself after its preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// All that is asked for is known to hold.
    Complete,
    /// The method was followed, except as stated.
    Partial(Vec<String>),
    /// The numbers say nothing of the device.
    Invalid(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Outcome {
        Outcome {
            goals: Vec::new(),
            trial_count: 0,
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn goals_of_presets_are_valid() {
        for preset in Preset::ALL {
            for (index, goal) in preset.goals().iter().enumerate() {
                goal.check(index).unwrap();
            }
        }
    }

    #[test]
    fn what_is_not_known_makes_a_result_partial() {
        let Standing::Partial(reasons) = Preset::Rfc2544.standing(&Conditions::default(), &empty())
        else {
            panic!("fails open");
        };
        assert_eq!(reasons.len(), 6, "{reasons:?}");
        let known = Conditions {
            is_external_tester: true,
            is_isolated: true,
            keeps_waits: true,
            has_all_frame_sizes: true,
            is_constant_load: true,
            offered_load_error: Some(0.001),
        };
        assert_eq!(
            Preset::Rfc2544.standing(&known, &empty()),
            Standing::Complete
        );
        let in_vm = Conditions {
            offered_load_error: Some(-0.001),
            ..Conditions::default()
        };
        assert_eq!(Preset::Vm.standing(&in_vm, &empty()), Standing::Complete);
        let limited = Conditions {
            offered_load_error: Some(-0.02),
            ..known
        };
        let standing = Preset::Vm.standing(&limited, &empty());
        assert!(matches!(standing, Standing::Invalid(_)), "{standing:?}");
    }
}
