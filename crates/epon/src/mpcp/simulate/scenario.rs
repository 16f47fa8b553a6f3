//! What is simulated: an OLT, its ONUs with fibres and users, and for how long.

use super::super::olt;
use super::clock::SECOND_PS;
use super::traffic::Model;

/// Picoseconds that light takes per metre of fibre: group index 1.468.
pub const FIBRE_PS_PER_M: u64 = 4_897;

/// How long a simulation waits for all ONUs to register, at most.
pub const REGISTRATION_PS_MAX: u64 = 5 * SECOND_PS;

/// An ONU of a scenario.
#[derive(Clone, Debug)]
pub struct OnuScenario {
    /// Length of the fibre to it.
    pub distance_m: u64,
    /// What its users send, in bits per second of frames with preamble, check sequence and gap.
    pub load_bps: f64,
    /// How they send it.
    pub traffic: Model,
    /// When it is switched on, in picoseconds.
    pub on_at_ps: u64,
    /// When it is switched off, if ever.
    pub off_at_ps: Option<u64>,
    /// How much faster than the OLT's its oscillator is, in thousandths of a millionth. An ONU in
    /// order takes its clock from the line (77.2.1.1), so this is 0.
    pub clock_ppb: i64,
}

impl Default for OnuScenario {
    fn default() -> Self {
        Self {
            distance_m: 10_000,
            load_bps: 0.0,
            traffic: Model::Poisson,
            on_at_ps: 0,
            off_at_ps: None,
            clock_ppb: 0,
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The OLT.
    pub olt: olt::Params,
    /// Its ONUs.
    pub onus: Vec<OnuScenario>,
    /// How long, in picoseconds.
    pub duration_ps: u64,
    /// Frames that arrive before are not counted: discovery goes on, and queues fill.
    pub warm_up_ps: u64,
    /// Whether the warm-up begins only when all ONUs that are on have registered, or
    /// [`REGISTRATION_PS_MAX`] after the start. Everything lasts as much longer.
    pub awaits_all: bool,
    /// Quanta that the ONUs' lasers take to turn on, and as many to turn off.
    pub laser: u8,
    /// Queue of an ONU, in octets of frames with preamble, check sequence and gap.
    pub queue_octets: u64,
    /// Share of MPCPDUs that are lost in either direction.
    pub loss: f64,
    /// When the OLT is switched off and on, having forgotten everything.
    pub olt_restart_ps: Option<u64>,
    /// Seed of everything that is random.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            olt: olt::Params::default(),
            onus: Vec::new(),
            duration_ps: SECOND_PS,
            warm_up_ps: SECOND_PS / 10,
            awaits_all: false,
            laser: 32,
            queue_octets: 10 << 20,
            loss: 0.0,
            olt_restart_ps: None,
            seed: 1,
        }
    }
}
