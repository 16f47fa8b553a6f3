// SPDX-License-Identifier: Apache-2.0
//! What a message is: its number, its name, and whether it is about a session, asks or answers.
//!
//! Specification: TS 29.244 (R17, 17.7.1), table 7.3-1.

/// What a message is (TS 29.244, table 7.3-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageType(pub u8);

macro_rules! message_types {
    ($($number:literal $constant:ident $name:literal;)*) => {
        impl MessageType {
            $(#[doc = concat!($name, ".")]
            pub const $constant: Self = Self($number);)*

            /// All that the table lists, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];

            /// Name as in the specification, if the release knows this message.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$constant => $name,)*
                    _ => return None,
                })
            }
        }
    };
}

message_types! {
    1 HEARTBEAT_REQUEST "PFCP Heartbeat Request";
    2 HEARTBEAT_RESPONSE "PFCP Heartbeat Response";
    3 PFD_MANAGEMENT_REQUEST "PFCP PFD Management Request";
    4 PFD_MANAGEMENT_RESPONSE "PFCP PFD Management Response";
    5 ASSOCIATION_SETUP_REQUEST "PFCP Association Setup Request";
    6 ASSOCIATION_SETUP_RESPONSE "PFCP Association Setup Response";
    7 ASSOCIATION_UPDATE_REQUEST "PFCP Association Update Request";
    8 ASSOCIATION_UPDATE_RESPONSE "PFCP Association Update Response";
    9 ASSOCIATION_RELEASE_REQUEST "PFCP Association Release Request";
    10 ASSOCIATION_RELEASE_RESPONSE "PFCP Association Release Response";
    11 VERSION_NOT_SUPPORTED_RESPONSE "PFCP Version Not Supported Response";
    12 NODE_REPORT_REQUEST "PFCP Node Report Request";
    13 NODE_REPORT_RESPONSE "PFCP Node Report Response";
    14 SESSION_SET_DELETION_REQUEST "PFCP Session Set Deletion Request";
    15 SESSION_SET_DELETION_RESPONSE "PFCP Session Set Deletion Response";
    16 SESSION_SET_MODIFICATION_REQUEST "PFCP Session Set Modification Request";
    17 SESSION_SET_MODIFICATION_RESPONSE "PFCP Session Set Modification Response";
    50 SESSION_ESTABLISHMENT_REQUEST "PFCP Session Establishment Request";
    51 SESSION_ESTABLISHMENT_RESPONSE "PFCP Session Establishment Response";
    52 SESSION_MODIFICATION_REQUEST "PFCP Session Modification Request";
    53 SESSION_MODIFICATION_RESPONSE "PFCP Session Modification Response";
    54 SESSION_DELETION_REQUEST "PFCP Session Deletion Request";
    55 SESSION_DELETION_RESPONSE "PFCP Session Deletion Response";
    56 SESSION_REPORT_REQUEST "PFCP Session Report Request";
    57 SESSION_REPORT_RESPONSE "PFCP Session Report Response";
}

impl MessageType {
    /// Whether a message of this type is about a session, and so has a SEID. `None` for types that
    /// the release does not know.
    pub const fn is_of_session(self) -> Option<bool> {
        match self.name() {
            Some(_) => Some(self.0 >= 50),
            None => None,
        }
    }

    /// Whether a message of this type answers another.
    pub const fn is_response(self) -> bool {
        match self {
            Self::VERSION_NOT_SUPPORTED_RESPONSE => true,
            // Up to there requests are odd, and from 12 on even.
            Self(kind) if kind < 11 => kind.is_multiple_of(2) && kind != 0,
            Self(kind) => !kind.is_multiple_of(2) && self.name().is_some(),
        }
    }

    /// The type of the answer to a request of this type.
    pub const fn response(self) -> Option<Self> {
        if self.name().is_none() || self.is_response() {
            return None;
        }
        Some(Self(self.0 + 1))
    }
}
