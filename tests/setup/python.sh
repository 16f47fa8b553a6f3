#!/usr/bin/env bash
# Makes the Python environment of tests that compare with packages from PyPI, in target/python. Says
# what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
place=target/python
"$place/bin/python" -c 'import reedsolo, galois' 2> /dev/null && exit 0
mkdir -p target
python3 -m venv "$place" || { echo "not installed: python3-venv"; exit 1; }
"$place/bin/pip" install --quiet --disable-pip-version-check reedsolo==1.7.0 galois==0.4.11
