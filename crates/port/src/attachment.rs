//! An interface that goes away while a port runs, and returns: when it is looked for, and what is
//! counted.
//!
//! Shared by the ports whose interface is the kernel's to keep (`tap`, `packet_socket`); `dpdk`
//! asks for its number only. The port lets go of an interface that is gone, so that nothing is
//! received and what is to be sent fails, and the chain lives; it is looked for from time to time,
//! on the data path's thread, which keeps the rights for it.

use std::os::fd::OwnedFd;

use catena_engine::nf::Nanos;
use catena_engine::port::PortError;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// How often it is looked for.
const LOOK_NS: u64 = 100_000_000;
/// How often at least one is tried that is there and refuses: opening takes its time, in which no
/// packet of this worker moves.
const LOOK_MAX_NS: u64 = 5_000_000_000;
/// Names of the counters.
pub(crate) const COUNTERS: [&str; 2] = ["attached", "detached"];

/// Whether a port has its interface, and how often that has changed.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Times that the port got its interface, the first one included.
    pub(crate) attached: u64,
    /// Times that it lost it.
    pub(crate) detached: u64,
    next_look: Nanos,
    /// From a look to the next one.
    wait_ns: u64,
    is_closed: bool,
    /// Why one that was there again could not be used.
    refusal: Option<PortError>,
}

impl Attachment {
    /// Of a port that has just been opened.
    pub(crate) fn new() -> Self {
        Self {
            attached: 1,
            detached: 0,
            next_look: Nanos(0),
            wait_ns: LOOK_NS,
            is_closed: false,
            refusal: None,
        }
    }

    /// Notes that the interface is gone.
    pub(crate) fn lost(&mut self) {
        self.detached += 1;
    }

    /// The index of one of that name, if it is time to look and it is there.
    #[cold]
    pub(crate) fn is_back(&mut self, name: &str, now: Nanos) -> Option<u32> {
        if self.is_closed || now < self.next_look {
            return None;
        }
        let index = index_of(name);
        if index.is_none() {
            // Whatever one before it has said is of that one.
            self.refusal = None;
            self.wait_ns = LOOK_NS;
        }
        self.next_look = now.plus(self.wait_ns);
        index
    }

    /// What the port has of the interface that is there again.
    pub(crate) fn regained<T>(&mut self, opened: Result<T, PortError>) -> Option<T> {
        match opened {
            Ok(opened) => {
                self.attached += 1;
                self.refusal = None;
                self.wait_ns = LOOK_NS;
                Some(opened)
            }
            Err(why) => {
                self.refusal = Some(why);
                self.wait_ns = (self.wait_ns * 2).min(LOOK_MAX_NS);
                None
            }
        }
    }

    /// Ends the looking; gives why an interface that was there could not be used.
    pub(crate) fn close(&mut self) -> Option<PortError> {
        self.is_closed = true;
        self.refusal.take()
    }

    /// Names and values of what is counted.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 2] {
        [(COUNTERS[0], self.attached), (COUNTERS[1], self.detached)]
    }
}

/// The number of the interface that has this name now.
pub(crate) fn index_of(name: &str) -> Option<u32> {
    let index = asking().and_then(|socket| name_to_index(&socket, name));
    index.ok()
}

/// A socket to ask about interfaces.
fn asking() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_looked_for_from_time_to_time_until_the_port_is_closed() {
        let mut attachment = Attachment::new();
        assert_eq!(attachment.is_back("lo", Nanos(5)), Some(1));
        assert_eq!(attachment.is_back("lo", Nanos(LOOK_NS)), None);
        assert_eq!(attachment.is_back("lo", Nanos(LOOK_NS + 5)), Some(1));
        assert_eq!(attachment.is_back("no such one", Nanos(9 * LOOK_NS)), None);
        assert_eq!(attachment.close(), None);
        assert_eq!(attachment.is_back("lo", Nanos(99 * LOOK_NS)), None);
    }

    /// One that refuses is tried less and less often; one that comes anew soon.
    #[test]
    fn an_interface_that_refuses_is_tried_less_often() {
        let mut attachment = Attachment::new();
        let (mut now, mut looks) = (0, Vec::new());
        while looks.len() < 9 {
            if attachment.is_back("lo", Nanos(now)).is_some() {
                looks.push(now / LOOK_NS);
                let refused = PortError("busy".to_owned());
                assert_eq!(attachment.regained::<()>(Err(refused)), None);
            }
            now += LOOK_NS;
        }
        assert_eq!(looks, [0, 1, 3, 7, 15, 31, 63, 113, 163]);
        let gone = Nanos(now + LOOK_MAX_NS);
        assert_eq!(attachment.is_back("no such one", gone), None);
        assert!(attachment.is_back("lo", gone.plus(LOOK_NS)).is_some());
        assert_eq!(attachment.close(), None);
    }

    #[test]
    fn what_was_refused_is_told_unless_it_was_had_later() {
        let refused = || PortError("busy".to_owned());
        let mut attachment = Attachment::new();
        attachment.lost();
        assert_eq!(attachment.regained::<()>(Err(refused())), None);
        assert_eq!(attachment.counters(), [("attached", 1), ("detached", 1)]);
        assert_eq!(attachment.regained(Ok(7)), Some(7));
        assert_eq!(attachment.close(), None);
        assert_eq!(attachment.regained::<()>(Err(refused())), None);
        assert_eq!(attachment.close(), Some(refused()));
    }
}
