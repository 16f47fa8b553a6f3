#!/usr/bin/env bash
# Sets up what the tests with network namespaces need. Says what is missing; safe to run again.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive
declare -A package=([ip]=iproute2 [ss]=iproute2 [ethtool]=ethtool [ping]=iputils-ping [curl]=curl
                    [iperf3]=iperf3 [tcpdump]=tcpdump [nginx]=nginx-light [python3]=python3-minimal)
missing=()
for tool in "${!package[@]}"; do
    command -v "$tool" > /dev/null || missing+=("${package[$tool]}")
done
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "not installed: ${missing[*]} (as root on Debian this script installs them)"
    exit 1
fi
apt-get update -qq > /dev/null && apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
