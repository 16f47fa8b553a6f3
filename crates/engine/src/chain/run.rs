//! How a chain runs: where its nodes do, how they wait, and what happens when one dies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets in a burst unless the file says otherwise.
pub const BURST: u16 = 128;
/// Fewest and most packets in a burst.
pub const BURST_LIMITS: (u16, u16) = (1, 256);
/// What `orphan: keep` means: ten minutes, in milliseconds.
pub const ORPHAN_MS: u64 = 600_000;
/// The longest that workers may go on without a supervisor: an hour.
pub const ORPHAN_MS_MAX: u64 = 3_600_000;

/// How a chain runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Mode of nodes that name none.
    pub mode: Mode,
    /// How idle workers wait.
    pub wait: WaitChoice,
    /// Packets in a burst.
    pub burst: u16,
    /// Cores that workers may use; all allowed ones if empty.
    pub cores: Vec<usize>,
    /// Buffers of each size in each pool, where the file says so: (bytes per buffer, count).
    pub buffers: Vec<(u32, u32)>,
    /// Image for `container` mode.
    pub image: Option<String>,
    /// For how long workers go on without a supervisor, in milliseconds; 0: they end with it.
    pub orphan_ms: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            wait: WaitChoice::default(),
            burst: BURST,
            cores: Vec::new(),
            buffers: Vec::new(),
            image: None,
            orphan_ms: 0,
        }
    }
}

/// Where a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Fused with the node before it into one run-to-completion loop.
    Inline,
    /// A thread of the `catena run` process.
    Thread,
    /// A process of its own.
    #[default]
    Process,
    /// A container of its own.
    Container,
}

/// What happens to the packets of a node that has died, until it runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// They wait in its input links.
    #[default]
    Hold,
    /// They pass unprocessed to its first output.
    Bypass,
    /// They are dropped (`nf_down`).
    Drop,
}

/// How idle workers wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitChoice {
    /// Decided by measuring at start.
    #[default]
    Auto,
    /// Never sleep.
    Spin,
    /// Give way to others, never sleep.
    Yield,
    /// Sleep at once.
    Sleep,
}
