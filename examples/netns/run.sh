#!/usr/bin/env bash
# Two hosts with a firewall of Catena between them, each in a network namespace of its own:
#
#   left host                     middle                      right host
#   eth0 10.77.0.1 ──── left [ chains/netns.yaml ] right ──── eth0 10.77.0.2
#
# ping, curl and iperf3 run from left to right, and something that the firewall forbids. Then the tables
# are printed and everything is removed. Needs root, iproute2, ethtool, ping, curl, python3 and iperf3.
#
#   examples/netns/run.sh [FOLDER]      FOLDER: keep all results there
#
# CATENA names the binary (default: that of this repository's last build).

set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:-}
work=$(mktemp -d)
[ -n "$results" ] || results=$work/results
mkdir -p "$results"
left=catena-left-$$ middle=catena-middle-$$ right=catena-right-$$
children=()
export CATENA_RUNTIME_DIR=$work/run

clean_up() {
    local child
    # The newest first, so that servers outlive those who use them.
    for ((child = ${#children[@]} - 1; child >= 0; child--)); do
        kill "${children[$child]}" 2> /dev/null || true
        wait "${children[$child]}" 2> /dev/null || true
    done
    for namespace in "$left" "$middle" "$right"; do
        ip netns delete "$namespace" 2> /dev/null || true
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() { echo "$0: $*" >&2; exit 1; }
say() { printf '\n== %s\n' "$*"; }

# Waits until a command succeeds, at most 20 s.
await() {
    local what=$1 deadline=$((SECONDS + 20))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "$what did not happen within 20 s"
        kill -0 "${children[@]}" 2> /dev/null || fail "$what did not happen: a process has ended"
        sleep 0.05
    done
}
listens() { ip netns exec "$right" ss -Hltn "sport = :$1" | grep -q .; }

[ "$(id -u)" = 0 ] || fail "needs root, to make network namespaces"
for tool in ip ethtool ping curl iperf3 python3 ss; do
    command -v $tool > /dev/null || fail "needs $tool"
done
catena=${CATENA:-}
for build in release debug; do
    [ -n "$catena" ] || [ ! -x "$root/target/$build/catena" ] || catena=$root/target/$build/catena
done
[ -n "$catena" ] || fail "no binary; run cargo build --release, or set CATENA"

for namespace in "$left" "$middle" "$right"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set dev lo up
    # Neighbour discovery of IPv6 would only add to the counters.
    ip netns exec "$namespace" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
        echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6' 2> /dev/null || true
done
join() {
    local side=$1 namespace=$2 address=$3
    ip -n "$middle" link add name "$side" mtu 1500 type veth peer name eth0 netns "$namespace"
    ip -n "$middle" link set dev "$side" up
    ip -n "$namespace" address add "$address" dev eth0
    ip -n "$namespace" link set dev eth0 mtu 1500 up
    # A packet that waits to be cut into segments by a network card cannot cross the chain.
    ip netns exec "$namespace" ethtool -K eth0 tso off gso off tx-udp-segmentation off
}
join left "$left" 10.77.0.1/24
join right "$right" 10.77.0.2/24

ip netns exec "$middle" "$catena" run --json "$root/chains/netns.yaml" > "$results/counters.json" &
chain=$!
children+=("$chain")
await "the start of the chain" "$catena" status netns

mkdir "$work/www"
head -c 1048576 /dev/urandom > "$work/www/file"
ip netns exec "$right" python3 -m http.server 8080 --bind 10.77.0.2 --directory "$work/www" \
    > /dev/null 2>&1 &
children+=($!)
ip netns exec "$right" iperf3 --server --bind 10.77.0.2 > /dev/null 2>&1 &
children+=($!)
await "the start of the web server" listens 8080
await "the start of the iperf3 server" listens 5201

say "ping"
ip netns exec "$left" ping -c 5 -i 0.2 -W 5 10.77.0.2 | tee "$results/ping.txt"

say "curl: 1 MiB"
ip netns exec "$left" curl --silent --show-error --max-time 20 --output "$results/file" \
    --write-out '%{size_download} bytes in %{time_total} s\n' http://10.77.0.2:8080/file
cmp "$results/file" "$work/www/file"

say "curl to a port that the firewall does not permit"
if ip netns exec "$left" curl --silent --connect-timeout 1 http://10.77.0.2:81/; then
    fail "the firewall let it pass"
else
    echo "no connection, as it should be"
fi

say "iperf3: 2 s, TCP"
ip netns exec "$left" iperf3 --client 10.77.0.2 --time 2 --json > "$results/iperf3.json"
grep -A 12 '"sum_received"' "$results/iperf3.json" | grep -E '"(bytes|bits_per_second)"'

say "the chain"
"$catena" status netns
"$catena" stop netns > /dev/null
wait "$chain"
