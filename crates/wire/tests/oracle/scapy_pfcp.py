# SPDX-License-Identifier: Apache-2.0
"""The messages of tests/packets that release 15 has, made by scapy: a function of the same name each."""

from scapy.contrib.pfcp import *


def header(kind, seid):
    fields = dict(version=1, MP=0, message_type=kind, seq=0x010203)
    return PFCP(S=0, **fields) if seid is None else PFCP(S=1, seid=seid, **fields)


def association_setup():
    return header(6, None) / PFCPAssociationSetupResponse(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"),
        IE_Cause(cause=1),
        IE_RecoveryTimeStamp(timestamp=0xE8000001),
        IE_UPFunctionFeatures(FTUP=1, EMPU=1),
    ])


def establishment():
    sdf_filter = IE_SDF_Filter(
        FD=1, flow_description="permit out ip from any to assigned",
        TTC=1, tos_traffic_class=0xB8, tos_traffic_mask=0xFC,
        SPI=1, security_parameter_index=0x0A0B0C0D,
        FL=1, flow_label=0x12345,
        BID=1, sdf_filter_id=3)
    pdi = IE_PDI(IE_list=[
        IE_SourceInterface(interface=0),
        IE_FTEID(V4=1, TEID=0x01020304, ipv4="192.0.2.2"),
        IE_NetworkInstance(instance="n3"),
        IE_UE_IP_Address(V4=1, SD=0, ipv4="10.0.0.1"),
        sdf_filter,
        IE_QFI(QFI=9),
    ])
    pdr = IE_CreatePDR(IE_list=[
        IE_PDR_Id(id=1), IE_Precedence(precedence=100), pdi, IE_OuterHeaderRemoval(header=6),
        IE_FAR_Id(id=1), IE_URR_Id(id=1), IE_QER_Id(id=1),
    ])
    forwarding = IE_ForwardingParameters(IE_list=[
        IE_DestinationInterface(interface=1),
        IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=7, ipv4="192.0.2.3"),
    ])
    far = IE_CreateFAR(IE_list=[IE_FAR_Id(id=1), IE_ApplyAction(FORW=1), forwarding])
    urr = IE_CreateURR(IE_list=[
        IE_URR_Id(id=1), IE_MeasurementMethod(VOLUM=1),
        IE_ReportingTriggers(volume_threshold=1, volume_quota=1),
        IE_VolumeThreshold(TOVOL=1, total=1 << 40), IE_VolumeQuota(TOVOL=1, total=1 << 41),
    ])
    qer = IE_CreateQER(IE_list=[
        IE_QER_Id(id=1), IE_GateStatus(ul=0, dl=1), IE_MBR(ul=5000000, dl=5000000000),
        IE_QFI(QFI=9),
    ])
    return header(50, 0) / PFCPSessionEstablishmentRequest(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"),
        IE_FSEID(v4=1, v6=0, seid=0x0102030405060708, ipv4="192.0.2.1"),
        pdr, far, urr, qer,
    ])


def report():
    usage = IE_UsageReport_SRR(IE_list=[
        IE_URR_Id(id=1), IE_UR_SEQN(number=3), IE_UsageReportTrigger(VOLTH=1),
        IE_StartTime(timestamp=0xE8000001), IE_EndTime(timestamp=0xE8000003),
        IE_VolumeMeasurement(TOVOL=1, ULVOL=1, DLVOL=1, total=3 << 40, uplink=1 << 40,
                             downlink=2 << 40),
        IE_DurationMeasurement(duration=2),
    ])
    return header(56, 7) / PFCPSessionReportRequest(IE_list=[
        IE_ReportType(DLDR=1, USAR=1),
        IE_DownlinkDataReport(IE_list=[IE_PDR_Id(id=2)]),
        usage,
    ])


def modification():
    bar = IE_Create_BAR(IE_list=[
        IE_BAR_Id(id=1), IE_DownlinkDataNotificationDelay(delay=3),
        IE_SuggestedBufferingPacketsCount(count=20),
    ])
    forwarding = IE_UpdateForwardingParameters(IE_list=[
        IE_DestinationInterface(interface=0),
        IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=8, ipv4="192.0.2.4"),
        IE_PFCPSMReqFlags(SNDEM=1),
    ])
    far = IE_UpdateFAR(IE_list=[
        IE_FAR_Id(id=1), IE_ApplyAction(FORW=1), forwarding, IE_BAR_Id(id=1)])
    return header(52, 7) / PFCPSessionModificationRequest(IE_list=[
        IE_RemovePDR(IE_list=[IE_PDR_Id(id=2)]), bar, far,
        IE_QueryURR(IE_list=[IE_URR_Id(id=1)]),
    ])


def deletion():
    usage = IE_UsageReport_SDR(IE_list=[
        IE_URR_Id(id=1), IE_UR_SEQN(number=4), IE_UsageReportTrigger(TERMR=1),
        IE_StartTime(timestamp=0xE8000001), IE_EndTime(timestamp=0xE8000003),
        IE_VolumeMeasurement(TOVOL=1, ULVOL=1, DLVOL=1, total=3, uplink=1, downlink=2),
    ])
    return header(55, 7) / PFCPSessionDeletionResponse(IE_list=[IE_Cause(cause=1), usage])


def pfds():
    contents = IE_PFDContents(
        FD=1, flow="permit out 6 from 192.0.2.0/24 443 to assigned",
        URL=1, url="https://example.com/video", DN=1, domain="example.com")
    return header(3, None) / PFCPPFDManagementRequest(IE_list=[
        IE_ApplicationID_PFDs(IE_list=[
            IE_ApplicationId(id="video"), IE_PFDContext(IE_list=[contents])]),
    ])


def heartbeat():
    return header(1, None) / PFCPHeartbeatRequest(IE_list=[IE_RecoveryTimeStamp(timestamp=0xE8000001)])


def heartbeat_response():
    return header(2, None) / PFCPHeartbeatResponse(IE_list=[IE_RecoveryTimeStamp(timestamp=0xE8000001)])


def association_update_release():
    return header(7, None) / PFCPAssociationUpdateRequest(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"), IE_PFCPAssociationReleaseRequest(SARR=1),
        IE_GracefulReleasePeriod(release_timer_unit="10 minutes", release_timer_value=2),
    ])


def association_update_response():
    return header(8, None) / PFCPAssociationUpdateResponse(IE_list=[
        IE_NodeId(id_type=1, ipv6="2001:db8::1"), IE_Cause(cause=1), IE_CPFunctionFeatures(LOAD=1, OVRL=1),
    ])


def association_release():
    return header(9, None) / PFCPAssociationReleaseRequest(IE_list=[IE_NodeId(id_type=0, ipv4="192.0.2.1")])


def accepted(*first):
    return [*first, IE_NodeId(id_type=0, ipv4="192.0.2.1"), IE_Cause(cause=1)]


def refused_ie(kind):
    return [IE_NodeId(id_type=0, ipv4="192.0.2.1"), IE_Cause(cause=69), IE_OffendingIE(type=kind)]


def association_release_response():
    return header(10, None) / PFCPAssociationReleaseResponse(IE_list=accepted())


def version_not_supported():
    return header(11, None) / PFCPVersionNotSupportedResponse(IE_list=[])


def pfds_refused():
    return header(4, None) / PFCPPFDManagementResponse(IE_list=[IE_Cause(cause=69), IE_OffendingIE(type=61)])


def path_failure():
    peer = IE_RemoteGTP_U_Peer(V4=1, V6=1, ipv4="192.0.2.3", ipv6="2001:db8::3")
    return header(12, None) / PFCPNodeReportRequest(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"), IE_NodeReportType(UPFR=1),
        IE_UserPlanePathFailureReport(IE_list=[peer]),
    ])


def node_report_refused():
    return header(13, None) / PFCPNodeReportResponse(IE_list=refused_ie(101))


def set_deletion():
    return header(14, None) / PFCPSessionSetDeletionRequest(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"),
        IE_FqCSID(node_id_type=0, ipv4="192.0.2.1", csids=[1, 0x102]),
    ])


def set_deletion_refused():
    return header(15, None) / PFCPSessionSetDeletionResponse(IE_list=refused_ie(65))


def set_deletion_response():
    return header(15, None) / PFCPSessionSetDeletionResponse(IE_list=accepted())


def establish(*rules):
    return header(50, 0) / PFCPSessionEstablishmentRequest(IE_list=[
        IE_NodeId(id_type=0, ipv4="192.0.2.1"),
        IE_FSEID(v4=1, v6=0, seid=0x0102030405060708, ipv4="192.0.2.1"),
        *rules,
    ])


def modify(*rules):
    return header(52, 7) / PFCPSessionModificationRequest(IE_list=list(rules))


def pdr(number, *detection):
    return IE_CreatePDR(IE_list=[
        IE_PDR_Id(id=number), IE_Precedence(precedence=number), IE_PDI(IE_list=list(detection)),
        IE_FAR_Id(id=1),
    ])


def far(number, *parameters):
    forwarding = IE_ForwardingParameters(IE_list=[IE_DestinationInterface(interface=1), *parameters])
    return IE_CreateFAR(IE_list=[IE_FAR_Id(id=number), IE_ApplyAction(FORW=1), forwarding])


def drop_all():
    return IE_CreateFAR(IE_list=[IE_FAR_Id(id=1), IE_ApplyAction(DROP=1)])


def endpoints():
    return establish(
        pdr(1, IE_SourceInterface(interface=0), IE_TrafficEndpointId(id=1), IE_QFI(QFI=9)),
        pdr(2, IE_SourceInterface(interface=1), IE_TrafficEndpointId(id=2)),
        drop_all(),
        IE_CreateTrafficEndpoint(IE_list=[
            IE_TrafficEndpointId(id=1), IE_FTEID(V4=1, V6=1, CH=1, CHID=1, choose_id=5),
            IE_NetworkInstance(instance="n3"), IE_3GPP_InterfaceType(interface_type=11),
        ]),
        IE_CreateTrafficEndpoint(IE_list=[
            IE_TrafficEndpointId(id=2),
            IE_UE_IP_Address(V4=1, V6=1, SD=1, ipv4="10.0.0.1", ipv6="2001:db8::5"),
            IE_FramedRoute(framed_route="192.168.1.0/24 0.0.0.0 1"),
            IE_FramedRouting(framed_routing=b"\0\0\0\3"),
            IE_FramedIPv6Route(framed_ipv6_route="2001:db8:7::/48 :: 1"),
        ]),
    )


def endpoints_changed():
    return modify(
        IE_RemoveTrafficEndpoint(IE_list=[IE_TrafficEndpointId(id=2)]),
        IE_UpdateTrafficEndpoint(IE_list=[
            IE_TrafficEndpointId(id=1),
            IE_FTEID(V4=1, V6=1, TEID=0x01020304, ipv4="192.0.2.2", ipv6="2001:db8::5"),
            IE_NetworkInstance(instance="n9"), IE_QFI(QFI=5),
        ]),
    )


def ethernet():
    packets = IE_EthernetPacketFilter(IE_list=[
        IE_EthernetFilterId(id=7), IE_EthernetFilterProperties(BIDE=1),
        IE_MACAddress(SOUR=1, DEST=1, USOU=1, UDES=1, source_mac="02:00:00:00:00:01",
                      destination_mac="02:00:00:00:00:02", upper_source_mac="02:00:00:00:00:11",
                      upper_destination_mac="02:00:00:00:00:12"),
        IE_Ethertype(type=0x0800),
    ])
    return establish(
        pdr(1, IE_SourceInterface(interface=0), IE_EthernetPDUSessionInformation(ETHI=1), packets),
        far(1, IE_Proxying(ARP=1, INS=1)),
        IE_CreateURR(IE_list=[
            IE_URR_Id(id=1), IE_MeasurementMethod(EVENT=1), IE_ReportingTriggers(mac_addresses_reporting=1),
            IE_EthernetInactivityTimer(timer=60),
        ]),
        IE_PDNType(pdn_type=5),
    )


def tags():
    packets = IE_EthernetPacketFilter(IE_list=[
        IE_C_TAG(VID=1, DEI=1, PCP=1, cvid_value_hi=1, dei_flag=1, pcp_value=1, cvid_value_low=0x23),
        IE_S_TAG(VID=1, DEI=1, PCP=1, svid_value_hi=0xF, dei_flag=0, pcp_value=1, svid_value_low=0xFF),
    ])
    return modify(
        pdr(1, IE_SourceInterface(interface=0), packets),
        far(1, IE_OuterHeaderCreation(CTAG=1, STAG=1, ctag=0x07F1FF, stag=0x071923)),
    )


def charging():
    triggers = IE_ReportingTriggers(
        periodic_reporting=1, time_threshold=1, quota_holding_time=1, start_of_traffic=1, stop_of_traffic=1,
        dropped_dl_traffic_threshold=1, linked_usage_reporting=1, time_quota=1, envelope_closure=1,
        event_threshold=1, event_quota=1)
    second = IE_AdditionalMonitoringTime(IE_list=[
        IE_MonitoringTime(time_value=0xE8002000), IE_SubsequentTimeQuota(quota=602), IE_EventQuota(event_quota=52),
    ])
    return modify(IE_CreateURR(IE_list=[
        IE_URR_Id(id=1), IE_MeasurementMethod(EVENT=1, DURAT=1), triggers, IE_MeasurementPeriod(period=3600),
        IE_EventThreshold(event_threshold=5), IE_EventQuota(event_quota=50), IE_TimeThreshold(threshold=300),
        IE_TimeQuota(quota=600), IE_QuotaHoldingTime(time_value=30),
        IE_DroppedDLTrafficThreshold(DLPA=1, DLBY=1, packet_count=1000, byte_count=1 << 33),
        IE_MonitoringTime(time_value=0xE8001000),
        IE_SubsequentVolumeThreshold(ULVOL=1, DLVOL=1, uplink=9, downlink=8),
        IE_SubsequentTimeThreshold(threshold=301),
        IE_SubsequentVolumeQuota(TOVOL=1, DLVOL=1, total=17, downlink=8),
        IE_SubsequentTimeQuota(quota=601), IE_SubsequentEventThreshold(subsequent_event_threshold=6),
        IE_SubsequentEventQuota(subsequent_event_quota=51), IE_InactivityDetectionTime(time_value=20),
        IE_LinkedURR_Id(id=2), IE_MeasurementInformation(INAM=1, RADI=1, ISTM=1),
        IE_TimeQuotaMechanism(base_time_interval_type=1, interval=15),
        IE_AggregatedURRs(IE_list=[IE_AggregatedURR_Id(id=3), IE_Multiplier(digits=25, exponent=-1)]),
        IE_FAR_Id(id=1), second,
    ]))


def qos():
    return modify(IE_CreateQER(IE_list=[
        IE_QER_Id(id=1), IE_QERCorrelationId(id=0x0A0B0C0D), IE_GateStatus(ul=0, dl=0),
        IE_GBR(ul=1, dl=0x0102030405),
        IE_PacketRate(ULPR=1, DLPR=1, ul_time_unit=0, ul_max_packet_rate=10, dl_time_unit=3,
                      dl_max_packet_rate=0x0102),
        IE_DLFlowLevelMarking(TTC=1, SCI=1, traffic_class=0xB8, traffic_class_mask=0xFC,
                              service_class_indicator=7),
        IE_QFI(QFI=63), IE_RQI(RQI=1), IE_PagingPolicyIndicator(ppi=7),
        IE_AveragingWindow(averaging_window=2000),
    ]))


def redirection():
    return modify(far(
        1,
        IE_RedirectInformation(type=2, address="http://portal.example/"),
        IE_TransportLevelMarking(tos=0x28, traffic_class=0xFC),
        IE_ForwardingPolicy(policy_identifier="policy"),
        IE_HeaderEnrichment(header_type=0, name="X-Name", value="value"),
    ))


def outer_headers():
    v4, v6 = dict(ipv4="192.0.2.5"), dict(ipv6="2001:db8::5")
    kinds = [
        dict(GTPUUDPIPV6=1, TEID=7, **v6), dict(UDPIPV4=1, port=4789, **v4), dict(UDPIPV6=1, port=4789, **v6),
        dict(IPV4=1, **v4), dict(IPV6=1, **v6),
    ]
    return modify(*(far(number, IE_OuterHeaderCreation(**kind)) for number, kind in enumerate(kinds, 1)))


def unknown_ies():
    trace = IE_TraceInformation(
        mcc_digit_1=0, mcc_digit_2=0, mcc_digit_3=1, mnc_digit_1=0, mnc_digit_2=1, mnc_digit_3=0xF, trace_id=1,
        triggering_events=b"\2", session_trace_depth=3, list_of_interfaces=b"\4",
        ip_address=bytes([192, 0, 2, 7]))
    return establish(
        pdr(1, IE_SourceInterface(interface=3)), drop_all(), IE_UserPlaneInactivityTimer(timer=1800),
        IE_UserId(IMSIF=1, imsi=bytes.fromhex("00010121436587f9")), trace, IE_APN_DNN(apn_dnn="internet"),
        IE_NotImplemented(ietype=0x7000, data=b"what?"),
        IE_EnterpriseSpecific(ietype=0x8001, enterprise_id=32473, data=b"vendor"),
    )


def tunnel():
    return IE_FTEID(V4=1, TEID=0x01020304, ipv4="192.0.2.2")


def established():
    return header(51, 7) / PFCPSessionEstablishmentResponse(IE_list=accepted() + [
        IE_FSEID(v4=1, v6=1, seid=0x0807060504030201, ipv4="192.0.2.1", ipv6="2001:db8::5"),
        IE_CreatedPDR(IE_list=[IE_PDR_Id(id=1), tunnel()]),
        IE_CreatedPDR(IE_list=[IE_PDR_Id(id=2), IE_FTEID(V6=1, TEID=0x01020305, ipv6="2001:db8::5")]),
        IE_LoadControlInformation(IE_list=[IE_SequenceNumber(number=0xE8000002), IE_Metric(metric=40)]),
        IE_OverloadControlInformation(IE_list=[
            IE_SequenceNumber(number=0xE8000003), IE_Metric(metric=60), IE_Timer(timer_unit=0, timer_value=20),
            IE_OCIFlags(AOCI=1),
        ]),
        IE_CreatedTrafficEndpoint(IE_list=[IE_TrafficEndpointId(id=1), tunnel()]),
    ])


def refused():
    return header(53, 7) / PFCPSessionModificationResponse(IE_list=[
        IE_Cause(cause=73), IE_FailedRuleId(type=0, pdr_id=0x0203)])


def usage(group, triggers, *more):
    return group(IE_list=[
        IE_URR_Id(id=1), IE_UR_SEQN(number=3), IE_UsageReportTrigger(**triggers),
        IE_StartTime(timestamp=0xE8000001), IE_EndTime(timestamp=0xE8000003), *more,
    ])


def queried():
    def side(**flags):
        return usage(
            IE_UsageReport_SMR, dict(IMMER=1, MONIT=1),
            IE_VolumeMeasurement(ULVOL=1, DLVOL=1, uplink=1 << 40, downlink=2),
            IE_DurationMeasurement(duration=2), IE_TimeOfFirstPacket(timestamp=0xE8000001),
            IE_TimeOfLastPacket(timestamp=0xE8000002), IE_UsageInformation(UAE=1, **flags),
            IE_QueryURRReference(reference=0x0A0B0C0D))
    return header(53, 7) / PFCPSessionModificationResponse(IE_list=[
        IE_Cause(cause=1), IE_CreatedPDR(IE_list=[IE_PDR_Id(id=1), tunnel()]), side(BEF=1), side(AFT=1),
        IE_AdditionalUsageReportsInformation(AURI=0, reports=300),
    ])


def told():
    application = IE_ApplicationDetectionInformation(IE_list=[
        IE_ApplicationId(id="video"), IE_ApplicationInstanceId(id="1"),
        IE_FlowInformation(direction=3, flow="permit out 17 from 192.0.2.5 443 to 10.0.0.1 4000"),
    ])
    return header(56, 7) / PFCPSessionReportRequest(IE_list=[
        IE_ReportType(DLDR=1, USAR=1, ERIR=1, UPIR=1),
        IE_DownlinkDataReport(IE_list=[
            IE_PDR_Id(id=2), IE_DownlinkDataServiceInformation(PPI=1, QFII=1, ppi_val=46, qfi_val=9)]),
        usage(IE_UsageReport_SRR, dict(START=1), application, IE_NetworkInstance(instance="n6"),
              IE_EventTimeStamp(timestamp=0xE8000002)),
        IE_ErrorIndicationReport(IE_list=[tunnel()]),
    ])


def buffered(count=200):
    bar = IE_UpdateBAR_SRR(IE_list=[
        IE_BAR_Id(id=1), IE_DownlinkDataNotificationDelay(delay=3),
        IE_DLBufferingDuration(timer_unit="10 minutes", timer_value=1),
        IE_DLBufferingSuggestedPacketCount(count=count), IE_SuggestedBufferingPacketsCount(count=20),
    ])
    return header(57, 7) / PFCPSessionReportResponse(IE_list=[
        IE_Cause(cause=1), bar, IE_PFCPSRRspFlags(DROBU=1)])


def buffered_for_long():
    return buffered(300)
