# SPDX-License-Identifier: Apache-2.0
"""Answers of scapy and pycrate about PFCP and GTP-U: one line for each question on standard input.

scapy-build NAME, pycrate-build NAME
                a message of tests/packets made by one of them, as hex
scapy HEX       the PFCP message that scapy reads and builds again from the fields it found, as hex; behind it
                the numbers of IEs that it only keeps as octets, or "-"
pycrate HEX     the same by pycrate
mandatory TYPE  which IEs pycrate wants in the grouped IE of this number, or "unknown"
gtp-scapy-build NAME, gtp-pycrate-build NAME, gtp-scapy HEX, gtp-pycrate HEX
                the same of GTP-U, whose extension headers and elements are all read
"""

import logging
import sys

# Nothing is written beside the sources.
sys.dont_write_bytecode = True
logging.getLogger("scapy").setLevel(logging.ERROR)

from pycrate_core.base import Buf
from pycrate_mobile.TS29244_PFCP import PFCPIELUT, PFCPIEs, parse_PFCP
from pycrate_mobile.TS29281_GTPU import parse_GTPU
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.pfcp import PFCP, IE_EnterpriseSpecific, IE_NotImplemented
from scapy.fields import FieldLenField
from scapy.packet import NoPayload, Raw

import pycrate_gtp
import pycrate_pfcp
import scapy_gtp
import scapy_pfcp


def again(packet, kept):
    """Fields only: what was cached of the bytes is forgotten, at every depth, and lengths of fields are."""
    layer = packet
    while layer and not isinstance(layer, NoPayload):
        assert not isinstance(layer, Raw), "scapy did not read it all"
        assert not getattr(layer, "extra_data", b""), layer
        if isinstance(layer, (IE_NotImplemented, IE_EnterpriseSpecific)):
            kept.append(layer.ietype)
        layer.raw_packet_cache = None
        for field in layer.fields_desc:
            if isinstance(field, FieldLenField):
                layer.setfieldval(field.name, None)
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
    """IEs that are not of their class, or of which something is left over."""
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


BUILDERS = {
    "scapy-build": scapy_pfcp, "pycrate-build": pycrate_pfcp, "gtp-scapy-build": scapy_gtp,
    "gtp-pycrate-build": pycrate_gtp,
}


def answer(verb, argument):
    if verb == "mandatory":
        return mandatory(int(argument))
    if verb in BUILDERS:
        return bytes(getattr(BUILDERS[verb], argument)()).hex()
    data = bytes.fromhex(argument)
    if verb in ("scapy", "gtp-scapy"):
        kept = []
        return read(bytes(again((PFCP if verb == "scapy" else GTP_U_Header)(data), kept)), kept)
    if verb == "gtp-pycrate":
        return read(by_pycrate(parse_GTPU, data)[1], [])
    message, found = by_pycrate(parse_PFCP, data)
    return read(found, kept_by_pycrate(message[1], []) if len(message._content) > 1 else [])


for line in sys.stdin:
    try:
        print(answer(*line.split()), flush=True)
    except Exception as error:
        print(f"error: {error!r}", flush=True)
