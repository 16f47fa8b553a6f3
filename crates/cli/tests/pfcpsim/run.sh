#!/usr/bin/env bash
# pfcpsim, unmodified, against the UPF of chains/upf/namespaces.yaml: associates, establishes five
# sessions, has them buffer and forward again, deletes them, disassociates. Needs root, iproute2, ethtool; where
# tcpdump is, it writes what passes N4 to n4.pcap.
#
#   run.sh RESULTS      CATENA names the binary, PFCPSIM the folder with pfcpsim and pfcpctl
set -euo pipefail
root=$(cd "$(dirname "$0")/../../../.." && pwd)
results=$1
work=$(mktemp -d)
smf=catena-smf-$$ middle=catena-pfcpsim-$$
children=()
export CATENA_RUNTIME_DIR=$work/run

clean_up() {
    local child
    for ((child = ${#children[@]} - 1; child >= 0; child--)); do
        kill "${children[$child]}" 2> /dev/null || true
        wait "${children[$child]}" 2> /dev/null || true
    done
    ip netns delete "$smf" 2> /dev/null || true
    ip netns delete "$middle" 2> /dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Waits until a command succeeds, at most 20 s.
await() {
    local what=$1 deadline=$((SECONDS + 20))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || { echo "$what did not happen within 20 s" >&2; exit 1; }
        sleep 0.05
    done
}

ip netns add "$smf"
ip netns add "$middle"
ip -n "$smf" link set dev lo up
ip netns exec "$middle" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
for interface in n3 n4 n6; do
    ip -n "$middle" link add name "$interface" type veth peer name "$interface" netns "$smf"
    ip -n "$middle" link set dev "$interface" up
    ip -n "$smf" link set dev "$interface" address "02:00:00:00:0${interface#n}:02" up
    ip netns exec "$smf" ethtool -K "$interface" tx off > /dev/null
done
ip -n "$smf" address add 10.4.0.2/24 dev n4
ip -n "$smf" neigh add 10.4.0.1 lladdr 02:00:00:00:00:01 dev n4 nud permanent

capture=
if command -v tcpdump > /dev/null; then
    ip netns exec "$smf" tcpdump -Z root -n -p --immediate-mode -B 65536 -i n4 -w "$results/n4.pcap" 2> "$results/n4.txt" &
    capture=$!
    children+=("$capture")
    await "the capture of N4" grep -q "listening on" "$results/n4.txt"
fi

ip netns exec "$middle" "$CATENA" run --json "$root/chains/upf/namespaces.yaml" > "$results/counters.json" &
chain=$!
children+=("$chain")
await "the start of the chain" "$CATENA" status upf-namespaces
ip netns exec "$smf" "$PFCPSIM/pfcpsim" --interface n4 > "$work/pfcpsim.txt" 2>&1 &
children+=($!)
await "the start of pfcpsim" grep -q "server listening" "$work/pfcpsim.txt"
ctl() { ip netns exec "$smf" timeout 20 "$PFCPSIM/pfcpctl" "$@"; }
sessions=(--count 5 --baseID 2)
users=(--ue-pool 10.45.0.0/24 --gnb-addr 10.3.0.2)

ctl service configure --n3-addr 10.3.0.1 --remote-peer-addr 10.4.0.1
ctl service associate
ctl session create "${sessions[@]}" "${users[@]}" --qfi 9
"$CATENA" upf sessions upf-namespaces --json > "$results/sessions.json"
ctl session modify "${sessions[@]}" "${users[@]}" --buffer --notifycp
ctl session modify "${sessions[@]}" "${users[@]}"
ctl session delete "${sessions[@]}"
ctl service disassociate
# Told to end, tcpdump forgets what it was given and has not written. It is asked now, and has answered the time before.
is_written() {
    kill -USR1 "$capture"
    tail -n 1 "$results/n4.txt" | grep -Eq ' ([0-9]+) packets? captured, \1 packets? received'
}
if [ -n "$capture" ]; then
    await "the end of the capture" is_written
    kill -INT "$capture"
    wait "$capture"
fi
"$CATENA" stop upf-namespaces > /dev/null
wait "$chain"
