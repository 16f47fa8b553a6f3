//! Snapshots of UPFs: `snapshot` in the settings of a UPF has its sessions in a file.
//!
//! Control plane only: pages are asked for as any client does, between the UPF's bursts, and the
//! file takes the place of the one before when it is whole and on the disk. The UPF reads it by
//! itself when it begins with nothing. Limits: the file is as old as `every`; what fails is told
//! once, until it succeeds again; a chain that is changed goes on as it was started.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_engine::chain::{Chain, NodeKind};
use catena_engine::units::Span;
use serde_json::{Value, json};

use crate::commands::control::{Answer, Request, exchange};
use crate::notes::Notes;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most pages of a file: a UPF has no more slots.
const PAGE_COUNT_MAX: usize = 1 << 23;

/// A UPF whose sessions are written.
struct Kept {
    node: String,
    file: PathBuf,
    every: Duration,
}

/// UPFs of a chain that want it: each shard has a file of its own.
fn wanted(chain: &Chain) -> Vec<Kept> {
    let nodes = chain.nodes.iter().filter_map(|node| {
        let NodeKind::Nf { kind, config, .. } = &node.kind else {
            return None;
        };
        let snapshot = config.get("snapshot").filter(|_| kind.name == "upf")?;
        let file = snapshot["file"].as_str()?;
        let file = match node.name.split_once('/') {
            Some((_, shard)) => format!("{file}.{shard}"),
            None => file.to_owned(),
        };
        let every = snapshot["every"].as_str();
        let every = every.and_then(|text| Span::parse(text).ok());
        let every = every.map_or(Duration::from_secs(10), |span| {
            Duration::from_nanos(span.ns)
        });
        Some(Kept {
            node: node.name.clone(),
            file: file.into(),
            every,
        })
    });
    nodes.collect()
}

/// Has the sessions of a chain's UPFs written, to the end of the process.
///
/// # Errors
/// There can be no thread for it.
pub(crate) fn keep(chain: &Chain, control: &Path) -> io::Result<()> {
    for kept in wanted(chain) {
        let control = control.to_owned();
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        thread.spawn(move || {
            let (notes, mut failed) = (Notes::to_stderr(), None);
            loop {
                std::thread::sleep(kept.every);
                let why = write(&kept, &control).err();
                if let Some(why) = why.as_ref().filter(|why| failed.as_ref() != Some(*why)) {
                    let file = kept.file.display();
                    notes.say(format!("note: {}: no snapshot in {file}: {why}", kept.node));
                }
                failed = why;
            }
        })?;
    }
    Ok(())
}

fn write(kept: &Kept, control: &Path) -> Result<(), String> {
    let mut lines = Vec::new();
    let mut from = Some(0);
    for _ in 0..PAGE_COUNT_MAX {
        let Some(slot) = from else { break };
        let request = Request::Control {
            node: kept.node.clone(),
            request: json!({ "snapshot": slot }),
        };
        let page = match exchange(control, &request, PATIENCE) {
            Ok(Answer::Control(page)) => page,
            Ok(Answer::Error(why)) => return Err(why),
            Ok(_) => return Err("the chain gives another answer".to_owned()),
            Err(error) => return Err(format!("the chain {error}")),
        };
        let more = page["lines"].as_array().ok_or("it has no pages")?;
        let more = more.iter().filter_map(Value::as_str);
        lines.extend(more.map(str::to_owned));
        from = page["next"].as_u64();
    }
    if from.is_some() {
        return Err("it has no end".to_owned());
    }
    let text = catena_upf::snapshot::sealed(&lines);
    replace(&kept.file, text.as_bytes()).map_err(|error| error.to_string())
}

/// Has a file be these bytes, or what it was before: whatever ends in between.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // Whom a UPF serves is nobody else's concern.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut written = options.open(&new)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    // The name is on the disk, too.
    let folder = file.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}
