# SPDX-License-Identifier: Apache-2.0
"""Answers of scapy and pycrate about PFCP and GTP-U: one line for each question on standard input.

build NAME      a message of tests/packets/sessions.rs made by scapy, as hex
scapy HEX       the PFCP message that scapy reads and builds again from the fields it found
pycrate HEX     the same by pycrate
mandatory TYPE  which IEs pycrate wants in the grouped IE of this number, or "unknown"
gtp-build NAME  a GTP-U message made by scapy
gtp-scapy HEX   what scapy reads of a G-PDU: tunnel, QFI and length of the packet in it
gtp-pycrate HEX the GTP-U message that pycrate reads and builds again
"""

import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from pycrate_mobile.TS29244_PFCP import PFCPIELUT, PFCPIEs, parse_PFCP
from pycrate_mobile.TS29281_GTPU import parse_GTPU
from scapy.contrib.gtp import *
from scapy.contrib.pfcp import *
from scapy.packet import NoPayload, Raw


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


def uplink():
    session = GTPPDUSessionContainer(type=1, QFI=9)
    return GTP_U_Header(teid=7, E=1, next_ex=0x85) / session / IP(src="10.0.0.1", dst="10.0.0.2")


def downlink():
    session = GTPPDUSessionContainer(type=0, QFI=5, RQI=1, PPP=1, PPI=3, QMP=1, SNP=1,
                                     dlSendTime=1 << 40, dlQFISeqNum=6)
    return GTP_U_Header(teid=7, E=1, next_ex=0x85) / session / IP(src="10.0.0.2", dst="10.0.0.1")


def echo():
    return GTP_U_Header(S=1, seq=5, teid=0, gtp_type=2) / GTPEchoResponse(
        IE_list=[IE_Recovery(restart_counter=0)])


def error_indication():
    return GTP_U_Header(S=1, seq=0, teid=0, gtp_type=26) / GTPErrorIndication(
        IE_list=[IE_TEIDI(TEIDI=7), IE_GSNAddress(length=4, ipv4_address="192.0.2.3")])


def again(packet):
    """Fields only: what was cached of the bytes is forgotten, at every depth."""
    layer = packet
    while layer and not isinstance(layer, NoPayload):
        assert not isinstance(layer, Raw), "scapy did not read it all"
        assert not getattr(layer, "extra_data", b""), layer
        layer.raw_packet_cache = None
        for ie in getattr(layer, "IE_list", []):
            again(ie)
        layer = layer.payload
    return packet


def by_pycrate(parse, data):
    message, error = parse(data)
    assert error == 0, "pycrate refuses it"
    other = type(message)()
    other.set_val(message.get_val())
    return other.to_bytes()


def mandatory(number):
    group = PFCPIELUT.get(number)
    if not (isinstance(group, type) and issubclass(group, PFCPIEs)):
        return "unknown"
    wanted = group.MAND if isinstance(group.MAND, (tuple, set)) else (group.MAND,)
    return " ".join(str(int(one)) for one in sorted(wanted))


def answer(verb, argument):
    if verb == "mandatory":
        return mandatory(int(argument))
    if verb in ("build", "gtp-build"):
        return bytes(globals()[argument]()).hex()
    data = bytes.fromhex(argument)
    if verb == "scapy":
        return bytes(again(PFCP(data))).hex()
    if verb == "pycrate":
        return by_pycrate(parse_PFCP, data).hex()
    if verb == "gtp-pycrate":
        return by_pycrate(parse_GTPU, data).hex()
    message = GTP_U_Header(data)
    session = message[GTPPDUSessionContainer]
    return f"{message.teid} {session.type} {session.QFI} {len(bytes(session.payload))}"


for line in sys.stdin:
    print(answer(*line.split()), flush=True)
