#!/usr/bin/env bash
# Makes the packages that tests install: target/packages. They share the static binary with the image of
# workers (tests/setup/containers.sh), so nothing is built twice. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
command -v dpkg-deb > /dev/null || { echo "not installed: dpkg"; exit 1; }
${CARGO:-cargo} xtask package all
