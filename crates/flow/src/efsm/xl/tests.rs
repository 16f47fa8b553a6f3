//! Tests of the importer: what is refused, with which line, and that any text ends it.

use serde_json::Value;

use super::super::{Document, compile};
use super::import;

const HEADERS: &str = "PacketField ipv4 { src = packet.data[26:+4]; ttl = packet.data[22:+1]; }\n\
                       PacketField mac { dst = packet.data[0:+6]; wide = packet.data[60:+16]; }\n";

fn read(name: &str) -> Result<String, String> {
    match name {
        "headers.xlh" => Ok(HEADERS.to_owned()),
        "more.xlh" => Ok("Register hidden;".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

/// A program whose lines from the fifth on are these.
fn stage(lines: &str) -> String {
    format!(
        "import \"headers.xlh\";\nRegister global all;\nStage s {{\nRegister n;\n{lines}\n\
         setFlowKey(ipv4.src);\nState initial a {{ on (pktRcvd) {{ n = n + 1; all = n; }} }}\n}}"
    )
}

/// The same, with actions of the state.
fn acts(lines: &str) -> String {
    stage(&format!("State b {{\non (pktRcvd) {{\n{lines}\n}} }}"))
}

#[test]
fn what_is_wrong_is_told_by_its_line() {
    for (text, line, message) in [
        (stage("Register n;"), 5, "n is declared twice"),
        (stage("Register all;"), 5, "all is declared twice"),
        (stage("Register m,\nm;"), 6, "m is declared twice"),
        (
            stage("Action x { }\nAction x { }"),
            6,
            "x is declared twice",
        ),
        (
            stage("Event e = n == 1;\nEvent e = n == 2;"),
            6,
            "e is declared twice",
        ),
        (stage("State b { }\nState b { }"), 6, "b is declared twice"),
        (stage("State initial b { }"), 7, "two states are initial"),
        (
            stage("State initial any { }"),
            5,
            "any is no state to begin in",
        ),
        (
            stage("setFlowKey(ipv4.src);"),
            6,
            "setFlowKey is declared twice",
        ),
        (
            "Constant A = 1,\nA = 2;\nStage s { }".to_owned(),
            2,
            "A is declared twice",
        ),
        (
            "PacketField p {\na = packet.data[1];\na = packet.data[2]; }".to_owned(),
            3,
            "p.a is declared twice",
        ),
        (
            "\nPacketField p {\na = packet.data[1:+17]; }".to_owned(),
            3,
            "1 to 16 bytes",
        ),
        (
            "PacketField p { a = packet.meta[1]; }".to_owned(),
            1,
            "packet.data",
        ),
        (
            "import\n\"more.xlh\";".to_owned(),
            2,
            "more than packet fields",
        ),
        (
            "Stage s { }\nState a { }".to_owned(),
            1,
            "stages, or states alone",
        ),
        // What only the compiler sees.
        (
            acts("setField(ipv4.ttl, 255, 256);"),
            7,
            "256 does not fit 8 bits",
        ),
        (
            acts("all = 1;\nsetField(ipv4.ttl, 255, n);"),
            8,
            "64 bits do not fit 8",
        ),
        (acts("n = mac.wide;"), 7, "128 bits do not fit 64"),
        (acts("\nif (n < 0) { n = 1; }"), 8, "never holds"),
        (
            acts("if (n == 1, n == 2) { n = 1; }"),
            7,
            "never hold together",
        ),
        (
            acts("if (ipv4.ttl == 300) { n = 1; }"),
            7,
            "300 does not fit 8 bits",
        ),
        (stage("Register found;"), 5, "flow.found is something else"),
        (stage("State forget { }"), 5, "forget is no state"),
        (acts("n = \"1.2.3\";"), 7, "\"1.2.3\" is no address"),
        (acts("n = \"1 || drop(x)\";"), 7, "is no address"),
        (
            stage("Action x { y(1); }\nAction y { }\nState b { x(); }"),
            5,
            "without arguments",
        ),
        (
            stage("Action x { x(); }\nState b { x(); }"),
            5,
            "x calls itself",
        ),
    ] {
        let error = import("a.xl", &text, read).expect_err(&text);
        assert!(error.message.contains(message), "{error}{text}");
        assert_eq!(error.line, line, "{error}{text}");
    }
}

/// Statements of the state `b` with these actions.
fn made(actions: &str) -> Vec<String> {
    let document = import("a.xl", &acts(actions), read).unwrap_or_else(|error| panic!("{error}"));
    let transitions = document["elements"][0]["transitions"].as_array().unwrap();
    let is_of = |one: &&Value| one["from"][0] == "b";
    let found = transitions.iter().find(is_of).unwrap();
    let statements = found["do"].as_array().unwrap().iter();
    statements
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn nothing_is_cut_off_and_the_last_verdict_counts() {
    assert_eq!(
        made("n = ipv4.ttl + ipv4.ttl; all = \"1.2.3.4\" * 2; n = pktRcvd.len - n;"),
        [
            "flow.n = (ipv4.ttl as 64) + (ipv4.ttl as 64)",
            "global.all = (1.2.3.4 as 64) * (2 as 64)",
            "flow.n = (packet.len as 64) - flow.n",
        ]
    );
    assert_eq!(
        made("setField(mac.dst, 255, \"0:1:2:a:b:cc\"); n = max(n, packet.data[40:+2]);"),
        [
            "eth.dst = 00:01:02:0a:0b:cc",
            "flow.n = max(flow.n, (packet[40:+2] as 64))",
        ]
    );
    assert_eq!(
        made("sendPacket(255, 1); n = 1; sendPacket(255, 2);"),
        ["flow.n = 1", "output(port_2)"]
    );
}

#[test]
fn what_multiplies_is_bounded() {
    let mut text = String::new();
    for level in 0..7 {
        let body = format!("m{}(); ", level + 1).repeat(100);
        text += &format!("Action m{level} {{ {body} }}\n");
    }
    text += "Action m7 { }\nState b { m0(); }";
    let error = import("a.xl", &stage(&text), read).expect_err("too much");
    assert!(error.message.contains("over 20000 actions"), "{error}");
    let body = "n = 1;".repeat(1000) + "on (pktRcvd) {" + &"if (n == 1) { }".repeat(1000) + "}";
    let error = import("a.xl", &stage(&format!("State b {{ {body} }}")), read);
    assert!(error.expect_err("too much").message.contains("over 20000"));
    let comments = "/*".repeat(250_000) + &"*/".repeat(250_000);
    assert!(import("a.xl", &comments, read).is_err());
    let long = " ".repeat((1 << 20) + 1);
    assert!(
        import("a.xl", &long, read)
            .expect_err("long")
            .message
            .contains("too long")
    );
}

/// Pieces of programs, put together at random.
const PIECES: [&str; 44] = [
    "Stage",
    "State",
    "initial",
    "Register",
    "global",
    "Event",
    "Action",
    "Constant",
    "import",
    "PacketField",
    "on",
    "if",
    "serial",
    "(",
    ")",
    "{",
    "}",
    ";",
    ",",
    ".",
    "=",
    "==",
    "<=",
    "+",
    "%",
    "min",
    "n",
    "a",
    "ipv4",
    "src",
    "packet",
    "data",
    "[26:+4]",
    "[9]",
    "pktRcvd",
    "255",
    "0x",
    "1",
    "\"1.2.3.4\"",
    "\"headers.xlh\"",
    "/*",
    "*/",
    "// x\n",
    "sendPacket",
];

#[test]
fn any_text_ends_and_what_is_taken_compiles() {
    let mut seed = 3_u64;
    let mut below = |end: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_041);
        (seed >> 33) as usize % end
    };
    let whole = acts(
        "serial { n = n + 1; } all = currentTime; if (n >= 3, pktRcvd.port == 1) { \
         sendPacket(255, 2); setField(ipv4.ttl, 255, 9); setNextState(a); }",
    );
    let words: Vec<&str> = whole.split(' ').collect();
    let (mut taken, mut refused) = (0, 0);
    for round in 0..6000 {
        let mut text: Vec<&str> = match round % 3 {
            0 => Vec::new(),
            _ => words.clone(),
        };
        for _ in 0..=below(if text.is_empty() { 40 } else { 3 }) {
            let at = below(text.len() + 1);
            match below(3) {
                0 if at < text.len() => drop(text.remove(at)),
                1 if at < text.len() => text[at] = PIECES[below(PIECES.len())],
                _ => text.insert(at, PIECES[below(PIECES.len())]),
            }
        }
        match import("a.xl", &text.join(" "), read) {
            Ok(document) => {
                let document: Document = serde_json::from_value(document).unwrap();
                assert!(compile(&document).is_ok());
                taken += 1;
            }
            Err(error) => {
                assert!(error.line >= 1 && !error.message.is_empty());
                refused += 1;
            }
        }
    }
    assert!(taken > 50 && refused > 1000, "{taken} {refused}");
}
