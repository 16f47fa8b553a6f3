#!/usr/bin/env python3
"""A gNB and a UE: a TUN interface whose packets go through a GTP-U tunnel, by scapy.

    gnb.py INTERFACE OWN_ADDRESS UPF_ADDRESS TEID_OF_THE_UPF QFI LOG

Prints "ready" once the interface is there. Writes a line to LOG for each End Marker that comes, with its
TEID. What comes by another tunnel than 0x201 or 0x202, or without a PDU session container where it has a
QFI, ends it with a message.
"""
import fcntl
import os
import select
import socket
import struct
import sys

from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
G_PDU, END_MARKER = 255, 254
OWN_TEIDS = (0x201, 0x202)


def open_tun(name):
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH14x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def main():
    name, own, upf, teid, qfi, log_name = sys.argv[1:]
    tun = open_tun(name)
    tunnel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tunnel.bind((own, 2152))
    log = open(log_name, "w", buffering=1)
    print("ready", flush=True)
    container = GTPPDUSessionContainer(type=1, QFI=int(qfi))
    while True:
        readable, _, _ = select.select([tun, tunnel], [], [])
        if tun in readable:
            packet = os.read(tun, 65535)
            header = GTP_U_Header(teid=int(teid, 0), E=1, next_ex=0x85, gtp_type=G_PDU)
            tunnel.sendto(bytes(header / container / packet), (upf, 2152))
        if tunnel in readable:
            message = tunnel.recv(65535)
            # scapy would go on to dissect the user's packet: only what is in front of it counts.
            head = GTP_U_Header(message[:12] if message[0] & 7 else message[:8])
            # What the kernel sends before there is a session gets an Error Indication.
            if head.gtp_type not in (G_PDU, END_MARKER):
                continue
            if head.teid not in OWN_TEIDS:
                sys.exit(f"a packet of the tunnel {head.teid:#x}")
            if head.gtp_type == END_MARKER:
                log.write(f"end marker {head.teid:#x}\n")
                continue
            at = 8
            if head.E or head.S or head.PN:
                at, next_extension = 12, message[11]
                while next_extension:
                    if next_extension != 0x85:
                        sys.exit(f"an extension header {next_extension:#x}")
                    length = 4 * message[at]
                    next_extension = message[at + length - 1]
                    at += length
            os.write(tun, message[at:])


main()
