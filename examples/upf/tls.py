#!/usr/bin/env python3
"""HTTP over TLS: a server of a folder's files, whose certificate nobody has signed.

    tls.py FOLDER

Prints "ready" once it listens, on port 8443 of all addresses, IPv4 and IPv6.
"""
import http.server
import functools
import os
import socket
import ssl
import sys
import tempfile

from cryptography.hazmat.primitives import serialization

from quic import certificate

PORT = 8443


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def context():
    public, private = certificate()
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    texts = [public.public_bytes(pem),
             private.private_bytes(pem, form, serialization.NoEncryption())]
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"".join(texts))
    made.load_cert_chain(file.name)
    os.unlink(file.name)
    return made


def main():
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
    server = Server(("::", PORT), handler)
    server.socket = context().wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


main()
