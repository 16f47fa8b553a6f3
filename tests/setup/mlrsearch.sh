#!/usr/bin/env bash
# A Python with the package MLRsearch, which tests compare with. Its version is the one that the
# expected differences (none) were established with.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=target/oracles/mlrsearch
"$place/bin/python" -c 'import MLRsearch' 2> /dev/null && exit
# Debian has pip for new environments in a package of its own.
if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
        echo "not installed: python3-venv (as root on Debian this script installs it)"
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq > /dev/null
    apt-get install -y -qq --no-install-recommends python3-venv > /dev/null
fi
python3 -m venv "$place"
"$place/bin/pip" install --quiet --disable-pip-version-check MLRsearch==1.2.1
