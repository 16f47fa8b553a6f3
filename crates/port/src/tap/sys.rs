//! Kernel binding of the TAP port: `/dev/net/tun` and four interface requests.
//!
//! Every request takes a `struct ifreq`, so one function holds the unsafe call. References:
//! `Documentation/networking/tuntap.rst` and `if_tun.h` of Linux, netdevice(7).
#![allow(
    unsafe_code,
    reason = "TUNSETIFF and the interface requests have no safe wrapper"
)]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::options::{INTERFACE_NAME_LEN_MAX, Options, TapError, VNET_HEADER_LEN};

/// Checksums, and TCP over both versions of IP, also with ECN (`TUN_F_*`, `if_tun.h`).
const TCP_OFFLOADS: libc::c_uint = 0x01 | 0x02 | 0x04 | 0x08;
/// Datagrams over both versions of IP.
const UDP_OFFLOADS: libc::c_uint = 0x20 | 0x40;

const DEVICE: &str = "/dev/net/tun";

/// One queue of a TAP interface, open for frames in both directions. Never blocks.
#[derive(Debug)]
pub struct Tap {
    queue: OwnedFd,
    name: String,
}

impl Tap {
    /// Attaches to the TAP interface `name`, which is created where it does not exist.
    ///
    /// A `%d` in the name is replaced by the kernel with the first free number, and an empty name
    /// stands for `tap%d`; [`Tap::name`] tells the result. The interface starts down: see
    /// [`Tap::set_up`].
    ///
    /// # Errors
    ///
    /// Each condition that an operator can mend has a variant of [`TapError`].
    pub fn open(name: &str, options: Options) -> Result<Self, TapError> {
        check_name(name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let queue = match rustix::fs::open(DEVICE, flags, Mode::empty()) {
            Ok(queue) => queue,
            Err(Errno::ACCESS | Errno::PERM) => return Err(not_permitted(name, options)),
            Err(error) => {
                return Err(TapError::NoDriver {
                    source: error.into(),
                });
            }
        };
        let mut request = request_for(name);
        request.ifr_ifru.ifru_flags = interface_flags(options);
        interface_request(queue.as_fd(), libc::TUNSETIFF, &mut request).map_err(|error| {
            let name = name.to_owned();
            match error {
                Errno::PERM | Errno::ACCESS => not_permitted(&name, options),
                Errno::BUSY => TapError::Busy { name },
                Errno::INVAL => TapError::Mismatch { name },
                other => TapError::System {
                    name,
                    operation: "attach",
                    source: other.into(),
                },
            }
        })?;
        let tap = Self {
            queue,
            name: name_in(&request),
        };
        tap.agree(options)?;
        Ok(tap)
    }

    /// As [`Tap::open`], but for the interface of that name and index: none is created, and another
    /// one is left alone. The kernel makes one where there is none, so one that was deleted since
    /// somebody looked would come back, and keep whoever makes it anew from doing so.
    ///
    /// # Errors
    ///
    /// [`TapError::Gone`] if another one has the name now, or none had: then none has it again.
    pub fn attach_to(name: &str, index: u32, options: Options) -> Result<Self, TapError> {
        let tap = Self::open(name, options)?;
        let control = tap.control()?;
        match name_to_index(&control, &tap.name) {
            Ok(found) if found == index => Ok(tap),
            // With its only queue, one that was made just now goes, too.
            _ => Err(TapError::Gone { name: tap.name }),
        }
    }

    /// What an interface is stays with it, as long as anybody has it or it is there by itself
    /// (`ip tuntap`): whether frames have headers, and how long these are.
    fn agree(&self, options: Options) -> Result<(), TapError> {
        let mut request = request_for(&self.name);
        interface_request(self.queue.as_fd(), libc::TUNGETIFF, &mut request)
            .map_err(|error| self.system("read what it is", error))?;
        // SAFETY: TUNGETIFF filled the request as flags, and every bit pattern is a valid one.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        if (flags & libc::IFF_VNET_HDR as libc::c_short != 0) != options.vnet_header {
            let name = self.name.clone();
            return Err(TapError::Mismatch { name });
        }
        if options.vnet_header {
            header_request(self.queue.as_fd(), VNET_HEADER_LEN)
                .map_err(|error| self.system("agree on a header", error))?;
        }
        Ok(())
    }

    /// Reads one frame into `buf` and returns its length; `None` where none waits.
    ///
    /// The kernel cuts a frame that `buf` does not hold, without a sign: give it the interface's
    /// MTU and 18 bytes more (Ethernet header and one VLAN tag), plus
    /// [`VNET_HEADER_LEN`](super::VNET_HEADER_LEN) where that header was asked for.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] once the interface was deleted.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.queue, &mut *buf) {
                Ok(len) => return Ok(Some(len)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(transfer_error(error)),
            }
        }
    }

    /// As [`Self::recv`], from an interface that puts a header in front of each frame: the frame's
    /// length without it. What comes without a whole header is of length 0.
    ///
    /// # Errors
    ///
    /// Those of [`Self::recv`].
    pub fn recv_with_header(
        &self,
        header: &mut [u8; VNET_HEADER_LEN],
        frame: &mut [u8],
    ) -> io::Result<Option<usize>> {
        let mut parts = [IoSliceMut::new(header), IoSliceMut::new(frame)];
        loop {
            match rustix::io::readv(&self.queue, &mut parts) {
                Ok(len) => return Ok(Some(len.saturating_sub(VNET_HEADER_LEN))),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(transfer_error(error)),
            }
        }
    }

    /// Hands one frame to the kernel; `false` where its queue is full and the frame was not taken.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NetworkDown`] while the interface is down,
    /// [`io::ErrorKind::NotFound`] once it was deleted,
    /// [`io::ErrorKind::InvalidInput`] for a frame shorter than an Ethernet header.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        loop {
            match rustix::io::write(&self.queue, frame) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(transfer_error(error)),
            }
        }
    }

    /// As [`Self::send`], with the `virtio_net_hdr` that [`Options::vnet_header`] asks for in
    /// front of the frame.
    ///
    /// # Errors
    ///
    /// Those of [`Self::send`]; [`io::ErrorKind::InvalidInput`] also for a header that does not fit
    /// its frame.
    pub fn send_with_header(
        &self,
        header: &[u8; VNET_HEADER_LEN],
        frame: &[u8],
    ) -> io::Result<bool> {
        let parts = [IoSlice::new(header), IoSlice::new(frame)];
        loop {
            match rustix::io::writev(&self.queue, &parts) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(transfer_error(error)),
            }
        }
    }

    /// Has the host complete and cut all packets, whatever was asked for before: that stays with
    /// an interface that outlives its user.
    ///
    /// # Errors
    ///
    /// [`TapError::System`] where the kernel refuses.
    pub fn leave_offloads(&self) -> Result<(), TapError> {
        offload_request(self.queue.as_fd(), 0).map_err(|error| self.system("end offloads", error))
    }

    /// Has the host hand over packets whose checksum is open and that are still to be cut, as it
    /// does with a network card. Datagrams are left whole from kernel 6.2 on.
    ///
    /// # Errors
    ///
    /// [`TapError::System`] where the kernel refuses. [`Options::vnet_header`] must have been asked
    /// for, or nobody can tell such packets from others.
    pub fn take_offloads(&self) -> Result<(), TapError> {
        match offload_request(self.queue.as_fd(), TCP_OFFLOADS | UDP_OFFLOADS) {
            Err(Errno::INVAL) => offload_request(self.queue.as_fd(), TCP_OFFLOADS),
            answer => answer,
        }
        .map_err(|error| self.system("ask for offloads", error))
    }

    /// The descriptor to poll: readable where a frame waits, in error once the interface is gone.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// The name that the interface has had since it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Brings the interface up.
    ///
    /// # Errors
    ///
    /// [`TapError::SetUpNotPermitted`] without CAP_NET_ADMIN, even for the interface's owner.
    pub fn set_up(&self) -> Result<(), TapError> {
        let control = self.control()?;
        let mut request = request_for(&self.name);
        interface_request(control.as_fd(), libc::SIOCGIFFLAGS, &mut request)
            .map_err(|error| self.system("read flags", error))?;
        // SAFETY: SIOCGIFFLAGS filled the request as flags, and every bit pattern is a valid one.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        const UP: libc::c_short = libc::IFF_UP as libc::c_short;
        if flags & UP != 0 {
            return Ok(());
        }
        request.ifr_ifru.ifru_flags = flags | UP;
        interface_request(control.as_fd(), libc::SIOCSIFFLAGS, &mut request).map_err(|error| {
            if error == Errno::PERM {
                let name = self.name.clone();
                return TapError::SetUpNotPermitted { name };
            }
            self.system("bring up", error)
        })
    }

    /// The interface's MTU: the longest frame less its Ethernet header and VLAN tags, in bytes.
    ///
    /// # Errors
    ///
    /// [`TapError::System`] where the interface was deleted or renamed.
    pub fn mtu(&self) -> Result<usize, TapError> {
        let control = self.control()?;
        let mut request = request_for(&self.name);
        interface_request(control.as_fd(), libc::SIOCGIFMTU, &mut request)
            .map_err(|error| self.system("read the MTU", error))?;
        // SAFETY: SIOCGIFMTU filled the request as an MTU, and every bit pattern is a valid one.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        usize::try_from(mtu).map_err(|_| self.system("read the MTU", Errno::RANGE))
    }

    /// Sets the interface's MTU.
    ///
    /// # Errors
    ///
    /// [`TapError::SetMtuNotPermitted`] without CAP_NET_ADMIN, [`TapError::System`] for a value
    /// that the kernel does not take.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), TapError> {
        let control = self.control()?;
        let mut request = request_for(&self.name);
        request.ifr_ifru.ifru_mtu = mtu.into();
        interface_request(control.as_fd(), libc::SIOCSIFMTU, &mut request).map_err(|error| {
            if error == Errno::PERM {
                let name = self.name.clone();
                return TapError::SetMtuNotPermitted { name, mtu };
            }
            self.system("set the MTU", error)
        })
    }

    /// A socket for interface requests: they go by namespace and name, not by TAP descriptor.
    fn control(&self) -> Result<OwnedFd, TapError> {
        let flags = SocketFlags::CLOEXEC;
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
            .map_err(|error| self.system("open a control socket", error))
    }

    fn system(&self, operation: &'static str, error: Errno) -> TapError {
        TapError::System {
            name: self.name.clone(),
            operation,
            source: error.into(),
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// Names the two conditions of an interface that carries no frames. Allocates nothing, since a
/// port may meet it once per frame.
fn transfer_error(error: Errno) -> io::Error {
    match error {
        Errno::IO => io::ErrorKind::NetworkDown.into(),
        Errno::BADFD => io::ErrorKind::NotFound.into(),
        other => other.into(),
    }
}

fn not_permitted(name: &str, options: Options) -> TapError {
    TapError::NotPermitted {
        name: name.to_owned(),
        flags: match (options.multi_queue, options.vnet_header) {
            (false, false) => "",
            (true, false) => " multi_queue",
            (false, true) => " vnet_hdr",
            (true, true) => " multi_queue vnet_hdr",
        },
    }
}

/// Refuses what the kernel would cut short or answer with a bare EINVAL (dev_valid_name).
fn check_name(name: &str) -> Result<(), TapError> {
    let name_owned = || name.to_owned();
    if name.len() > INTERFACE_NAME_LEN_MAX {
        return Err(TapError::NameTooLong { name: name_owned() });
    }
    let is_refused = |byte: u8| matches!(byte, b'/' | b':' | b' ') || byte.is_ascii_control();
    if name == "." || name == ".." || name.bytes().any(is_refused) {
        return Err(TapError::InvalidName { name: name_owned() });
    }
    Ok(())
}

fn interface_flags(options: Options) -> libc::c_short {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if options.multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    if options.vnet_header {
        flags |= libc::IFF_VNET_HDR;
    }
    // All four bits lie below 2^15, so the narrower type of the request holds them.
    flags as libc::c_short
}

/// An empty request for the interface `name`, which [`check_name`] found short enough.
fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain old data (an array and a union of numbers and addresses, and a raw
    // pointer that may be null), for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let place = &mut request.ifr_name[..INTERFACE_NAME_LEN_MAX];
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// The name that the kernel left in a request.
fn name_in(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|&byte| byte as u8);
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

/// Runs one of the requests that read and write a `struct ifreq`.
fn interface_request(
    fd: BorrowedFd<'_>,
    operation: libc::Ioctl,
    request: &mut libc::ifreq,
) -> Result<(), Errno> {
    assert!(matches!(
        operation,
        libc::TUNSETIFF
            | libc::TUNGETIFF
            | libc::SIOCGIFFLAGS
            | libc::SIOCSIFFLAGS
            | libc::SIOCGIFMTU
            | libc::SIOCSIFMTU
    ));
    // SAFETY: the descriptor is open for as long as it is borrowed; the request is a whole ifreq
    // that outlives the call, which is what each of the operations above reads and writes.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), operation, &raw mut *request) };
    if answer < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

/// Sets how long the `virtio_net_hdr` of each frame is.
fn header_request(fd: BorrowedFd<'_>, len: usize) -> Result<(), Errno> {
    let len = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open for as long as it is borrowed; TUNSETVNETHDRSZ reads an int,
    // which outlives the call.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) };
    if answer < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

/// Says what a TAP's reader takes; the only request whose argument is a number.
fn offload_request(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for as long as it is borrowed; TUNSETOFFLOAD takes a number,
    // and reads and writes no memory of this process.
    let answer = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offloads),
        )
    };
    if answer < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_sixteen_bytes_is_too_long() {
        let error = Tap::open("a234567890123456", Options::default()).unwrap_err();
        assert!(matches!(error, TapError::NameTooLong { .. }), "{error}");
        assert!(check_name("a23456789012345").is_ok());
    }

    #[test]
    fn name_with_a_slash_or_a_nul_is_not_valid() {
        for name in ["a/b", "a b", "a\0b", "..", "a:b"] {
            let error = Tap::open(name, Options::default()).unwrap_err();
            assert!(matches!(error, TapError::InvalidName { .. }), "{error}");
        }
    }

    #[test]
    fn refusal_names_the_command_that_helps() {
        let options = Options {
            multi_queue: true,
            vnet_header: false,
        };
        let text = not_permitted("tap7", options).to_string();
        assert!(text.contains("CAP_NET_ADMIN"), "{text}");
        let command = "ip tuntap add dev tap7 mode tap user $USER multi_queue'";
        assert!(text.contains(command), "{text}");
    }
}
