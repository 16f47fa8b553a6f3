//! Snapshots of UPFs: `snapshot` in the settings of a UPF has its sessions in a file.
//!
//! Control plane only: pages are asked for as any client does, between the UPF's bursts, and each
//! is in the file before the next one is asked for; the file takes the place of the one before
//! when it is whole and on the disk. The UPF reads it by itself when it begins with nothing. One
//! that the UPF refused is kept beside it. Limits: the file is as old as `every`; one refused file
//! is kept; what fails is told once, until it succeeds again; a chain that is changed goes on as it
//! was started.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_engine::chain::{Chain, NodeKind};
use catena_upf::config::SnapshotConfig;
use catena_upf::snapshot::{Writer, is_of, is_same};
use serde::Deserialize;
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
        // A file that is wrong here was refused before the chain began.
        let snapshot = SnapshotConfig::deserialize(snapshot).ok()?;
        let shard = node.shard.as_ref();
        let shard = shard.map_or((0, 1), |shard| (shard.index, shard.count));
        Some(Kept {
            node: node.name.clone(),
            file: snapshot.file_of(shard).into(),
            every: Duration::from_nanos(snapshot.every.ns),
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
            // The first line of the file that it has written last.
            let mut last: Option<String> = None;
            loop {
                std::thread::sleep(kept.every);
                let written = write(&kept, &control).and_then(|head| {
                    let said = |error: io::Error| error.to_string();
                    let is_own = last.as_ref().is_some_and(|last| is_same(last, &head));
                    let refused = match is_own {
                        true => None,
                        false => keep_refused(&kept.file, &head).map_err(said)?,
                    };
                    take_place(&kept.file).map_err(said)?;
                    last = Some(head);
                    Ok(refused)
                });
                if let Ok(Some(note)) = &written {
                    notes.say(format!("note: {}: {note}", kept.node));
                }
                let why = written.err();
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

/// Writes all pages into a new file beside the one that there is; gives its first line.
fn write(kept: &Kept, control: &Path) -> Result<String, String> {
    let said = |error: io::Error| error.to_string();
    let mut writer = Writer::new(BufWriter::new(new_file(&kept.file).map_err(said)?));
    let (mut head, mut from) = (None, Some(0));
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
        let lines = page["lines"].as_array().ok_or("it has no pages")?;
        for line in lines.iter().filter_map(Value::as_str) {
            writer.line(line).map_err(said)?;
            head.get_or_insert_with(|| line.to_owned());
        }
        from = page["next"].as_u64();
    }
    if from.is_some() {
        return Err("it has no end".to_owned());
    }
    let written = writer.end().map_err(said)?;
    written.get_ref().sync_all().map_err(said)?;
    head.ok_or("it has no pages".to_owned())
}

/// A file's name with more behind it.
fn beside(file: &Path, more: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// The file that is written before it takes the place of `file`. Whom a UPF serves is nobody else's
/// concern: it is its user's from the beginning, whatever another life has left there.
fn new_file(file: &Path) -> io::Result<File> {
    let new = beside(file, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&new)
}

/// Has a file be the new one, or what it was before: whatever ends in between.
fn take_place(file: &Path) -> io::Result<()> {
    fs::rename(beside(file, ".new"), file)?;
    // The name is on the disk, too.
    let folder = file.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

/// Moves a file out of the way which the UPF that begins its snapshot with `head` has refused: it
/// may be the only copy of somebody's sessions. Gives what is to be said of it.
fn keep_refused(file: &Path, head: &str) -> io::Result<Option<String>> {
    let there = match File::open(file) {
        Ok(there) => there,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if is_of(&mut BufReader::new(there), head) {
        return Ok(None);
    }
    let kept = beside(file, ".refused");
    let (shown, kept_shown) = (file.display(), kept.display());
    if kept.try_exists()? {
        return Ok(Some(format!(
            "the snapshot {shown}, which was not taken, is overwritten: {kept_shown} is there \
             already; move it away to have the next one kept"
        )));
    }
    fs::rename(file, &kept)?;
    Ok(Some(format!(
        "the snapshot {shown}, which was not taken, is kept as {kept_shown}"
    )))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const HEAD: &str = r#"{"catena_upf_snapshot":1,"shape":{"sessions":8},"now_ns":9}"#;

    /// A whole file that begins with this line.
    fn of(head: &str) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        writer.line(head).unwrap();
        writer.end().unwrap()
    }

    /// The UPF reads its file by the same rule; a node of one shard is one UPF.
    #[test]
    fn each_upf_is_written_where_it_looks() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/upf");
        let sharded = fs::read_to_string(dir.join("sharded.yaml")).unwrap();
        let files = |settings: &str| {
            let text = sharded.replace("    shards: 2\n", settings);
            let checked = Chain::parse(&text, &dir, &crate::registry::registry(), None).unwrap();
            let kept = wanted(&checked.chain);
            let said = kept
                .iter()
                .map(|one| format!("{} {}", one.node, one.file.display()));
            said.collect::<Vec<_>>()
        };
        let written = "    snapshot: { file: /sessions }\n";
        assert_eq!(files("    shards: 2\n"), Vec::<String>::new());
        assert_eq!(files(written), ["upf /sessions"]);
        let one = files(&format!("{written}    shards: 1\n"));
        assert!(
            matches!(&one[..], [one] if one.ends_with(" /sessions")),
            "{one:?}"
        );
        let two = files(&format!("{written}    shards: 2\n"));
        assert_eq!(two, ["upf/0 /sessions.0", "upf/1 /sessions.1"]);
    }

    #[test]
    fn a_file_that_was_refused_is_kept_and_one_that_was_taken_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions");
        let kept = folder.path().join("sessions.refused");
        assert_eq!(keep_refused(&file, HEAD).unwrap(), None, "the first run");
        fs::write(&file, of(&HEAD.replace("\"now_ns\":9", "\"now_ns\":1"))).unwrap();
        assert_eq!(keep_refused(&file, HEAD).unwrap(), None);
        assert!(file.exists() && !kept.exists());
        let others = of(&HEAD.replace('8', "9"));
        fs::write(&file, &others).unwrap();
        let note = keep_refused(&file, HEAD).unwrap().unwrap();
        assert!(note.contains("kept as") && !file.exists(), "{note}");
        assert_eq!(fs::read(&kept).unwrap(), others);
        // What was kept first is not lost for what comes then.
        fs::write(&file, "damaged").unwrap();
        let note = keep_refused(&file, HEAD).unwrap().unwrap();
        assert!(note.contains("overwritten"), "{note}");
        assert_eq!(fs::read(&kept).unwrap(), others);
    }

    #[test]
    fn a_file_is_its_users_alone_whatever_was_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions");
        let new = folder.path().join("sessions.new");
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "another's").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &new).unwrap();
        new_file(&file).unwrap().write_all(b"sessions").unwrap();
        let mode = fs::metadata(&new).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Left by a life that was killed, and open to all.
        fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).unwrap();
        new_file(&file).unwrap().write_all(b"newer").unwrap();
        take_place(&file).unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(&file).unwrap(), b"newer");
        assert_eq!(fs::read(&elsewhere).unwrap(), b"another's");
        assert!(!new.exists());
    }
}
