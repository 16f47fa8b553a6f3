//! The edge to DPDK: the plug-in, loaded at run time, and a device behind it.
//!
//! What crosses it are numbers of buffers, offsets and lengths; `plugin/catena_dpdk.c` is the other
//! side, and `ABI` the version of what both agree on. Nothing here is linked: without the plug-in a
//! port says what is missing. What comes back is checked by the port, in its table of buffers.
#![allow(
    unsafe_code,
    reason = "functions of a library that is loaded at run time"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use catena_shm::pool::PoolMemory;

/// `CATENA_DPDK_ABI`.
const ABI: u32 = 4;
/// Longest text that says why, in bytes.
const WHY_LEN: usize = 512;
const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;

/// `struct catena_dpdk_device`.
#[repr(C)]
struct RawDevice {
    args: *const c_char,
    driver: *const c_char,
    memory: *mut c_void,
    memory_len: u64,
    page_len: u64,
    buffers: u32,
    stride: u32,
    mtu: u32,
    ring: u32,
    queues: u32,
    copies: u32,
    promiscuous: u32,
    check_sums: u32,
    rss: u32,
    is_card: u32,
    stays: u32,
    rules: *const Rule,
    rule_count: u32,
}

/// `struct catena_dpdk_rule`: which packets the device tells apart, and what it does with them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Addresses of IPv6, or of IPv4 in the first four bytes.
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
    pub(super) has_source: u32,
    pub(super) has_destination: u32,
    /// 4, 6, or 0: not looked at.
    pub(super) ip: u32,
    /// Of IP; 0: not looked at.
    pub(super) protocol: u32,
    /// These five: [`ANY`] if they are not looked at, or not said.
    pub(super) ether_type: u32,
    pub(super) vlan: u32,
    pub(super) source_port: u32,
    pub(super) destination_port: u32,
    pub(super) queue: u32,
    /// 16 bits; 0: none.
    pub(super) mark: u32,
    /// The lowest comes first.
    pub(super) priority: u32,
}

/// `ANY`.
pub(super) const ANY: u32 = u32::MAX;

/// `struct catena_dpdk_slot`: where a packet lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Number of the buffer in its pool.
    pub(super) buffer: u32,
    /// From the start of the buffer.
    pub(super) offset: u32,
    pub(super) len: u32,
    /// [`BAD_SUM`], [`TOO_LONG`] or the plug-in's others; of one received, its mark in the high
    /// half.
    pub(super) flags: u32,
}

impl Slot {
    /// What a rule has the device mark the packet with; 0 if none does.
    #[inline]
    pub(super) const fn mark(&self) -> u16 {
        (self.flags >> 16) as u16
    }
}

/// The device has found a wrong checksum in the packet.
pub(super) const BAD_SUM: u32 = 1;
/// The packet will not be sent: no buffer of the device holds it. Any other flag there: it does
/// not lie in a buffer.
pub(super) const TOO_LONG: u32 = 2;

/// `struct catena_dpdk_state`: what the device is now and has counted since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) missed: u64,
    pub(super) rx_errors: u64,
    pub(super) tx_errors: u64,
    pub(super) no_buffer: u64,
    pub(super) refused: u64,
    pub(super) too_long: u64,
    pub(super) copied_packets: u64,
    pub(super) copied_bytes: u64,
    /// Times that its peer had DPDK go where no memory is.
    pub(super) peer_faults: u64,
    pub(super) is_up: u32,
    pub(super) is_removed: u32,
    pub(super) queues: u32,
    pub(super) mbits: u32,
    /// Buffers to receive in that it has.
    pub(super) empty: u32,
    /// Nothing passes until it is recalled.
    pub(super) has_fallen: u32,
}

/// `struct catena_dpdk`.
#[repr(C)]
struct Api {
    abi: u32,
    size: u32,
    version: unsafe extern "C" fn() -> *const c_char,
    driver_dir: unsafe extern "C" fn() -> *const c_char,
    start: unsafe extern "C" fn(*mut c_char, usize) -> c_int,
    open: unsafe extern "C" fn(*const RawDevice, *mut c_char, usize) -> *mut c_void,
    begin: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int,
    close: unsafe extern "C" fn(*mut c_void),
    post: unsafe extern "C" fn(*mut c_void, *const u32, u32),
    rx: unsafe extern "C" fn(*mut c_void, *mut Slot, u32) -> u32,
    tx: unsafe extern "C" fn(*mut c_void, *mut Slot, u32) -> u32,
    reap: unsafe extern "C" fn(*mut c_void, *mut u32, u32) -> u32,
    recall: unsafe extern "C" fn(*mut c_void),
    look: unsafe extern "C" fn(*mut c_void, *mut State),
}

/// The plug-in. Loaded once, and never unloaded: DPDK has threads.
#[derive(Clone, Copy)]
pub(super) struct Library(&'static Api);

/// Why a file is not the plug-in that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unloaded {
    /// It cannot be used: a text for people.
    Unusable(String),
    /// The process has loaded this one.
    Other(PathBuf),
}

/// What is asked of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) args: &'a CStr,
    pub(super) driver: &'a CStr,
    pub(super) mtu: u32,
    pub(super) ring: u32,
    pub(super) queues: u32,
    pub(super) copies: bool,
    pub(super) promiscuous: bool,
    pub(super) check_sums: bool,
    /// 0: none; 1: by the outer header; 3: by the inner one.
    pub(super) rss: u32,
    pub(super) rules: &'a [Rule],
    pub(super) is_card: bool,
    /// It must not be closed before the process ends: it is only stopped.
    pub(super) stays: bool,
}

impl Library {
    /// The plug-in in that file; the first one that a process loads is the one it has.
    ///
    /// # Errors
    /// That it cannot be used, or that the process has another one.
    pub(super) fn load(file: &Path) -> Result<Self, Unloaded> {
        static LOADED: Mutex<Option<(PathBuf, Library)>> = Mutex::new(None);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some((other, _)) if other != file => Err(Unloaded::Other(other.clone())),
            Some((_, library)) => Ok(*library),
            None => {
                let library = Self::open(file).map_err(Unloaded::Unusable)?;
                *loaded = Some((file.to_owned(), library));
                Ok(library)
            }
        }
    }

    fn open(file: &Path) -> Result<Self, String> {
        let path = CString::new(file.as_os_str().as_encoded_bytes())
            .map_err(|_| "its path holds a zero byte".to_owned())?;
        // SAFETY: a path that ends with zero; initialisers of the library that the user has built
        // and named are run, which is what he asked for.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror gives a text that lives until the next call of this thread, or null.
            let text = unsafe { libc::dlerror() };
            return Err(text_at(text));
        }
        // SAFETY: a handle that dlopen gave, and a name that ends with zero.
        let symbol = unsafe { libc::dlsym(handle, c"catena_dpdk".as_ptr()) };
        let Some(api) = NonNull::new(symbol.cast::<Api>()) else {
            return Err("it is no DPDK plug-in of Catena".to_owned());
        };
        // SAFETY: every version of the plug-in begins with these two words; the table is never
        // changed, and the library never unloaded.
        let (abi, size) = unsafe { ((*api.as_ptr()).abi, (*api.as_ptr()).size) };
        if abi != ABI || size as usize != size_of::<Api>() {
            return Err(format!(
                "it is of version {abi}, and this Catena needs {ABI}"
            ));
        }
        // SAFETY: version and size agree, so it is the table that `Api` describes; see above.
        Ok(Self(unsafe { api.as_ref() }))
    }

    /// DPDK's name and version.
    pub(super) fn version(self) -> String {
        // SAFETY: takes nothing; the text is a constant.
        text_at(unsafe { (self.0.version)() })
    }

    /// The folder with DPDK's drivers.
    pub(super) fn driver_dir(self) -> String {
        // SAFETY: takes nothing; the text is a constant.
        text_at(unsafe { (self.0.driver_dir)() })
    }

    /// Starts DPDK in this process, if it does not run yet.
    ///
    /// # Errors
    /// Why it does not start.
    pub(super) fn start(self) -> Result<(), String> {
        let mut why = [0_u8; WHY_LEN];
        // SAFETY: room for a text of that length, which `start` ends with zero.
        let result = unsafe { (self.0.start)(why.as_mut_ptr().cast(), why.len()) };
        if result == 0 {
            Ok(())
        } else {
            Err(text_of(&why))
        }
    }

    /// Opens a device that receives in and sends from `memory`.
    ///
    /// # Errors
    /// Why it cannot be opened; nothing is left of it.
    pub(super) fn device(self, asked: &Asked<'_>, memory: &PoolMemory) -> Result<Device, String> {
        let geometry = memory.geometry();
        let page_len = if memory.is_huge() { HUGE_PAGE } else { PAGE };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an address of this process"
        )]
        let address = std::ptr::with_exposed_provenance_mut(memory.address() as usize);
        let raw = RawDevice {
            args: asked.args.as_ptr(),
            driver: asked.driver.as_ptr(),
            memory: address,
            memory_len: memory.len().next_multiple_of(page_len),
            page_len,
            buffers: geometry.buffer_count,
            stride: 1 << geometry.log2_stride,
            mtu: asked.mtu,
            ring: asked.ring,
            queues: asked.queues,
            copies: asked.copies.into(),
            promiscuous: asked.promiscuous.into(),
            check_sums: asked.check_sums.into(),
            rss: asked.rss,
            is_card: asked.is_card.into(),
            stays: asked.stays.into(),
            rules: asked.rules.as_ptr(),
            rule_count: count(asked.rules),
        };
        let mut why = [0_u8; WHY_LEN];
        // SAFETY: texts and rules live until the call returns, and are copied; the memory is mapped
        // as long as `Device` keeps `memory`; a text that says why has room for that length.
        let device = unsafe { (self.0.open)(&raw, why.as_mut_ptr().cast(), why.len()) };
        let raw = NonNull::new(device).ok_or_else(|| text_of(&why))?;
        Ok(Device {
            raw,
            api: self.0,
            _memory: memory.clone(),
        })
    }
}

/// A device that DPDK drives; given back to it on drop, after which it has no buffer any more.
pub(super) struct Device {
    raw: NonNull<c_void>,
    api: &'static Api,
    /// What it receives in.
    _memory: PoolMemory,
}

// SAFETY: the plug-in lets any thread call into a device, one at a time; `&mut self` sees to that.
unsafe impl Send for Device {}

impl Device {
    /// Has it receive and send.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        let mut why = [0_u8; WHY_LEN];
        // SAFETY: a device that is open, and room for a text of that length.
        let result =
            unsafe { (self.api.begin)(self.raw.as_ptr(), why.as_mut_ptr().cast(), why.len()) };
        if result == 0 {
            Ok(())
        } else {
            Err(text_of(&why))
        }
    }

    /// Gives it empty buffers, whose packets the caller keeps and does not touch.
    pub(super) fn post(&mut self, buffers: &[u32]) {
        // SAFETY: a device that is open, and as many numbers as said.
        unsafe { (self.api.post)(self.raw.as_ptr(), buffers.as_ptr(), count(buffers)) }
    }

    /// Packets that it has received, in buffers that it had been given.
    pub(super) fn rx<'a>(&mut self, slots: &'a mut [Slot]) -> &'a [Slot] {
        let most = count(slots);
        // SAFETY: a device that is open, and room for as many as said.
        let filled = unsafe { (self.api.rx)(self.raw.as_ptr(), slots.as_mut_ptr(), most) };
        &slots[..filled.min(most) as usize]
    }

    /// Has it send packets, which the caller keeps until `reap` names them; gives how many of the
    /// first it has dealt with. Those whose flags then say so will not be sent, nor named.
    pub(super) fn tx(&mut self, slots: &mut [Slot]) -> usize {
        let most = count(slots);
        // SAFETY: a device that is open, and as many packets as said, which lie in buffers of the
        // memory that it was opened with (the plug-in checks it).
        unsafe { (self.api.tx)(self.raw.as_ptr(), slots.as_mut_ptr(), most).min(most) as usize }
    }

    /// Buffers that it is done with.
    pub(super) fn reap<'a>(&mut self, buffers: &'a mut [u32]) -> &'a [u32] {
        let most = count(buffers);
        // SAFETY: a device that is open, and room for as many as said.
        let filled = unsafe { (self.api.reap)(self.raw.as_ptr(), buffers.as_mut_ptr(), most) };
        &buffers[..filled.min(most) as usize]
    }

    /// Takes all its buffers back, of a device that keeps none by itself: no card.
    pub(super) fn recall(&mut self) {
        // SAFETY: a device that is open.
        unsafe { (self.api.recall)(self.raw.as_ptr()) }
    }

    /// How it is now.
    pub(super) fn state(&mut self) -> State {
        let mut state = State::default();
        // SAFETY: a device that is open, and a place for what it says.
        unsafe { (self.api.look)(self.raw.as_ptr(), &raw mut state) };
        state
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the device is open, and this is its last use.
        unsafe { (self.api.close)(self.raw.as_ptr()) }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").finish_non_exhaustive()
    }
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// A text that somebody else holds; empty if there is none.
fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the callers' sources end texts with zero and keep them meanwhile.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The text in a place that was given to be written to.
fn text_of(room: &[u8; WHY_LEN]) -> String {
    let end = room.iter().position(|byte| *byte == 0);
    let text = &room[..end.unwrap_or(WHY_LEN)];
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_cannot_be_loaded_has_its_own_reason() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.so", "b.so"] {
            let file = dir.path().join(name);
            std::fs::write(&file, "no library").unwrap();
            match Library::load(&file) {
                Err(Unloaded::Unusable(why)) => assert!(why.contains(name), "{why}"),
                Err(other) => panic!("{other:?}"),
                Ok(_) => panic!("a text was loaded"),
            }
        }
    }
}
