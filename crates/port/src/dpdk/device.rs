//! Opening a device of DPDK: its pool, its peer's socket, the device itself.
//!
//! Control path, and where a peer has come back.

use std::ffi::CString;
use std::path::Path;

use catena_shm::pool::PoolMemory;

use super::config::{Rss, Settings};
use super::error::DpdkError;
use super::plugin;
use super::socket;
use super::sys::{Asked, Device};
use crate::attachment::index_of;

/// Ethernet header, checksum and one VLAN tag.
const HEADER_LEN: u32 = 22;
/// Bytes that DPDK keeps in front of a packet (`RTE_PKTMBUF_HEADROOM`).
const HEADROOM: u32 = 128;
/// Sizes of buffers whose offsets DPDK has numbers for.
const STRIDES_LOG2: std::ops::RangeInclusive<u8> = 9..=16;

/// The pool in whose buffers packets of the device fit.
pub(super) fn pool_for<'a>(
    settings: &Settings,
    pools: &'a [PoolMemory],
) -> Result<&'a PoolMemory, DpdkError> {
    let device = settings.device.name.clone();
    if pools.is_empty() {
        return Err(DpdkError::NoMemory { device });
    }
    let mtu = settings.mtu_or_usual();
    let needed = (mtu + HEADER_LEN + HEADROOM).next_power_of_two();
    let suits = |pool: &&PoolMemory| {
        let log2 = pool.geometry().log2_stride;
        STRIDES_LOG2.contains(&log2) && 1 << log2 >= needed
    };
    let found = pools.iter().find(suits);
    found.ok_or(DpdkError::NoPool {
        device,
        mtu,
        needed,
    })
}

/// Whether a device that calls its peer might reach it, or its interface is there.
pub(super) fn may_be_heard(settings: &Settings) -> bool {
    let socket = settings.device.socket.as_ref();
    let interface = settings.device.interface.as_ref();
    socket.is_none_or(|socket| socket.is_ours || socket.path.exists())
        && interface.is_none_or(|name| index_of(name).is_some())
}

/// The number that the kernel's interface of the device has now; none without one.
pub(super) fn interface_of(settings: &Settings) -> Option<u32> {
    index_of(settings.device.interface.as_deref()?)
}

/// Sees to the socket: that it is free for a device that listens, or that a peer has it.
fn make_way(settings: &Settings) -> Result<(), DpdkError> {
    let Some(socket) = &settings.device.socket else {
        return Ok(());
    };
    let device = settings.device.name.clone();
    if socket.is_ours {
        // Several memifs may listen at one socket.
        socket::take(&device, &socket.path, stays(settings))
    } else if socket.path.exists() {
        Ok(())
    } else {
        let path = socket.path.clone();
        Err(DpdkError::NoPeer { device, path })
    }
}

/// Where the device itself listens.
fn listens_at(settings: &Settings) -> Option<&Path> {
    let socket = settings.device.socket.as_ref();
    socket
        .filter(|socket| socket.is_ours)
        .map(|socket| &*socket.path)
}

/// Opens the device; it does not run yet.
pub(super) fn open(settings: &Settings, memory: &PoolMemory) -> Result<Device, DpdkError> {
    let (library, _) = plugin::load(settings.plugin.as_deref())?;
    library.start().map_err(|why| DpdkError::NoStart { why })?;
    let of_device = |why: String| DpdkError::Device {
        device: settings.device.name.clone(),
        why,
    };
    let text = |text: &str| {
        CString::new(text).map_err(|_| of_device("its name holds a zero byte".to_owned()))
    };
    let driver = settings.device.driver.as_deref();
    let asked = Asked {
        args: &text(&settings.device.text)?,
        driver: &text(driver.unwrap_or_default())?,
        mtu: settings.mtu,
        ring: settings.ring,
        queues: settings.queues.into(),
        copies: settings.copies,
        promiscuous: settings.promiscuous,
        check_sums: settings.check_sums,
        rss: match settings.rss {
            None => 0,
            Some(Rss::Outer) => 1,
            Some(Rss::Inner) => 3,
        },
        rules: &settings.rules,
        is_card: driver.is_none(),
        stays: stays(settings),
    };
    make_way(settings)?;
    let device = library.device(&asked, memory).map_err(of_device);
    if let Some(path) = listens_at(settings) {
        match &device {
            Ok(_) => socket::note_bound(path),
            Err(_) => socket::give_up(path),
        }
    }
    device
}

/// Whether DPDK would fall over its device being closed: a memif that listens.
fn stays(settings: &Settings) -> bool {
    let device = &settings.device;
    device.driver.as_deref() == Some("net_memif")
        && device.socket.as_ref().is_some_and(|socket| socket.is_ours)
}

/// Closes it. What DPDK keeps listening at nobody can find any more, once all its users are closed.
pub(super) fn close(settings: &Settings, device: Device) {
    drop(device);
    if let Some(path) = listens_at(settings) {
        if stays(settings) {
            socket::hide(path);
        } else {
            socket::give_up(path);
        }
    }
}

/// Has it run.
pub(super) fn begin(settings: &Settings, device: &mut Device) -> Result<(), DpdkError> {
    device.begin().map_err(|why| DpdkError::Device {
        device: settings.device.name.clone(),
        why,
    })
}
