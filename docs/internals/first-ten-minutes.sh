#!/usr/bin/env bash
# A new user's first ten minutes with a stopwatch: clones this repository into an empty folder, does what
# README and guide say, and prints what each step took as the rows of docs/internals/first-ten-minutes.md.
# Steps that need root, a tool or a package that is not here are named and left out.
#
#   docs/internals/first-ten-minutes.sh [COMMIT | --here]
#
# With --here, the folder gets a copy of the files as they are, committed or not. Run it alone on the machine; CORES (default 2) is how many cores everything gets.

set -uo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
commit=${1:-HEAD}
cores=${CORES:-2}
place=$(mktemp -d)
namespaces=()
export CATENA_RUNTIME_DIR=$place/run
unset CARGO_TARGET_DIR CARGO_INCREMENTAL
# The first of those that this shell may use.
allowed=$(taskset --cpu-list --pid $$ | sed 's/.*: //')
allowed=$(for range in ${allowed//,/ }; do seq "${range%-*}" "${range#*-}"; done | head -n "$cores")
taskset --pid --cpu-list "${allowed//$'\n'/,}" $$ > "$place/cores" || exit 1

clean_up() {
    local job
    for job in $(jobs -p); do kill "$job" 2> /dev/null; done
    for namespace in "${namespaces[@]}"; do ip netns delete "$namespace"; done
    wait
    rm -rf "$place"
}
trap clean_up EXIT

now() { date +%s.%N; }
began=$(now)

# One step: what is done, and a function that does it. A step that fails ends everything.
step() {
    local what=$1 from
    shift
    from=$(now)
    if ! "$@" > "$place/step.log" 2>&1; then
        echo "$what: failed" >&2
        tail -n 20 "$place/step.log" >&2
        exit 1
    fi
    awk -v from="$from" -v to="$(now)" -v began="$began" -v what="$what" 'BEGIN {
        printf "| %s | %.1f s | %d:%02d |\n", what, to - from, (to - began) / 60, (to - began) % 60
    }'
}
left_out() { echo "| $1 | left out: $2 | |"; }

# Waits until a command succeeds, at most 30 s.
await() {
    local deadline=$((SECONDS + 30))
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.02
    done
}
stays() {
    catena run --quiet "$1" > "$place/$2.log" 2>&1 &
    await catena status "$2"
}

copy() {
    mkdir "$place/catena" && cd "$place/catena" &&
        tar --create --directory "$repository" --exclude ./target --exclude ./.git --exclude ./fuzz/target . |
        tar --extract
}
clone() {
    git clone --quiet "$repository" "$place/catena" && cd "$place/catena" &&
        git checkout --quiet "$(git -C "$repository" rev-parse "$commit")"
}
first() { cargo run -- run chains/hello.yaml; }
mistake() {
    sed 's/policer/polixer/' chains/hello.yaml > chains/wrong.yaml
    ! catena check chains/wrong.yaml && rm chains/wrong.yaml
}
look_up() { catena nf list && catena nf describe policer; }
own_chain() {
    printf '%s\n' 'name: mine' 'ports:' '  in:  { generator: { rate: 20kpps } }' \
        '  out: { sink: { verify: true } }' 'nfs:' '  police: { type: policer, rate: 10kpps, burst: 32 }' \
        'links: [in -> police -> out]' > mine.yaml
    stays mine.yaml mine && catena top --once
}
change() { sed -i 's/rate: 10kpps/rate: 30kpps/' mine.yaml && catena apply mine.yaml; }
restarted() { catena status --json mine | jq -e '.recovery.restarts == 1'; }
recover() {
    kill -9 "$(catena status --json mine | jq '.workers[] | select(.name == "police").pid')"
    await restarted && catena stop mine
}
answers() { ip netns exec left curl --silent --max-time 1 http://10.77.0.2:8080/; }
firewall() {
    ip netns add left && namespaces+=(left) && ip netns add right && namespaces+=(right) &&
        stays examples/netns/acl.yaml acl &&
        ip -n left address add 10.77.0.1/24 dev eth0 && ip -n right address add 10.77.0.2/24 dev eth0 &&
        ip netns exec left ping -c 3 -i 0.2 10.77.0.2 || return 1
    ip netns exec right python3 -m http.server 8080 --bind 10.77.0.2 &
    await answers && ! ip netns exec left curl --silent --max-time 1 http://10.77.0.2:81/ &&
        catena stop acl
}
# Into a root folder of its own, so that nothing of this machine changes.
package() {
    local root=$place/root
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" && : > "$root/var/lib/dpkg/status" &&
        dpkg --force-not-root --force-script-chrootless --root "$root" --install "$deb" &&
        "$root/usr/bin/catena" run --quiet "$root/usr/share/doc/catena/examples/chains/acl.yaml"
}
# podman asks for limits of its own, which fails where they are above those of this machine.
with_image() {
    local limits=() processes
    processes=$(ulimit -u)
    [ "$processes" != unlimited ] && [ "$processes" -lt 32768 ] || processes=32768
    [ "$engine" != podman ] ||
        limits=(--ulimit "nofile=$(ulimit -Sn):$(ulimit -Hn)" --ulimit "nproc=$processes:$processes")
    "$engine" run --rm --network none --cap-drop all "${limits[@]}" catena run --quiet chains/acl.yaml
}

echo "| step | takes | done at |"
echo "|---|---|---|"
if [ "$commit" = --here ]; then
    step "a copy of the files" copy
    commit="none: the files as they are"
else
    step "\`git clone\`" clone
    commit=$(git rev-parse --short HEAD)
fi
cd "$place/catena" || exit 1
step "the first command, which builds first: \`cargo run -- run chains/hello.yaml\`" first
export PATH=$PWD/target/debug:$PATH
step "the same again" first
step "a mistake on purpose: \`check\`" mistake
step "\`nf list\`, \`nf describe\`" look_up
step "a chain of one's own that stays, \`top\`" own_chain
step "\`apply\` of a changed file" change
step "\`kill -9\` of a worker, until it runs again; \`stop\`" recover
if ip netns list 2> /dev/null | grep -qE '^(left|right)( |$)'; then
    left_out "the README's firewall" "there are namespaces left and right already"
elif [ "$(id -u)" = 0 ] && unshare --net true 2> /dev/null; then
    step "the README's firewall: ping, HTTP, a port that is denied" firewall
else
    left_out "the README's firewall" "needs root and network namespaces"
fi
deb=$(ls "$repository"/target/packages/catena_*.deb 2> /dev/null)
if [ -n "$deb" ]; then
    step "the Debian package: \`dpkg --install\`, a chain from it" package
else
    left_out "the Debian package" "make it first: \`cargo xtask package deb\`"
fi
engine=
for program in docker podman; do
    "$program" image inspect catena > /dev/null 2>&1 && engine=$program && break
done
if [ -n "$engine" ]; then
    step "the image: \`$engine run catena run chains/acl.yaml\`" with_image
else
    left_out "the image" "make it first: \`cargo xtask package image\`"
fi
echo
echo "$(nproc) of $(nproc --all) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)," \
    "$(rustc --version), commit $commit"
