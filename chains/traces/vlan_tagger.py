#!/usr/bin/env python3
"""Gives TAP devices to tagged networks on an Ethernet device.

Usage: vlan_tagger.py DEVICE TAP=TPID:TCI[,TPID:TCI] ...

A frame that the kernel sends to TAP leaves DEVICE with the tags inserted, the outer one first. A
frame that arrives on DEVICE with exactly these tags is handed to TAP without them. TCI is the
16-bit field: priority, drop eligibility, VLAN id. The TAP devices are created here and vanish at
the end; a line "ready" says that they exist.

This stands in for VLAN subinterfaces, which need a kernel built with 802.1Q support; the tags on
the wire are the same.
"""

import fcntl
import os
import select
import socket
import struct
import sys

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_OUTGOING = 4
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x0002 | 0x1000
# struct tpacket_auxdata of linux/if_packet.h: status, len, snaplen, mac, net, tci, tpid.
AUXDATA = struct.Struct("=IIIHHHH")
VLAN_VALID = 0x10
TPIDS = (0x8100, 0x88A8)


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
    return tap


def parse_network(argument):
    name, _, tags = argument.partition("=")
    pairs = (tag.split(":") for tag in tags.split(","))
    return name, b"".join(struct.pack("!HH", int(tpid, 0), int(tci, 0)) for tpid, tci in pairs)


def receive(wire):
    """One frame from the wire with its tags in place, or None for one that this host sent."""
    frame, ancillary, _, address = wire.recvmsg(65536, 256)
    if address[2] == PACKET_OUTGOING:
        return None
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tci, tpid = AUXDATA.unpack_from(data)
            if status & VLAN_VALID:
                # The kernel has taken the outer tag off.
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def split_tags(frame):
    """The tags of a frame, and the frame without them."""
    end = 12
    while len(frame) >= end + 4 and struct.unpack_from("!H", frame, end)[0] in TPIDS:
        end += 4
    return frame[12:end], frame[:12] + frame[end:]


def main():
    device, networks = sys.argv[1], [parse_network(argument) for argument in sys.argv[2:]]
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    wire.bind((device, 0))
    tags_by_tap = {open_tap(name): tags for name, tags in networks}
    tap_by_tags = {tags: tap for tap, tags in tags_by_tap.items()}
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([wire, *tags_by_tap], [], [])
        for source in readable:
            if source is wire:
                frame = receive(wire)
                if frame is None:
                    continue
                tags, untagged = split_tags(frame)
                if tags in tap_by_tags:
                    try:
                        os.write(tap_by_tags[tags], untagged)
                    except OSError:
                        pass  # The TAP device is not up yet.
            else:
                frame = os.read(source, 65536)
                wire.send(frame[:12] + tags_by_tap[source] + frame[12:])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
