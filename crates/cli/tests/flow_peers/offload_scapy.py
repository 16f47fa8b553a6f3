# SPDX-License-Identifier: Apache-2.0
# Terminals, base stations and a core of scapy's, and a server at the edge of the kernel's: what the
# offload between them must do while tunnels come, move and get other owners.
#
#   offload_scapy.py RADIO CORE EDGE_ADDRESS
#
# A ledger says whose each tunnel is. Whatever comes to the base stations is held against it: a packet of
# a tunnel that nobody has, or for another terminal than the tunnel's, ends this with a message.
import logging
import random
import socket
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

STATIONS, UPF = ("10.9.0.1", "10.9.0.3"), "10.9.0.2"
RESPONDER, PORT, SERVICE_PORT = "198.51.100.1", 4000, 5000
G_PDU, END_MARKER = 255, 254
ROUNDS = 200


class Terminal:
    def __init__(self, address, up, qfi):
        self.address, self.up, self.qfi, self.station = address, up, qfi, STATIONS[0]


def opened(interface):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    sock.bind((interface, 0))
    sock.settimeout(20)
    return sock


radio, core = (opened(name) for name in sys.argv[1:3])
edge_address = sys.argv[3]
edge = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
edge.bind((edge_address, SERVICE_PORT))
edge.settimeout(20)

# Who has a tunnel down, by base station and TEID.
ledger = {}


def need(holds, what):
    if not holds:
        sys.exit(what)


def is_whole(packet):
    """Whether scapy finds the checksums that are there."""
    again = packet.copy()
    for layer in (IP, UDP, ICMP):
        if layer in again:
            del again[layer].chksum
    return bytes(again) == bytes(packet)


def tunnelled(src, dst, teid, kind, qfi, inner):
    container = GTPPDUSessionContainer(type=kind, QFI=qfi)
    header = GTP_U_Header(teid=teid, E=1, next_ex=0x85, gtp_type=G_PDU)
    outer = IP(src=src, dst=dst) / UDP(sport=2152, dport=2152)
    return outer / header / container / inner


def up(terminal, inner):
    """The terminal's packet, from its base station; gives it as bytes."""
    packet = tunnelled(terminal.station, UPF, terminal.up, 1, terminal.qfi, inner)
    frame = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)
    radio.send(frame)
    return frame


def down(packet):
    frame = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") / packet
    core.send(bytes(frame))


def question(terminal, text):
    head = IP(src=terminal.address, dst=edge_address) / UDP(sport=PORT, dport=SERVICE_PORT)
    return head / Raw(text)


def at_radio():
    """The next packet that comes to a base station: its terminal and what was in the tunnel."""
    packet = Ether(radio.recv(4096))
    need(packet[UDP].dport == 2152 and GTP_U_Header in packet, f"no tunnel: {packet!r}")
    header, station = packet[GTP_U_Header], packet[IP].dst
    terminal = ledger.get((station, header.teid))
    need(terminal is not None, f"nobody's tunnel: {packet!r}")
    if header.gtp_type == END_MARKER:
        return terminal, None
    inner = packet.getlayer(IP, 2)
    need(inner.dst == terminal.address, f"for another terminal: {packet!r}")
    container = packet[GTPPDUSessionContainer]
    need((container.type, container.QFI) == (0, terminal.qfi), f"the wrong flow: {packet!r}")
    need(is_whole(inner), f"a wrong checksum: {packet!r}")
    return terminal, inner


def answered(terminal, kind):
    found, inner = at_radio()
    need(found is terminal, f"{inner!r} for {terminal.address}")
    need(inner.src == edge_address and kind in inner, f"no answer: {inner!r}")
    return inner[kind]


def has_question(terminal, text):
    data, source = edge.recvfrom(2048)
    need((data, source) == (text, (terminal.address, PORT)), f"the edge got {data} of {source}")


def asks(terminal, text):
    """A question that the edge gets, and its answer."""
    up(terminal, question(terminal, text))
    has_question(terminal, text)
    edge.sendto(b"answer to " + text, (terminal.address, PORT))
    need(answered(terminal, UDP).load == b"answer to " + text, "another answer")


def from_core(terminal, teid):
    """A packet by the core, as if from the Internet; all that the core sent before it has arrived."""
    ledger[terminal.station, teid] = terminal
    inner = IP(src="9.9.9.9", dst=terminal.address) / UDP(sport=1, dport=2) / Raw(b"from far")
    down(tunnelled(UPF, terminal.station, teid, 0, terminal.qfi, inner))
    found, got = at_radio()
    need(found is terminal and got.src == "9.9.9.9", f"not the core's: {got!r}")


def is_dropped(terminal):
    """What the edge sends to it now ends: behind it comes what the edge sends to another."""
    edge.sendto(b"too early, or too late", (terminal.address, PORT))
    edge.sendto(b"fence", (fence.address, PORT))
    need(answered(fence, UDP).load == b"fence", "no fence")


def is_probed(terminal, teid):
    """Its packet goes to the core with a probe, in either order; the core's host answers that."""
    sent = up(terminal, question(terminal, b"first"))
    both = [core.recv(4096), core.recv(4096)]
    need(sent in both, "the first packet is not the core's")
    both.remove(sent)
    probe = Ether(both[0])
    container, inner = probe[GTPPDUSessionContainer], probe.getlayer(IP, 2)
    need((container.type, container.QFI) == (1, terminal.qfi), f"the wrong flow: {probe!r}")
    need(probe[GTP_U_Header].teid == terminal.up, f"the wrong tunnel: {probe!r}")
    need((inner.src, inner.dst) == (terminal.address, RESPONDER), f"no probe: {probe!r}")
    need(inner[ICMP].type == 8 and is_whole(inner), f"no ping: {probe!r}")
    echo = ICMP(type=0, id=inner[ICMP].id, seq=inner[ICMP].seq)
    reply = IP(src=RESPONDER, dst=terminal.address) / echo
    ledger[terminal.station, teid] = terminal
    answer = tunnelled(UPF, terminal.station, teid, 0, terminal.qfi, reply)
    down(answer)
    # The terminal never sees the answer: what comes next is the fence's.
    from_core(fence, 0x99)


first, second = Terminal("10.45.0.7", 0x11, 9), Terminal("10.45.0.8", 0x12, 5)
third, fourth = Terminal("10.45.0.9", 0x13, 1), Terminal("10.45.0.10", 0x14, 2)
fence = Terminal("10.45.0.99", 0x19, 7)

# One terminal is learnt by a probe, another one from what comes down.
is_probed(first, 0x21)
asks(first, b"hello")
from_core(second, 0x22)
asks(second, b"hello too")

# The kernel at the edge answers pings.
ping = IP(src=first.address, dst=edge_address) / ICMP(id=3, seq=4) / Raw(b"ping")
up(first, ping)
pong = answered(first, ICMP)
need((pong.type, pong.id, pong.seq, pong.load) == (0, 3, 4, b"ping"), f"no pong: {pong!r}")

# Both at once, in any order.
chance = random.Random(13)
for number in range(ROUNDS):
    asks(chance.choice((first, second)), b"question %d" % number)

# The first one moves: another base station, other tunnels. Until the new one is known its packets go
# to the core, and nothing enters the old one.
del ledger[STATIONS[0], 0x21]
first.station, first.up = STATIONS[1], 0x31
sent = up(first, question(first, b"moved"))
need(core.recv(4096) == sent, "what shows the move is not the core's")
is_dropped(first)
is_probed(first, 0x41)
asks(first, b"from here")

# Its old tunnel becomes another terminal's, and so does one whose terminal has left without a word.
from_core(third, 0x21)
asks(third, b"whose was this")
asks(first, b"still here")
ledger.pop((STATIONS[0], 0x22))
from_core(fourth, 0x22)
is_dropped(second)
asks(fourth, b"mine now")

# An end marker, and a TEID that changes on the same base station.
marker = IP(src=UPF, dst=first.station) / UDP(sport=2152, dport=2152)
down(marker / GTP_U_Header(teid=0x41, gtp_type=END_MARKER))
need(at_radio() == (first, None), "no end marker")
del ledger[first.station, 0x41]
is_dropped(first)
from_core(first, 0x42)
asks(first, b"by another tunnel")

# All of them, once more.
for number in range(ROUNDS):
    asks(chance.choice((first, third, fourth)), b"question %d" % number)
print("all as it should be")
