// SPDX-License-Identifier: Apache-2.0
//! The information elements of PFCP: number, name, and how long each is at least.
//!
//! Specification: TS 29.244 (R17, 17.7.1), table 8.1.2-1. Names are those of the table; where it
//! says of one name in which message the IE stands, that is in parentheses.

use core::fmt;

/// Which information element. Values from 32768 are a vendor's and mean something only together
/// with the vendor's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IeType(pub u16);

/// How an IE's length is bounded (TS 29.244, 8.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Holds other IEs.
    Grouped,
    /// Exactly this many octets.
    Fixed(u16),
    /// At least this many octets, with a last field that takes the rest.
    Variable(u16),
    /// At least this many octets. Later releases may append some, which are ignored.
    Extendable(u16),
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name as in the specification.
    pub name: &'static str,
    /// Bounds of its length.
    pub form: Form,
}

macro_rules! ie_types {
    ($($number:literal $constant:ident $form:ident $(($len:literal))? $name:literal;)*) => {
        impl IeType {
            $(#[doc = concat!($name, ", ", $number, ".")]
            pub const $constant: Self = Self($number);)*

            /// All that the table lists, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];

            /// Its row of the table, if it has one.
            pub const fn definition(self) -> Option<&'static Definition> {
                Some(match self {
                    $(Self::$constant => &Definition {
                        name: $name,
                        form: Form::$form $(($len))?,
                    },)*
                    _ => return None,
                })
            }
        }
    };
}

ie_types! {
    1 CREATE_PDR Grouped "Create PDR";
    2 PDI Grouped "PDI";
    3 CREATE_FAR Grouped "Create FAR";
    4 FORWARDING_PARAMETERS Grouped "Forwarding Parameters";
    5 DUPLICATING_PARAMETERS Grouped "Duplicating Parameters";
    6 CREATE_URR Grouped "Create URR";
    7 CREATE_QER Grouped "Create QER";
    8 CREATED_PDR Grouped "Created PDR";
    9 UPDATE_PDR Grouped "Update PDR";
    10 UPDATE_FAR Grouped "Update FAR";
    11 UPDATE_FORWARDING_PARAMETERS Grouped "Update Forwarding Parameters";
    12 UPDATE_BAR_REPORT_RESPONSE Grouped "Update BAR (PFCP Session Report Response)";
    13 UPDATE_URR Grouped "Update URR";
    14 UPDATE_QER Grouped "Update QER";
    15 REMOVE_PDR Grouped "Remove PDR";
    16 REMOVE_FAR Grouped "Remove FAR";
    17 REMOVE_URR Grouped "Remove URR";
    18 REMOVE_QER Grouped "Remove QER";
    19 CAUSE Fixed(1) "Cause";
    20 SOURCE_INTERFACE Extendable(1) "Source Interface";
    21 F_TEID Extendable(1) "F-TEID";
    22 NETWORK_INSTANCE Variable(0) "Network Instance";
    23 SDF_FILTER Extendable(2) "SDF Filter";
    24 APPLICATION_ID Variable(0) "Application ID";
    25 GATE_STATUS Extendable(1) "Gate Status";
    26 MBR Extendable(10) "MBR";
    27 GBR Extendable(10) "GBR";
    28 QER_CORRELATION_ID Extendable(4) "QER Correlation ID";
    29 PRECEDENCE Extendable(4) "Precedence";
    30 TRANSPORT_LEVEL_MARKING Extendable(2) "Transport Level Marking";
    31 VOLUME_THRESHOLD Extendable(1) "Volume Threshold";
    32 TIME_THRESHOLD Extendable(4) "Time Threshold";
    33 MONITORING_TIME Extendable(4) "Monitoring Time";
    34 SUBSEQUENT_VOLUME_THRESHOLD Extendable(1) "Subsequent Volume Threshold";
    35 SUBSEQUENT_TIME_THRESHOLD Extendable(4) "Subsequent Time Threshold";
    36 INACTIVITY_DETECTION_TIME Extendable(4) "Inactivity Detection Time";
    37 REPORTING_TRIGGERS Extendable(2) "Reporting Triggers";
    38 REDIRECT_INFORMATION Extendable(3) "Redirect Information";
    39 REPORT_TYPE Extendable(1) "Report Type";
    40 OFFENDING_IE Fixed(2) "Offending IE";
    41 FORWARDING_POLICY Extendable(1) "Forwarding Policy";
    42 DESTINATION_INTERFACE Extendable(1) "Destination Interface";
    43 UP_FUNCTION_FEATURES Extendable(1) "UP Function Features";
    44 APPLY_ACTION Extendable(1) "Apply Action";
    45 DOWNLINK_DATA_SERVICE_INFORMATION Extendable(1) "Downlink Data Service Information";
    46 DOWNLINK_DATA_NOTIFICATION_DELAY Extendable(1) "Downlink Data Notification Delay";
    47 DL_BUFFERING_DURATION Extendable(1) "DL Buffering Duration";
    48 DL_BUFFERING_SUGGESTED_PACKET_COUNT Variable(1) "DL Buffering Suggested Packet Count";
    49 PFCPSMREQ_FLAGS Extendable(1) "PFCPSMReq-Flags";
    50 PFCPSRRSP_FLAGS Extendable(1) "PFCPSRRsp-Flags";
    51 LOAD_CONTROL_INFORMATION Grouped "Load Control Information";
    52 SEQUENCE_NUMBER Fixed(4) "Sequence Number";
    53 METRIC Fixed(1) "Metric";
    54 OVERLOAD_CONTROL_INFORMATION Grouped "Overload Control Information";
    55 TIMER Extendable(1) "Timer";
    56 PDR_ID Extendable(2) "PDR ID";
    57 F_SEID Extendable(9) "F-SEID";
    58 APPLICATION_ID_PFDS Grouped "Application ID's PFDs";
    59 PFD_CONTEXT Grouped "PFD Context";
    60 NODE_ID Extendable(1) "Node ID";
    61 PFD_CONTENTS Extendable(2) "PFD Contents";
    62 MEASUREMENT_METHOD Extendable(1) "Measurement Method";
    63 USAGE_REPORT_TRIGGER Extendable(2) "Usage Report Trigger";
    64 MEASUREMENT_PERIOD Extendable(4) "Measurement Period";
    65 FQ_CSID Extendable(1) "FQ-CSID";
    66 VOLUME_MEASUREMENT Extendable(1) "Volume Measurement";
    67 DURATION_MEASUREMENT Extendable(4) "Duration Measurement";
    68 APPLICATION_DETECTION_INFORMATION Grouped "Application Detection Information";
    69 TIME_OF_FIRST_PACKET Extendable(4) "Time of First Packet";
    70 TIME_OF_LAST_PACKET Extendable(4) "Time of Last Packet";
    71 QUOTA_HOLDING_TIME Extendable(4) "Quota Holding Time";
    72 DROPPED_DL_TRAFFIC_THRESHOLD Extendable(1) "Dropped DL Traffic Threshold";
    73 VOLUME_QUOTA Extendable(1) "Volume Quota";
    74 TIME_QUOTA Extendable(4) "Time Quota";
    75 START_TIME Extendable(4) "Start Time";
    76 END_TIME Extendable(4) "End Time";
    77 QUERY_URR Grouped "Query URR";
    78 USAGE_REPORT_MODIFICATION Grouped "Usage Report (PFCP Session Modification Response)";
    79 USAGE_REPORT_DELETION Grouped "Usage Report (PFCP Session Deletion Response)";
    80 USAGE_REPORT_REPORT Grouped "Usage Report (PFCP Session Report Request)";
    81 URR_ID Extendable(4) "URR ID";
    82 LINKED_URR_ID Extendable(4) "Linked URR ID";
    83 DOWNLINK_DATA_REPORT Grouped "Downlink Data Report";
    84 OUTER_HEADER_CREATION Extendable(2) "Outer Header Creation";
    85 CREATE_BAR Grouped "Create BAR";
    86 UPDATE_BAR Grouped "Update BAR (PFCP Session Modification Request)";
    87 REMOVE_BAR Grouped "Remove BAR";
    88 BAR_ID Extendable(1) "BAR ID";
    89 CP_FUNCTION_FEATURES Extendable(1) "CP Function Features";
    90 USAGE_INFORMATION Extendable(1) "Usage Information";
    91 APPLICATION_INSTANCE_ID Variable(0) "Application Instance ID";
    92 FLOW_INFORMATION Extendable(3) "Flow Information";
    93 UE_IP_ADDRESS Extendable(1) "UE IP Address";
    94 PACKET_RATE Extendable(1) "Packet Rate";
    95 OUTER_HEADER_REMOVAL Extendable(1) "Outer Header Removal";
    96 RECOVERY_TIME_STAMP Extendable(4) "Recovery Time Stamp";
    97 DL_FLOW_LEVEL_MARKING Extendable(1) "DL Flow Level Marking";
    98 HEADER_ENRICHMENT Extendable(1) "Header Enrichment";
    99 ERROR_INDICATION_REPORT Grouped "Error Indication Report";
    100 MEASUREMENT_INFORMATION Extendable(1) "Measurement Information";
    101 NODE_REPORT_TYPE Extendable(1) "Node Report Type";
    102 USER_PLANE_PATH_FAILURE_REPORT Grouped "User Plane Path Failure Report";
    103 REMOTE_GTP_U_PEER Extendable(1) "Remote GTP-U Peer";
    104 UR_SEQN Fixed(4) "UR-SEQN";
    105 UPDATE_DUPLICATING_PARAMETERS Grouped "Update Duplicating Parameters";
    106 ACTIVATE_PREDEFINED_RULES Variable(0) "Activate Predefined Rules";
    107 DEACTIVATE_PREDEFINED_RULES Variable(0) "Deactivate Predefined Rules";
    108 FAR_ID Extendable(4) "FAR ID";
    109 QER_ID Extendable(4) "QER ID";
    110 OCI_FLAGS Extendable(1) "OCI Flags";
    111 PFCP_ASSOCIATION_RELEASE_REQUEST Extendable(1) "PFCP Association Release Request";
    112 GRACEFUL_RELEASE_PERIOD Extendable(1) "Graceful Release Period";
    113 PDN_TYPE Extendable(1) "PDN Type";
    114 FAILED_RULE_ID Extendable(1) "Failed Rule ID";
    115 TIME_QUOTA_MECHANISM Extendable(1) "Time Quota Mechanism";
    117 USER_PLANE_INACTIVITY_TIMER Extendable(4) "User Plane Inactivity Timer";
    118 AGGREGATED_URRS Grouped "Aggregated URRs";
    119 MULTIPLIER Fixed(12) "Multiplier";
    120 AGGREGATED_URR_ID Fixed(4) "Aggregated URR ID";
    121 SUBSEQUENT_VOLUME_QUOTA Extendable(1) "Subsequent Volume Quota";
    122 SUBSEQUENT_TIME_QUOTA Extendable(4) "Subsequent Time Quota";
    123 RQI Extendable(1) "RQI";
    124 QFI Extendable(1) "QFI";
    125 QUERY_URR_REFERENCE Extendable(4) "Query URR Reference";
    126 ADDITIONAL_USAGE_REPORTS_INFORMATION Extendable(2) "Additional Usage Reports Information";
    127 CREATE_TRAFFIC_ENDPOINT Grouped "Create Traffic Endpoint";
    128 CREATED_TRAFFIC_ENDPOINT Grouped "Created Traffic Endpoint";
    129 UPDATE_TRAFFIC_ENDPOINT Grouped "Update Traffic Endpoint";
    130 REMOVE_TRAFFIC_ENDPOINT Grouped "Remove Traffic Endpoint";
    131 TRAFFIC_ENDPOINT_ID Extendable(1) "Traffic Endpoint ID";
    132 ETHERNET_PACKET_FILTER Grouped "Ethernet Packet Filter";
    133 MAC_ADDRESS Extendable(1) "MAC Address";
    134 C_TAG Extendable(3) "C-TAG";
    135 S_TAG Extendable(3) "S-TAG";
    136 ETHERTYPE Extendable(2) "Ethertype";
    137 PROXYING Extendable(1) "Proxying";
    138 ETHERNET_FILTER_ID Extendable(4) "Ethernet Filter ID";
    139 ETHERNET_FILTER_PROPERTIES Extendable(1) "Ethernet Filter Properties";
    140 SUGGESTED_BUFFERING_PACKETS_COUNT Extendable(1) "Suggested Buffering Packets Count";
    141 USER_ID Extendable(1) "User ID";
    142 ETHERNET_PDU_SESSION_INFORMATION Extendable(1) "Ethernet PDU Session Information";
    143 ETHERNET_TRAFFIC_INFORMATION Grouped "Ethernet Traffic Information";
    144 MAC_ADDRESSES_DETECTED Extendable(7) "MAC Addresses Detected";
    145 MAC_ADDRESSES_REMOVED Extendable(7) "MAC Addresses Removed";
    146 ETHERNET_INACTIVITY_TIMER Extendable(4) "Ethernet Inactivity Timer";
    147 ADDITIONAL_MONITORING_TIME Grouped "Additional Monitoring Time";
    148 EVENT_QUOTA Extendable(4) "Event Quota";
    149 EVENT_THRESHOLD Extendable(4) "Event Threshold";
    150 SUBSEQUENT_EVENT_QUOTA Extendable(4) "Subsequent Event Quota";
    151 SUBSEQUENT_EVENT_THRESHOLD Extendable(4) "Subsequent Event Threshold";
    152 TRACE_INFORMATION Extendable(7) "Trace Information";
    153 FRAMED_ROUTE Variable(0) "Framed-Route";
    154 FRAMED_ROUTING Fixed(4) "Framed-Routing";
    155 FRAMED_IPV6_ROUTE Variable(0) "Framed-IPv6-Route";
    156 TIME_STAMP Extendable(4) "Time Stamp";
    157 AVERAGING_WINDOW Extendable(4) "Averaging Window";
    158 PAGING_POLICY_INDICATOR Extendable(1) "Paging Policy Indicator";
    159 APN_DNN Variable(0) "APN/DNN";
    160 INTERFACE_TYPE_3GPP Extendable(1) "3GPP Interface Type";
    161 PFCPSRREQ_FLAGS Extendable(1) "PFCPSRReq-Flags";
    162 PFCPAUREQ_FLAGS Extendable(1) "PFCPAUReq-Flags";
    163 ACTIVATION_TIME Extendable(4) "Activation Time";
    164 DEACTIVATION_TIME Extendable(4) "Deactivation Time";
    165 CREATE_MAR Grouped "Create MAR";
    166 FORWARDING_ACTION_3GPP Grouped "3GPP Access Forwarding Action Information";
    167 FORWARDING_ACTION_NON_3GPP Grouped "Non-3GPP Access Forwarding Action Information";
    168 REMOVE_MAR Grouped "Remove MAR";
    169 UPDATE_MAR Grouped "Update MAR";
    170 MAR_ID Extendable(2) "MAR ID";
    171 STEERING_FUNCTIONALITY Extendable(1) "Steering Functionality";
    172 STEERING_MODE Extendable(1) "Steering Mode";
    173 WEIGHT Fixed(1) "Weight";
    174 PRIORITY Extendable(1) "Priority";
    175 UPDATE_FORWARDING_ACTION_3GPP Grouped "Update 3GPP Access Forwarding Action Information";
    176 UPDATE_FORWARDING_ACTION_NON_3GPP Grouped
        "Update Non 3GPP Access Forwarding Action Information";
    177 UE_IP_ADDRESS_POOL_IDENTITY Extendable(2) "UE IP Address Pool Identity";
    178 ALTERNATIVE_SMF_IP_ADDRESS Extendable(1) "Alternative SMF IP Address";
    179 PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION Extendable(1)
        "Packet Replication and Detection Carry-On Information";
    180 SMF_SET_ID Extendable(1) "SMF Set ID";
    181 QUOTA_VALIDITY_TIME Extendable(4) "Quota Validity Time";
    182 NUMBER_OF_REPORTS Fixed(2) "Number of Reports";
    183 PFCP_SESSION_RETENTION_INFORMATION Grouped "PFCP Session Retention Information";
    184 PFCPASRSP_FLAGS Extendable(1) "PFCPASRsp-Flags";
    185 CP_PFCP_ENTITY_IP_ADDRESS Extendable(1) "CP PFCP Entity IP Address";
    186 PFCPSEREQ_FLAGS Extendable(1) "PFCPSEReq-Flags";
    187 USER_PLANE_PATH_RECOVERY_REPORT Grouped "User Plane Path Recovery Report";
    188 IP_MULTICAST_ADDRESSING_INFO Grouped "IP Multicast Addressing Info";
    189 JOIN_IP_MULTICAST_INFORMATION Grouped "Join IP Multicast Information";
    190 LEAVE_IP_MULTICAST_INFORMATION Grouped "Leave IP Multicast Information";
    191 IP_MULTICAST_ADDRESS Extendable(1) "IP Multicast Address";
    192 SOURCE_IP_ADDRESS Extendable(1) "Source IP Address";
    193 PACKET_RATE_STATUS Extendable(1) "Packet Rate Status";
    194 CREATE_BRIDGE_INFO_FOR_TSC Extendable(1) "Create Bridge Info for TSC";
    195 CREATED_BRIDGE_INFO_FOR_TSC Grouped "Created Bridge Info for TSC";
    196 DS_TT_PORT_NUMBER Fixed(4) "DS-TT Port Number";
    197 NW_TT_PORT_NUMBER Fixed(4) "NW-TT Port Number";
    198 USER_PLANE_NODE_5GS Extendable(0) "5GS User Plane Node";
    199 TSC_MANAGEMENT_INFORMATION_MODIFICATION Grouped
        "TSC Management Information (PFCP Session Modification Request)";
    200 TSC_MANAGEMENT_INFORMATION_RESPONSE Grouped
        "TSC Management Information (PFCP Session Modification Response)";
    201 TSC_MANAGEMENT_INFORMATION_REPORT Grouped
        "TSC Management Information (PFCP Session Report Request)";
    202 PORT_MANAGEMENT_INFORMATION_CONTAINER Variable(0) "Port Management Information Container";
    203 CLOCK_DRIFT_CONTROL_INFORMATION Grouped "Clock Drift Control Information";
    204 REQUESTED_CLOCK_DRIFT_INFORMATION Extendable(1) "Requested Clock Drift Information";
    205 CLOCK_DRIFT_REPORT Grouped "Clock Drift Report";
    206 TIME_DOMAIN_NUMBER Extendable(1) "Time Domain Number";
    207 TIME_OFFSET_THRESHOLD Extendable(8) "Time Offset Threshold";
    208 CUMULATIVE_RATERATIO_THRESHOLD Extendable(4) "Cumulative rateRatio Threshold";
    209 TIME_OFFSET_MEASUREMENT Extendable(8) "Time Offset Measurement";
    210 CUMULATIVE_RATERATIO_MEASUREMENT Extendable(4) "Cumulative rateRatio Measurement";
    211 REMOVE_SRR Grouped "Remove SRR";
    212 CREATE_SRR Grouped "Create SRR";
    213 UPDATE_SRR Grouped "Update SRR";
    214 SESSION_REPORT Grouped "Session Report";
    215 SRR_ID Extendable(1) "SRR ID";
    216 ACCESS_AVAILABILITY_CONTROL_INFORMATION Grouped "Access Availability Control Information";
    217 REQUESTED_ACCESS_AVAILABILITY_INFORMATION Extendable(1)
        "Requested Access Availability Information";
    218 ACCESS_AVAILABILITY_REPORT Grouped "Access Availability Report";
    219 ACCESS_AVAILABILITY_INFORMATION Extendable(1) "Access Availability Information";
    220 PROVIDE_ATSSS_CONTROL_INFORMATION Grouped "Provide ATSSS Control Information";
    221 ATSSS_CONTROL_PARAMETERS Grouped "ATSSS Control Parameters";
    222 MPTCP_CONTROL_INFORMATION Extendable(1) "MPTCP Control Information";
    223 ATSSS_LL_CONTROL_INFORMATION Extendable(1) "ATSSS-LL Control Information";
    224 PMF_CONTROL_INFORMATION Extendable(1) "PMF Control Information";
    225 MPTCP_PARAMETERS Grouped "MPTCP Parameters";
    226 ATSSS_LL_PARAMETERS Grouped "ATSSS-LL Parameters";
    227 PMF_PARAMETERS Grouped "PMF Parameters";
    228 MPTCP_ADDRESS_INFORMATION Extendable(4) "MPTCP Address Information";
    229 UE_LINK_SPECIFIC_IP_ADDRESS Extendable(1) "UE Link-Specific IP Address";
    230 PMF_ADDRESS_INFORMATION Extendable(1) "PMF Address Information";
    231 ATSSS_LL_INFORMATION Extendable(1) "ATSSS-LL Information";
    232 DATA_NETWORK_ACCESS_IDENTIFIER Variable(0) "Data Network Access Identifier";
    233 UE_IP_ADDRESS_POOL_INFORMATION Grouped "UE IP Address Pool Information";
    234 AVERAGE_PACKET_DELAY Extendable(4) "Average Packet Delay";
    235 MINIMUM_PACKET_DELAY Extendable(4) "Minimum Packet Delay";
    236 MAXIMUM_PACKET_DELAY Extendable(4) "Maximum Packet Delay";
    237 QOS_REPORT_TRIGGER Extendable(1) "QoS Report Trigger";
    238 GTP_U_PATH_QOS_CONTROL_INFORMATION Grouped "GTP-U Path QoS Control Information";
    239 GTP_U_PATH_QOS_REPORT Grouped "GTP-U Path QoS Report";
    240 QOS_INFORMATION Grouped "QoS Information";
    241 GTP_U_PATH_INTERFACE_TYPE Extendable(1) "GTP-U Path Interface Type";
    242 QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION Grouped
        "QoS Monitoring per QoS flow Control Information";
    243 REQUESTED_QOS_MONITORING Extendable(1) "Requested QoS Monitoring";
    244 REPORTING_FREQUENCY Extendable(1) "Reporting Frequency";
    245 PACKET_DELAY_THRESHOLDS Extendable(1) "Packet Delay Thresholds";
    246 MINIMUM_WAIT_TIME Extendable(4) "Minimum Wait Time";
    247 QOS_MONITORING_REPORT Grouped "QoS Monitoring Report";
    248 QOS_MONITORING_MEASUREMENT Extendable(1) "QoS Monitoring Measurement";
    249 MT_EDT_CONTROL_INFORMATION Extendable(1) "MT-EDT Control Information";
    250 DL_DATA_PACKETS_SIZE Extendable(2) "DL Data Packets Size";
    251 QER_CONTROL_INDICATIONS Extendable(1) "QER Control Indications";
    252 PACKET_RATE_STATUS_REPORT Grouped "Packet Rate Status Report";
    253 NF_INSTANCE_ID Fixed(16) "NF Instance ID";
    254 ETHERNET_CONTEXT_INFORMATION Grouped "Ethernet Context Information";
    255 REDUNDANT_TRANSMISSION_PARAMETERS Grouped "Redundant Transmission Parameters";
    256 UPDATED_PDR Grouped "Updated PDR";
    257 S_NSSAI Fixed(4) "S-NSSAI";
    258 IP_VERSION Extendable(1) "IP version";
    259 PFCPASREQ_FLAGS Extendable(1) "PFCPASReq-Flags";
    260 DATA_STATUS Extendable(1) "Data Status";
    261 PROVIDE_RDS_CONFIGURATION_INFORMATION Grouped "Provide RDS configuration information";
    262 RDS_CONFIGURATION_INFORMATION Extendable(1) "RDS configuration information";
    263 QUERY_PACKET_RATE_STATUS Grouped "Query Packet Rate Status";
    264 PACKET_RATE_STATUS_REPORT_MODIFICATION Grouped
        "Packet Rate Status Report (PFCP Session Modification Response)";
    265 MPTCP_APPLICABLE_INDICATION Extendable(1) "MPTCP Applicable Indication";
    266 BRIDGE_MANAGEMENT_INFORMATION_CONTAINER Variable(0)
        "Bridge Management Information Container";
    267 UE_IP_ADDRESS_USAGE_INFORMATION Grouped "UE IP Address Usage Information";
    268 NUMBER_OF_UE_IP_ADDRESSES Extendable(1) "Number of UE IP Addresses";
    269 VALIDITY_TIMER Extendable(2) "Validity Timer";
    270 REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS Grouped
        "Redundant Transmission Forwarding Parameters";
    271 TRANSPORT_DELAY_REPORTING Grouped "Transport Delay Reporting";
    272 PARTIAL_FAILURE_INFORMATION Grouped "Partial Failure Information";
    274 OFFENDING_IE_INFORMATION Variable(2) "Offending IE Information";
    275 RAT_TYPE Extendable(1) "RAT Type";
    276 L2TP_TUNNEL_INFORMATION Grouped "L2TP Tunnel Information";
    277 L2TP_SESSION_INFORMATION Grouped "L2TP Session Information";
    278 L2TP_USER_AUTHENTICATION Extendable(1) "L2TP User Authentication";
    279 CREATED_L2TP_SESSION Grouped "Created L2TP Session";
    280 LNS_ADDRESS Extendable(1) "LNS Address";
    281 TUNNEL_PREFERENCE Fixed(3) "Tunnel Preference";
    282 CALLING_NUMBER Variable(0) "Calling Number";
    283 CALLED_NUMBER Variable(0) "Called Number";
    284 L2TP_SESSION_INDICATIONS Extendable(1) "L2TP Session Indications";
    285 DNS_SERVER_ADDRESS Extendable(1) "DNS Server Address";
    286 NBNS_SERVER_ADDRESS Extendable(1) "NBNS Server Address";
    287 MAXIMUM_RECEIVE_UNIT Fixed(2) "Maximum Receive Unit";
    288 THRESHOLDS Extendable(1) "Thresholds";
    289 STEERING_MODE_INDICATOR Extendable(1) "Steering Mode Indicator";
    290 PFCP_SESSION_CHANGE_INFO Grouped "PFCP Session Change Info";
    291 GROUP_ID Variable(0) "Group ID";
    292 CP_IP_ADDRESS Variable(1) "CP IP Address";
    293 IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT Extendable(1)
        "IP Address and Port Number Replacement";
    294 DNS_QUERY_FILTER Extendable(2) "DNS Query Filter";
    295 DIRECT_REPORTING_INFORMATION Grouped "Direct Reporting Information";
    296 EVENT_NOTIFICATION_URI Variable(0) "Event Notification URI";
    297 NOTIFICATION_CORRELATION_ID Variable(0) "Notification Correlation ID";
    298 REPORTING_FLAGS Extendable(1) "Reporting Flags";
    299 PREDEFINED_RULES_NAME Variable(0) "Predefined Rules Name";
    300 MBS_SESSION_N4MB_CONTROL_INFORMATION Grouped "MBS Session N4mb Control Information";
    301 MBS_MULTICAST_PARAMETERS Grouped "MBS Multicast Parameters";
    302 ADD_MBS_UNICAST_PARAMETERS Grouped "Add MBS Unicast Parameters";
    303 MBS_SESSION_N4MB_INFORMATION Grouped "MBS Session N4mb Information";
    304 REMOVE_MBS_UNICAST_PARAMETERS Grouped "Remove MBS Unicast Parameters";
    305 MBS_SESSION_IDENTIFIER Extendable(1) "MBS Session Identifier";
    306 MULTICAST_TRANSPORT_INFORMATION Extendable(5) "Multicast Transport Information";
    307 MBSN4MBREQ_FLAGS Extendable(1) "MBSN4mbReq-Flags";
    308 LOCAL_INGRESS_TUNNEL Extendable(1) "Local Ingress Tunnel";
    309 MBS_UNICAST_PARAMETERS_ID Extendable(2) "MBS Unicast Parameters ID";
    310 MBS_SESSION_N4_CONTROL_INFORMATION Grouped "MBS Session N4 Control Information";
    311 MBS_SESSION_N4_INFORMATION Grouped "MBS Session N4 Information";
    312 MBSN4RESP_FLAGS Extendable(1) "MBSN4Resp-Flags";
    313 TUNNEL_PASSWORD Variable(0) "Tunnel Password";
    314 AREA_SESSION_ID Fixed(2) "Area Session ID";
    315 PEER_UP_RESTART_REPORT Grouped "Peer UP Restart Report";
    316 DSCP_TO_PPI_CONTROL_INFORMATION Grouped "DSCP to PPI Control Information";
    317 DSCP_TO_PPI_MAPPING_INFORMATION Extendable(2) "DSCP to PPI Mapping Information";
    318 PFCPSDRSP_FLAGS Extendable(1) "PFCPSDRsp-Flags";
    319 QER_INDICATIONS Extendable(1) "QER Indications";
    320 VENDOR_SPECIFIC_NODE_REPORT_TYPE Extendable(1) "Vendor-Specific Node Report Type";
    321 CONFIGURED_TIME_DOMAIN Extendable(1) "Configured Time Domain";
}

impl IeType {
    /// Whether a vendor defined it; the vendor's number stands in front of its value.
    #[inline]
    pub const fn is_vendor_specific(self) -> bool {
        self.0 >= 0x8000
    }

    /// Whether it holds other IEs.
    #[inline]
    pub const fn is_grouped(self) -> bool {
        matches!(
            self.definition(),
            Some(Definition {
                form: Form::Grouped,
                ..
            })
        )
    }
}

impl Form {
    /// Whether a value of `len` octets is neither too short nor, where the length is fixed, too
    /// long.
    #[inline]
    pub const fn allows(self, len: usize) -> bool {
        match self {
            Self::Grouped => true,
            Self::Fixed(exactly) => len == exactly as usize,
            Self::Variable(least) | Self::Extendable(least) => len >= least as usize,
        }
    }
}

impl fmt::Debug for IeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for IeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.definition() {
            Some(definition) => f.write_str(definition.name),
            None if self.is_vendor_specific() => write!(f, "vendor IE {}", self.0),
            None => write!(f, "IE {}", self.0),
        }
    }
}
