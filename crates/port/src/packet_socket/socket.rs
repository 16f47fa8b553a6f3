//! The packet socket: opened on an interface, read in bursts, written in bursts.

use std::array;
use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name_inlined, name_to_index};
use rustix::net::sockopt::socket_error;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, send,
    sendmmsg, socket_with,
};

use super::errors::{OpenError, SocketError};
use super::frame::RxInfo;
use super::options::{Fanout, FanoutMode, Options};
use super::segments::{Run, VNET_HEADER_LEN};
use super::sys::{self, Ring};

/// Frames passed to the kernel in one system call: the burst of the engine. More would only make
/// the arrays of a call larger.
const SEND_BURST: usize = 32;

/// Calls of [`PacketSocket::recv`] without a frame after which it asks for the interface's state:
/// some 100 microseconds of a busy loop, so that the system call does not show.
const EMPTY_CALLS_PER_CHECK: u32 = 1024;

/// An interface, open for Ethernet frames in both directions. Never blocks but in
/// [`PacketSocket::wait`].
#[derive(Debug)]
pub struct PacketSocket {
    ring: Ring,
    rx: OwnedFd,
    tx: OwnedFd,
    interface_index: u32,
    is_removed: bool,
    empty_calls: u32,
    statistics: Statistics,
    /// Present where runs are transmitted as one.
    run: Option<Run>,
    /// Whether the kernel wants a header in front of each frame to transmit.
    has_headers: bool,
}

/// What became of the frames given to [`PacketSocket::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames done with, from the first on. The others found the kernel's queue full and may be
    /// sent again.
    pub taken: usize,
    /// Frames among them that the interface will never take: longer than its MTU, or shorter than
    /// an Ethernet header.
    pub rejected: usize,
}

/// Counts of the receiving side since the socket was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that arrived, dropped ones included (`tp_packets`).
    pub packets: u64,
    /// Frames dropped because the ring was full, or because the kernel could not describe their
    /// segmentation (`tp_drops`).
    pub drops: u64,
    /// Times that the ring became full (`tp_freeze_q_cnt`); 0 with
    /// [`Delivery::Frames`](super::Delivery::Frames), which does not count them.
    pub freezes: u64,
    /// Frames and blocks left out because a header in the ring did not fit; 0, but for a defect.
    pub malformed: u64,
}

impl Statistics {
    /// Of two sockets, one after the other.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            drops: self.drops + other.drops,
            freezes: self.freezes + other.freezes,
            malformed: self.malformed + other.malformed,
        }
    }
}

impl PacketSocket {
    /// Opens `interface` of the calling thread's network namespace.
    ///
    /// The interface may be down: [`Self::check`] then says so once, and frames arrive when it
    /// comes up.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. Nothing is left open or changed.
    pub fn open(interface: &str, options: Options) -> Result<Self, OpenError> {
        options.delivery.check(rustix::param::page_size())?;
        let at = |operation: &'static str| {
            move |error: Errno| match error {
                Errno::PERM | Errno::ACCESS => OpenError::NotPermitted {
                    name: interface.to_owned(),
                },
                Errno::NODEV | Errno::NXIO => OpenError::NoInterface {
                    name: interface.to_owned(),
                },
                other => OpenError::System {
                    name: interface.to_owned(),
                    operation,
                    source: other.into(),
                },
            }
        };
        // Without a protocol a packet socket receives nothing: `rx` until it is bound with one,
        // so that no frame of another interface gets into the ring, and `tx` for ever.
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
                .map_err(at("open a socket"))
        };
        let rx = open()?;
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
            return Err(at("find the interface")(Errno::NODEV));
        }
        let index = name_to_index(&rx, interface).map_err(at("find the interface"))?;

        // Both must precede the ring: the first reserves room in each frame's header.
        set_flag(&rx, libc::PACKET_VNET_HDR).map_err(at("ask for offload headers"))?;
        set_flag(&rx, libc::PACKET_IGNORE_OUTGOING).map_err(at("ignore outgoing frames"))?;
        let ring = Ring::map(rx.as_fd(), options.delivery).map_err(at("map the receive ring"))?;
        // ETH_P_ALL is 3.
        sys::bind(rx.as_fd(), index, libc::ETH_P_ALL as u16).map_err(at("bind"))?;
        let kind = sys::hardware_kind(rx.as_fd()).map_err(at("read the kind of interface"))?;
        if ![libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind) {
            return Err(OpenError::NotEthernet {
                name: interface.to_owned(),
                kind,
            });
        }
        if let Some(fanout) = options.fanout {
            sys::set_option(rx.as_fd(), libc::PACKET_FANOUT, &fanout_word(fanout)).map_err(at(
                "join the fanout group, whose number is of one interface and one mode",
            ))?;
        }
        if options.is_promiscuous {
            sys::set_promiscuous(rx.as_fd(), index).map_err(at("receive for all addresses"))?;
        }

        let tx = open()?;
        if options.bypass_qdisc {
            set_flag(&tx, libc::PACKET_QDISC_BYPASS).map_err(at("bypass the queue"))?;
        }
        if options.segments || options.carries {
            set_flag(&tx, libc::PACKET_VNET_HDR).map_err(at("ask for segmentation"))?;
        }
        sys::bind(tx.as_fd(), index, 0).map_err(at("bind to transmit"))?;
        Ok(Self {
            ring,
            rx,
            tx,
            interface_index: index,
            is_removed: false,
            empty_calls: 0,
            statistics: Statistics::default(),
            run: options.segments.then(Run::default),
            has_headers: options.segments || options.carries,
        })
    }

    /// Shows up to `limit` received frames to `each`, in order of arrival, and returns how many.
    ///
    /// A frame lies in the ring for the time of the call of `each` and must be copied to be kept;
    /// [`RxInfo::copy_frame`] does so and makes it whole. Reading stops at `limit` in the middle of
    /// a block and goes on there. A block returns to the kernel with its last frame, so frames
    /// left unread for long cost the others their room.
    ///
    /// No system call, but for every 1,024th call in a row that finds no frame.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check`], within those 1,024 calls; frames received before come first.
    pub fn recv(
        &mut self,
        limit: usize,
        each: impl FnMut(&[u8], &RxInfo),
    ) -> Result<usize, SocketError> {
        self.recv_while(&Cell::new(limit), each)
    }

    /// As [`Self::recv`]; `each` may set the limit to 0 to be shown no more frames now.
    pub(super) fn recv_while(
        &mut self,
        limit: &Cell<usize>,
        each: impl FnMut(&[u8], &RxInfo),
    ) -> Result<usize, SocketError> {
        let shown = self.ring.recv(limit, each);
        if shown > 0 || limit.get() == 0 {
            self.empty_calls = 0;
            return Ok(shown);
        }
        self.empty_calls += 1;
        if self.empty_calls >= EMPTY_CALLS_PER_CHECK {
            self.empty_calls = 0;
            self.check()?;
        }
        Ok(0)
    }

    /// Transmits frames in order and says how many the kernel is done with.
    ///
    /// A frame is complete Ethernet with its tags, without FCS; the kernel copies it. Frames from
    /// the first one not taken on may be given again later.
    ///
    /// # Errors
    ///
    /// [`SocketError::InterfaceDown`] and [`SocketError::InterfaceRemoved`], if no frame was taken
    /// before.
    pub fn send<'a>(
        &mut self,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Sent, SocketError> {
        let frames = frames.into_iter();
        if let Some(mut run) = self.run.take() {
            let mut sent = Sent::default();
            let result = self.send_runs(&mut run, frames, &mut sent);
            self.run = Some(run);
            return match result {
                Err(error) if sent.taken == 0 => Err(error),
                _ => Ok(sent),
            };
        }
        self.send_open(frames.map(|frame| ([0; VNET_HEADER_LEN], frame)))
    }

    /// Transmits frames as [`Self::send`] does, each with a `virtio_net_hdr` that says what the
    /// kernel is to complete; it is left out unless [`Options::carries`] is set.
    ///
    /// # Errors
    ///
    /// Those of [`Self::send`]. A frame whose header does not fit it is rejected.
    pub fn send_open<'a>(
        &mut self,
        frames: impl IntoIterator<Item = ([u8; VNET_HEADER_LEN], &'a [u8])>,
    ) -> Result<Sent, SocketError> {
        let mut frames = frames.into_iter();
        let mut sent = Sent::default();
        loop {
            let mut burst = [([0; VNET_HEADER_LEN], &[][..]); SEND_BURST];
            let mut count = 0;
            for (place, frame) in burst.iter_mut().zip(&mut frames) {
                *place = frame;
                count += 1;
            }
            if count == 0 {
                return Ok(sent);
            }
            let slices = burst
                .each_ref()
                .map(|(header, frame)| [IoSlice::new(header), IoSlice::new(frame)]);
            let taken_before = sent.taken;
            match self.send_burst(&slices, count, &mut sent) {
                // Frames taken must be told; the condition shows again in the next call.
                Err(_) if sent.taken > 0 => return Ok(sent),
                Err(error) => return Err(error),
                Ok(()) if sent.taken - taken_before < count => return Ok(sent),
                Ok(()) => {}
            }
        }
    }

    /// Sends frames in runs, until the kernel has no more room.
    fn send_runs<'a>(
        &mut self,
        run: &mut Run,
        frames: impl Iterator<Item = &'a [u8]>,
        sent: &mut Sent,
    ) -> Result<(), SocketError> {
        for frame in frames {
            if !run.add(frame) {
                if !self.send_run(run, sent)? {
                    return Ok(());
                }
                run.add(frame);
            }
        }
        if run.count() > 0 {
            self.send_run(run, sent)?;
        }
        Ok(())
    }

    /// Sends a run; says whether the kernel had room for it.
    fn send_run(&mut self, run: &mut Run, sent: &mut Sent) -> Result<bool, SocketError> {
        let count = run.count();
        let bytes = run.finish();
        loop {
            match send(&self.tx, bytes, SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Ok(false),
                Err(Errno::MSGSIZE | Errno::INVAL) => sent.rejected += count,
                Err(error) => return Err(self.named(error, "send")),
            }
            sent.taken += count;
            return Ok(true);
        }
    }

    /// Sends the first `count` of `frames`, or as many as the kernel has room for.
    fn send_burst(
        &mut self,
        frames: &[[IoSlice<'_>; 2]; SEND_BURST],
        count: usize,
        sent: &mut Sent,
    ) -> Result<(), SocketError> {
        let mut controls: [_; SEND_BURST] = array::from_fn(|_| SendAncillaryBuffer::default());
        let first = usize::from(!self.has_headers);
        let mut index = 0;
        let mut messages = controls.each_mut().map(|control| {
            let frame = &frames[index];
            index += 1;
            MMsgHdr::new(&frame[first..], control)
        });
        let mut waiting = &mut messages[..count];
        while !waiting.is_empty() {
            let done = match sendmmsg(&self.tx, waiting, SendFlags::DONTWAIT) {
                Ok(done) => done,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Ok(()),
                // The first frame's own fault, for which the others must not wait for ever.
                Err(Errno::MSGSIZE | Errno::INVAL) => {
                    sent.rejected += 1;
                    1
                }
                Err(error) => return Err(self.named(error, "send")),
            };
            sent.taken += done;
            waiting = &mut waiting[done..];
        }
        Ok(())
    }

    /// Waits until a frame can be received; `false` when `timeout` has passed before.
    ///
    /// With [`Delivery::Blocks`](super::Delivery::Blocks), frames can be received once their block
    /// is handed over.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, SocketError> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut polled = [PollFd::new(&self.rx, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(self.named(error, "poll")),
        }
        let events = polled[0].revents();
        if events.contains(PollFlags::ERR) {
            self.check()?;
        }
        Ok(events.contains(PollFlags::IN))
    }

    /// Asks what became of the interface, after poll(2) has reported an error on [`Self::fd`] or
    /// from time to time. One system call.
    ///
    /// # Errors
    ///
    /// [`SocketError::InterfaceDown`], once each time that the interface goes down;
    /// [`SocketError::InterfaceRemoved`], from then on.
    pub fn check(&mut self) -> Result<(), SocketError> {
        if self.is_removed {
            return Err(SocketError::InterfaceRemoved);
        }
        match socket_error(&self.rx) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(self.named(error, "receive")),
        }
    }

    /// Counts of the receiving side since the socket was opened. One system call.
    ///
    /// # Errors
    ///
    /// [`SocketError::System`], if the kernel refuses, which it has no reason to.
    pub fn statistics(&mut self) -> Result<Statistics, SocketError> {
        let [packets, drops, freezes] = sys::take_statistics(self.rx.as_fd())
            .map_err(|error| self.named(error, "read statistics"))?;
        let total = &mut self.statistics;
        total.packets += u64::from(packets);
        total.drops += u64::from(drops);
        total.freezes += u64::from(freezes);
        total.malformed = self.ring.malformed();
        Ok(*total)
    }

    /// The descriptor to poll for received frames.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }

    /// The descriptor to poll for room to transmit.
    #[must_use]
    pub fn transmit_fd(&self) -> BorrowedFd<'_> {
        self.tx.as_fd()
    }

    /// Names a condition of the interface; both sockets report several numbers for each.
    fn named(&mut self, error: Errno, operation: &'static str) -> SocketError {
        let is_interface = [Errno::NETDOWN, Errno::NXIO, Errno::NODEV].contains(&error);
        if !is_interface {
            return SocketError::System {
                operation,
                source: error.into(),
            };
        }
        // The index outlives a change of name, and is not used again soon.
        if index_to_name_inlined(&self.rx, self.interface_index).is_ok() {
            return SocketError::InterfaceDown;
        }
        self.is_removed = true;
        SocketError::InterfaceRemoved
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// The number of the fanout group that queues of one port at `interface` form: by the interface, so
/// that those of two interfaces differ, and above those that people write.
pub(super) fn group_of(interface: &str) -> u16 {
    let flags = SocketFlags::CLOEXEC;
    let index = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .and_then(|socket| name_to_index(&socket, interface));
    // Without an index opening the port fails, and says why.
    let [.., high, low] = index.unwrap_or_default().to_be_bytes();
    u16::from_be_bytes([high, low]) | 0x8000
}

fn set_flag(socket: &OwnedFd, option: libc::c_int) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    sys::set_option(socket.as_fd(), option, &on)
}

/// Group, mode and flags as PACKET_FANOUT wants them. Outgoing frames are left out here too, since
/// the group has a hook of its own. Reassembly (PACKET_FANOUT_FLAG_DEFRAG) stays off: a chain must
/// see the fragments.
fn fanout_word(fanout: Fanout) -> u32 {
    let mode = match fanout.mode {
        FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
        FanoutMode::FlowHash => libc::PACKET_FANOUT_HASH,
        FanoutMode::Queue => libc::PACKET_FANOUT_QM,
        FanoutMode::RoundRobin => libc::PACKET_FANOUT_LB,
    };
    let mut flags = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    if fanout.rolls_over {
        flags |= libc::PACKET_FANOUT_FLAG_ROLLOVER;
    }
    u32::from(fanout.group) | (mode | flags) << 16
}
