//! Tests of the NF `flow`: packets in, verdicts out, and what it is asked.
