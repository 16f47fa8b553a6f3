//! A profile whose load a search sets: what a trial sends, between a file and the generator.

use std::path::Path;

use catena_engine::chain::{ChainErrors, DocumentKind};
use catena_engine::config::ConfigErrors;
use catena_engine::units::Rate;
use serde_json::{Map, Value, json};

use crate::profile::{L1_OVERHEAD_LEN, Offered, Pattern, Profile, Timing};

/// A profile, and the document it was read from.
#[derive(Clone, Debug)]
pub struct TrialProfile {
    profile: Profile,
    document: Map<String, Value>,
}

/// The document with the profile that it says.
type Read = (Profile, Value);

const KIND: DocumentKind<Read> = DocumentKind {
    name: Profile::KIND.name,
    schema: Profile::KIND.schema,
    check: |document| Profile::from_json(document).map(|profile| (profile, document.clone())),
};

impl TrialProfile {
    /// Reads a profile's file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, ChainErrors> {
        let (profile, document) = KIND.load(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut document = document.as_object().cloned().unwrap_or_default();
        // The chain's folder is another one.
        if let Some(file) = document
            .get_mut("replay")
            .and_then(|map| map.get_mut("file"))
            && let Some(name) = file.as_str()
        {
            *file = json!(folder.join(name));
        }
        Ok(Self { profile, document })
    }

    /// The profile that a document is.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn of_document(document: &Value) -> Result<Self, ConfigErrors> {
        Ok(Self {
            profile: Profile::from_json(document)?,
            document: document.as_object().cloned().unwrap_or_default(),
        })
    }

    /// The profile that an empty file is: 64-byte UDP of one flow.
    ///
    /// # Errors
    /// None, as long as the empty profile is a good one.
    pub fn empty() -> Result<Self, ChainErrors> {
        let (profile, _) = KIND.parse("{}", "profile")?;
        Ok(Self {
            profile,
            document: Map::new(),
        })
    }

    /// The profile.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Why its load cannot be set from outside, if so.
    pub fn fixed_load(&self) -> Option<&'static str> {
        let is_recorded = |replay: &crate::profile::Replay| replay.timing == Timing::Recorded;
        if self.profile.load.pattern == Pattern::Steps {
            Some("load.pattern is steps, which has rates of its own")
        } else if self.profile.replay.as_ref().is_some_and(is_recorded) {
            Some("replay.timing is recorded, which has a rate of its own")
        } else {
            None
        }
    }

    /// Whether packets are offered at equal distances.
    pub fn is_constant(&self) -> bool {
        self.profile.load.pattern == Pattern::Constant
    }

    /// Most packets per second that its line carries, if it has one.
    pub fn line_pps(&self) -> Option<f64> {
        let frame_len = self.profile.mean_frame_len() + L1_OVERHEAD_LEN as f64;
        Some(match self.profile.line? {
            Rate::BitsPerSecond(bits) => bits / 8.0 / frame_len,
            Rate::PacketsPerSecond(pps) => pps,
        })
    }

    /// Packets per second that it asks for, if it does not ask for the most.
    pub fn own_pps(&self) -> Option<f64> {
        match &self.profile.load.rate {
            Offered::Rate(rate) => Some(self.profile.packets_per_second(*rate)),
            Offered::Max => None,
        }
    }

    /// Its name in reports.
    pub fn title(&self) -> String {
        if self.profile.name.is_empty() {
            format!("{:.0} B frames", self.profile.mean_frame_len())
        } else {
            self.profile.name.clone()
        }
    }

    /// The document with another rate, or with `max`; a load that is fixed stays.
    pub(super) fn at(&self, load_pps: Option<f64>) -> Value {
        let mut document = self.document.clone();
        if self.fixed_load().is_none() {
            let load = document.entry("load").or_insert_with(|| json!({}));
            if !load.is_object() {
                *load = json!({});
            }
            load["rate"] = match load_pps {
                Some(pps) => json!(format!("{pps}pps")),
                None => json!("max"),
            };
            if load_pps.is_none() {
                // Without gaps between packets there is nothing to spread.
                *load = json!({ "rate": "max" });
            }
        }
        Value::Object(document)
    }
}
