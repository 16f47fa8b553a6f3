// SPDX-License-Identifier: Apache-2.0
//! Which IE has which value: the table through which values are read, written, checked and shown.
//!
//! `group.get(key::F_TEID)` gives a [`FTeid`], `writer.put(key::F_TEID, ..)` takes one. An IE
//! without a key can be read as [`Ie::value`](super::Ie::value) and is named in traces.

use super::cause::Cause;
use super::coding::{Fault, Value};
use super::ie_type::IeType;
use super::value::address::*;
use super::value::detection::*;
use super::value::flags::*;
use super::value::forwarding::*;
use super::value::node::*;
use super::value::qos::*;
use super::value::usage::*;
use super::value::*;
use crate::octets::{Octets, Pen};
use core::fmt::{self, Debug};
use core::marker::PhantomData;

/// An IE and the type of its value.
pub struct Key<V> {
    ie_type: IeType,
    value: PhantomData<fn() -> V>,
}

impl<V> Clone for Key<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Key<V> {}

impl<V> Key<V> {
    const fn new(ie_type: IeType) -> Self {
        Self {
            ie_type,
            value: PhantomData,
        }
    }

    /// Which IE.
    pub const fn ie_type(self) -> IeType {
        self.ie_type
    }
}

impl<V> Debug for Key<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ie_type.fmt(f)
    }
}

/// What can be done with the value of an IE whose type is known at run time only.
struct Typed {
    check: fn(&[u8]) -> Result<(), Fault>,
    rewrite: fn(&[u8], &mut [u8]) -> Option<usize>,
    show: fn(&[u8], &mut fmt::Formatter<'_>) -> Option<fmt::Result>,
}

impl Typed {
    const fn of<V: Value>() -> Self {
        Self {
            check: |bytes| V::read(&mut Octets(bytes)).map(|_| ()),
            rewrite: |bytes, to| {
                let value = V::read(&mut Octets(bytes)).ok()?;
                let mut pen = Pen::new(to);
                V::write(&value, &mut pen);
                let len = pen.len();
                let again = V::read(&mut Octets(to.get(..len)?)).ok();
                assert_eq!(again, Some(value), "a value reads back as it was written");
                Some(len)
            },
            show: |bytes, f| {
                let value = V::read(&mut Octets(bytes)).ok()?;
                Some(V::show(&value, f))
            },
        }
    }
}

macro_rules! keys {
    ($($constant:ident: $value:ty;)*) => {
        $(#[doc = concat!("[`IeType::", stringify!($constant), "`].")]
        pub const $constant: Key<$value> = Key::new(IeType::$constant);)*

        /// Every IE that has a typed value.
        pub const TYPED: &[IeType] = &[$(IeType::$constant),*];

        const fn typed(ie_type: IeType) -> Option<&'static Typed> {
            Some(match ie_type {
                $(IeType::$constant => const { &Typed::of::<$value>() },)*
                _ => return None,
            })
        }
    };
}

/// Whether `value` is one of this IE. IEs without a key have any.
///
/// # Errors
/// What is wrong with it.
pub fn check(ie_type: IeType, value: &[u8]) -> Result<(), Fault> {
    typed(ie_type).map_or(Ok(()), |typed| (typed.check)(value))
}

/// Reads a value and writes it to the front of `to`; how many bytes that takes. `None` for an IE
/// without a key, a value that is none, and too little room. For tests.
///
/// # Panics
/// If what was written reads back differently.
pub fn rewrite(ie_type: IeType, value: &[u8], to: &mut [u8]) -> Option<usize> {
    (typed(ie_type)?.rewrite)(value, to)
}

/// Shows a value in a trace, or `None` where it is none.
pub(super) fn show(
    ie_type: IeType,
    value: &[u8],
    f: &mut fmt::Formatter<'_>,
) -> Option<fmt::Result> {
    (typed(ie_type)?.show)(value, f)
}

keys! {
    // Nodes and messages.
    CAUSE: Cause;
    OFFENDING_IE: IeType;
    OFFENDING_IE_INFORMATION: OffendingIeInformation<'static>;
    FAILED_RULE_ID: FailedRuleId;
    NODE_ID: NodeId<'static>;
    F_SEID: FSeid;
    RECOVERY_TIME_STAMP: Time;
    UP_FUNCTION_FEATURES: UpFunctionFeatures;
    CP_FUNCTION_FEATURES: CpFunctionFeatures;
    PFCP_ASSOCIATION_RELEASE_REQUEST: AssociationReleaseRequest;
    GRACEFUL_RELEASE_PERIOD: Timer;
    NODE_REPORT_TYPE: NodeReportType;
    REMOTE_GTP_U_PEER: RemoteGtpUPeer<'static>;
    ALTERNATIVE_SMF_IP_ADDRESS: AlternativeSmfIpAddress;
    CP_PFCP_ENTITY_IP_ADDRESS: CpIpAddress;
    CP_IP_ADDRESS: CpIpAddress;
    SMF_SET_ID: SmfSetId<'static>;
    FQ_CSID: FqCsid<'static>;
    GROUP_ID: Bytes;
    NF_INSTANCE_ID: NfInstanceId;
    SEQUENCE_NUMBER: u32;
    METRIC: u8;
    TIMER: Timer;
    VALIDITY_TIMER: u16;
    OCI_FLAGS: OciFlags;
    PFCPSMREQ_FLAGS: SessionModificationRequestFlags;
    PFCPSRRSP_FLAGS: SessionReportResponseFlags;
    PFCPSRREQ_FLAGS: SessionReportRequestFlags;
    PFCPAUREQ_FLAGS: AssociationUpdateRequestFlags;
    PFCPASRSP_FLAGS: AssociationSetupResponseFlags;
    PFCPASREQ_FLAGS: AssociationSetupRequestFlags;
    PFCPSEREQ_FLAGS: SessionEstablishmentRequestFlags;
    PFCPSDRSP_FLAGS: SessionDeletionResponseFlags;
    PDN_TYPE: PdnType;
    USER_PLANE_INACTIVITY_TIMER: Seconds;
    USER_ID: UserId<'static>;
    APN_DNN: ApnDnn;
    S_NSSAI: SNssai;
    RAT_TYPE: u8;
    IP_VERSION: IpVersion;
    NUMBER_OF_UE_IP_ADDRESSES: NumberOfUeIpAddresses;
    REPORT_TYPE: ReportType;
    APPLICATION_ID: Bytes;
    PFD_CONTENTS: PfdContents<'static>;
    // Detection.
    PDR_ID: PdrId;
    PRECEDENCE: u32;
    SOURCE_INTERFACE: SourceInterface;
    INTERFACE_TYPE_3GPP: InterfaceType;
    F_TEID: FTeid;
    NETWORK_INSTANCE: Bytes;
    UE_IP_ADDRESS: UeIpAddress;
    UE_IP_ADDRESS_POOL_IDENTITY: UeIpAddressPoolIdentity<'static>;
    SDF_FILTER: SdfFilter<'static>;
    TRAFFIC_ENDPOINT_ID: TrafficEndpointId;
    ETHERNET_PDU_SESSION_INFORMATION: EthernetPduSessionInformation;
    ETHERNET_FILTER_ID: u32;
    ETHERNET_FILTER_PROPERTIES: EthernetFilterProperties;
    MAC_ADDRESS: MacAddresses;
    ETHERTYPE: u16;
    C_TAG: VlanTag;
    S_TAG: VlanTag;
    QFI: Qfi;
    FRAMED_ROUTE: Bytes;
    FRAMED_ROUTING: u32;
    FRAMED_IPV6_ROUTE: Bytes;
    SOURCE_IP_ADDRESS: SourceIpAddress;
    IP_MULTICAST_ADDRESS: IpMulticastAddress;
    ACTIVATE_PREDEFINED_RULES: Bytes;
    DEACTIVATE_PREDEFINED_RULES: Bytes;
    ACTIVATION_TIME: Time;
    DEACTIVATION_TIME: Time;
    PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION: PacketReplication;
    OUTER_HEADER_REMOVAL: OuterHeaderRemoval;
    // Forwarding.
    FAR_ID: FarId;
    APPLY_ACTION: ApplyAction;
    DESTINATION_INTERFACE: DestinationInterface;
    REDIRECT_INFORMATION: RedirectInformation<'static>;
    OUTER_HEADER_CREATION: OuterHeaderCreation;
    TRANSPORT_LEVEL_MARKING: TrafficClass;
    FORWARDING_POLICY: ForwardingPolicy<'static>;
    HEADER_ENRICHMENT: HeaderEnrichment<'static>;
    PROXYING: Proxying;
    DATA_NETWORK_ACCESS_IDENTIFIER: Bytes;
    MAR_ID: MarId;
    STEERING_FUNCTIONALITY: u8;
    STEERING_MODE: u8;
    WEIGHT: u8;
    PRIORITY: u8;
    SRR_ID: SrrId;
    // Buffering.
    BAR_ID: BarId;
    DOWNLINK_DATA_NOTIFICATION_DELAY: NotificationDelay;
    SUGGESTED_BUFFERING_PACKETS_COUNT: u8;
    DL_BUFFERING_DURATION: Timer;
    DL_BUFFERING_SUGGESTED_PACKET_COUNT: PacketCount;
    DOWNLINK_DATA_SERVICE_INFORMATION: DownlinkDataServiceInformation;
    DL_DATA_PACKETS_SIZE: u16;
    DATA_STATUS: DataStatus;
    // QoS.
    QER_ID: QerId;
    QER_CORRELATION_ID: u32;
    GATE_STATUS: GateStatus;
    MBR: BitRates;
    GBR: BitRates;
    PACKET_RATE: PacketRates;
    PACKET_RATE_STATUS: PacketRateStatus;
    DL_FLOW_LEVEL_MARKING: DlFlowLevelMarking;
    RQI: Rqi;
    PAGING_POLICY_INDICATOR: PagingPolicyIndicator;
    AVERAGING_WINDOW: Milliseconds;
    QER_CONTROL_INDICATIONS: QerControlIndications;
    QER_INDICATIONS: QerIndications;
    REQUESTED_QOS_MONITORING: RequestedQosMonitoring;
    REPORTING_FREQUENCY: ReportingFrequency;
    PACKET_DELAY_THRESHOLDS: PacketDelayThresholds;
    MINIMUM_WAIT_TIME: Seconds;
    QOS_MONITORING_MEASUREMENT: QosMonitoringMeasurement;
    QOS_REPORT_TRIGGER: QosReportTrigger;
    GTP_U_PATH_INTERFACE_TYPE: GtpUPathInterfaceType;
    AVERAGE_PACKET_DELAY: Milliseconds;
    MINIMUM_PACKET_DELAY: Milliseconds;
    MAXIMUM_PACKET_DELAY: Milliseconds;
    // Usage.
    URR_ID: UrrId;
    LINKED_URR_ID: UrrId;
    AGGREGATED_URR_ID: UrrId;
    MULTIPLIER: Multiplier;
    MEASUREMENT_METHOD: MeasurementMethod;
    REPORTING_TRIGGERS: ReportingTriggers;
    USAGE_REPORT_TRIGGER: UsageReportTrigger;
    MEASUREMENT_PERIOD: Seconds;
    MEASUREMENT_INFORMATION: MeasurementInformation;
    VOLUME_THRESHOLD: Volume;
    VOLUME_QUOTA: Volume;
    SUBSEQUENT_VOLUME_THRESHOLD: Volume;
    SUBSEQUENT_VOLUME_QUOTA: Volume;
    TIME_THRESHOLD: Seconds;
    TIME_QUOTA: Seconds;
    SUBSEQUENT_TIME_THRESHOLD: Seconds;
    SUBSEQUENT_TIME_QUOTA: Seconds;
    EVENT_THRESHOLD: u32;
    EVENT_QUOTA: u32;
    SUBSEQUENT_EVENT_THRESHOLD: u32;
    SUBSEQUENT_EVENT_QUOTA: u32;
    DROPPED_DL_TRAFFIC_THRESHOLD: DroppedDlTraffic;
    QUOTA_HOLDING_TIME: Seconds;
    QUOTA_VALIDITY_TIME: Seconds;
    MONITORING_TIME: Time;
    INACTIVITY_DETECTION_TIME: Seconds;
    ETHERNET_INACTIVITY_TIMER: Seconds;
    TIME_QUOTA_MECHANISM: TimeQuotaMechanism;
    NUMBER_OF_REPORTS: u16;
    UR_SEQN: u32;
    VOLUME_MEASUREMENT: VolumeMeasurement;
    DURATION_MEASUREMENT: Seconds;
    TIME_OF_FIRST_PACKET: Time;
    TIME_OF_LAST_PACKET: Time;
    START_TIME: Time;
    END_TIME: Time;
    TIME_STAMP: Time;
    USAGE_INFORMATION: UsageInformation;
    QUERY_URR_REFERENCE: u32;
    ADDITIONAL_USAGE_REPORTS_INFORMATION: AdditionalUsageReports;
    APPLICATION_INSTANCE_ID: Bytes;
    FLOW_INFORMATION: FlowInformation<'static>;
    MAC_ADDRESSES_DETECTED: MacAddressList<'static>;
    MAC_ADDRESSES_REMOVED: MacAddressList<'static>;
}
