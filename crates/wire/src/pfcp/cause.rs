// SPDX-License-Identifier: Apache-2.0
//! Causes: how a request ended, and what was wrong with it.
//!
//! Specification: TS 29.244 (R17), 8.2.1.

use super::coding::{Fault, Value};
use super::ie_type::IeType;
use crate::octets::{Octets, Pen};
use core::fmt;

/// The cause of an answer (TS 29.244, table 8.2.1-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause(pub u8);

macro_rules! causes {
    ($($number:literal $constant:ident $name:literal;)*) => {
        impl Cause {
            $(#[doc = concat!($name, ".")]
            pub const $constant: Self = Self($number);)*

            /// Name as in the specification, if the release knows this cause.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$constant => $name,)*
                    _ => return None,
                })
            }
        }
    };
}

causes! {
    1 REQUEST_ACCEPTED "Request accepted (success)";
    2 MORE_USAGE_REPORT_TO_SEND "More Usage Report to send";
    3 REQUEST_PARTIALLY_ACCEPTED "Request partially accepted";
    64 REQUEST_REJECTED "Request rejected (reason not specified)";
    65 SESSION_CONTEXT_NOT_FOUND "Session context not found";
    66 MANDATORY_IE_MISSING "Mandatory IE missing";
    67 CONDITIONAL_IE_MISSING "Conditional IE missing";
    68 INVALID_LENGTH "Invalid length";
    69 MANDATORY_IE_INCORRECT "Mandatory IE incorrect";
    70 INVALID_FORWARDING_POLICY "Invalid Forwarding Policy";
    71 INVALID_F_TEID_ALLOCATION_OPTION "Invalid F-TEID allocation option";
    72 NO_ESTABLISHED_PFCP_ASSOCIATION "No established PFCP Association";
    73 RULE_CREATION_MODIFICATION_FAILURE "Rule creation/modification Failure";
    74 PFCP_ENTITY_IN_CONGESTION "PFCP entity in congestion";
    75 NO_RESOURCES_AVAILABLE "No resources available";
    76 SERVICE_NOT_SUPPORTED "Service not supported";
    77 SYSTEM_FAILURE "System failure";
    78 REDIRECTION_REQUESTED "Redirection Requested";
    79 ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED "All dynamic addresses are occupied";
    80 UNKNOWN_PRE_DEFINED_RULE "Unknown Pre-defined Rule";
    81 UNKNOWN_APPLICATION_ID "Unknown Application ID";
    82 L2TP_TUNNEL_ESTABLISHMENT_FAILURE "L2TP tunnel Establishment failure";
    83 L2TP_SESSION_ESTABLISHMENT_FAILURE "L2TP session Establishment failure";
    84 L2TP_TUNNEL_RELEASE "L2TP tunnel release";
    85 L2TP_SESSION_RELEASE "L2TP session release";
    86 PFCP_SESSION_RESTORATION_FAILURE
        "PFCP session restoration failure due to requested resource not available";
}

impl Cause {
    /// Whether the request was accepted. Causes of later releases count by their range.
    pub const fn is_accepted(self) -> bool {
        self.0 < 64
    }

    /// The refusal with this cause that names `ie_type`.
    pub const fn because_of(self, ie_type: IeType) -> Refusal {
        Refusal {
            cause: self,
            offending: Some(ie_type),
        }
    }

    /// The refusal with this cause that names no IE.
    pub const fn alone(self) -> Refusal {
        Refusal {
            cause: self,
            offending: None,
        }
    }
}

impl Value for Cause {
    type At<'a> = Self;

    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
        match octets.u8()? {
            // "Shall not be sent and if received the Cause shall be treated as an invalid IE".
            0 => Err(Fault::Value),
            cause => Ok(Self(cause)),
        }
    }

    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
        pen.u8(value.0);
    }
}

/// Why a request is refused: what its answer says in `Cause` and `Offending IE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The cause.
    pub cause: Cause,
    /// The IE that is missing or wrong, if it is one IE's fault.
    pub offending: Option<IeType>,
}

impl Fault {
    /// The refusal for an IE with this fault.
    pub const fn of(self, ie_type: IeType) -> Refusal {
        match self {
            Self::Length => Cause::INVALID_LENGTH.because_of(ie_type),
            Self::Value => Cause::MANDATORY_IE_INCORRECT.because_of(ie_type),
        }
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "cause {}", self.0),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        match self.offending {
            Some(ie_type) => write!(f, ": {ie_type}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
