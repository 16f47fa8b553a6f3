//! The redirect program on an interface: loaded, hung there, found again by others.
//!
//! Control path. One program serves all queues of an interface: the first port that opens hangs it
//! there, and a port of another queue, in this process or another, takes part in it, if it takes
//! the same packets. Each keeps a descriptor of the link: the program goes when the last of them
//! goes, however that ends, and nothing is left in the kernel or in a file system.

pub(super) mod sys;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::io::Errno;

use super::error::XdpError;
use super::netlink::program_on;
use super::program::{NAME_START, Steering, name_of, program};

/// Queues that a port can have: entries of the map, which cost 8 bytes each.
pub(super) const QUEUE_COUNT_MAX: u32 = 256;

/// How long the kernel may take to let go of the program of a port that has ended.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

/// Where the program runs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In the driver if that can, else in the kernel's stack.
    #[default]
    Auto,
    /// In the driver, before the kernel makes a packet of its own.
    Native,
    /// In the kernel's stack: with any driver, slower.
    Generic,
}

/// A port's part in the program of an interface.
#[derive(Debug)]
pub(super) struct Redirect {
    /// Keeps the program on the interface.
    _link: OwnedFd,
    sockets: OwnedFd,
}

/// The program that hangs on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hung {
    /// Its number.
    pub id: u32,
    /// What it is called, if this process may know (CAP_SYS_ADMIN).
    pub name: Option<String>,
    /// Whether it runs in the kernel's stack, not in the driver.
    pub is_generic: bool,
}

impl Hung {
    /// On interface `index` of this network namespace.
    pub(crate) fn on(index: u32) -> Option<Self> {
        let (id, is_generic) = program_on(index)?;
        let info = sys::program_by_id(id).and_then(|fd| sys::program_info(fd.as_fd()));
        let name = info.ok().map(|(name, _)| name);
        Some(Self {
            id,
            name,
            is_generic,
        })
    }

    /// Whether a port `xdp` has hung it there: others can take part in it.
    pub fn is_of_a_port(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        name.starts_with(NAME_START)
    }
}

/// A map for the sockets of so many queues.
pub(super) fn socket_map(entries: u32) -> Result<OwnedFd, Errno> {
    sys::create_socket_map(entries)
}

/// Loads the program for a map.
pub(super) fn load(steering: &Steering, map: &OwnedFd) -> Result<OwnedFd, (Errno, String)> {
    let code = program(steering, map.as_raw_fd());
    sys::load_program(&code, &name_of(steering))
}

/// A program of Catena's that hangs on an interface already.
enum Found {
    /// It stays for as long as this takes part.
    Joined(Redirect),
    /// Nobody holds it there any more, as this says; in a moment it may be gone.
    Leaves(XdpError),
}

impl Redirect {
    /// Hangs the program on interface `index`, called `name`, or takes part in the one there.
    pub(super) fn open(
        name: &str,
        index: u32,
        mode: Mode,
        steering: &Steering,
    ) -> Result<Self, XdpError> {
        let at = |step| XdpError::at(name, step);
        let sockets = socket_map(QUEUE_COUNT_MAX).map_err(at("make a map of sockets"))?;
        let program = load(steering, &sockets).map_err(|(error, why)| {
            let step = "load the redirect program";
            match XdpError::at(name, step)(error) {
                refused @ XdpError::System { .. } if why.is_empty() => refused,
                XdpError::System { name, step, source } => XdpError::Verifier {
                    name,
                    step,
                    source,
                    why,
                },
                refused => refused,
            }
        })?;
        let hang = |flags| sys::attach(program.as_fd(), index, flags);
        let hang_in_mode = || match mode {
            Mode::Native => hang(NATIVE),
            Mode::Generic => hang(GENERIC),
            Mode::Auto => hang(NATIVE).or_else(|error| match error {
                Errno::BUSY | Errno::EXIST | Errno::PERM => Err(error),
                _ => hang(GENERIC),
            }),
        };
        let start = Instant::now();
        loop {
            match hang_in_mode() {
                Ok(link) => {
                    return Ok(Self {
                        _link: link,
                        sockets,
                    });
                }
                Err(Errno::BUSY | Errno::EXIST) => match Self::join(name, index, steering)? {
                    Found::Joined(joined) => return Ok(joined),
                    Found::Leaves(why) if start.elapsed() >= PATIENCE => return Err(why),
                    // No event tells when the kernel has let go of it.
                    Found::Leaves(_) => {
                        let _ = poll(&mut [], Some(&PAUSE));
                    }
                },
                Err(Errno::OPNOTSUPP) if mode == Mode::Native => {
                    return Err(XdpError::NoNative {
                        name: name.to_owned(),
                    });
                }
                Err(error) => return Err(at("attach the redirect program")(error)),
            }
        }
    }

    /// Takes part in the program that hangs on the interface, if it takes the same packets.
    fn join(name: &str, index: u32, steering: &Steering) -> Result<Found, XdpError> {
        let other = |program: String| XdpError::OtherProgram {
            name: name.to_owned(),
            program,
        };
        let at = |step| XdpError::at(name, step);
        let Some((program, _)) = program_on(index) else {
            return Ok(Found::Leaves(other("which has gone meanwhile".to_owned())));
        };
        let found = sys::program_by_id(program).and_then(|fd| sys::program_info(fd.as_fd()));
        let (called, map) = found.map_err(at("look at the program that is there"))?;
        let described = || other(format!("'{called}', number {program}"));
        if called != name_of(steering) {
            return Err(described());
        }
        let sockets = sys::map_by_id(map.ok_or_else(described)?);
        let sockets = sockets.map_err(at("take part in the program there"))?;
        let mut id = 0;
        loop {
            // One that hangs there without a link cannot be kept there: it was put there by hand,
            // or its last user ends.
            let Ok(next) = sys::link_after(id) else {
                return Ok(Found::Leaves(described()));
            };
            id = next;
            // Links come and go while they are looked through.
            if let Ok(link) = sys::link_by_id(id)
                && sys::xdp_link_program(link.as_fd()) == Ok(Some(program))
            {
                return Ok(Found::Joined(Self {
                    _link: link,
                    sockets,
                }));
            }
        }
    }

    /// Has packets of `queue` go to `socket`, as long as that is open.
    pub(super) fn serve(&self, queue: u32, socket: &OwnedFd) -> Result<(), Errno> {
        sys::put_socket(self.sockets.as_fd(), queue, socket.as_fd())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    use super::*;

    /// `XDP_REDIRECT`.
    const REDIRECT: u32 = 4;

    /// Whether a program takes a packet that came by a queue with a socket.
    pub(crate) fn takes(steering: &Steering, packet: &[u8]) -> bool {
        let map = socket_map(1).unwrap();
        let program = load(steering, &map).unwrap();
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None).unwrap();
        sys::put_socket(map.as_fd(), 0, socket.as_fd()).unwrap();
        sys::test_run(program.as_fd(), packet).unwrap() == REDIRECT
    }

    #[test]
    fn what_the_verifier_says_is_told() {
        let Ok(map) = socket_map(1) else {
            println!("SKIP what_the_verifier_says_is_told: no eBPF here");
            return;
        };
        drop(map);
        // The result is never set.
        let (error, why) = sys::load_program(&[0x95], "wrong").unwrap_err();
        assert_eq!(error, Errno::ACCESS);
        assert!(why.contains("R0"), "{why}");
    }
}
