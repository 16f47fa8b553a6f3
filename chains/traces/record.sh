#!/usr/bin/env bash
# Records web.pcap and vlan.pcapng beside this script, from real programs that talk over a veth pair
# between two network namespaces:
#
#   catena-trace-client            catena-trace-server
#   [ curl dig ping iperf3 ] c0 ---- s0 [ http.server dnsmasq iperf3 ]
#     10.77.0.1, fd77::1               10.77.0.2, fd77::2
#
# Usage: sudo chains/traces/record.sh [DIRECTORY]    (default: the directory of this script)
#
# Needs root, and ip, ethtool, tcpdump, editcap, capinfos, tshark, curl, dig, dnsmasq, iperf3, ping,
# python3. Touches nothing outside the two namespaces, which are deleted at the end, also after a
# failure. Offloads are off, so that checksums are right and no frame is longer than 1,514 bytes;
# networks with tags have an MTU of 1,492, so that this holds for them too.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
client=catena-trace-client
server=catena-trace-server
work=$(mktemp -d)
pids=()

for tool in ip ethtool tcpdump editcap capinfos tshark curl dig dnsmasq iperf3 ping python3; do
    command -v "$tool" > /dev/null || { echo "record.sh: needs $tool" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "record.sh: needs root" >&2; exit 1; }

# For the foreground. A server in the background calls `ip netns exec` itself, which becomes the
# server, so that `$!` is the process to stop; of a function it would be a shell around it.
on_client() { ip netns exec "$client" "$@"; }
on_server() { ip netns exec "$server" "$@"; }

stop_all() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2> /dev/null || true
        wait "$pid" 2> /dev/null || true
    done
    pids=()
}

clean_up() {
    stop_all
    ip netns delete "$client" 2> /dev/null || true
    ip netns delete "$server" 2> /dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

# wait_for WORDS COMMAND...: until the command succeeds, at most ten seconds.
wait_for() {
    local words=$1
    shift
    for _ in $(seq 200); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.05
    done
    echo "record.sh: waited in vain for $words" >&2
    exit 1
}

make_namespaces() {
    ip netns add "$client"
    ip netns add "$server"
    ip link add c0 netns "$client" address 02:00:00:00:77:01 type veth \
        peer name s0 netns "$server" address 02:00:00:00:77:02
    for pair in "$client c0" "$server s0"; do
        set -- $pair
        ip netns exec "$1" ethtool -K "$2" rx off tx off sg off tso off gso off gro off > /dev/null
        ip -n "$1" link set lo up
        ip -n "$1" link set "$2" up
    done
}

# start_capture FILE: everything that crosses c0, in full.
start_capture() {
    ip netns exec "$client" tcpdump -i c0 -s 0 -B 8192 -Z root --time-stamp-precision=nano -w "$1" \
        2> "$work/tcpdump.log" &
    capture_pid=$!
    pids+=("$capture_pid")
    wait_for "tcpdump" grep -q "listening on" "$work/tcpdump.log"
}

stop_capture() {
    sleep 0.5
    kill "$capture_pid"
    wait "$capture_pid" || true
    grep -q "^0 packets dropped by kernel" "$work/tcpdump.log" \
        || { cat "$work/tcpdump.log" >&2; exit 1; }
}

# address NAMESPACE DEVICE NUMBER LAST: 10.77.NUMBER.LAST/24 and fd77:0:0:NUMBER::LAST/64.
address() {
    ip -n "$1" address add "10.77.$3.$4/24" dev "$2"
    ip -n "$1" address add "fd77:0:0:$3::$4/64" dev "$2"
}

no_tentative_address() {
    local namespace
    for namespace in "$client" "$server"; do
        [ -z "$(ip -n "$namespace" -6 address show tentative)" ] || return 1
    done
}

# start_dns: the answers of catena.example come from the server itself.
start_dns() {
    ip netns exec "$server" dnsmasq --keep-in-foreground --conf-file=/dev/null \
        --no-resolv --no-hosts \
        --user=root --pid-file="$work/dnsmasq.pid" --log-facility=- \
        --host-record=www.catena.example,10.77.0.2,fd77::2 \
        --host-record=n6.catena.example,10.77.0.6,fd77::6 \
        --cname=web.catena.example,www.catena.example \
        --txt-record=catena.example,"a chain of network functions" \
        2> "$work/dnsmasq.log" &
    pids+=($!)
    wait_for "dnsmasq" on_server dig +tries=1 +time=1 @127.0.0.1 www.catena.example
}

# start_iperf: a server for one test after the other.
start_iperf() {
    ip netns exec "$server" iperf3 --server --forceflush > "$work/iperf.log" 2>&1 &
    pids+=($!)
    wait_for "iperf3" grep -q "listening" "$work/iperf.log"
}

start_http() {
    mkdir "$work/www"
    python3 - "$work/www" <<'PYTHON'
import json, random, sys
random.seed(77)
directory = sys.argv[1]
words = "ring link chain packet port pool burst turn worker engine meter policer route".split()
text = lambda count: " ".join(random.choice(words) for _ in range(count))
open(f"{directory}/index.html", "w").write(
    "<!doctype html><title>Catena</title><link rel=stylesheet href=style.css><h1>Catena</h1>"
    + "".join(f"<p>{text(60)}</p>\n" for _ in range(8)))
open(f"{directory}/style.css", "w").write("".join(f".{w} {{ color: #345; }}\n" for w in words))
json.dump([{"id": i, "name": text(4)} for i in range(200)], open(f"{directory}/data.json", "w"))
open(f"{directory}/image.bin", "wb").write(random.randbytes(40_000))
open(f"{directory}/empty.txt", "w").close()
PYTHON
    ip netns exec "$server" python3 -m http.server --bind :: --directory "$work/www" 80 \
        > "$work/http.log" 2>&1 &
    pids+=($!)
    wait_for "http.server" on_server curl -s --max-time 1 "http://127.0.0.1/empty.txt"
}

# resolve SERVER...: names of each kind, and one that does not exist.
resolve() {
    local at
    for at in "$@"; do
        on_client dig +tries=1 +time=2 "@$at" www.catena.example A > /dev/null
        on_client dig +tries=1 +time=2 "@$at" www.catena.example AAAA > /dev/null
        on_client dig +tries=1 +time=2 "@$at" web.catena.example A > /dev/null
        on_client dig +tries=1 +time=2 "@$at" n6.catena.example AAAA > /dev/null
        on_client dig +tries=1 +time=2 "@$at" catena.example TXT > /dev/null
        on_client dig +tries=1 +time=2 "@$at" missing.catena.example A > /dev/null
    done
}

record_web() {
    start_capture "$work/web.pcap"
    address "$client" c0 0 1
    address "$server" s0 0 2
    wait_for "addresses" no_tentative_address
    start_dns
    start_iperf
    start_http
    on_client ping -q -c 5 -i 0.2 10.77.0.2 > /dev/null
    on_client ping -q -c 3 -i 0.2 -s 1400 10.77.0.2 > /dev/null
    on_client ping -q -c 5 -i 0.2 fd77::2 > /dev/null
    on_client ping -q -c 3 -i 0.2 -s 1400 fd77::2 > /dev/null
    resolve 10.77.0.2 fd77::2
    on_client dig +tcp "@10.77.0.2" catena.example TXT > /dev/null
    for host in 10.77.0.2 "[fd77::2]"; do
        for object in index.html style.css data.json image.bin empty.txt missing.html; do
            on_client curl -s -g -o /dev/null "http://$host/$object"
        done
        on_client curl -s -g -o /dev/null --head "http://$host/image.bin"
    done
    # A client that was away long enough has forgotten its neighbours and asks again.
    ip -n "$client" neighbour flush dev c0
    ip -n "$server" neighbour flush dev s0
    on_client iperf3 -c 10.77.0.2 -n 64K > /dev/null
    on_client iperf3 -c 10.77.0.2 -u -b 400K -t 1 -l 1200 > /dev/null
    on_client iperf3 -c fd77::2 -n 32K -R > /dev/null
    on_client iperf3 -c fd77::2 -u -b 200K -t 1 -l 200 > /dev/null
    stop_capture
    stop_all
    cp "$work/web.pcap" "$out/web.pcap"
}

# Network 1: VLAN 10. Network 2: VLAN 20 with priority 5. Network 3: QinQ, S-VLAN 100, C-VLAN 7.
# Network 4: two customer tags, the outer 200 with type 0x8100 as older switches do.
networks="n1=0x8100:10 n2=0x8100:$((5 << 13 | 20)) n3=0x88a8:100,0x8100:7 n4=0x8100:200,0x8100:8"

# start_tagger NAMESPACE DEVICE LAST
start_tagger() {
    # shellcheck disable=SC2086
    ip netns exec "$1" python3 "$here/vlan_tagger.py" "$2" $networks > "$work/tagger.$2" &
    pids+=($!)
    wait_for "vlan_tagger.py" grep -q ready "$work/tagger.$2"
    for number in 1 2 3 4; do
        ip -n "$1" link set "n$number" address "02:00:00:00:77:$number$3" mtu 1492
        ip -n "$1" link set "n$number" up
        address "$1" "n$number" "$number" "$3"
    done
}

record_vlan() {
    start_capture "$work/vlan.pcap"
    start_tagger "$client" c0 1
    start_tagger "$server" s0 2
    wait_for "addresses" no_tentative_address
    start_dns
    start_iperf
    for number in 1 2 3 4; do
        on_client ping -q -c 4 -i 0.2 "10.77.$number.2" > /dev/null
        on_client ping -q -c 4 -i 0.2 "fd77:0:0:$number::2" > /dev/null
        resolve "10.77.$number.2"
    done
    for number in 1 3; do
        on_client ping -q -c 1 -s 1464 "10.77.$number.2" > /dev/null
        on_client iperf3 -c "10.77.$number.2" -u -b 50K -t 1 -l 500 > /dev/null
    done
    stop_capture
    stop_all
    # The record of the recording machine (its processor, its kernel) stays out of the file.
    editcap -F pcapng --discard-capture-comment "$work/vlan.pcap" "$out/vlan.pcapng"
}

make_namespaces
record_web
ip netns delete "$client"
ip netns delete "$server"
make_namespaces
record_vlan

for file in web.pcap vlan.pcapng; do
    longest=$(tshark -r "$out/$file" -T fields -e frame.len | sort -n | tail -1)
    echo "$file: $(capinfos -Mrc "$out/$file" | tail -1), $(stat -c %s "$out/$file") bytes," \
        "longest frame $longest"
    tshark -r "$out/$file" -q -z io,phs
done 2> /dev/null
