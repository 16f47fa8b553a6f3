# SPDX-License-Identifier: Apache-2.0
"""The messages of tests/packets/tunnels.rs made by scapy: a function of the same name each."""

from scapy.contrib.gtp import *

PACKET = bytes([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])


def g_pdu(**fields):
    return GTP_U_Header(gtp_type=255, teid=0x01020304, **fields)


def signal(kind, seq, **fields):
    return GTP_U_Header(gtp_type=kind, teid=0, S=1, seq=seq, **fields)


def uplink():
    container = GTPPDUSessionContainer(
        type=1, QFI=9, dlDelayInd=1, ulDelayInd=1, N3N9DelayInd=1, dlDelayRslt=4, ulDelayRslt=5,
        N3N9DelayRslt=6)
    return g_pdu(E=1, next_ex=0x85) / container / PACKET


def downlink():
    container = GTPPDUSessionContainer(
        type=0, QFI=63, RQI=0, PPP=1, PPI=7, QMP=1, dlSendTime=0xE8000001 << 32, SNP=1, dlQFISeqNum=0x010203)
    return g_pdu(E=1, next_ex=0x85) / container / PACKET


def bare():
    return g_pdu() / PACKET


def echo():
    return signal(1, 5) / GTPEchoRequest()


def echo_response():
    return signal(2, 5) / GTPEchoResponse(IE_list=[IE_Recovery(restart_counter=0)])


def error_indication():
    return signal(26, 0) / GTPErrorIndication(
        IE_list=[IE_TEIDI(TEIDI=7), IE_GSNAddress(length=4, ipv4_address="192.0.2.3")])


def error_indication_of_port():
    indication = GTPErrorIndication(
        IE_list=[IE_TEIDI(TEIDI=0x01020304), IE_GSNAddress(length=16, ipv6_address="2001:db8::3")])
    return signal(26, 0, E=1, next_ex=0x40) / GTP_UDPPort_ExtensionHeader(udp_port=0xC001) / indication


def end_marker():
    return GTP_U_Header(gtp_type=254, teid=0x01020304)


def extension_headers():
    return signal(31, 9) / GTPSupportedExtensionHeadersNotification(
        IE_list=[IE_ExtensionHeaderList(extension_headers=[0x85, 0x40])])
