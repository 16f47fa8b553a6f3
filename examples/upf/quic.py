#!/usr/bin/env python3
"""QUIC by aioquic: a server, and a client that names in its hello whom it is for.

    quic.py serve ADDRESS...          answers a stream with as many bytes as it asks for
    quic.py get ADDRESS NAME BYTES    asks for so many, and prints how many came

The server prints "ready" once it listens, on port 4433 of each address.
"""
import asyncio
import datetime
import ssl
import sys

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PORT = 4433
PROTOCOLS = ["catena-example"]


def certificate():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    begin = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(),
                                      begin, begin + datetime.timedelta(days=36500))
    return builder.sign(key, hashes.SHA256()), key


async def answer(reader, writer):
    writer.write(bytes(int(await reader.read())))
    writer.write_eof()


async def run_server(addresses):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=PROTOCOLS)
    configuration.certificate, configuration.private_key = certificate()
    tasks = set()

    def begin(reader, writer):
        task = asyncio.ensure_future(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for address in addresses:
        await serve(address, PORT, configuration=configuration, stream_handler=begin)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def get(address, name, count):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=PROTOCOLS, server_name=name,
                                      verify_mode=ssl.CERT_NONE)
    async with connect(address, PORT, configuration=configuration) as client:
        reader, writer = await client.create_stream()
        writer.write(count.encode())
        writer.write_eof()
        print(len(await reader.read()))


async def main():
    verb, *arguments = sys.argv[1:]
    if verb == "serve":
        await run_server(arguments)
    else:
        await asyncio.wait_for(get(*arguments), 60)


if __name__ == "__main__":
    asyncio.run(main())
