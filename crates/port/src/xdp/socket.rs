//! An AF_XDP socket on one queue of an interface, with the program that feeds it.
//!
//! Control path; afterwards the port works with the rings. Everything that is opened here goes with
//! it, in an order in which the kernel never has a queue without memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use catena_shm::pool::PoolMemory;
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpStatistics,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::bpf::Redirect;
use super::config::{BindMode, Settings};
use super::error::XdpError;
use super::sys::{self, Descriptor, Incoming, Outgoing};

/// Bytes that the kernel keeps in front of a packet (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: u32 = 256;
/// Ethernet header and one VLAN tag.
const HEADER_LEN: u32 = 18;
/// Sizes of buffers that AF_XDP takes: 2 KiB, and no more than a page.
const STRIDES_LOG2: std::ops::RangeInclusive<u8> = 11..=12;
/// How long the queue of one that has just ended stays busy: the kernel gives it back later.
const PATIENCE: Duration = Duration::from_secs(2);
/// Packets that one call may have the driver handle, if calls do its work.
const BUSY_POLL_BUDGET: u16 = 64;

/// A socket and what belongs to it. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fill: Outgoing<u64>,
    pub(super) completion: Incoming<u64>,
    pub(super) rx: Option<Incoming<Descriptor>>,
    pub(super) tx: Option<Outgoing<Descriptor>>,
    fd: OwnedFd,
    _redirect: Option<Redirect>,
    /// Keeps the interface promiscuous.
    _membership: Option<OwnedFd>,
    /// A socket to ask about interfaces.
    asking: OwnedFd,
    pub(super) interface: u32,
    pub(super) is_zero_copy: bool,
    /// Longest frame that the interface sends.
    pub(super) frame_len_max: usize,
}

/// What a call that has the kernel look at a ring came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It looked, or will soon, or has to be called again.
    Yes,
    /// The interface is down.
    Down,
    /// The interface is gone.
    Gone,
}

impl Woken {
    fn of(result: Result<usize, Errno>) -> Self {
        match result {
            Err(Errno::NETDOWN) => Self::Down,
            Err(Errno::NXIO | Errno::NODEV | Errno::BADF) => Self::Gone,
            // A full queue, a driver that is busy, too few buffers: the next call goes on.
            _ => Self::Yes,
        }
    }
}

/// Largest MTU that buffers of 4 KiB take, and that the usual ones of 2 KiB do.
pub(crate) const MTU_MAX: u32 = (1 << *STRIDES_LOG2.end()) - KERNEL_HEADROOM - HEADER_LEN;
pub(crate) const MTU_MAX_USUAL: u32 = (1 << *STRIDES_LOG2.start()) - KERNEL_HEADROOM - HEADER_LEN;

/// Whether the kernel has AF_XDP; one that forbids it has.
pub(crate) fn is_known() -> bool {
    let flags = SocketFlags::CLOEXEC;
    let made = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None);
    made.err() != Some(Errno::AFNOSUPPORT)
}

/// A socket to ask about interfaces.
pub(crate) fn asking() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// The pool in whose buffers packets of the interface fit.
pub(super) fn pool_for<'a>(
    name: &str,
    mtu: u32,
    pools: &'a [PoolMemory],
) -> Result<&'a PoolMemory, XdpError> {
    if pools.is_empty() {
        return Err(XdpError::NoMemory {
            name: name.to_owned(),
        });
    }
    let frame_len = mtu + HEADER_LEN;
    let fits = |log2: u8| KERNEL_HEADROOM + frame_len <= 1 << log2;
    let suits = |pool: &&PoolMemory| {
        let log2 = pool.geometry().log2_stride;
        STRIDES_LOG2.contains(&log2) && fits(log2)
    };
    let (needed, repair) = if fits(*STRIDES_LOG2.start()) {
        (
            "2048 or 4096 bytes",
            "write `buffers: { 2KiB: 4096 }` under `run`".to_owned(),
        )
    } else if fits(*STRIDES_LOG2.end()) {
        (
            "4096 bytes",
            "write `buffers: { 4KiB: 4096 }` under `run`".to_owned(),
        )
    } else {
        let repair =
            format!("`ip link set dev {name} mtu {MTU_MAX}`, or use the port `packet_socket`");
        ("more than 4096 bytes, which it does not take", repair)
    };
    pools.iter().find(suits).ok_or_else(|| XdpError::NoPool {
        name: name.to_owned(),
        mtu,
        frame_len,
        needed,
        repair,
    })
}

impl Socket {
    /// Opens queue `queue` with buffers of `memory`, whose whole is shown to the kernel. `patience`
    /// is for a queue that somebody has just left.
    pub(super) fn open(
        settings: &Settings,
        memory: &PoolMemory,
        is_patient: bool,
    ) -> Result<Self, XdpError> {
        let name = settings.interface.as_str();
        let at = |step| XdpError::at(name, step);
        let asking = asking().map_err(at("open a socket"))?;
        let index = name_to_index(&asking, name).map_err(at("find the interface"))?;
        if !sys::is_up(asking.as_fd(), name).map_err(at("look at the interface"))? {
            return Err(XdpError::Down {
                name: name.to_owned(),
            });
        }
        let mtu = sys::mtu(asking.as_fd(), name).map_err(at("look at the interface"))?;
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(at("open an AF_XDP socket"))?;
        register(&fd, name, memory)?;
        let count = settings.ring;
        let rings = at("make rings");
        let (fill, completion, rx, tx) = make_rings(&fd, settings, count).map_err(rings)?;
        if let Some(us) = settings.busy_poll_us {
            sys::set_busy_poll(fd.as_fd(), us, BUSY_POLL_BUDGET)
                .map_err(at("ask for busy polling"))?;
        }
        let is_fed = settings.receives;
        let redirect = is_fed
            .then(|| Redirect::open(name, index, settings.mode, &settings.steering))
            .transpose()?;
        bind_patiently(
            &fd,
            settings,
            index,
            if is_patient { PATIENCE } else { Duration::ZERO },
        )
        .map_err(|error| refused(error, settings, &asking))?;
        let membership = (settings.promiscuous && is_fed)
            .then(|| promiscuous(index))
            .transpose()
            .map_err(at("make it promiscuous"))?;
        if let Some(redirect) = &redirect {
            redirect
                .serve(settings.queue, &fd)
                .map_err(at("put the socket into the map"))?;
        }
        let options = xdp_options(&fd).map_err(at("look at the socket"))?;
        Ok(Self {
            fill,
            completion,
            rx,
            tx,
            fd,
            _redirect: redirect,
            _membership: membership,
            asking,
            interface: index,
            is_zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            frame_len_max: (mtu + HEADER_LEN) as usize,
        })
    }

    /// One of rings that a test has made, and of no interface.
    #[cfg(test)]
    pub(super) fn of_rings(fd: OwnedFd, (fill, completion, rx, tx): Rings) -> Self {
        Self {
            fill,
            completion,
            rx,
            tx,
            asking: fd.try_clone().expect("a descriptor"),
            fd,
            _redirect: None,
            _membership: None,
            interface: 0,
            is_zero_copy: false,
            frame_len_max: 1518,
        }
    }

    /// Becomes readable when packets arrive.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Has the kernel look at the transmit ring.
    pub(super) fn wake_tx(&self) -> Woken {
        Woken::of(send(&self.fd, &[], SendFlags::DONTWAIT))
    }

    /// Has the kernel look at the fill ring, or do the driver's work.
    pub(super) fn wake_rx(&self) -> Woken {
        let nothing: &mut [u8] = &mut [];
        Woken::of(recv(&self.fd, nothing, RecvFlags::DONTWAIT).map(|(len, _)| len))
    }

    /// Whether the interface by that name is still the one that this socket is bound to.
    pub(super) fn is_bound_to(&self, name: &str) -> bool {
        name_to_index(&self.asking, name) == Ok(self.interface)
    }

    /// What the kernel counted of this socket.
    pub(super) fn statistics(&self) -> Option<XdpStatistics> {
        xdp_statistics(&self.fd).ok()
    }
}

/// Shows the pool to the kernel.
fn register(fd: &OwnedFd, name: &str, memory: &PoolMemory) -> Result<(), XdpError> {
    let registration = XdpUmemReg {
        addr: memory.address(),
        len: memory.len(),
        chunk_size: 1 << memory.geometry().log2_stride,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    set_xdp_umem_reg(fd, registration).map_err(|error| match error {
        Errno::NOBUFS | Errno::NOMEM => XdpError::NotPinned {
            name: name.to_owned(),
        },
        error => XdpError::at(name, "register memory")(error),
    })
}

type Rings = (
    Outgoing<u64>,
    Incoming<u64>,
    Option<Incoming<Descriptor>>,
    Option<Outgoing<Descriptor>>,
);

fn make_rings(fd: &OwnedFd, settings: &Settings, count: u32) -> Result<Rings, Errno> {
    set_xdp_umem_fill_ring_size(fd, count)?;
    set_xdp_umem_completion_ring_size(fd, count)?;
    // A socket needs one of them at least, to be bound.
    let (receives, sends) = (settings.receives || !settings.sends, settings.sends);
    if receives {
        set_xdp_rx_ring_size(fd, count)?;
    }
    if sends {
        set_xdp_tx_ring_size(fd, count)?;
    }
    let at = xdp_mmap_offsets(fd)?;
    let socket = fd.as_fd();
    let rx = || Incoming::map(socket, XDP_PGOFF_RX_RING, &at.rx, count);
    let tx = || Outgoing::map(socket, XDP_PGOFF_TX_RING, &at.tx, count);
    Ok((
        Outgoing::map(socket, XDP_UMEM_PGOFF_FILL_RING, &at.fr, count)?,
        Incoming::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, count)?,
        receives.then(rx).transpose()?,
        sends.then(tx).transpose()?,
    ))
}

/// Binds the socket to its queue; while that is busy, tries again until `patience` is over.
fn bind_patiently(
    fd: &OwnedFd,
    settings: &Settings,
    index: u32,
    patience: Duration,
) -> Result<(), Errno> {
    let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
        | match settings.bind {
            BindMode::Auto => SocketAddrXdpFlags::empty(),
            BindMode::Copy => SocketAddrXdpFlags::XDP_COPY,
            BindMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
    let address = SocketAddrXdp::new(flags, index, settings.queue);
    let start = Instant::now();
    loop {
        match bind(fd, &address) {
            Err(Errno::BUSY) if start.elapsed() < patience => {
                // No event tells when the kernel has let go of the one before.
                let pause = Timespec {
                    tv_sec: 0,
                    tv_nsec: 10_000_000,
                };
                let _ = poll(&mut [], Some(&pause));
            }
            bound => return bound,
        }
    }
}

/// Why a socket could not be bound.
fn refused(error: Errno, settings: &Settings, asking: &OwnedFd) -> XdpError {
    let (name, queue) = (settings.interface.clone(), settings.queue);
    // A driver that does not say has one queue.
    let (has, most) = sys::queues(asking.as_fd(), &name).unwrap_or((1, 1));
    match error {
        Errno::BUSY => XdpError::QueueBusy { name, queue },
        Errno::INVAL if queue >= has => XdpError::NoQueue {
            name,
            queue,
            has,
            most,
        },
        Errno::OPNOTSUPP | Errno::INVAL if settings.bind == BindMode::ZeroCopy => {
            XdpError::NoZeroCopy { name, queue }
        }
        error => XdpError::at(&name, "bind the socket")(error),
    }
}

fn promiscuous(index: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    sys::set_promiscuous(socket.as_fd(), index)?;
    Ok(socket)
}
