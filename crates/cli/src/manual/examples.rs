//! Command lines that manual pages and `--help` show.
//!
//! A table for `manual`, which says what else stands there.

/// Examples of the verb that these words name.
#[derive(Debug)]
pub(super) struct Examples {
    pub(super) verb: &'static str,
    pub(super) lines: &'static [(&'static str, &'static str)],
}

const fn of(verb: &'static str, lines: &'static [(&'static str, &'static str)]) -> Examples {
    Examples { verb, lines }
}

/// Command lines with what they are for.
pub(super) const EXAMPLES: &[Examples] = &[
    of(
        "",
        &[
            ("catena run chains/hello.yaml", "A first chain"),
            ("catena nf list", "What chains can be made of"),
        ],
    ),
    of(
        "check",
        &[
            ("catena check chains/*.yaml", "Every error of many files"),
            ("envsubst < web.yaml | catena check -", "Filled in"),
        ],
    ),
    of(
        "run",
        &[
            (
                "catena run chains/hello.yaml",
                "Run to the end of the capture",
            ),
            (
                "catena run --seconds 5s --json chains/hello.yaml",
                "At most 5 s, counters as JSON",
            ),
            (
                "catena run --metrics 127.0.0.1:9465 web.yaml",
                "Serve Prometheus metrics",
            ),
        ],
    ),
    of("list", &[("catena list", "The chains that run here")]),
    of(
        "status",
        &[
            ("catena status web", "Counters of a chain as tables"),
            (
                "catena status --json web | jq .nodes",
                "The same for programs",
            ),
        ],
    ),
    of(
        "top",
        &[
            ("catena top web", "Watch rates, links and drops; q ends it"),
            (
                "catena top --once --interval 1s",
                "One frame of the only chain that runs",
            ),
        ],
    ),
    of(
        "probe",
        &[
            (
                "catena probe web --seconds 5s",
                "Which component takes the time",
            ),
            (
                "catena probe web --chrome trace.json",
                "A trace for Perfetto",
            ),
        ],
    ),
    of("plan", &[("catena plan web.yaml", "What apply would do")]),
    of(
        "apply",
        &[
            ("catena apply web.yaml", "Change the running chain"),
            (
                "catena apply web.yaml --discard",
                "Undo what nf control has changed, too",
            ),
        ],
    ),
    of(
        "export",
        &[(
            "catena export web > web-now.yaml",
            "The chain as it runs, with what nf control has changed",
        )],
    ),
    of("stop", &[("catena stop web", "Drain the chain and end it")]),
    of("nf", &[("catena nf list", "Types of network functions")]),
    of(
        "nf list",
        &[("catena nf list --json | jq -r '.nfs[].name'", "Names alone")],
    ),
    of(
        "nf describe",
        &[(
            "catena nf describe acl",
            "Settings, rules, requests, an example",
        )],
    ),
    of(
        "nf control",
        &[(
            "catena nf control web edge '{\"show\": \"hits\"}'",
            "Ask a running function",
        )],
    ),
    of(
        "port",
        &[("catena port list", "Types of ports and wrappers")],
    ),
    of(
        "port list",
        &[("catena port list", "Types of ports and wrappers")],
    ),
    of(
        "port describe",
        &[("catena port describe pcap", "Settings of a port")],
    ),
    of(
        "port dpdk",
        &[(
            "catena port dpdk build",
            "The plug-in, where workers find it",
        )],
    ),
    of(
        "port dpdk build",
        &[(
            "catena port dpdk build",
            "The plug-in, where workers find it",
        )],
    ),
    of(
        "pcs",
        &[(
            "catena pcs encode web.pcap web.line",
            "A capture as line bits",
        )],
    ),
    of(
        "pcs encode",
        &[(
            "catena pcs encode web.pcap web.line --ber 1e-4",
            "With one bit in 10,000 wrong",
        )],
    ),
    of(
        "pcs decode",
        &[("catena pcs decode web.line back.pcap", "Back to a capture")],
    ),
    of(
        "pcs inspect",
        &[("catena pcs inspect web.line --blocks 8", "The first blocks")],
    ),
    of(
        "pon",
        &[(
            "catena pon simulate --onus 8",
            "Eight ONUs at a load of 60 %",
        )],
    ),
    of(
        "pon simulate",
        &[(
            "catena pon simulate --onus 8 --load 60% --cycle 1ms",
            "Delay of each ONU",
        )],
    ),
    of(
        "upf",
        &[("catena upf sessions", "Sessions of the chain's UPF")],
    ),
    of(
        "upf sessions",
        &[("catena upf sessions --from 100", "From slot 100 on")],
    ),
    of(
        "upf session",
        &[(
            "catena upf session --seid 4294967296",
            "Its rules and usage",
        )],
    ),
    of("upf peers", &[("catena upf peers", "Who is associated")]),
    of(
        "upf pools",
        &[("catena upf pools", "Addresses that are left")],
    ),
    of(
        "upf reports",
        &[("catena upf reports", "Reports and held packets")],
    ),
    of(
        "upf release",
        &[
            (
                "catena upf release --within 10min --wait",
                "Before maintenance: until all SMFs have gone, or for ten minutes",
            ),
            (
                "catena upf release --smf 10.4.0.2",
                "That of one SMF, which takes its time",
            ),
        ],
    ),
    of(
        "upf trace",
        &[
            (
                "catena upf trace --ue 10.45.0.1",
                "Lines as packets of this UE come and go",
            ),
            (
                "catena upf trace --seid 4294967297 --seconds 10s --write session.pcapng",
                "Ten seconds of it, for Wireshark",
            ),
        ],
    ),
    of(
        "upf smf",
        &[
            (
                "catena upf smf chains/upf/scenarios/paging.yaml",
                "Paging, in simulated time",
            ),
            (
                "catena upf smf chains/upf/scenarios/quota.yaml --write quota.pcap",
                "A quota, and what went over N4, N3 and N6 for Wireshark",
            ),
            (
                "catena upf smf examples/upf/attach.yaml --n4 10.4.0.1",
                "A session in the UPF at this address, over UDP",
            ),
        ],
    ),
    of(
        "flow",
        &[("catena flow check chains/flow-policer.yaml", "Is it right?")],
    ),
    of(
        "flow check",
        &[(
            "catena flow check chains/flow-policer.yaml",
            "Errors and warnings",
        )],
    ),
    of(
        "flow explain",
        &[(
            "catena flow explain chains/flow-policer.yaml",
            "What it costs",
        )],
    ),
    of(
        "flow test",
        &[(
            "catena flow test knock.yaml knock.test.yaml",
            "Packets in and out",
        )],
    ),
    of(
        "flow trace",
        &[(
            "catena flow trace chains/flow-policer.yaml web.pcap",
            "What became of each packet",
        )],
    ),
    of(
        "flow import",
        &[("catena flow import policer.xl", "A program of FlowBlaze's")],
    ),
    of(
        "flow graph",
        &[(
            "catena flow graph chains/flow-policer.yaml",
            "States as SVG",
        )],
    ),
    of(
        "schema",
        &[("catena schema > chain.schema.json", "Rules for an editor")],
    ),
    of(
        "doctor",
        &[("catena doctor --seconds 2s", "A short look at the machine")],
    ),
    of(
        "measure",
        &[(
            "catena measure search profile.yaml --nf macswap --out found",
            "Throughput",
        )],
    ),
    of(
        "measure search",
        &[
            (
                "catena measure search profile.yaml --chain web.yaml --out found",
                "Throughput of a chain, by MLRsearch",
            ),
            (
                "catena measure search profile.yaml --nf macswap --method mrr --out rate",
                "Rate at the highest load, within seconds",
            ),
        ],
    ),
    of(
        "measure latency",
        &[(
            "catena measure latency profile.yaml --chain web.yaml --rate 1Mpps --out late",
            "Latency at a load",
        )],
    ),
    of(
        "measure cost",
        &[(
            "catena measure cost profile.yaml --chain web.yaml --rate 1Mpps --out cost",
            "What a packet costs at 10, 30 and 100 % of a load",
        )],
    ),
    of(
        "measure compare",
        &[(
            "catena measure compare a.yaml b.yaml --together --out difference",
            "Whether b is faster than a",
        )],
    ),
    of(
        "measure study",
        &[
            (
                "catena measure study study.yaml --plan",
                "What would be measured",
            ),
            (
                "catena measure study study.yaml --out matrix",
                "Measure it, or go on with it",
            ),
        ],
    ),
    of(
        "measure render",
        &[(
            "catena measure render found/report.json --out again",
            "The page anew",
        )],
    ),
    of(
        "bench",
        &[(
            "catena bench chain --length 8 --mode inline",
            "One side of a benchmark, without its peers",
        )],
    ),
    of(
        "bench link",
        &[(
            "catena bench link --size 64 --aggregate off",
            "Lone packets of 64 bytes between two processes",
        )],
    ),
    of(
        "bench generator",
        &[(
            "catena bench generator --flows 16",
            "How fast the generator of 16 flows is",
        )],
    ),
    of(
        "bench hop",
        &[(
            "catena bench hop --seconds 1s",
            "The way of a lone packet between two processes",
        )],
    ),
    of(
        "bench chain",
        &[(
            "catena bench chain --length 2 --mode process",
            "A chain of two NFs, each in a process",
        )],
    ),
    of(
        "completions",
        &[(
            "catena completions bash > /etc/bash_completion.d/catena",
            "For all users",
        )],
    ),
    of(
        "man",
        &[(
            "catena man /usr/local/share/man/man1",
            "Where man(1) finds them",
        )],
    ),
];
