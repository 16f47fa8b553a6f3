# SPDX-License-Identifier: Apache-2.0
"""The messages of tests/packets that need release 16, made by pycrate: a function of the same name each."""

from pycrate_mobile.TS29244_PFCP import *

NODE = ("NodeID", dict(Type=0, Val="192.0.2.1"))
ACCEPTED = ("Cause", 1)


def ies(*named):
    """IEs by their names, each with its fields; a group has IEs."""
    found = []
    for name, data in named:
        if isinstance(data, list) and isinstance(data[0], tuple):
            data = ies(*data)
        found.append(dict(Type=PFCPIEType[name].value, Data=data))
    return found


def message(kind, seid, *named):
    header = dict(SeqNum=0x010203) if seid is None else dict(SeqNum=0x010203, SEID=seid)
    made = kind()
    made[0].set_val(header)
    made[1].set_val(ies(*named))
    return made.to_bytes()


def value(number):
    return dict(Val=number)


def heartbeat_from():
    return message(
        PFCPHeartbeatReq, None,
        ("RecoveryTimeStamp", value(0xE8000001)),
        ("SourceIPAddress", dict(MPL=1, V4=1, IPv4Addr="192.0.2.0", MaskPrefLen=24)))


def association_of_a_set():
    return message(
        PFCPAssociationSetupReq, None,
        ("NodeID", dict(Type=2, Val="smf.example")), ("RecoveryTimeStamp", value(0xE8000001)),
        ("CPFunctionFeatures", [dict(LOAD=1, OVRL=1, EPFAR=1, SSET=1, MPAS=1)]),
        ("AlternativeSMFIPAddress", dict(V4=1, V6=1, IPv4Addr="192.0.2.9", IPv6Addr="2001:db8::1")),
        ("SMFSetID", dict(FQDN="set1.example")))


def association_kept():
    features = [dict(FTUP=1), dict(EMPU=1), dict(UEIP=1), dict(MPAS=1), dict(QFQM=1)]
    return message(
        PFCPAssociationSetupResp, None, NODE, ACCEPTED, ("RecoveryTimeStamp", value(0xE8000001)),
        ("UPFunctionFeatures", features), ("PFCPASRspFlags", dict(PSREI=1)))


def association_update_told():
    return message(
        PFCPAssociationUpdateReq, None, NODE,
        ("AssociationReleaseReq", dict(URSS=1)), ("PFCPAUReqFlags", dict(PARPS=1)))


def path_recovery():
    peer = dict(NI=1, DI=1, V4=1, IPv4Addr="192.0.2.3", DestinationInterface=value(b"\0"),
                NetworkInstance=value(b"n3.example"))
    return message(
        PFCPNodeReportReq, None, NODE, ("NodeReportType", dict(UPRR=1)),
        ("UserPlanePathRecoveryReport", [("RemoteGTPUPeer", peer)]))


def set_deletion_of_a_upf():
    node = dict(NodeIDType=1, NodeAddr="2001:db8::1", CSIDs=[7], NodeType=5)
    return message(PFCPSessionSetDeletionReq, None, NODE, ("FQCSID", node))


def pdr(number, address, *more):
    detection = [("SourceInterface", dict(If=1)), ("UEIPAddress", address)]
    return ("CreatePDR", [
        ("PDRID", value(number)), ("Precedence", value(number)), ("PDI", detection), ("FARID", value(1)), *more])


def addresses():
    far = [("FARID", value(1)), ("ApplyAction", [dict(DROP=1)])]
    return message(
        PFCPSessionEstablishmentReq, 0, NODE,
        ("FSEID", dict(V4=1, SEID=0x0102030405060708, IPv4Addr="192.0.2.1")),
        pdr(1, dict(CHV4=1, CHV6=1, SD=1), ("UEIPAddressPoolIdentity", dict(Val=b"pool"))),
        pdr(2, dict(V6=1, IPv6D=1, IPv6Addr="2001:db8::5", IPv6PrefDeleg=8)),
        pdr(3, dict(V6=1, IP6PL=1, IPv6Addr="2001:db8::5", IPv6PrefLen=128)),
        ("CreateFAR", far), ("PFCPSEReqFlags", dict(RESTI=1)))


def charging_that_ends():
    return message(PFCPSessionModificationReq, 7, ("CreateURR", [
        ("URRID", value(1)), ("MeasurementMethod", dict(VOLUM=1)),
        ("ReportingTriggers", [{}, dict(QUVTI=1), dict(REEMR=1), b""]),
        ("QuotaValidityTime", value(86400)), ("NumberofReports", 3), ("MeasurementInformation", dict(MNOP=1))]))


def packet_rates():
    ul, dl = dict(TimeUnit=0, PacketRate=10), dict(TimeUnit=3, PacketRate=0x0102)
    left = dict(
        APR=1, DL=1, UL=1, NumRemainUplinkPacketsAllowed=1, NumRemainAddUplinkPacketsAllowed=2,
        NumRemainDownlinkPacketsAllowed=3, NumRemainAddDownlinkPacketsAllowed=4,
        RateCtrlStatusValidityTime=0xE8000001 << 32)
    return message(PFCPSessionModificationReq, 7, ("CreateQER", [
        ("QERID", value(1)), ("GateStatus", dict(ULGate=0, DLGate=0)),
        ("PacketRate", dict(APRC=1, DLPR=1, ULPR=1, Uplink=ul, Downlink=dl, AddUplink=dl, AddDownlink=ul)),
        ("PacketRateStatus", left), ("QERControlIndications", dict(RCSR=1))]))


def redirection_of_both():
    to = dict(RedirectAccessType=4, RedirectServerAddr=value("192.0.2.5"),
              OtherRedirectServerAddr=value("2001:db8::5"))
    return message(PFCPSessionModificationReq, 7, ("CreateFAR", [
        ("FARID", value(1)), ("ApplyAction", [dict(FORW=1)]),
        ("ForwardingParameters", [("DestinationInterface", value(1)), ("RedirectInformation", to)])]))


def slice():
    return message(PFCPSessionModificationReq, 7, ("SNSSAI", dict(SST=1, SD=0x010203)))


def monitoring():
    thresholds = dict(RP=1, UL=1, DL=1, DownlinkPacketDelayThreshold=10, UplinkPacketDelayThreshold=20,
                      RoundTripPacketDelayThreshold=70000)
    control = [
        ("QFI", dict(QFI=9)), ("RequestedQoSMonitoring", dict(RP=1, UL=1, DL=1)),
        ("ReportingFrequency", dict(PERIO=1, EVETT=1)), ("PacketDelayThresholds", thresholds),
        ("MinimumWaitTime", value(5)), ("MeasurementPeriod", value(60))]
    return message(
        PFCPSessionModificationReq, 7, ("RemoveSRR", [("SRRID", value(2))]),
        ("CreateSRR", [("SRRID", value(1)), ("QoSMonitoringperQoSflowControlInformation", control)]))


def established_with_addresses():
    address = dict(IP6PL=1, SD=1, V4=1, V6=1, IPv4Addr="10.0.0.1", IPv6Addr="2001:db8::5", IPv6PrefLen=56)
    return message(
        PFCPSessionEstablishmentResp, 7, NODE, ACCEPTED,
        ("CreatedPDR", [("PDRID", value(1)), ("UEIPAddress", address)]),
        ("FQCSID", dict(NodeIDType=0, NodeAddr="192.0.2.1", CSIDs=[1], NodeType=5)))


def usage(group, triggers, *more):
    return (group, [
        ("URRID", value(1)), ("URSEQN", 3), ("UsageReportTrigger", triggers),
        ("StartTime", value(0xE8000001)), ("EndTime", value(0xE8000003)), *more])


def queried_packets():
    volume = dict(
        DLNOP=1, ULNOP=1, TONOP=1, DLVOL=1, ULVOL=1, TOVOL=1, TotalVolume=7, UplinkVolume=3, DownlinkVolume=4,
        TotalNumPackets=0x10, UplinkNumPackets=6, DownlinkNumPackets=10)
    left = dict(DL=1, NumRemainDownlinkPacketsAllowed=3, RateCtrlStatusValidityTime=0xE8000001 << 32)
    return message(
        PFCPSessionModificationResp, 7, ACCEPTED,
        usage("UsageReportSessionModResp", [{}, {}, dict(QUVTI=1, EVEQU=1), b""], ("VolumeMeasurement", volume)),
        ("AdditionalUsageReportsInformation", dict(AURI=1)),
        ("PacketRateStatusReportSessionModResp", [("QERID", value(1)), ("PacketRateStatus", left)]))


def told_of_stations():
    addresses = [bytes([2, 0, 0, 0, 0, last]) for last in (1, 2, 3)]
    traffic = [
        ("MACAddressesDetected", dict(Addrs=addresses[:2], CTAG=value(b"\5\x11\x23"))),
        ("MACAddressesRemoved", dict(Addrs=addresses[2:]))]
    return message(
        PFCPSessionReportReq, 7, ("ReportType", dict(USAR=1, DLDR=1)),
        ("DownlinkDataReport", [("PDRID", value(2)), ("DataStatus", dict(BUFF=1))]),
        usage("UsageReportSessionReportReq", [{}, dict(MACAR=1)], ("EthernetTrafficInformation", traffic)))


def ended():
    return message(PFCPSessionReportReq, 7, ("ReportType", dict(UISR=1)), ("PFCPSRReqFlags", dict(PSDBU=1)))


def monitored():
    measured = dict(RP=1, UL=1, DL=1, DownlinkPacketDelay=11, UplinkPacketDelay=21, RoundTripPacketDelay=70001)
    report = [
        ("QFI", dict(QFI=9)), ("QoSMonitoringMeasurement", measured), ("TimeStamp", value(0xE8000003)),
        ("StartTime", value(0xE8000001))]
    return message(
        PFCPSessionReportReq, 7, ("ReportType", dict(SESR=1)),
        ("SessionReport", [("SRRID", value(1)), ("QoSMonitoringReport", report)]))


def redirected():
    return message(
        PFCPSessionReportResp, 7, ("Cause", 78), ("FSEID", dict(V4=1, SEID=9, IPv4Addr="192.0.2.9")),
        ("AlternativeSMFIPAddress", dict(V6=1, IPv6Addr="2001:db8::5")))
