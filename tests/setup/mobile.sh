#!/usr/bin/env bash
# Makes the Python environment of tests that compare PFCP and GTP-U with scapy and pycrate, and send QUIC
# by aioquic, in target/oracles/mobile. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
place=target/oracles/mobile
"$place/bin/python" -c 'import scapy.contrib.pfcp, pycrate_mobile.TS29244_PFCP, aioquic.asyncio' 2> /dev/null && exit 0
mkdir -p target/oracles
python3 -m venv "$place" || { echo "not installed: python3-venv"; exit 1; }
"$place/bin/pip" install --quiet --disable-pip-version-check scapy==2.8.0 pycrate==0.8.1 aioquic==1.2.0
