// SPDX-License-Identifier: Apache-2.0
//! Values that are sets of flags.
//!
//! Each constant names its place as the specification does: octet 5 is the first of a value, bit 1
//! the lowest. A set is written with as few octets as hold its flags, and at least with those that
//! the IE had when it was defined, so that receivers of earlier releases read it.

use crate::octets::{Octets, Pen};
use crate::pfcp::coding::{Fault, Value};
use core::fmt;

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($int:ty, $least:literal $(, $nonzero:ident)?) {
        $($flag:ident = $octet:literal / $bit:literal $text:literal;)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $(#[doc = concat!($text, ": octet ", $octet, ", bit ", $bit, ".")]
            pub const $flag: Self = Self(1 << (($octet - 5) * 8 + $bit - 1));)*
            /// Every flag of this release.
            pub const ALL: Self = Self(0 $(| Self::$flag.0)*);
            const NAMES: &'static [(Self, &'static str)] =
                &[$((Self::$flag, stringify!($flag))),*];

            /// Whether all of `flags` are set.
            #[inline]
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Whether some of `flags` are set.
            #[inline]
            pub const fn intersects(self, flags: Self) -> bool {
                self.0 & flags.0 != 0
            }

            /// Those of both sets.
            #[inline]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The flags as a number: octet 5 has the lowest eight bits.
            #[inline]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// The flags of a number; bits that mean nothing are left out.
            #[inline]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits & Self::ALL.0)
            }

            /// How many are set.
            #[inline]
            pub const fn count(self) -> u32 {
                self.0.count_ones()
            }

            /// These flags without `flags`.
            #[inline]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }

            #[allow(dead_code, reason = "not every set is a whole value")]
            fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
                let present = octets.0.len().min(size_of::<$int>());
                let mut bytes = [0; size_of::<$int>()];
                if present == 0 {
                    return Err(Fault::Length);
                }
                bytes[..present].copy_from_slice(octets.take(present)?);
                let flags = <$int>::from_le_bytes(bytes) & Self::ALL.0;
                $(const { assert!(!stringify!($nonzero).is_empty()) };
                if flags == 0 {
                    return Err(Fault::Value);
                })?
                Ok(Self(flags))
            }

            #[allow(dead_code, reason = "not every set is a whole value")]
            fn emit(&self, pen: &mut Pen<'_>) {
                let used = (<$int>::BITS - self.0.leading_zeros()).div_ceil(8) as usize;
                pen.put(&self.0.to_le_bytes()[..used.max($least)]);
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut names = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
                f.write_str(names.next().map_or("none", |(_, name)| name))?;
                names.try_for_each(|(_, name)| write!(f, "|{name}"))
            }
        }
    )* };
}
pub(crate) use flags;

macro_rules! flag_values {
    ($($name:ident),* $(,)?) => { $(
        impl Value for $name {
            type At<'a> = Self;

            fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
                Self::parse(octets)
            }

            fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
                value.emit(pen);
            }
        }
    )* };
}

flag_values!(
    AssociationReleaseRequest,
    AssociationSetupRequestFlags,
    AssociationSetupResponseFlags,
    AssociationUpdateRequestFlags,
    CpFunctionFeatures,
    DataStatus,
    EthernetFilterProperties,
    EthernetPduSessionInformation,
    GtpUPathInterfaceType,
    IpVersion,
    MeasurementInformation,
    MeasurementMethod,
    NodeReportType,
    OciFlags,
    PacketReplication,
    Proxying,
    QerControlIndications,
    QerIndications,
    QosReportTrigger,
    ReportType,
    ReportingFrequency,
    ReportingTriggers,
    RequestedQosMonitoring,
    SessionDeletionResponseFlags,
    SessionEstablishmentRequestFlags,
    SessionModificationRequestFlags,
    SessionReportRequestFlags,
    SessionReportResponseFlags,
    UpFunctionFeatures,
    UsageInformation,
    UsageReportTrigger,
);

impl Value for ApplyAction {
    type At<'a> = Self;

    /// One and only one of the basic actions is set (8.2.26), unless packets of a multicast session
    /// are replicated.
    fn read<'a>(octets: &mut Octets<'a>) -> Result<Self::At<'a>, Fault> {
        let action = Self::parse(octets)?;
        let basics = Self(action.0 & Self::BASIC.0).count();
        match basics {
            1 => Ok(action),
            0 if action.intersects(Self::FSSM | Self::MBSU) => Ok(action),
            _ => Err(Fault::Value),
        }
    }

    fn write(value: &Self::At<'_>, pen: &mut Pen<'_>) {
        value.emit(pen);
    }
}

impl ApplyAction {
    /// What is done with a packet: exactly one of these is set.
    const BASIC: Self =
        Self(Self::DROP.0 | Self::FORW.0 | Self::BUFF.0 | Self::IPMA.0 | Self::IPMD.0);
}

flags! {
    /// What becomes of packets (8.2.26).
    ApplyAction(u16, 1) {
        DROP = 5/1 "Drop";
        FORW = 5/2 "Forward";
        BUFF = 5/3 "Buffer";
        NOCP = 5/4 "Notify the CP function of the first buffered downlink packet";
        DUPL = 5/5 "Duplicate";
        IPMA = 5/6 "IP multicast accept";
        IPMD = 5/7 "IP multicast deny";
        DFRT = 5/8 "Duplicate for redundant transmission";
        EDRT = 6/1 "Eliminate duplicate packets of redundant transmission";
        BDPN = 6/2 "Buffered downlink packet notification";
        DDPN = 6/3 "Discarded downlink packet notification";
        FSSM = 6/4 "Forward packets to lower layer SSM";
        MBSU = 6/5 "Forward and replicate MBS data using unicast transport";
    }

    /// When a usage report is wanted (8.2.19).
    ReportingTriggers(u32, 2, nonzero) {
        PERIO = 5/1 "Periodic reporting";
        VOLTH = 5/2 "Volume threshold";
        TIMTH = 5/3 "Time threshold";
        QUHTI = 5/4 "Quota holding time";
        START = 5/5 "Start of traffic";
        STOPT = 5/6 "Stop of traffic";
        DROTH = 5/7 "Dropped DL traffic threshold";
        LIUSA = 5/8 "Linked usage reporting";
        VOLQU = 6/1 "Volume quota";
        TIMQU = 6/2 "Time quota";
        ENVCL = 6/3 "Envelope closure";
        MACAR = 6/4 "MAC addresses reporting";
        EVETH = 6/5 "Event threshold";
        EVEQU = 6/6 "Event quota";
        IPMJL = 6/7 "IP multicast join or leave";
        QUVTI = 6/8 "Quota validity time";
        REEMR = 7/1 "Report the end marker reception";
        UPINT = 7/2 "User plane inactivity timer";
    }

    /// Why a usage report was made (8.2.41).
    UsageReportTrigger(u32, 2, nonzero) {
        PERIO = 5/1 "Periodic reporting";
        VOLTH = 5/2 "Volume threshold";
        TIMTH = 5/3 "Time threshold";
        QUHTI = 5/4 "Quota holding time";
        START = 5/5 "Start of traffic";
        STOPT = 5/6 "Stop of traffic";
        DROTH = 5/7 "Dropped DL traffic threshold";
        IMMER = 5/8 "Immediate report";
        VOLQU = 6/1 "Volume quota";
        TIMQU = 6/2 "Time quota";
        LIUSA = 6/3 "Linked usage reporting";
        TERMR = 6/4 "Termination report";
        MONIT = 6/5 "Monitoring time";
        ENVCL = 6/6 "Envelope closure";
        MACAR = 6/7 "MAC addresses reporting";
        EVETH = 6/8 "Event threshold";
        EVEQU = 7/1 "Event quota";
        TEBUR = 7/2 "Termination by the UP function";
        IPMJL = 7/3 "IP multicast join or leave";
        QUVTI = 7/4 "Quota validity time";
        EMRRE = 7/5 "End marker reception";
        UPINT = 7/6 "User plane inactivity timer";
    }

    /// What is measured (8.2.40).
    MeasurementMethod(u8, 1, nonzero) {
        DURAT = 5/1 "Duration";
        VOLUM = 5/2 "Volume";
        EVENT = 5/3 "Event";
    }

    /// How it is measured (8.2.68). R17 wants a flag; earlier peers send none to end all.
    MeasurementInformation(u8, 1) {
        MBQE = 5/1 "Measurement before QoS enforcement";
        INAM = 5/2 "Inactive measurement";
        RADI = 5/3 "Reduced application detection information";
        ISTM = 5/4 "Immediate start time metering";
        MNOP = 5/5 "Measurement of number of packets";
        SSPOC = 5/6 "Send start pause of charging";
        ASPOC = 5/7 "Applicable for start of pause of charging";
        CIAM = 5/8 "Control of inactive measurement";
    }

    /// Which usage a report is of (8.2.59).
    UsageInformation(u8, 1) {
        BEF = 5/1 "Before a monitoring time";
        AFT = 5/2 "After a monitoring time";
        UAE = 5/3 "After QoS enforcement";
        UBE = 5/4 "Before QoS enforcement";
    }

    /// What a session report tells (8.2.21).
    ReportType(u8, 1, nonzero) {
        DLDR = 5/1 "Downlink data report";
        USAR = 5/2 "Usage report";
        ERIR = 5/3 "Error indication report";
        UPIR = 5/4 "User plane inactivity report";
        TMIR = 5/5 "TSC management information report";
        SESR = 5/6 "Session report";
        UISR = 5/7 "UP initiated session request";
    }

    /// What is measured of a QoS flow (8.2.167).
    RequestedQosMonitoring(u8, 1, nonzero) {
        DL = 5/1 "Downlink packet delay";
        UL = 5/2 "Uplink packet delay";
        RP = 5/3 "Round trip packet delay";
        GTPUPM = 5/4 "GTP-U path monitoring";
    }

    /// When what was measured of a QoS flow is told (8.2.168).
    ReportingFrequency(u8, 1, nonzero) {
        EVETT = 5/1 "Event triggered";
        PERIO = 5/2 "Periodic";
        SESRL = 5/3 "Session released";
    }

    /// When delays of a GTP-U path are told, and why they were (8.2.165).
    QosReportTrigger(u8, 1, nonzero) {
        PER = 5/1 "Periodic reporting";
        THR = 5/2 "Event triggered, by a threshold";
        IRE = 5/3 "Immediate report";
    }

    /// Which GTP-U paths are meant, or which one is told of (8.2.166).
    GtpUPathInterfaceType(u8, 1, nonzero) {
        N9 = 5/1 "N9";
        N3 = 5/2 "N3";
    }

    /// What a node report tells (8.2.69).
    NodeReportType(u8, 1, nonzero) {
        UPFR = 5/1 "User plane path failure report";
        UPRR = 5/2 "User plane path recovery report";
        CKDR = 5/3 "Clock drift report";
        GPQR = 5/4 "GTP-U path QoS report";
        PURR = 5/5 "Peer GTP-U entity restart report";
        VSR = 5/6 "Vendor-specific report";
    }

    /// What the UPF can do (8.2.25).
    UpFunctionFeatures(u64, 2) {
        BUCP = 5/1 "Downlink data buffering in the CP function";
        DDND = 5/2 "Downlink data notification delay";
        DLBD = 5/3 "DL buffering duration";
        TRST = 5/4 "Traffic steering";
        FTUP = 5/5 "F-TEID allocation in the UP function";
        PFDM = 5/6 "PFD management";
        HEEU = 5/7 "Header enrichment of uplink traffic";
        TREU = 5/8 "Traffic redirection enforcement";
        EMPU = 6/1 "Sending of end markers";
        PDIU = 6/2 "PDI optimised signalling";
        UDBC = 6/3 "UL/DL buffering control";
        QUOAC = 6/4 "Quota action";
        TRACE = 6/5 "Trace";
        FRRT = 6/6 "Framed routing";
        PFDE = 6/7 "PFD contents with several values";
        EPFAR = 6/8 "Enhanced PFCP association release";
        DPDRA = 7/1 "Deferred PDR activation or deactivation";
        ADPDP = 7/2 "Activation and deactivation of predefined PDRs";
        UEIP = 7/3 "UE IP address allocation";
        SSET = 7/4 "Sessions successively controlled by SMFs of a set";
        MNOP = 7/5 "Measurement of number of packets";
        MTE = 7/6 "Several traffic endpoints in a PDI";
        BUNDL = 7/7 "Bundling of messages";
        GCOM = 7/8 "5G VN group communication";
        MPAS = 8/1 "Associations to several SMFs of a set";
        RTTL = 8/2 "Redundant transmission at transport layer";
        VTIME = 8/3 "Quota validity time";
        NORP = 8/4 "Number of reports";
        IPTV = 8/5 "IPTV service";
        IP6PL = 8/6 "IPv6 prefix lengths other than 64";
        TSCU = 8/7 "Time sensitive communication";
        MPTCP = 8/8 "MPTCP proxy";
        ATSSS_LL = 9/1 "ATSSS-LL steering";
        QFQM = 9/2 "QoS monitoring per QoS flow";
        GPQM = 9/3 "QoS monitoring per GTP-U path";
        MT_EDT = 9/4 "Reporting the size of DL data packets";
        CIOT = 9/5 "CIoT";
        ETHAR = 9/6 "Ethernet PDU session anchor relocation";
        DDDS = 9/7 "Downlink data delivery status";
        RDS = 9/8 "Reliable data service";
        RTTWP = 10/1 "RTT measurements without PMF";
        QUASF = 10/2 "Exempted traffic of a quota action";
        NSPOC = 10/3 "Notifying the start of a pause of charging";
        L2TP = 10/4 "L2TP";
        UPBER = 10/5 "Uplink packets buffering during EAS relocation";
        RESPS = 10/6 "Restoration of sessions";
        IPREP = 10/7 "IP address and port number replacement";
        DNSTS = 10/8 "DNS traffic steering";
        DRQOS = 11/1 "Direct reporting of QoS monitoring";
        MBSN4 = 11/2 "MBS by individual delivery";
        PSUPRM = 11/3 "Per slice UP resource management";
        EPPPI = 11/4 "Enhanced provisioning of the paging policy indicator";
        RATP = 11/5 "Redirection address types with a port";
        UPIDP = 11/6 "User plane inactivity detection per PDR";
    }

    /// What the CP function can do (8.2.58).
    CpFunctionFeatures(u16, 1) {
        LOAD = 5/1 "Load control";
        OVRL = 5/2 "Overload control";
        EPFAR = 5/3 "Enhanced PFCP association release";
        SSET = 5/4 "Sessions successively controlled by SMFs of a set";
        BUNDL = 5/5 "Bundling of messages";
        MPAS = 5/6 "Several SMFs of a set associated to one UPF";
        ARDR = 5/7 "Additional usage reports in a deletion response";
        UIAUR = 5/8 "UE IP address usage reporting";
        PSUCC = 6/1 "Partial success";
        RPGUR = 6/2 "Peer GTP-U entity restart reporting";
    }

    /// PFCPSMReq-Flags (8.2.31).
    SessionModificationRequestFlags(u8, 1) {
        DROBU = 5/1 "Drop buffered packets";
        SNDEM = 5/2 "Send end markers";
        QAURR = 5/3 "Query all URRs";
        SUMPC = 5/4 "Stop of usage measurement to pause charging";
        RUMUC = 5/5 "Resume of usage measurement";
        DETEID = 5/6 "Delete all DL N3mb and N19mb F-TEIDs";
    }

    /// PFCPSRRsp-Flags (8.2.32).
    SessionReportResponseFlags(u8, 1) {
        DROBU = 5/1 "Drop buffered packets";
    }

    /// PFCPSRReq-Flags (8.2.119).
    SessionReportRequestFlags(u8, 1) {
        PSDBU = 5/1 "PFCP session deleted by the UP function";
    }

    /// PFCPAUReq-Flags (8.2.120).
    AssociationUpdateRequestFlags(u8, 1) {
        PARPS = 5/1 "PFCP association release preparation start";
    }

    /// PFCPASRsp-Flags (8.2.134).
    AssociationSetupResponseFlags(u8, 1) {
        PSREI = 5/1 "PFCP sessions retained";
        UUPSI = 5/2 "UPF configured for IPUPS";
    }

    /// PFCPASReq-Flags (8.2.178).
    AssociationSetupRequestFlags(u8, 1) {
        UUPSI = 5/1 "UPF configured for IPUPS";
    }

    /// PFCPSEReq-Flags (8.2.136).
    SessionEstablishmentRequestFlags(u8, 1) {
        RESTI = 5/1 "Restoration of a session";
        SUMPC = 5/2 "Stop of usage measurement to pause charging";
    }

    /// PFCPSDRsp-Flags (8.2.215).
    SessionDeletionResponseFlags(u8, 1) {
        PURU = 5/1 "Pending usage reports unacknowledged";
    }

    /// PFCP Association Release Request (8.2.77).
    AssociationReleaseRequest(u8, 1) {
        SARR = 5/1 "The UP function requests the release";
        URSS = 5/2 "All usage reports were sent";
    }

    /// OCI Flags (8.2.76).
    OciFlags(u8, 1) {
        AOCI = 5/1 "Associate the overload with the node";
    }

    /// Proxying (8.2.97).
    Proxying(u8, 1) {
        ARP = 5/1 "Answer ARP";
        INS = 5/2 "Answer IPv6 neighbour solicitations";
    }

    /// Packet Replication and Detection Carry-On Information (8.2.130).
    PacketReplication(u8, 1) {
        PRIUEAI = 5/1 "Not back to the UE";
        PRIN19I = 5/2 "Not back to N19";
        PRIN6I = 5/3 "Not back to N6";
        DCARONI = 5/4 "Go on detecting";
    }

    /// Ethernet PDU Session Information (8.2.102).
    EthernetPduSessionInformation(u8, 1) {
        ETHI = 5/1 "All downlink traffic of the session";
    }

    /// Ethernet Filter Properties (8.2.99).
    EthernetFilterProperties(u8, 1) {
        BIDE = 5/1 "Bidirectional Ethernet filter";
    }

    /// Data Status (8.2.179).
    DataStatus(u8, 1) {
        DROP = 5/1 "The first downlink packet was discarded";
        BUFF = 5/2 "The first downlink packet is buffered";
    }

    /// IP version (8.2.177).
    IpVersion(u8, 1, nonzero) {
        V4 = 5/1 "IPv4";
        V6 = 5/2 "IPv6";
    }

    /// QER Control Indications (8.2.174).
    QerControlIndications(u8, 1) {
        RCSR = 5/1 "Rate control status reporting";
    }

    /// QER Indications (8.2.216).
    QerIndications(u8, 1) {
        IQFISN = 5/1 "Insert the DL MBS QFI sequence number";
    }
}
