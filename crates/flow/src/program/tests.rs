//! Tests of the program's parts: fields and checksums, tunnels, the interpreter, bursts.
