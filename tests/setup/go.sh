#!/usr/bin/env bash
# Builds the Go programs with which tests compare PFCP and GTP-U: target/oracles/go-pfcp, whose versions of Go
# and of go-pfcp are those that Debian 12 can build; target/oracles/go-gtp, which wants Go 1.23; and
# target/oracles/pfcpsim/{pfcpsim,pfcpctl}, which want Go 1.25. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
oracles=$PWD/target/oracles
command -v go > /dev/null || { echo "not installed: golang-go"; exit 1; }
mkdir -p "$oracles/pfcpsim"
failed=0
# built NAME SOURCE: a program of this repository.
built() {
    local place=$oracles/$1 source=$2
    if [ ! -x "$place" ] || [ -n "$(find "$source" -type f -newer "$place")" ]; then
        (cd "$source" && go build -buildvcs=false -o "$place" .) || { echo "not built: $1"; failed=1; }
    fi
}
built go-pfcp crates/wire/tests/oracle/go
built go-gtp crates/wire/tests/oracle/go-gtp
place=$oracles/pfcpsim
source=crates/cli/tests/pfcpsim
if [ ! -x "$place/pfcpctl" ] || [ "$source/go.mod" -nt "$place/pfcpctl" ]; then
    # The module is used as it is: what it needs beside is in its own go.mod.
    module=github.com/omec-project/pfcpsim/cmd
    (cd "$source" && GOFLAGS=-mod=mod go build -o "$place/" $module/pfcpsim $module/pfcpctl) \
        || { echo "not built: pfcpsim"; failed=1; }
fi
exit $failed
