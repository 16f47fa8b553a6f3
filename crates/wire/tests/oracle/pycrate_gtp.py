# SPDX-License-Identifier: Apache-2.0
"""The messages of tests/packets/tunnels.rs made by pycrate: a function of the same name each."""

from ipaddress import ip_address

from pycrate_mobile.TS29281_GTPU import *

PACKET = bytes([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])


def message(kind, header, **elements):
    made = kind()
    made[0].set_val(header)
    for name, fields in elements.items():
        made[name].set_val(fields)
    return made.to_bytes()


def signal(kind, seq, more={}, **elements):
    options = dict(SeqNum=seq, **more.pop("options", {}))
    return message(kind, dict(S=1, GTPUHdrOpt=options, **more), **elements)


def extended(number, **extension):
    """The first extension header; its number stands in front of it."""
    return dict(E=1, options=dict(NextExt=number), GTPUHdrExtList=[extension])


def g_pdu(**information):
    more = extended(133, PDUSessionContainer=information)
    return message(GPDU, dict(TEID=0x01020304, GTPUHdrOpt=more.pop("options"), **more), TPDU=PACKET)


def uplink():
    return g_pdu(Type=1, Info=dict(
        DLDelayInd=1, ULDelayInd=1, N3N9DelayInd=1, QFI=9, DLDelayRes=4, ULDelayRes=5, N3N9DelayRes=6))


def downlink():
    return g_pdu(Type=0, Info=dict(
        QMP=1, SNP=1, PPP=1, RQI=0, QFI=63, PPI=7, DLSndTS=0xE8000001 << 32, DLQFISeqNum=0x010203))


def bare():
    return message(GPDU, dict(TEID=0x01020304), TPDU=PACKET)


def echo():
    return signal(GTPUEchoReq, 5)


def echo_response():
    return signal(GTPUEchoResp, 5, GTPUIERecovery=dict(RestartCounter=0))


def unknown(teid, address):
    return dict(GTPUIETEID=dict(TEID=teid), GTPUIEPeerAddr=dict(IP=ip_address(address).packed))


def error_indication():
    return signal(GTPUErrorInd, 0, **unknown(7, "192.0.2.3"))


def error_indication_of_port():
    return signal(
        GTPUErrorInd, 0, extended(64, UDPPort=dict(Value=0xC001)), **unknown(0x01020304, "2001:db8::3"))


def end_marker():
    return message(GTPUEndMarker, dict(TEID=0x01020304))


def extension_headers():
    return signal(GTPUSuppExtHdrNotif, 9, GTPUIEExtHdrList=dict(SupportedExtHdr=[0x85, 0x40]))
