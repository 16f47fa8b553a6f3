//! Kernel binding of bpf(2): maps, programs, and the links by which programs hang on interfaces.
//!
//! Control path. Each command has its own part of `union bpf_attr` (`linux/bpf.h`); the kernel
//! reads as many bytes as it is told and takes the rest for zero.
#![allow(unsafe_code, reason = "bpf(2) has no safe binding")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// `enum bpf_cmd`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    ProgramLoad = 5,
    #[cfg(test)]
    ProgramTestRun = 10,
    ProgramById = 13,
    MapById = 14,
    ObjectInfo = 15,
    LinkCreate = 28,
    LinkById = 30,
    LinkNextId = 31,
}

const MAP_TYPE_XSKMAP: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const LINK_TYPE_XDP: u32 = 6;

/// Bytes of names, a terminator included (`BPF_OBJ_NAME_LEN`).
const NAME_LEN: usize = 16;
/// Bytes of the verifier's explanation.
const LOG_LEN: usize = 4096;

/// # Safety
/// `attribute` is what the command takes, and what it points to is as long as it says.
unsafe fn bpf<T>(command: Command, attribute: &mut T) -> Result<libc::c_long, Errno> {
    // SAFETY: the attribute is readable and writable for its own size; the rest is the caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(attribute),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(result)
}

/// # Safety
/// As [`bpf`], and the command gives a descriptor.
unsafe fn bpf_descriptor<T>(command: Command, attribute: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's.
    let number = unsafe { bpf(command, attribute) }?;
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made it, and it is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn descriptor(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn padded(name: &str) -> [u8; NAME_LEN] {
    let mut bytes = [0; NAME_LEN];
    let len = name.len().min(NAME_LEN - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

/// A map of AF_XDP sockets by queue.
pub(super) fn create_socket_map(entries: u32) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct Attribute {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        unused: [u32; 3],
        name: [u8; NAME_LEN],
    }
    let mut attribute = Attribute {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: entries,
        unused: [0; 3],
        name: padded("catena_sockets"),
    };
    // SAFETY: that is what the command takes; it points to nothing.
    unsafe { bpf_descriptor(Command::MapCreate, &mut attribute) }
}

/// Puts a socket into a map of sockets.
pub(super) fn put_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> Result<(), Errno> {
    #[repr(C)]
    struct Attribute {
        map: u32,
        unused: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (key, value) = (queue, descriptor(socket));
    let mut attribute = Attribute {
        map: descriptor(map),
        unused: 0,
        key: (&raw const key).expose_provenance() as u64,
        value: (&raw const value).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: key and value are as long as the map says, 4 bytes, and outlive the call.
    unsafe { bpf(Command::MapUpdate, &mut attribute) }.map(drop)
}

/// Loads a program for XDP.
///
/// # Errors
/// The kernel's answer, and what its verifier says.
pub(super) fn load_program(code: &[u64], name: &str) -> Result<OwnedFd, (Errno, String)> {
    #[repr(C)]
    struct Attribute {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; NAME_LEN],
        interface: u32,
        expected_attach_type: u32,
    }
    const LICENSE: &CStr = c"Apache-2.0";
    let mut log = [0_u8; LOG_LEN];
    let mut attribute = Attribute {
        program_type: PROGRAM_TYPE_XDP,
        instruction_count: u32::try_from(code.len()).map_err(|_| (Errno::TOOBIG, String::new()))?,
        instructions: code.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: padded(name),
        interface: 0,
        expected_attach_type: ATTACH_XDP,
    };
    // SAFETY: instructions and licence are as long as said, and outlive the call.
    let loaded = unsafe { bpf_descriptor(Command::ProgramLoad, &mut attribute) };
    let Err(error) = loaded else {
        return loaded.map_err(|error| (error, String::new()));
    };
    // Once more, for the reason.
    attribute.log_level = 1;
    attribute.log_size = LOG_LEN as u32;
    attribute.log = log.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as above; the log is writable for its size.
    let again = unsafe { bpf_descriptor(Command::ProgramLoad, &mut attribute) };
    let text = String::from_utf8_lossy(&log);
    let text = text.trim_end_matches('\0').trim();
    let last = text
        .lines()
        .rev()
        .find(|line| !line.starts_with("processed"));
    again.map_err(|_| (error, last.unwrap_or_default().to_owned()))
}

/// Hangs a program on an interface; it goes with the last descriptor of the link.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    flags: u32,
) -> Result<OwnedFd, Errno> {
    let mut attribute = [descriptor(program), interface, ATTACH_XDP, flags];
    // SAFETY: that is what the command takes; it points to nothing.
    unsafe { bpf_descriptor(Command::LinkCreate, &mut attribute) }
}

/// The link whose number follows `id`.
pub(super) fn link_after(id: u32) -> Result<u32, Errno> {
    let mut attribute = [id, 0, 0];
    // SAFETY: that is what the command takes; it points to nothing.
    unsafe { bpf(Command::LinkNextId, &mut attribute) }?;
    Ok(attribute[1])
}

fn by_id(command: Command, id: u32) -> Result<OwnedFd, Errno> {
    let mut attribute = [id, 0, 0];
    // SAFETY: that is what these commands take; it points to nothing.
    unsafe { bpf_descriptor(command, &mut attribute) }
}

/// A link by its number.
pub(super) fn link_by_id(id: u32) -> Result<OwnedFd, Errno> {
    by_id(Command::LinkById, id)
}

/// A program by its number.
pub(super) fn program_by_id(id: u32) -> Result<OwnedFd, Errno> {
    by_id(Command::ProgramById, id)
}

/// A map by its number.
pub(super) fn map_by_id(id: u32) -> Result<OwnedFd, Errno> {
    by_id(Command::MapById, id)
}

/// What the kernel knows of an object; `info` as long as the kernel's struct or shorter.
fn info<const WORDS: usize>(object: BorrowedFd<'_>, info: &mut [u32; WORDS]) -> Result<(), Errno> {
    #[repr(C)]
    struct Attribute {
        object: u32,
        len: u32,
        info: u64,
    }
    let mut attribute = Attribute {
        object: descriptor(object),
        len: (WORDS * 4) as u32,
        info: info.as_mut_ptr().expose_provenance() as u64,
    };
    // SAFETY: the array is writable for the length said. Of pointers in it the kernel writes
    // behind none but `map_ids`, which `program_info` has set to memory as long as it says.
    unsafe { bpf(Command::ObjectInfo, &mut attribute) }.map(drop)
}

/// Of a link of an XDP program: the program's number (`struct bpf_link_info`).
pub(super) fn xdp_link_program(link: BorrowedFd<'_>) -> Result<Option<u32>, Errno> {
    let mut words = [0_u32; 8];
    info(link, &mut words)?;
    Ok((words[0] == LINK_TYPE_XDP).then_some(words[2]))
}

/// Of a program: its name and the number of its first map (`struct bpf_prog_info`).
pub(super) fn program_info(program: BorrowedFd<'_>) -> Result<(String, Option<u32>), Errno> {
    let mut map = 0_u32;
    let mut words = [0_u32; 20];
    let at = (&raw mut map).expose_provenance() as u64;
    words[13] = 1;
    (words[14], words[15]) = (at as u32, (at >> 32) as u32);
    info(program, &mut words)?;
    let name: Vec<u8> = words[16..20]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    // SAFETY: the kernel may have written it; it is a local that nobody else knows.
    let map = unsafe { (&raw const map).read_volatile() };
    Ok((
        String::from_utf8_lossy(name).into_owned(),
        (map != 0).then_some(map),
    ))
}

/// What a program says of a packet (`XDP_*`), run by the kernel on a copy of it.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, packet: &[u8]) -> Result<u32, Errno> {
    #[repr(C)]
    struct Attribute {
        program: u32,
        result: u32,
        len_in: u32,
        len_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_lens: [u32; 2],
        contexts: [u64; 2],
    }
    let mut attribute = Attribute {
        program: descriptor(program),
        result: 0,
        len_in: u32::try_from(packet.len()).map_err(|_| Errno::INVAL)?,
        len_out: 0,
        data_in: packet.as_ptr().expose_provenance() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
        context_lens: [0; 2],
        contexts: [0; 2],
    };
    // SAFETY: the packet is readable for its length and outlives the call; nothing is written.
    unsafe { bpf(Command::ProgramTestRun, &mut attribute) }?;
    Ok(attribute.result)
}
