//! Opening a device of DPDK: its pool, its peer's socket, the device itself.
//!
//! Control path, and where a peer has come back.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use catena_shm::pool::PoolMemory;

use super::config::{Rss, Settings};
use super::error::DpdkError;
use super::plugin;
use super::sys::{Asked, Device};

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

/// Whether somebody listens there; none if nothing is there.
fn is_heard(settings: &Settings) -> Option<bool> {
    let socket = settings.device.socket.as_ref()?;
    let is_socket = fs::metadata(&socket.path).is_ok_and(|file| file.file_type().is_socket());
    is_socket.then(|| UnixStream::connect(&socket.path).is_ok())
}

/// Whether a device that calls its peer might reach it.
pub(super) fn may_be_heard(settings: &Settings) -> bool {
    let socket = settings.device.socket.as_ref();
    socket.is_none_or(|socket| socket.is_ours || socket.path.exists())
}

/// Takes away what one who was killed has left where the device is to listen.
fn make_way(settings: &Settings) -> Result<(), DpdkError> {
    let Some(socket) = &settings.device.socket else {
        return Ok(());
    };
    let (device, path) = (settings.device.name.clone(), socket.path.clone());
    if !socket.is_ours {
        return if socket.path.exists() {
            Ok(())
        } else {
            Err(DpdkError::NoPeer { device, path })
        };
    }
    match is_heard(settings) {
        Some(true) => Err(DpdkError::SocketBusy { device, path }),
        Some(false) => {
            // Where it cannot be removed, DPDK says that the address is in use.
            let _ = fs::remove_file(&socket.path);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Opens the device; it does not run yet.
pub(super) fn open(settings: &Settings, memory: &PoolMemory) -> Result<Device, DpdkError> {
    let (library, _) = plugin::load(settings.plugin.as_deref())?;
    library.start().map_err(|why| DpdkError::NoStart { why })?;
    make_way(settings)?;
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
        is_card: driver.is_none(),
        stays: stays(settings),
    };
    library.device(&asked, memory).map_err(of_device)
}

/// Whether DPDK would fall over its device being closed: a memif that listens.
fn stays(settings: &Settings) -> bool {
    let device = &settings.device;
    device.driver.as_deref() == Some("net_memif")
        && device.socket.as_ref().is_some_and(|socket| socket.is_ours)
}

/// Closes it. What DPDK keeps listening at nobody can find any more.
pub(super) fn close(settings: &Settings, device: Device) {
    drop(device);
    if stays(settings)
        && let Some(socket) = &settings.device.socket
    {
        let _ = fs::remove_file(&socket.path);
    }
}

/// Has it run.
pub(super) fn begin(settings: &Settings, device: &mut Device) -> Result<(), DpdkError> {
    device.begin().map_err(|why| DpdkError::Device {
        device: settings.device.name.clone(),
        why,
    })
}
