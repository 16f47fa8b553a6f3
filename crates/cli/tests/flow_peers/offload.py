# SPDX-License-Identifier: Apache-2.0
# A terminal behind a base station, a core with a host that answers pings, and a server at the
# edge, on raw sockets of three interfaces: what the offload between them must do.
#
#   offload.py RADIO CORE EDGE
import socket
import struct
import sys

ETHERNET = bytes.fromhex("020000000002 020000000001 0800")
TERMINAL, SERVICE, RESPONDER = "10.45.0.7", "203.0.113.9", "198.51.100.1"
STATION, UPF = "10.9.0.1", "10.9.0.2"
UP_TEID, DOWN_TEID = 11, 22


def opened(interface):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    sock.bind((interface, 0))
    sock.settimeout(20)
    return sock


radio, core, edge = (opened(name) for name in sys.argv[1:])


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(protocol, src, dst, rest):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(rest), 0, 0x4000, 64, protocol, 0)
    head += socket.inet_aton(src) + socket.inet_aton(dst)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + rest


def udp(src, dst, ports, rest):
    return ip(17, src, dst, struct.pack("!HHHH", *ports, 8 + len(rest), 0) + rest)


def tunnel(src, dst, teid, packet):
    gtpu = struct.pack("!BBHI", 0x30, 255, len(packet), teid)
    return udp(src, dst, (2152, 2152), gtpu + packet)


def send(sock, packet):
    sock.send(ETHERNET + packet)


def receive(sock):
    while True:
        frame = sock.recv(2048)
        length = struct.unpack("!H", frame[16:18])[0]
        if frame[12:14] == b"\x08\x00" and frame[:12] == ETHERNET[:12]:
            assert checksum(frame[14:34]) == 0, frame.hex()
            return frame[14 : 14 + length]


def need(found, expected, what):
    if found != expected:
        sys.exit(f"{what}:\nfound    {found.hex()}\nexpected {expected.hex()}")


question = udp(TERMINAL, SERVICE, (4000, 5000), b"question")
answer = udp(SERVICE, TERMINAL, (5000, 4000), b"answer")
up = tunnel(STATION, UPF, UP_TEID, question)

# The first packet goes to the core, and a probe in the terminal's name too, in either order.
send(radio, up)
both = [receive(core), receive(core)]
need(next(packet for packet in both if packet == up), up, "the first packet")
probe = next(packet for packet in both if packet != up)
assert probe[28:36] == struct.pack("!BBHI", 0x30, 255, 28, UP_TEID), probe.hex()
ping = probe[36:]
assert ping[9] == 1 and ping[20] == 8 and checksum(ping[20:]) == 0, ping.hex()
assert ping[12:20] == socket.inet_aton(TERMINAL) + socket.inet_aton(RESPONDER), ping.hex()

# The host behind the core answers; the answer ends here, and the next packet shows that it does.
reply = b"\0\0\0\0" + ping[24:]
reply = reply[:2] + struct.pack("!H", checksum(reply)) + reply[4:]
send(core, tunnel(UPF, STATION, DOWN_TEID, ip(1, RESPONDER, TERMINAL, reply)))
other = tunnel(UPF, STATION, 99, udp(SERVICE, "10.45.0.8", (1, 2), b"of another terminal"))
send(core, other)
need(receive(radio), other, "what follows the answer")

# From now on the edge is where its packets go, and come from. An answer may be on its way still.
send(radio, up)
need(receive(edge), question, "what the edge gets")
send(edge, answer)
need(receive(radio), tunnel(UPF, STATION, DOWN_TEID, answer), "what the terminal gets")
# Of other addresses the core gets it, and what is of no terminal that is known ends.
elsewhere = tunnel(STATION, UPF, UP_TEID, udp(TERMINAL, "9.9.9.9", (4000, 53), b"elsewhere"))
send(radio, elsewhere)
need(receive(core), elsewhere, "what is not for the edge")
send(edge, udp(SERVICE, "10.45.0.77", (5000, 4000), b"nobody's"))
send(core, other)
need(receive(radio), other, "what follows an answer for nobody")
print("all as it should be")
