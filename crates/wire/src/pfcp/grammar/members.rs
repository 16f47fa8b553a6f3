// SPDX-License-Identifier: Apache-2.0
//! Places in a message, and which IEs may and must stand there.

use crate::pfcp::ie_type::IeType;
use crate::pfcp::message_type::MessageType;

/// Whether an IE must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Always.
    Mandatory,
    /// Under a condition.
    Conditional,
    /// If the sender likes. Conditional-optional IEs are optional to who receives them.
    Optional,
}

/// The IEs of a message or of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// The table of TS 29.244 that lists them.
    pub table: &'static str,
    /// Those that must be there.
    pub mandatory: &'static [IeType],
    /// Those that must be there under a condition.
    pub conditional: &'static [IeType],
    /// Those that may be there.
    pub optional: &'static [IeType],
}

impl Members {
    /// Whether an IE must be there; `None` where it is not expected at all.
    pub fn presence(&self, ie_type: IeType) -> Option<Presence> {
        let lists = [
            (self.mandatory, Presence::Mandatory),
            (self.conditional, Presence::Conditional),
            (self.optional, Presence::Optional),
        ];
        lists
            .into_iter()
            .find(|(list, _)| list.contains(&ie_type))
            .map(|(_, presence)| presence)
    }
}

/// What a group belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The IEs of a message.
    Message(MessageType),
    /// The IEs of a grouped IE.
    Group(IeType),
}

impl Place {
    /// Whether `ie_type` of length 0 stands here for its removal (TS 29.244, 5.6.3): in what
    /// updates a rule, and where the specification says so of one IE.
    pub const fn removes_by_null(self, ie_type: IeType) -> bool {
        match self {
            Self::Message(MessageType::SESSION_MODIFICATION_REQUEST) => !ie_type.is_grouped(),
            Self::Message(MessageType::ASSOCIATION_UPDATE_REQUEST) => matches!(
                ie_type,
                IeType::CLOCK_DRIFT_CONTROL_INFORMATION
                    | IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION
            ),
            Self::Group(IeType::PDI) => {
                matches!(ie_type, IeType::REDUNDANT_TRANSMISSION_PARAMETERS)
            }
            Self::Group(
                IeType::UPDATE_PDR
                | IeType::UPDATE_FAR
                | IeType::UPDATE_FORWARDING_PARAMETERS
                | IeType::UPDATE_DUPLICATING_PARAMETERS
                | IeType::UPDATE_URR
                | IeType::UPDATE_QER
                | IeType::UPDATE_BAR
                | IeType::UPDATE_BAR_REPORT_RESPONSE
                | IeType::UPDATE_TRAFFIC_ENDPOINT
                | IeType::UPDATE_MAR
                | IeType::UPDATE_FORWARDING_ACTION_3GPP
                | IeType::UPDATE_FORWARDING_ACTION_NON_3GPP
                | IeType::UPDATE_SRR,
            ) => true,
            _ => false,
        }
    }
}
