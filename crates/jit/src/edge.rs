//! The edge to generated code: memory that is executed, the call into it, and its calls back.
//!
//! For each packet, between Rust and machine code. All `unsafe` of the crate is here, and rests on
//! three things:
//!
//! - **Who makes the code.** `generate` makes it of a program that [`verify`] has accepted, and of
//!   nothing else. It reads and writes memory through [`Context`] only: slots below the count that
//!   is compared with the slice's in [`Executable::run`]; bytes of the packet below `reach` and
//!   words of global registers below `global_count`, or `shared_count`, all compared at run time;
//!   header offsets by a [`Header`]'s number; words of flows below [`STATE_WORDS_MAX`] and words of
//!   keys below [`KEY_WORDS_MAX`], compared when the code is made; arguments below the count that
//!   [`Rows`] was made for; results below [`RESULT_COUNT_MAX`]. It writes bytes of the packet only
//!   in a [`Function`] that says so.
//! - **What it is given.** Every pointer of a [`Context`] comes from the one exclusive reference to
//!   the [`Env`] or to the slots, and is used while [`Executable::run`] holds both. A call back
//!   uses the [`Env`] itself meanwhile; generated code stands still, and behind the call it finds
//!   pointers that were taken anew ([`Context::renew`]), and keeps none of its own. Code of keys
//!   that makes no calls ([`Executable::run_key`]) has no [`Env`]: what it may touch is borrowed
//!   from a [`Sight`], the slots and the words of the key.
//! - **W^X.** Code is copied into memory that is not executable, which is then made executable and
//!   no longer writable, for as long as it is there.
//!
//! A panic in a call back does not cross generated code: it is kept, the code ends, and
//! [`Executable::run`] goes on with it.
//!
//! [`STATE_WORDS_MAX`]: catena_flow::STATE_WORDS_MAX
//! [`KEY_WORDS_MAX`]: catena_flow::KEY_WORDS_MAX
//! [`verify`]: catena_flow::program::verify::verify
//! [`Header`]: catena_flow::program::header::Header
#![allow(
    unsafe_code,
    reason = "executable memory, and calls into code made at run time"
)]

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;

use catena_flow::KEY_WORDS_MAX;
use catena_flow::program::env::{Env, FlowWords};
use catena_flow::program::run::Sight;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::call::{Call, RESULT_COUNT_MAX, perform};

/// Ends of a piece of code, as generated code gives them back.
pub(crate) mod end {
    /// The packet goes on.
    pub(crate) const NEXT: u64 = 0;
    /// It has its verdict.
    pub(crate) const DONE: u64 = 1;
    /// No room in front of it.
    pub(crate) const NO_HEADROOM: u64 = 2;
    /// A call back has panicked.
    pub(crate) const PANICKED: u64 = 3;
    /// Nothing was done: the code cannot do it by what it sees.
    pub(crate) const REFUSED: u64 = 4;
}

/// What generated code reads and writes through; its fields' places are constants there.
#[repr(C)]
pub(crate) struct Context {
    /// Slots of the code.
    pub(crate) slots: *mut u128,
    /// The packet's bytes; written only by functions that say so.
    pub(crate) bytes: *mut u8,
    /// How many of them are read and written in line: at most 65535.
    pub(crate) reach: u64,
    /// Where headers begin.
    pub(crate) offsets: *const u16,
    /// The flow's words.
    pub(crate) words: *mut u64,
    /// Bits that were written of those that were.
    pub(crate) mask: *mut u64,
    /// Which of them were, a bit for each.
    pub(crate) dirty: *mut u64,
    /// Words of the key that is made.
    pub(crate) key: *mut u64,
    /// Words of global registers, and of those that shards share.
    pub(crate) globals: *const AtomicU64,
    pub(crate) shared: *const AtomicU64,
    /// The time.
    pub(crate) now_ns: u64,
    /// The input link.
    pub(crate) input: u64,
    /// Whether the flow has an entry: 1 or 0.
    pub(crate) found: u64,
    /// Whether it has none and the table is full.
    pub(crate) full: u64,
    /// How many words of global registers there are. Not beside `globals`, as in an [`Env`]: both
    /// would be copied as one, and what was just written as two is slow to read as one.
    pub(crate) global_count: u64,
    /// How many of those that shards share.
    pub(crate) shared_count: u64,
    /// Outputs that get a copy, and those that get one of what came.
    pub(crate) clones: u64,
    pub(crate) mirrors: u64,
    /// When the flow's entry ends, if that was set.
    pub(crate) idle_ns: u64,
    pub(crate) hard_ns: u64,
    /// Rows of arguments and results of calls back.
    pub(crate) arguments: *mut u128,
    pub(crate) results: *mut u128,
    /// For calls back; generated code does not know of what follows.
    env: *mut Env<'static>,
    calls: *const Call,
    call_count: usize,
    is_writing: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl Context {
    /// Nothing to read or write.
    const NOTHING: Self = Self {
        slots: std::ptr::null_mut(),
        bytes: std::ptr::null_mut(),
        reach: 0,
        offsets: std::ptr::null(),
        words: std::ptr::null_mut(),
        mask: std::ptr::null_mut(),
        dirty: std::ptr::null_mut(),
        key: std::ptr::null_mut(),
        globals: std::ptr::null(),
        shared: std::ptr::null(),
        now_ns: 0,
        input: 0,
        found: 0,
        full: 0,
        global_count: 0,
        shared_count: 0,
        clones: 0,
        mirrors: 0,
        idle_ns: 0,
        hard_ns: 0,
        arguments: std::ptr::null_mut(),
        results: std::ptr::null_mut(),
        env: std::ptr::null_mut(),
        calls: std::ptr::null(),
        call_count: 0,
        is_writing: false,
        panic: None,
    };

    /// Takes all pointers into the [`Env`] anew.
    ///
    /// # Safety
    /// `self.env` points to an [`Env`] to which there is no other reference.
    #[inline]
    unsafe fn renew(&mut self) {
        // SAFETY: by the caller.
        let env = unsafe { &mut *self.env };
        let (bytes, len) = if self.is_writing {
            let bytes = env.frame.as_mut().map(|frame| frame.bytes_mut());
            let bytes = bytes.unwrap_or_default();
            (bytes.as_mut_ptr(), bytes.len())
        } else {
            let bytes = env.bytes();
            (bytes.as_ptr().cast_mut(), bytes.len())
        };
        (self.bytes, self.reach) = (bytes, len.min(0xffff) as u64);
        self.offsets = env.headers.offsets().as_ptr();
        let flow: &mut FlowWords = env.flow;
        let (words, mask, dirty) = flow.parts_mut();
        self.words = words.as_mut_ptr();
        self.mask = mask.as_mut_ptr();
        self.dirty = std::ptr::from_mut(dirty);
    }
}

/// Room for arguments and results of calls back.
#[derive(Debug)]
pub(crate) struct Rows {
    arguments: Box<[u128]>,
    results: Box<[u128; RESULT_COUNT_MAX]>,
}

/// A function in executable memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// Its first byte.
    pub(crate) at: usize,
    /// Slots that it may touch.
    pub(crate) slots: usize,
    /// Whether it writes bytes of the packet itself.
    pub(crate) is_writing: bool,
    /// Whether it makes a key, calls nobody back and touches no slot but metadata.
    pub(crate) is_plain_key: bool,
}

/// What a function has decided, beside what it gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    /// What it gives back.
    pub(crate) all: u64,
    pub(crate) clones: u64,
    pub(crate) mirrors: u64,
    pub(crate) idle_ns: u64,
    pub(crate) hard_ns: u64,
}

type Entry = unsafe extern "C" fn(*mut Context) -> u64;

/// Memory that holds functions, and is unmapped with it.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Address of the mapping.
    base: usize,
    len: usize,
    /// What its functions call back for.
    calls: Vec<Call>,
    /// Most arguments of these.
    arguments: usize,
}

impl Executable {
    /// Puts code into memory of its own and makes that executable. `calls` are those that it makes,
    /// by number.
    pub(crate) fn new(code: &[u8], calls: Vec<Call>) -> Result<Self, String> {
        let refused =
            |error: rustix::io::Errno| format!("the kernel gives no executable memory: {error}");
        let len = code.len().max(1);
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, rights, MapFlags::PRIVATE) };
        let base = base.map_err(refused)?;
        let memory = Self {
            base: base.expose_provenance(),
            len,
            arguments: calls.iter().map(|call| call.arguments).max().unwrap_or(0),
            calls,
        };
        // SAFETY: the mapping is as long as the code, writable, and nobody else knows of it.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), base.cast::<u8>(), code.len()) };
        let rights = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: of this mapping, to which nobody refers; from here on nobody writes to it.
        unsafe { mprotect(base, len, rights) }.map_err(refused)?;
        Ok(memory)
    }

    /// Rows for its calls.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            arguments: vec![0; self.arguments].into(),
            results: Box::new([0; RESULT_COUNT_MAX]),
        }
    }

    /// Runs a function of this memory on a packet. Gives what it says of its end and outcome.
    ///
    /// None, with nothing changed, if there are fewer slots or arguments than it may touch.
    #[inline]
    pub(crate) fn run(
        &self,
        function: Function,
        rows: &mut Rows,
        slots: &mut [u128],
        env: &mut Env<'_>,
    ) -> Option<Decided> {
        if slots.len() < function.slots
            || function.is_plain_key
            || rows.arguments.len() < self.arguments
        {
            return None;
        }
        let mut context = Context {
            slots: slots.as_mut_ptr(),
            globals: env.globals.words.as_ptr(),
            shared: env.globals.shared.as_ptr(),
            global_count: env.globals.words.len() as u64,
            shared_count: env.globals.shared.len() as u64,
            now_ns: env.now_ns,
            input: u64::from(env.input),
            found: u64::from(env.is_found),
            full: u64::from(env.is_full),
            arguments: rows.arguments.as_mut_ptr(),
            results: rows.results.as_mut_ptr(),
            env: std::ptr::from_mut(env).cast(),
            calls: self.calls.as_ptr(),
            call_count: self.calls.len(),
            is_writing: function.is_writing,
            ..Context::NOTHING
        };
        // SAFETY: `env` is borrowed exclusively until this function ends, and is not used before.
        unsafe { context.renew() };
        // SAFETY: the context is what the head of this file says, and lives until it returns.
        let all = unsafe { self.call(function, &mut context) }?;
        if let Some(panic) = context.panic.take() {
            resume_unwind(panic);
        }
        Some(Decided {
            all,
            clones: context.clones,
            mirrors: context.mirrors,
            idle_ns: context.idle_ns,
            hard_ns: context.hard_ns,
        })
    }

    /// Runs a function that makes a key. `metadata` is all that it may touch of slots.
    ///
    /// None, with nothing changed, if it is no such function or there are fewer slots.
    #[inline]
    pub(crate) fn run_key(
        &self,
        function: Function,
        sight: Sight<'_>,
        metadata: &mut [u128],
        key: &mut [u64; KEY_WORDS_MAX],
    ) -> Option<u64> {
        if metadata.len() < function.slots || !function.is_plain_key {
            return None;
        }
        let mut context = Context {
            slots: metadata.as_mut_ptr(),
            // It only reads them.
            bytes: sight.bytes.as_ptr().cast_mut(),
            reach: sight.bytes.len().min(0xffff) as u64,
            offsets: sight.headers.offsets().as_ptr(),
            key: key.as_mut_ptr(),
            now_ns: sight.arrival.now_ns,
            input: u64::from(sight.arrival.input),
            ..Context::NOTHING
        };
        // SAFETY: as above; such a function uses no other pointer of it.
        unsafe { self.call(function, &mut context) }
    }

    /// Calls a function of this memory.
    ///
    /// # Safety
    /// The context has all that the function touches.
    #[inline]
    unsafe fn call(&self, function: Function, context: &mut Context) -> Option<u64> {
        if function.at >= self.len {
            return None;
        }
        let entry = std::ptr::with_exposed_provenance::<c_void>(self.base + function.at);
        // SAFETY: `generate` has made a function of this signature begin there, and the memory is
        // executable for as long as `self` lives.
        let entry = unsafe { std::mem::transmute::<*const c_void, Entry>(entry) };
        // SAFETY: by the caller.
        Some(unsafe { entry(std::ptr::from_mut(context)) })
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let base = std::ptr::with_exposed_provenance_mut(self.base);
        // SAFETY: the mapping is this one's alone, and no function runs: `run` borrows `self`.
        // A failure leaves it mapped, and that harms nobody.
        let _ = unsafe { munmap(base, self.len) };
    }
}

/// Address of the function that generated code calls back.
pub(crate) fn call_back_address() -> u64 {
    let function: unsafe extern "C" fn(*mut Context, u64) -> u64 = call_back;
    (function as *const c_void).expose_provenance() as u64
}

/// Does operation `number` of the code's calls. Gives [`end::NEXT`] if the code goes on, else how
/// it ends.
///
/// # Safety
/// Called by generated code alone, with the context that it was given.
unsafe extern "C" fn call_back(context: *mut Context, number: u64) -> u64 {
    // SAFETY: `Executable::run` has made it and waits; generated code does not touch it meanwhile.
    let context = unsafe { &mut *context };
    // SAFETY: as given by `run`, from a slice that it borrows.
    let calls = unsafe { std::slice::from_raw_parts(context.calls, context.call_count) };
    let Some(call) = calls.get(number as usize) else {
        return end::NEXT;
    };
    // SAFETY: `run` has compared the row's length with every call's.
    let given = unsafe { std::slice::from_raw_parts(context.arguments, call.arguments) };
    // SAFETY: the row has this length by its type, and nobody else refers to it now.
    let results = unsafe { &mut *context.results.cast::<[u128; RESULT_COUNT_MAX]>() };
    // SAFETY: `run` borrows it exclusively for the context, and generated code stands still. The
    // lifetime is shorter than the one that was taken away there.
    let env: &mut Env<'_> = unsafe { &mut *context.env };
    let done = catch_unwind(AssertUnwindSafe(|| perform(call, env, given, results)));
    // SAFETY: the reference above is no longer used.
    unsafe { context.renew() };
    match done {
        Ok(true) => end::NEXT,
        Ok(false) => end::NO_HEADROOM,
        Err(panic) => {
            context.panic = Some(panic);
            end::PANICKED
        }
    }
}
