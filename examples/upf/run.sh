#!/usr/bin/env bash
# Real traffic through a UPF, over IPv4 and over IPv6: ping, curl and iperf3, while the UE is paged, moves to
# another cell, uses up a quota and gets a rate; and QUIC, HTTP and TLS, which name the application that they
# are of. Three network namespaces:
#
#   UE, gNB, SMF                            UPF                          data network
#   ue  10.45.0.2, 2001:db8:45:1::2
#   n3  10.3.0.2 ──────────────────── n3 [ chains/upf/       ] n6 ─── n6 203.0.113.9
#   n4  10.4.0.2 ──────────────────── n4 [ namespaces.yaml   ]           2001:db8:9::9
#
# The gNB is gnb.py, whose tunnels are scapy's; the SMF is `catena upf smf --n4`, which plays the scenarios
# beside this file. What is not as it should be ends it with a message. Needs root, iproute2, ethtool, ping,
# curl, python3 with scapy, and iperf3; for applications also aioquic, without which they are left out.
#
#   examples/upf/run.sh [FOLDER]      FOLDER: keep all results there
#
# NAT=1 has N6 go through a nat44 (chains/upf/nat44.yaml), and ends behind iperf3: who pages a UE behind a NAT
# must be somebody to whom it has sent.
#
# ULCL=1 has N9 between two UPFs (chains/upf/ul-cl.yaml, psa.yaml), an edge network beside the first one and the data
# network behind the second one: what the UE sends to the edge leaves there. It ends behind curl.
#
# CAPTURE=1 has tcpdump write what passes N4, N3 and N9 to n4.pcap (and n4psa.pcap), n3.pcap and n9.pcap among the
# results; iperf3's packets are left out, since there are many: the first thousand are in iperf3.pcap.
#
# CATENA names the binary (default: that of this repository's last build), PYTHON a Python with scapy and aioquic.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
results=${1:-}
work=$(mktemp -d)
[ -n "$results" ] || results=$work/results
mkdir -p "$results"
ran=catena-ran-$$ middle=catena-upf-$$ data=catena-dn-$$ edge=catena-edge-$$
namespaces=("$ran" "$middle" "$data")
children=() captures=() captured=()
chain_file=namespaces chain_name=upf-namespaces ues=10.45.0.0/16
[ -z "${NAT:-}" ] || chain_file=nat44 chain_name=upf-nat44 ues=198.51.100.0/30
[ -z "${ULCL:-}" ] || chain_file=ul-cl chain_name=upf-ul-cl namespaces+=("$edge")
export CATENA_RUNTIME_DIR=$work/run

clean_up() {
    local child
    # The newest first, so that servers outlive those who use them.
    children=("${captures[@]}" "${children[@]}")
    for ((child = ${#children[@]} - 1; child >= 0; child--)); do
        kill "${children[$child]}" 2> /dev/null || true
        wait "${children[$child]}" 2> /dev/null || true
    done
    for namespace in "${namespaces[@]}"; do
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
# capture NAME NAMESPACE INTERFACE ARGUMENTS...: what passes the interface from now on, by tcpdump. Checksums are
# right where that sees packets: nothing is left to a card, see below.
capture() {
    local name=$1 namespace=$2 interface=$3
    shift 3
    ip netns exec "$namespace" tcpdump -Z root -n -p --immediate-mode -B 65536 -i "$interface" -w "$results/$name.pcap" "$@" \
        2> "$results/$name.txt" &
    captures+=($!)
    captured+=("$name")
    await "the capture of $interface" grep -q "listening on" "$results/$name.txt"
}
# Whether a capture, of this process and with this account, has written all that it was given; told to end, it
# forgets the rest. It is asked now, and has answered the time before. One that had its thousand packets has ended.
is_written() {
    kill -USR1 "$1" || return 0
    tail -n 1 "$2" | grep -Eq ' ([0-9]+) packets? captured, \1 packets? received'
}
end_captures() {
    local at one
    for at in "${!captures[@]}"; do
        one=${captures[at]}
        await "the end of a capture" is_written "$one" "$results/${captured[at]}.txt"
        kill -INT "$one" 2> /dev/null || true
        wait "$one" || fail "a capture did not end well"
    done
    captures=()
}
# For what is waited for: of what runs beside, $! must be the program.
in_ran() { ip netns exec "$ran" "$@"; }
in_data() { ip netns exec "$data" "$@"; }
listens() { ip netns exec "${2:-$data}" ss -Hltn "sport = :$1" | grep -q .; }
# Two packets, or more.
quota_stops() { "$catena" status "$chain_name" --json | grep -Eq '"quota_exhausted": ?([2-9]|[1-9][0-9])'; }
smf() { in_ran "$catena" upf smf --n4 "${2:-10.4.0.1}" "$here/$1.yaml"; }

[ "$(id -u)" = 0 ] || fail "needs root, to make network namespaces"
for tool in ip ethtool ping curl iperf3 python3 ss ${CAPTURE:+tcpdump}; do
    command -v $tool > /dev/null || fail "needs $tool"
done
python=${PYTHON:-python3}
"$python" -c 'import scapy.contrib.gtp' 2> /dev/null || fail "$python has no scapy; name one that has by PYTHON"
catena=${CATENA:-}
for build in release debug; do
    [ -n "$catena" ] || [ ! -x "$root/target/$build/catena" ] || catena=$root/target/$build/catena
done
[ -n "$catena" ] || fail "no binary; run cargo build --release, or set CATENA"

for namespace in "${namespaces[@]}"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set dev lo up
done
# The UPF's interfaces have no address; nothing of this host may speak there.
ip netns exec "$middle" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
    echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
# join INTERFACE NAMESPACE MAC ADDRESS UPF
join() {
    local interface=$1 namespace=$2 mac=$3 address=$4 upf=$5
    ip -n "$middle" link add name "$interface" mtu 1600 type veth peer name "$interface" netns "$namespace"
    ip -n "$middle" link set dev "$interface" up
    ip -n "$namespace" link set dev "$interface" address "$mac" mtu 1600
    ip -n "$namespace" address add "$address" dev "$interface"
    ip -n "$namespace" link set dev "$interface" up
    ip -n "$namespace" neigh add "$upf" lladdr 02:00:00:00:00:01 dev "$interface" nud permanent
    # A packet that waits for a network card to sum or cut it cannot cross the UPF.
    ip netns exec "$namespace" ethtool -K "$interface" tx off tso off gso off > /dev/null
}
# over_v6 INTERFACE NAMESPACE PREFIX: the namespace is PREFIX:9, the UPF PREFIX:1.
over_v6() {
    ip -n "$2" address add "$3:9/64" dev "$1" nodad
    ip -n "$2" neigh add "$3:1" lladdr 02:00:00:00:00:01 dev "$1" nud permanent
    ip -n "$2" route add 2001:db8:45::/48 via "$3:1"
}
join n3 "$ran" 02:00:00:00:03:02 10.3.0.2/24 10.3.0.1
join n4 "$ran" 02:00:00:00:04:02 10.4.0.2/24 10.4.0.1
join n6 "$data" 02:00:00:00:06:02 203.0.113.9/24 203.0.113.1
ip -n "$data" link set dev n6 mtu 1400
ip -n "$data" route add "$ues" via 203.0.113.1
over_v6 n6 "$data" 2001:db8:9:
if [ -n "${ULCL:-}" ]; then
    join n4psa "$ran" 02:00:00:00:04:03 10.4.1.2/24 10.4.1.1
    join n6edge "$edge" 02:00:00:00:06:03 198.51.100.9/24 198.51.100.1
    ip -n "$edge" link set dev n6edge mtu 1400
    ip -n "$edge" route add 10.45.0.0/16 via 198.51.100.1
    over_v6 n6edge "$edge" 2001:db8:e:
    ip -n "$middle" link add name n9 mtu 1600 type veth peer name n9psa mtu 1600
    ip -n "$middle" link set dev n9 up
    ip -n "$middle" link set dev n9psa up
fi

ip netns exec "$middle" "$catena" run --json "$root/chains/upf/$chain_file.yaml" > "$results/counters.json" &
chain=$!
children+=("$chain")
await "the start of the chain" "$catena" status "$chain_name"
if [ -n "${ULCL:-}" ]; then
    ip netns exec "$middle" "$catena" run --json "$root/chains/upf/psa.yaml" > "$results/psa.json" &
    psa=$!
    children+=("$psa")
    await "the start of the PSA" "$catena" status upf-psa
fi

if [ -n "${CAPTURE:-}" ]; then
    # The ports of a user's packet behind a GTP-U header of 16 bytes, over IPv4 and IPv6. No filter lets a packet
    # pass of which it asks for what is behind its end.
    over4="udp port 2152 and (udp[44:2] = 5201 or udp[46:2] = 5201)"
    over6="udp port 2152 and (udp[64:2] = 5201 or udp[66:2] = 5201)"
    capture n4 "$ran" n4
    capture n3 "$ran" n3 "less 81 or (not ($over4) and (less 101 or not ($over6)))"
    [ -n "${ULCL:-}" ] || capture iperf3 "$ran" n3 -c 1000 "($over4) or ($over6)"
    if [ -n "${ULCL:-}" ]; then
        capture n4psa "$ran" n4psa
        capture n9 "$middle" n9
    fi
fi

ip netns exec "$ran" "$python" "$here/gnb.py" ue 10.3.0.2 10.3.0.1 0x101 9 "$results/gnb.log" > "$work/gnb.txt" &
gnb=$!
children+=("$gnb")
await "the start of the gNB" grep -q ready "$work/gnb.txt"
ip -n "$ran" address add 10.45.0.2/32 dev ue
ip -n "$ran" address add 2001:db8:45:1::2/64 dev ue nodad
ip -n "$ran" link set dev ue mtu 1400 up
ip -n "$ran" route add 203.0.113.0/24 dev ue src 10.45.0.2
ip -n "$ran" route add 2001:db8:9::/64 dev ue src 2001:db8:45:1::2
if [ -n "${ULCL:-}" ]; then
    ip -n "$ran" route add 198.51.100.0/24 dev ue src 10.45.0.2
    ip -n "$ran" route add 2001:db8:e::/64 dev ue src 2001:db8:45:1::2
fi

mkdir "$work/www"
head -c 200000 /dev/urandom > "$work/www/file"
ip netns exec "$data" python3 -m http.server 8080 --bind :: --directory "$work/www" > "$results/www.log" 2>&1 &
children+=($!)
ip netns exec "$data" iperf3 --server > /dev/null 2>&1 &
children+=($!)
if [ -n "${ULCL:-}" ]; then
    ip netns exec "$edge" python3 -m http.server 8080 --bind :: --directory "$work/www" > "$results/edge.log" 2>&1 &
    children+=($!)
    await "the start of the edge's web server" listens 8080 "$edge"
fi
await "the start of the web server" listens 8080
await "the start of the iperf3 server" listens 5201

say "a session"
if [ -n "${ULCL:-}" ]; then
    smf psa 10.4.1.1
    smf ul-cl
else
    smf attach
fi

say "ping, IPv4 and IPv6"
in_ran ping -c 5 -i 0.2 -W 5 203.0.113.9 | tee "$results/ping.txt"
in_ran ping -c 5 -i 0.2 -W 5 2001:db8:9::9 | tee "$results/ping6.txt"

# download NAME HOST: 200 kB, which must be the file.
download() {
    in_ran curl --silent --show-error --max-time 60 --output "$results/$1" \
        --write-out '%{size_download} bytes in %{time_total} s\n' "http://$2:8080/file"
    cmp "$results/$1" "$work/www/file"
}
# named RESULT URL HOST: the same, of a server by name, whose address is HOST.
named() {
    local authority=${2#*://}
    in_ran curl --silent --show-error --max-time 60 --insecure --resolve "$authority:$3" --output "$results/$1" \
        --write-out "$2: %{size_download} bytes in %{time_total} s\n" "$2/file"
    cmp "$results/$1" "$work/www/file"
}
say "curl: 200 kB, IPv4 and IPv6"
download file 203.0.113.9
download file6 '[2001:db8:9::9]'

# measured NAME ARGUMENTS: a result of iperf3, and the rate that came through.
measured() {
    local name=$1
    shift
    in_ran iperf3 --json "$@" > "$results/$name.json"
    grep -A 12 '"sum_received"' "$results/$name.json" | grep '"bits_per_second"'
}
if [ -n "${ULCL:-}" ]; then
    say "the edge: ping, and curl: 200 kB, IPv4 and IPv6"
    in_ran ping -c 5 -i 0.2 -W 5 198.51.100.9 | tee "$results/ping_edge.txt"
    in_ran ping -c 5 -i 0.2 -W 5 2001:db8:e::9 | tee "$results/ping6_edge.txt"
    download edge 198.51.100.9
    download edge6 '[2001:db8:e::9]'
else
    say "iperf3: 2 s, TCP, up and down, IPv4 and IPv6"
    measured up --client 203.0.113.9 --time 2
    measured down --client 203.0.113.9 --time 2 --reverse
    measured up6 --client 2001:db8:9::9 --time 2
    measured down6 --client 2001:db8:9::9 --time 2 --reverse
fi

if [ -z "${NAT:-}${ULCL:-}" ]; then
    say "paging, then handover, among pings from the data network, IPv4 and IPv6"
    ip netns exec "$data" ping -c 25 -i 0.2 -W 10 10.45.0.2 > "$results/paged.txt" &
    pings=$!
    ip netns exec "$data" ping -c 25 -i 0.2 -W 10 2001:db8:45:1::2 > "$results/paged6.txt" &
    pings6=$!
    smf page
    wait "$pings" || fail "no ping came back: $(cat "$results/paged.txt")"
    wait "$pings6" || fail "no ping came back: $(cat "$results/paged6.txt")"
    tail -2 "$results/paged.txt"
    tail -2 "$results/paged6.txt"
    await "an end marker" grep -q "end marker 0x201" "$results/gnb.log"
    cat "$results/gnb.log"

    say "curl through a quota that is used up, and granted anew, IPv4 and IPv6"
    smf quota
    download quota 203.0.113.9 &
    downloads=$!
    download quota6 '[2001:db8:9::9]' &
    downloads6=$!
    await "a packet that the quota stops" quota_stops
    smf grant
    wait "$downloads" || fail "the download did not end"
    wait "$downloads6" || fail "the download over IPv6 did not end"

    if "$python" -c 'import aioquic' 2> /dev/null; then
        say "QUIC: 50 kB of an application over IPv4, of one over IPv6, 200 kB of none"
        ip netns exec "$data" "$python" "$here/quic.py" serve 203.0.113.9 2001:db8:9::9 > "$work/quic.txt" &
        children+=($!)
        await "the start of the QUIC server" grep -q ready "$work/quic.txt"
        smf applications
        in_ran "$python" "$here/quic.py" get 203.0.113.9 other.example 200000 | tee "$results/quic_other.txt"
        in_ran "$python" "$here/quic.py" get 203.0.113.9 four.example 50000 | tee "$results/quic4.txt"
        smf four
        in_ran "$python" "$here/quic.py" get 2001:db8:9::9 six.example 50000 | tee "$results/quic6.txt"
        smf six

        say "HTTP and TLS: 200 kB of an application by each, over IPv4 and IPv6, and as much of none"
        ip netns exec "$data" "$python" "$here/tls.py" "$work/www" > "$work/tls.txt" 2> "$results/tls.log" &
        children+=($!)
        await "the start of the TLS server" grep -q ready "$work/tls.txt"
        for name in web other; do
            named "${name}4" "http://$name.example:8080" 203.0.113.9
            named "${name}6" "http://$name.example:8080" '[2001:db8:9::9]'
        done
        for name in tls none; do
            named "${name}4" "https://$name.example:8443" 203.0.113.9
            named "${name}6" "https://$name.example:8443" '[2001:db8:9::9]'
        done
        "$catena" upf session "$chain_name" --seid 4294967297 --json > "$results/session.json"
    else
        say "applications are left out: $python has no aioquic"
    fi

    say "iperf3: 3 s, UDP at 8 Mb/s down, through an MBR of 4 Mb/s, IPv4 and IPv6"
    smf limit
    measured limited --client 203.0.113.9 --udp --bitrate 8M --length 1000 --time 3 --reverse
    measured limited6 --client 2001:db8:9::9 --udp --bitrate 8M --length 1000 --time 3 --reverse
fi

say "the session"
"$catena" upf sessions "$chain_name" --json > "$results/sessions.json"
"$catena" upf reports "$chain_name" --json > "$results/reports.json"
"$catena" upf sessions "$chain_name"
kill -0 "$gnb" || fail "the gNB has ended"
end_captures
if [ -n "${ULCL:-}" ]; then
    "$catena" upf sessions upf-psa --json > "$results/psa_sessions.json"
    "$catena" upf sessions upf-psa
    "$catena" stop upf-psa > /dev/null
    wait "$psa"
fi
"$catena" stop "$chain_name" > /dev/null
wait "$chain"
