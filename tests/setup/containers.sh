#!/usr/bin/env bash
# Sets up what the tests with containers need: podman, docker with its compose tool, docker's daemon,
# and the image of workers in both, which takes a release build. Says what is missing; safe to run
# again.
#
# A daemon that this script starts goes on running; the last lines say how to stop it.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
export DEBIAN_FRONTEND=noninteractive
log=target/dockerd.log
status=0

missing=()
command -v podman > /dev/null || missing+=(podman)
command -v runc > /dev/null || missing+=(runc)
command -v docker > /dev/null && command -v dockerd > /dev/null || missing+=(docker.io)
docker compose version > /dev/null 2>&1 || command -v docker-compose > /dev/null ||
    missing+=(docker-compose)
if [ ${#missing[@]} != 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        apt-get update -qq > /dev/null
        apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null || status=1
    else
        echo "not installed: ${missing[*]} (as root on Debian this script installs them)"
        status=1
    fi
fi

if command -v dockerd > /dev/null && ! docker info > /dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    mkdir -p target
    # Workers have no network, so the daemon needs no rules for one.
    setsid nohup dockerd --iptables=false > "$log" 2>&1 < /dev/null &
    daemon=$!
    deadline=$((SECONDS + 60))
    until docker info > /dev/null 2>&1; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 $daemon 2> /dev/null; then
            echo "dockerd does not answer; see $log"
            status=1
            break
        fi
        sleep 0.1
    done
    [ $status != 0 ] || echo "dockerd runs as process $daemon, with its log in $log"
fi

if podman info > /dev/null 2>&1 || docker info > /dev/null 2>&1; then
    ${CARGO:-cargo} xtask image || status=1
fi
exit $status
