#!/usr/bin/env bash
# Builds the Go programs with which tests compare PFCP: target/oracles/go-pfcp, whose versions of Go and of
# go-pfcp are those that Debian 12 can build, and target/oracles/pfcpsim/{pfcpsim,pfcpctl}, which want Go
# 1.25. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
oracles=$PWD/target/oracles
command -v go > /dev/null || { echo "not installed: golang-go"; exit 1; }
mkdir -p "$oracles/pfcpsim"
failed=0
place=$oracles/go-pfcp
source=crates/wire/tests/oracle/go
if [ ! -x "$place" ] || [ -n "$(find "$source" -type f -newer "$place")" ]; then
    (cd "$source" && go build -buildvcs=false -o "$place" .) || failed=1
fi
place=$oracles/pfcpsim
source=crates/cli/tests/pfcpsim
if [ ! -x "$place/pfcpctl" ] || [ "$source/go.mod" -nt "$place/pfcpctl" ]; then
    # The module is used as it is: what it needs beside is in its own go.mod.
    module=github.com/omec-project/pfcpsim/cmd
    (cd "$source" && GOFLAGS=-mod=mod go build -o "$place/" $module/pfcpsim $module/pfcpctl) \
        || { echo "not built: pfcpsim"; failed=1; }
fi
exit $failed
