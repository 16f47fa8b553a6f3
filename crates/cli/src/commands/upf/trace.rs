//! `catena upf trace`: what comes of each packet and message of one session, as lines of text and
//! as a pcapng file with an interface for each of the UPF's and a comment for each packet.
//!
//! The UPF notes (`crates/upf/src/trace.rs`); this asks it for what it has noted, ten times a
//! second.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_port::capture::{Record, pcapng};
use serde_json::{Value, json};

use super::{Node, ask, is_shard};
use crate::commands::{Failure, Outcome};
use crate::document;
use crate::overwrite::Overwrite;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: Node,
    /// The session, by the UPF's SEID
    #[arg(long, required_unless_present = "ue")]
    seid: Option<u64>,
    /// The session, by its UE address
    #[arg(long, value_name = "ADDRESS", conflicts_with = "seid")]
    ue: Option<IpAddr>,
    /// End after this time; a number without unit is in seconds
    #[arg(long, value_name = "SPAN",
          value_parser = |text: &str| quantity::seconds(text, 0.01..=86_400.0))]
    seconds: Option<Duration>,
    /// End after so many records
    #[arg(long, value_name = "COUNT", default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    records: u32,
    /// Keep so many bytes of each frame
    #[arg(long, value_name = "BYTES", default_value_t = 65_535)]
    snap: u16,
    /// Write frames to this pcapng file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Between two questions.
const POLL: Duration = Duration::from_millis(100);
/// How long a UPF may be silent, or dead, before the trace ends with that.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(file) = &arguments.write {
        arguments.overwrite.check(file)?;
    }
    let mut trace = Trace::begin(arguments)?;
    let mut file = match &arguments.write {
        Some(path) => Some(Pcapng::create(path, &trace.interfaces)?),
        None => None,
    };
    let shows = !arguments.node.json;
    if shows {
        let ue = trace
            .ue
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>();
        outln!("session {}, UE {}", trace.seid, ue.join(", "));
    }
    let mut shown = Vec::new();
    let ended_by = follow(arguments, &mut trace, |records| {
        for record in records {
            if let Some(file) = &mut file {
                file.add(record);
            }
            match shows {
                true => outln!("{}", line(record)),
                false => shown.push(without_frame(record)),
            }
        }
        // Whoever ends this finds a whole file.
        file.as_mut().map_or(Ok(()), Pcapng::flush)
    })?;
    trace.end();
    let lost = trace.lost;
    if !shows {
        let summary = json!({
            "seid": trace.seid, "ue_v4": trace.ue[0], "ue_v6": trace.ue[1],
            "ended_by": ended_by, "lost": lost, "records": shown,
        });
        document::print("catena.upf.trace/1", &summary)?;
    } else {
        let many = trace.count;
        outln!("{many} records, {lost} lost; ended by {ended_by}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads records until it is to end; says what by.
fn follow(
    arguments: &Arguments,
    trace: &mut Trace<'_>,
    mut note: impl FnMut(&[Value]) -> Result<(), Failure>,
) -> Result<&'static str, Failure> {
    let end = arguments.seconds.map(|span| Instant::now() + span);
    loop {
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        let answer = trace.read()?;
        let records = answer["records"].as_array().map_or(&[][..], Vec::as_slice);
        let wanted = (arguments.records - trace.count) as usize;
        let records = &records[..records.len().min(wanted)];
        note(records)?;
        trace.count += u32::try_from(records.len()).unwrap_or(0);
        if trace.count == arguments.records {
            return Ok("records");
        }
        match answer["more"] == true {
            _ if is_over => return Ok("seconds"),
            true => continue,
            // No shard has it, if it answers nothing at all.
            false if answer["session"] != true => return Ok("session"),
            false => {}
        }
        let rest = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
        std::thread::sleep(POLL.min(rest));
    }
}

/// A trace under way.
struct Trace<'a> {
    node: &'a Node,
    snap: u16,
    id: u64,
    seid: u64,
    ue: [Value; 2],
    interfaces: Vec<String>,
    count: u32,
    /// Records without room: of this trace, and of those before it.
    lost: u64,
    lost_before: u64,
    /// When it was answered last.
    heard_at: Instant,
}

impl<'a> Trace<'a> {
    fn begin(arguments: &'a Arguments) -> Result<Self, Failure> {
        let (field, which) = match (arguments.ue, arguments.seid) {
            (Some(ue), _) => ("ue", json!(ue)),
            (None, seid) => ("seid", json!(seid)),
        };
        let (node, snap) = (&arguments.node, arguments.snap);
        let answer = asked(
            node,
            json!({ "trace": "begin", field: which, "snap": snap }),
        )?;
        let (Some(id), Some(seid)) = (answer["id"].as_u64(), answer["seid"].as_u64()) else {
            return Err(Failure::running(format!(
                "no shard has a session of {field} {which}"
            )));
        };
        let names = answer["interfaces"].as_array().into_iter().flatten();
        Ok(Self {
            node,
            snap,
            id,
            seid,
            ue: [answer["ue_v4"].clone(), answer["ue_v6"].clone()],
            interfaces: names
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
            count: 0,
            lost: 0,
            lost_before: 0,
            heard_at: Instant::now(),
        })
    }

    /// What was noted since. A UPF that took the place of the one that was asked, behind a kill or
    /// an `apply`, has the session and no trace: it is asked for one.
    fn read(&mut self) -> Result<Value, Failure> {
        let request = json!({ "trace": "read", "id": self.id, "seid": self.seid });
        match asked(self.node, request) {
            Err(failure) if failure.message.contains("there is no trace") => self.begin_again(),
            // One that has died meanwhile has a successor soon.
            Err(failure) if is_silence(&failure) && self.heard_at.elapsed() < PATIENCE => {
                Ok(nothing_yet())
            }
            answer => {
                let answer = answer?;
                self.heard_at = Instant::now();
                self.lost = self.lost_before + answer["lost"].as_u64().unwrap_or(0);
                Ok(answer)
            }
        }
    }

    fn begin_again(&mut self) -> Result<Value, Failure> {
        let request = json!({ "trace": "begin", "seid": self.seid, "snap": self.snap });
        let begun = match asked(self.node, request) {
            // The session has ended too.
            Err(failure) if failure.message.contains("there is no session") => {
                return Ok(json!({ "records": [], "more": false, "session": false }));
            }
            Err(failure) if is_silence(&failure) => return Ok(nothing_yet()),
            begun => begun?,
        };
        errln!("the UPF has a successor: the trace goes on with what that sees");
        self.id = begun["id"].as_u64().unwrap_or(0);
        self.lost_before = self.lost;
        Ok(nothing_yet())
    }

    /// Ends it; one that is gone has ended.
    fn end(&self) {
        let request = json!({ "trace": "end", "id": self.id, "seid": self.seid });
        let _ = asked(self.node, request);
    }
}

/// Whether a request fell to an NF that could not answer it now.
fn is_silence(failure: &Failure) -> bool {
    let words = ["did not answer", "ask again"];
    words.iter().any(|words| failure.message.contains(words))
}

fn nothing_yet() -> Value {
    json!({ "records": [], "more": false, "session": true })
}

/// The answer of the UPF, or of the shard of it that serves the session.
fn asked(node: &Node, request: Value) -> Result<Value, Failure> {
    let answer = ask(node, request)?;
    let shards = answer.as_object().into_iter().flatten();
    let mut shards = shards
        .filter(|(name, _)| is_shard(&node.node, name))
        .peekable();
    if shards.peek().is_none() {
        return Ok(answer);
    }
    let its = shards.find(|(_, answer)| !answer.is_null());
    Ok(its.map_or(Value::Null, |(_, answer)| answer.clone()))
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

/// What became of it, and by which PDR.
fn comment(record: &Value) -> String {
    match record["pdr_id"].as_u64() {
        Some(pdr_id) => format!("PDR {pdr_id}, {}", text(record, "what")),
        None => text(record, "what").to_owned(),
    }
}

fn line(record: &Value) -> String {
    let time_ns = record["time_ns"].as_u64().unwrap_or(0);
    let (seconds, micros) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000 / 1000);
    let (way, interface) = (text(record, "way"), text(record, "interface"));
    let what = comment(record);
    format!(
        "{seconds}.{micros:06} {way:<3} {interface:<4} {:>5} B  {what}",
        record["bytes"]
    )
}

fn without_frame(record: &Value) -> Value {
    let mut record = record.clone();
    if let Some(fields) = record.as_object_mut() {
        fields.remove("frame");
    }
    record
}

/// The file of frames: valid whenever a poll is over.
struct Pcapng<'a> {
    path: &'a Path,
    file: File,
    interfaces: Vec<String>,
    gathered: Vec<u8>,
}

impl<'a> Pcapng<'a> {
    fn create(path: &'a Path, interfaces: &[String]) -> Result<Self, Failure> {
        let mut gathered = Vec::new();
        pcapng::section(&mut gathered);
        for name in interfaces {
            pcapng::interface(&mut gathered, name);
        }
        let mut file = Self {
            path,
            file: File::create(path).map_err(|error| fault(path, &error))?,
            interfaces: interfaces.to_vec(),
            gathered,
        };
        file.flush()?;
        Ok(file)
    }

    /// Adds a record, if it has a frame.
    fn add(&mut self, record: &Value) {
        let interface = text(record, "interface");
        let frame = bytes(text(record, "frame"));
        let Some(frame) = frame.filter(|_| !interface.is_empty()) else {
            return;
        };
        let number = self.number_of(interface);
        let original_len = record["bytes"]
            .as_u64()
            .and_then(|len| u32::try_from(len).ok());
        let record_of_file = Record {
            timestamp_ns: record["time_ns"].as_u64().unwrap_or(0),
            original_len: original_len.unwrap_or(0),
            data: &frame,
        };
        // Bits 0 and 1: 01 inbound, 10 outbound.
        let way: u32 = if text(record, "way") == "out" { 2 } else { 1 };
        let comment = comment(record);
        let options = [
            (pcapng::COMMENT, comment.as_bytes()),
            (pcapng::PACKET_FLAGS, &way.to_le_bytes()[..]),
        ];
        pcapng::packet(&mut self.gathered, number, &record_of_file, &options);
    }

    /// The number of an interface in the file, which is new behind an `apply` at times.
    fn number_of(&mut self, interface: &str) -> u32 {
        let known = self.interfaces.iter().position(|name| name == interface);
        let number = known.unwrap_or_else(|| {
            pcapng::interface(&mut self.gathered, interface);
            self.interfaces.push(interface.to_owned());
            self.interfaces.len() - 1
        });
        u32::try_from(number).unwrap_or(0)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.gathered);
        self.gathered.clear();
        written.map_err(|error| fault(self.path, &error))
    }
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure::running(format!("{}: {error}", path.display()))
}

/// Bytes that are written as hexadecimal digits, if they are.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}
