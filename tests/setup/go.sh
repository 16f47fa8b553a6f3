#!/usr/bin/env bash
# Builds the Go program with which tests compare PFCP: target/oracles/go-pfcp. Its versions of Go and
# of go-pfcp are those that Debian 12 can build. Says what is missing; safe to run again.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
place=$PWD/target/oracles/go-pfcp
source=crates/wire/tests/oracle/go
[ -x "$place" ] && [ "$place" -nt "$source/main.go" ] && [ "$place" -nt "$source/go.mod" ] && exit 0
command -v go > /dev/null || { echo "not installed: golang-go"; exit 1; }
mkdir -p target/oracles
cd "$source" && go build -buildvcs=false -o "$place" .
