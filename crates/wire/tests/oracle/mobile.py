# SPDX-License-Identifier: Apache-2.0
"""Answers of scapy and pycrate about PFCP and GTP-U: one line for each question on standard input.

scapy-build NAME, pycrate-build NAME
                a message of tests/packets made by one of them, as hex
scapy HEX       the PFCP message that scapy reads and builds again from the fields it found, as hex; behind it
                the numbers of IEs that it only keeps as octets, or "-"
pycrate HEX     the same by pycrate
mandatory TYPE  which IEs pycrate wants in the grouped IE of this number, or "unknown"
gtp-build NAME  a GTP-U message made by scapy
gtp-scapy HEX   what scapy reads of a G-PDU: tunnel, QFI and length of the packet in it
gtp-pycrate HEX the GTP-U message that pycrate reads and builds again
"""

import logging
import sys

# Nothing is written beside the sources.
sys.dont_write_bytecode = True
logging.getLogger("scapy").setLevel(logging.ERROR)

from pycrate_core.base import Buf
from pycrate_mobile.TS29244_PFCP import PFCPIELUT, PFCPIEs, parse_PFCP
from pycrate_mobile.TS29281_GTPU import parse_GTPU
from scapy.contrib.gtp import *
from scapy.contrib.pfcp import PFCP, IE_EnterpriseSpecific, IE_NotImplemented
from scapy.packet import NoPayload, Raw

import pycrate_pfcp
import scapy_pfcp


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


def again(packet, kept):
    """Fields only: what was cached of the bytes is forgotten, at every depth."""
    layer = packet
    while layer and not isinstance(layer, NoPayload):
        assert not isinstance(layer, Raw), "scapy did not read it all"
        assert not getattr(layer, "extra_data", b""), layer
        if isinstance(layer, (IE_NotImplemented, IE_EnterpriseSpecific)):
            kept.append(layer.ietype)
        layer.raw_packet_cache = None
        for ie in getattr(layer, "IE_list", []):
            again(ie, kept)
        layer = layer.payload
    return packet


def by_pycrate(parse, data):
    message, error = parse(data)
    assert error == 0, "pycrate refuses it"
    other = type(message)()
    other.set_val(message.get_val())
    return message, other.to_bytes()


def kept_by_pycrate(group, kept):
    for ie in group:
        number, data = ie[0].get_val(), ie[3]
        if isinstance(data, PFCPIEs):
            kept_by_pycrate(data, kept)
        elif type(data) is Buf or getattr(data, "_by_name", None) and data[-1].get_val() and data[-1]._name == "ext":
            kept.append(number)
    return kept


def read(found, kept):
    return f"{found.hex()} {' '.join(str(number) for number in kept) or '-'}"


def mandatory(number):
    group = PFCPIELUT.get(number)
    if not (isinstance(group, type) and issubclass(group, PFCPIEs)):
        return "unknown"
    wanted = group.MAND if isinstance(group.MAND, (tuple, set)) else (group.MAND,)
    return " ".join(str(int(one)) for one in sorted(wanted))


def answer(verb, argument):
    if verb == "mandatory":
        return mandatory(int(argument))
    if verb == "scapy-build":
        return bytes(getattr(scapy_pfcp, argument)()).hex()
    if verb == "pycrate-build":
        return getattr(pycrate_pfcp, argument)().hex()
    if verb == "gtp-build":
        return bytes(globals()[argument]()).hex()
    data = bytes.fromhex(argument)
    if verb == "scapy":
        kept = []
        return read(bytes(again(PFCP(data), kept)), kept)
    if verb == "pycrate":
        message, found = by_pycrate(parse_PFCP, data)
        return read(found, kept_by_pycrate(message[1], []) if len(message._content) > 1 else [])
    if verb == "gtp-pycrate":
        return by_pycrate(parse_GTPU, data)[1].hex()
    message = GTP_U_Header(data)
    session = message[GTPPDUSessionContainer]
    return f"{message.teid} {session.type} {session.QFI} {len(bytes(session.payload))}"


for line in sys.stdin:
    try:
        print(answer(*line.split()), flush=True)
    except Exception as error:
        print(f"error: {error!r}", flush=True)
