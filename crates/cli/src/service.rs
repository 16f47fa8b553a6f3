//! A chain as a service: what `catena run` tells the service manager that started it.
//!
//! The protocol is that of sd_notify(3): datagrams of `KEY=VALUE` lines to the Unix socket that
//! `NOTIFY_SOCKET` names, by path or, with a leading `@`, in the abstract namespace. `READY=1` once
//! packets can move, `WATCHDOG=1` thrice per `WATCHDOG_USEC` from each step of the supervisor, also
//! of a long change, so that one which hangs is ended and started again, and `STOPPING=1` when the
//! chain is drained. Nobody waits for the manager: what it does not take is gone.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The manager, if one started this process.
#[derive(Debug, Default)]
pub(crate) struct Service {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Between two signs of life.
    interval: Option<Duration>,
    is_stopping: bool,
}

/// Gives signs of life.
#[derive(Debug)]
pub(crate) struct Watchdog {
    socket: (UnixDatagram, SocketAddr),
    interval: Duration,
    /// When the last one was given.
    last: Option<Instant>,
}

impl Watchdog {
    /// A step is taken at `now`: a sign of life, if it is time for one.
    pub(crate) fn alive(&mut self, now: Instant) {
        let since = self.last.map(|last| now.duration_since(last));
        if since.is_none_or(|since| since >= self.interval) {
            self.last = Some(now);
            say(&self.socket, "WATCHDOG=1\n");
        }
    }
}

impl Service {
    /// By the environment; without a manager there is nobody, and nothing is said.
    pub(crate) fn from_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        let microseconds = number("WATCHDOG_USEC");
        // A watchdog of another process is not ours to feed.
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = microseconds.filter(|us| *us > 0 && is_ours);
        Self {
            socket: socket(name.as_bytes()),
            interval: watchdog.map(|us| Duration::from_micros(us / 3)),
            ..Self::default()
        }
    }

    /// The chain runs.
    pub(crate) fn ready(&mut self, chain: &str) {
        let pid = std::process::id();
        self.say(&format!(
            "READY=1\nMAINPID={pid}\nSTATUS=chain {chain} is running\n"
        ));
    }

    /// The chain is drained.
    pub(crate) fn stopping(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.say("STOPPING=1\nSTATUS=packets inside leave\n");
        }
    }

    /// Who gives signs of life, if the manager wants any.
    pub(crate) fn watchdog(&self) -> Option<Watchdog> {
        let (socket, address) = self.socket.as_ref()?;
        Some(Watchdog {
            socket: (socket.try_clone().ok()?, address.clone()),
            interval: self.interval?,
            last: None,
        })
    }

    /// How long the loop may rest without a sign of life being late.
    pub(crate) fn patience(&self) -> Duration {
        self.interval.map_or(Duration::MAX, |interval| interval / 2)
    }

    fn say(&self, text: &str) {
        if let Some(socket) = &self.socket {
            say(socket, text);
        }
    }
}

fn say((socket, address): &(UnixDatagram, SocketAddr), text: &str) {
    // A manager that takes nothing must not hold up a chain.
    let _ = socket.send_to_addr(text.as_bytes(), address);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn socket(name: &[u8]) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match name {
        [] => return None,
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixDatagram, Service, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let service = Service {
            socket: socket(path.as_os_str().as_bytes()),
            interval: Some(Duration::from_millis(250)),
            ..Service::default()
        };
        (manager, service, folder)
    }

    fn heard(manager: &UnixDatagram) -> Vec<String> {
        let mut all = Vec::new();
        let mut bytes = [0; 512];
        while let Ok(count) = manager.recv(&mut bytes) {
            all.push(String::from_utf8_lossy(&bytes[..count]).into_owned());
        }
        all
    }

    #[test]
    fn signs_of_life_come_in_time_and_not_more_often() {
        let (manager, service, _folder) = pair();
        let mut watchdog = service.watchdog().unwrap();
        let start = Instant::now();
        for ms in [0, 100, 200, 250, 260, 499, 500] {
            watchdog.alive(start + Duration::from_millis(ms));
        }
        assert_eq!(heard(&manager), ["WATCHDOG=1\n"; 3]);
        assert!(service.patience() <= Duration::from_millis(250));
    }

    #[test]
    fn the_end_is_said_once() {
        let (manager, mut service, _folder) = pair();
        service.ready("web");
        service.stopping();
        service.stopping();
        let heard = heard(&manager);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(heard[0].starts_with("READY=1\n"), "{heard:?}");
        assert!(heard[1].starts_with("STOPPING=1\n"), "{heard:?}");
    }

    #[test]
    fn without_a_manager_nothing_is_said() {
        let mut service = Service::default();
        service.ready("web");
        assert!(service.watchdog().is_none());
        assert_eq!(service.patience(), Duration::MAX);
        assert!(socket(b"").is_none());
        assert!(socket(b"@name").is_some());
    }
}
