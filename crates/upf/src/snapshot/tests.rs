//! Snapshots: what comes back, and files that are not what they say.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use catena_wire::pfcp::value::PdrId;
use catena_wire::pfcp::{Cause, IeType, MessageType, key};
use proptest::prelude::*;

use super::*;
use crate::public_failures::{SESSIONS, Smf, new, nothing};
use crate::settings::Policy;
use crate::store::memory_bytes;
use crate::store::tests::Mortal;
use crate::upf::Upf;

const S: u64 = 1_000_000_000;

/// Lines as a file.
fn sealed(lines: &[String]) -> String {
    let mut writer = Writer::new(Vec::new());
    for line in lines {
        writer.line(line).unwrap();
    }
    String::from_utf8(writer.end().unwrap()).unwrap()
}

/// As [`super::restore`], of a file with this text.
fn restore(
    memory: Memory,
    settings: &Settings,
    now_ns: u64,
    text: &str,
) -> (Memory, Result<Option<usize>, String>) {
    super::restore(memory, settings, now_ns, &mut Cursor::new(text))
}

/// All that a UPF says, as a file.
fn file_of(upf: &Upf, now_ns: u64) -> String {
    let (mut lines, mut from) = (Vec::new(), Some(0));
    while let Some(slot) = from {
        let page = upf.snapshot(slot, now_ns);
        let more = page["lines"].as_array().unwrap().iter();
        lines.extend(more.map(|line| line.as_str().unwrap().to_owned()));
        from = page["next"].as_u64().map(|next| next as u32);
    }
    sealed(&lines)
}

fn empty(settings: &Settings) -> Memory {
    Box::new(vec![
        0;
        memory_bytes(settings.session_bytes, settings.sessions)
    ])
}

/// A UPF with sessions in some slots, and room in others.
fn some() -> (Smf, Vec<u64>) {
    let mut smf = Smf::new();
    let mut seids: Vec<u64> = (0..4).map(|_| smf.establish(nothing, nothing).2).collect();
    let gone = seids.remove(1);
    smf.ask(MessageType::SESSION_DELETION_REQUEST, Some(gone), nothing);
    (smf, seids)
}

#[test]
fn sessions_come_back_to_their_slots_and_an_smf_finds_them() {
    let (mut smf, seids) = some();
    let recovery = smf.upf.store.recovery();
    let (used, keys) = (smf.upf.pools[0].fill(), smf.upf.index.len());
    // It started earlier than the one that comes back, of which SMFs must not see a start.
    let text = file_of(&smf.upf, 0);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    lines[0] = lines[0].replace(&recovery.to_string(), &(recovery - 7).to_string());
    let settings = smf.upf.settings.clone();
    let (memory, restored) = restore(empty(&settings), &settings, 0, &sealed(&lines));
    assert_eq!(restored, Ok(Some(3)));
    smf.upf = new(Some(memory));
    assert_eq!(smf.upf.store.recovery(), recovery - 7);
    assert_eq!((smf.upf.pools[0].fill(), smf.upf.index.len()), (used, keys));
    for seid in &seids {
        assert!(smf.upf.store.slot_of(*seid).is_some());
    }
    let kind = MessageType::SESSION_MODIFICATION_REQUEST;
    let said = smf.ask(kind, Some(seids[1]), |writer| {
        writer.group(IeType::REMOVE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(1))
        })
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    for _ in 3..SESSIONS {
        assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
    }
    let said = smf.establish(nothing, nothing);
    assert_eq!(said.0, Cause::NO_RESOURCES_AVAILABLE);
}

/// Whatever settings a UPF had before those of its file: rules come back with what they name, and
/// find it when settings change behind that, too.
#[test]
fn rules_come_back_with_the_interfaces_that_they_name() {
    for rounds in [0, 2] {
        let (mut smf, seids) = some();
        let settings = smf.upf.settings.clone();
        let mut others = settings.clone();
        others.interfaces.reverse();
        for _ in 0..rounds {
            smf.upf.store.settle(&Places::of(&others));
            smf.upf.store.settle(&Places::of(&settings));
        }
        let text = file_of(&smf.upf, 0);
        let (memory, restored) = restore(empty(&settings), &settings, 0, &text);
        assert_eq!(restored, Ok(Some(3)));
        let leads_by = |upf: &Upf| {
            let slot = upf.store.slot_of(seids[0]).unwrap();
            upf.store.session(slot).unwrap().fars[0].interface
        };
        let mut upf = new(Some(memory));
        assert_eq!(leads_by(&upf), leads_by(&smf.upf));
        upf.store.settle(&Places::of(&others));
        assert_ne!(leads_by(&upf), leads_by(&smf.upf));
        upf.store.settle(&Places::of(&settings));
        assert_eq!(leads_by(&upf), leads_by(&smf.upf));
    }
}

/// What is in memory is newer than any file.
#[test]
fn kept_memory_is_left_alone() {
    let (smf, seids) = some();
    let text = file_of(&Smf::new().upf, 0);
    let settings = smf.upf.settings.clone();
    let (memory, restored) = restore(smf.upf.into_memory(), &settings, 0, &text);
    assert_eq!(restored, Ok(None));
    assert_eq!(new(Some(memory)).session_count() as usize, seids.len());
}

/// Whoever is killed while it reads leaves memory that the next one takes for new.
#[test]
fn a_kill_at_any_write_loses_no_session() {
    let (smf, seids) = some();
    let settings = smf.upf.settings.clone();
    let shared = Arc::new(Mutex::new(Vec::new()));
    let mortal = Mortal {
        bytes: empty(&settings).to_vec(),
        shared: shared.clone(),
    };
    let text = file_of(&smf.upf, 0);
    let (memory, restored) = restore(Box::new(mortal), &settings, 0, &text);
    assert_eq!(restored, Ok(Some(seids.len())));
    let states = std::mem::take(&mut *shared.lock().unwrap());
    assert!(states.len() > 10 * memory.len());
    for state in states.chunks(memory.len()) {
        let (memory, restored) = restore(Box::new(state.to_vec()), &settings, 0, &text);
        assert_eq!(restored, Ok(Some(seids.len())), "it reads the file again");
        assert_eq!(new(Some(memory)).session_count() as usize, seids.len());
    }
    let (_, kept) = restore(memory, &settings, 0, &text);
    assert_eq!(kept, Ok(None));
}

/// One that has ended behind its page, and one that was given its address behind that.
#[test]
fn of_two_sessions_with_one_address_the_later_one_comes_back() {
    let (smf, seids) = some();
    let settings = smf.upf.settings.clone();
    let lines: Vec<String> = file_of(&smf.upf, 0).lines().map(str::to_owned).collect();
    let mut lines = lines[..lines.len() - 1].to_vec();
    let mut page: Value = serde_json::from_str(&lines[1]).unwrap();
    let ue = std::net::Ipv4Addr::new(10, 45, 0, 77);
    for place in [0, 2] {
        let image = &mut page["slots"][place][1];
        let mut bytes = hex(image.as_str().unwrap()).unwrap();
        let mut session = Session::read(&bytes).unwrap();
        session.head.ue_v4 = Some(ue);
        session.write(&mut bytes);
        *image = json!(to_hex(&bytes));
    }
    lines[1] = page.to_string();
    let (memory, restored) = restore(empty(&settings), &settings, 0, &sealed(&lines));
    assert_eq!(restored, Ok(Some(3)));
    let upf = new(Some(memory));
    let slots: Vec<_> = seids.iter().map(|seid| upf.store.slot_of(*seid)).collect();
    assert_eq!(slots, [None, Some(2), Some(3)]);
    assert_eq!(upf.index.find(crate::model::Key::V4(ue)), Some(3));
}

#[test]
fn a_file_is_of_those_settings_and_that_version_by_which_it_was_written() {
    let (smf, _) = some();
    let text = file_of(&smf.upf, 0);
    let head = text.lines().next().unwrap();
    let is_of = |text: &str, head: &str| super::is_of(&mut Cursor::new(text), head);
    // It began at another time, and has other sessions.
    let later = file_of(&Smf::new().upf, 9);
    assert!(is_of(&text, head) && is_of(&later, head));
    let other = head.replace("\"sessions\":8", "\"sessions\":9");
    assert!(other != head && !is_of(&text, &other));
    assert!(!is_of(&text, &head.replace(KIND, "another")) && !is_of(&text, ""));
    assert!(is_same(head, later.lines().next().unwrap()) && !is_same(head, &other));
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        assert!(!is_of(&text[..cut], head), "{cut}");
    }
}

#[test]
fn time_stands_still_while_there_is_no_upf() {
    let shift = Shift {
        then_ns: 1000 * S,
        now_ns: 50 * S,
    };
    assert_eq!(shift.of(990 * S), 40 * S);
    assert_eq!(shift.of(1010 * S), 60 * S);
    assert_eq!(shift.of(1), 0, "no earlier than the machine's start");
    let mut one = crate::model::tests::session(3);
    one.urrs[0].active_ns = 995 * S;
    one.urrs[0].usage.first_ns = Some(999 * S);
    one.urrs[0].events.push(998);
    one.qers[0].ul_packets.ends_ns = 1060 * S;
    shift.session(&mut one);
    assert_eq!(one.urrs[0].active_ns, 45 * S);
    assert_eq!(one.urrs[0].usage.first_ns, Some(49 * S));
    assert_eq!(one.urrs[0].events.as_slice(), [48]);
    assert_eq!(one.qers[0].ul_packets.ends_ns, 110 * S);
}

/// Refused whole: and then the memory is new for whoever opens it.
fn assert_refused(text: &str, settings: &Settings, wanted: &str) {
    let (memory, restored) = restore(empty(settings), settings, 0, text);
    let why = restored.unwrap_err();
    assert!(why.contains(wanted), "{why}");
    let upf = new(Some(memory));
    assert_eq!(
        (upf.session_count(), upf.store.recovery()),
        (0, 3_900_000_000)
    );
}

#[test]
fn a_file_that_is_cut_changed_or_of_other_settings_is_refused() {
    let (smf, _) = some();
    let text = file_of(&smf.upf, 0);
    let settings = smf.upf.settings.clone();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        assert_refused(&text[..cut], &settings, "damaged");
    }
    for at in (0..text.len() - 1).step_by(97) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        assert_refused(std::str::from_utf8(&bytes).unwrap(), &settings, "damaged");
    }
    for change in [
        (|others: &mut Settings| others.interfaces[1].name = "n9".to_owned()) as fn(&mut Settings),
        |others| {
            others.policies.push(Policy {
                name: "video".to_owned(),
                interface: 1,
            });
        },
    ] {
        let mut others = settings.clone();
        change(&mut others);
        let (_, restored) = restore(empty(&others), &others, 0, &text);
        assert!(restored.unwrap_err().contains("other settings"));
    }
}

/// A file may be written by anybody: with the right sum, too.
#[test]
fn a_slot_beyond_all_and_one_that_comes_twice_are_refused() {
    let (smf, _) = some();
    let text = file_of(&smf.upf, 0);
    let settings = smf.upf.settings.clone();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut lines = lines[..lines.len() - 1].to_vec();
        let mut page: Value = serde_json::from_str(&lines[1]).unwrap();
        change(&mut page["slots"]);
        lines[1] = page.to_string();
        sealed(&lines)
    };
    for change in [
        (&|slots: &mut Value| slots[0][0] = json!(77)) as &dyn Fn(&mut Value),
        &|slots| slots[1] = slots[0].clone(),
        &|slots| slots.as_array_mut().unwrap().reverse(),
        &|slots| slots[0][1] = json!(""),
        &|slots| slots[0][1] = json!("zz"),
        &|slots| slots[0] = json!(null),
    ] {
        assert_refused(&changed(change), &settings, "damaged");
    }
    assert!(
        restore(empty(&settings), &settings, 0, &changed(&|_| {}))
            .1
            .is_ok()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any image under a right sum is refused, or is some session: never a panic.
    #[test]
    fn any_image_is_read(at in 0usize..1000, byte: u8, packet in any::<[u8; 60]>()) {
        let (smf, _) = some();
        let text = file_of(&smf.upf, 0);
        let settings = smf.upf.settings.clone();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut lines = lines[..lines.len() - 1].to_vec();
        let mut page: Value = serde_json::from_str(&lines[1]).unwrap();
        let mut image = hex(page["slots"][0][1].as_str().unwrap()).unwrap();
        let at = at % image.len();
        image[at] = byte;
        page["slots"][0][1] = json!(to_hex(&image));
        lines[1] = page.to_string();
        let (memory, _) = restore(empty(&settings), &settings, 5 * S, &sealed(&lines));
        let mut upf = new(Some(memory));
        upf.wake(6 * S);
        upf.datagram(&packet, crate::public_failures::SMF, 7 * S);
        upf.wake(100_000 * S);
    }
}
