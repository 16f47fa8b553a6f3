//! Functions of generated code: one for each piece of a program's code.
//!
//! Once, when a program is loaded. Slots become values of the compiler's own form: metadata is read
//! when a function begins and written when it ends, others begin as zeros. Blocks keep their order,
//! since jumps go forward only. What is decided of a packet is gathered in one number, which the
//! function gives back with how it ended.

use catena_flow::program::env::{Env, Exit};
use catena_flow::program::ir::{
    Code, Element, End, Key, Op, Program, Slot, Value as Operand, Verdict, Width,
};
use catena_flow::program::run::{Compiled, Part, Sight};
use catena_flow::{KEY_WORDS_MAX, Timeouts};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, Block, Function as Intermediate, InstBuilder, MemFlagsData, SigRef, Signature, Type,
    Value, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use crate::OP_COUNT_MAX;
use crate::call::{Call, arguments};
use crate::edge::{Context, Executable, Function, Rows, call_back_address, end};
use crate::plain::is_plain;
use crate::wrong::{Wrong, is_made};

/// Bits of what a function gives back.
pub(crate) mod outcome {
    /// How it ended: one of [`end`](crate::edge::end).
    pub(crate) const END: u64 = 0xff;
    /// Which kind of verdict was set, if one was.
    pub(crate) const VERDICT: u64 = 0x3 << 8;
    pub(crate) const OUTPUT: u64 = 1 << 8;
    pub(crate) const DROP: u64 = 2 << 8;
    /// Its number.
    pub(crate) const NUMBER_AT: u32 = 16;
    pub(crate) const NUMBER: u64 = 0xff << NUMBER_AT;
    /// The flow's entry ends.
    pub(crate) const FORGETS: u64 = 1 << 10;
    /// A mark was passed.
    pub(crate) const HAS_MARK: u64 = 1 << 11;
    /// The flow's entry gets other timeouts.
    pub(crate) const HAS_TIMEOUTS: u64 = 1 << 12;
    /// The packet has a key, which was made.
    pub(crate) const HAS_KEY: u64 = 1 << 13;
    /// The last one.
    pub(crate) const MARK_AT: u32 = 32;
    pub(crate) const MARK: u64 = 0xffff << MARK_AT;
}

/// Every access to memory in generated code: it does not fault. What is not aligned need not be.
pub(crate) const PLAIN: MemFlagsData = MemFlagsData::new().with_notrap();

/// The type in which a value of a width is kept.
pub(crate) fn kind(width: Width) -> Type {
    if width > 64 { types::I128 } else { types::I64 }
}

/// Parts of an element, by their place in [`Native::functions`].
const PARTS: [Part; 5] = [
    Part::Key,
    Part::Update,
    Part::Body,
    Part::Keyless,
    Part::Timeout,
];

/// A program as machine code.
#[derive(Debug)]
struct Native {
    memory: Executable,
    functions: Vec<[Option<Function>; PARTS.len()]>,
    rows: Rows,
}

impl Native {
    #[inline]
    fn function(&self, element: usize, part: Part) -> Option<Function> {
        *self.functions.get(element)?.get(part as usize)?
    }
}

impl Compiled for Native {
    fn key(
        &mut self,
        element: usize,
        part: Part,
        sight: Sight<'_>,
        slots: &mut [u128],
        words: &mut [u64; KEY_WORDS_MAX],
    ) -> Option<bool> {
        let function = self.function(element, part)?;
        let decided = self.memory.run_key(function, sight, slots, words)?;
        (decided & outcome::END != end::REFUSED).then_some(decided & outcome::HAS_KEY != 0)
    }

    fn run(
        &mut self,
        element: usize,
        part: Part,
        slots: &mut [u128],
        env: &mut Env<'_>,
    ) -> Option<Exit> {
        let function = self.function(element, part)?;
        let made = self.memory.run(function, &mut self.rows, slots, env)?;
        let decided = made.all;
        let has = |bits: u64| decided & bits != 0;
        let number = (decided >> outcome::NUMBER_AT) as u8;
        match decided & outcome::VERDICT {
            outcome::OUTPUT => env.outcome.verdict = Some(Verdict::Output(number)),
            outcome::DROP => env.outcome.verdict = Some(Verdict::Drop(number)),
            _ => {}
        }
        if has(outcome::HAS_MARK) {
            env.outcome.mark = Some((decided >> outcome::MARK_AT) as u16);
        }
        env.outcome.forgets |= has(outcome::FORGETS);
        if has(outcome::HAS_TIMEOUTS) {
            env.outcome.timeouts = Some(Timeouts {
                idle_ns: made.idle_ns,
                hard_ns: made.hard_ns,
            });
        }
        env.outcome.clones |= made.clones;
        env.outcome.mirrors |= made.mirrors;
        Some(match decided & outcome::END {
            end::NEXT => Exit::Next,
            end::DONE => Exit::Done,
            _ => Exit::NoHeadroom,
        })
    }
}

/// Compiles all code of a program.
pub(crate) fn compile(program: &Program) -> Result<Box<dyn Compiled>, String> {
    let isa = processor()?;
    let mut made = Making {
        isa,
        program,
        code: Vec::new(),
        calls: Vec::new(),
        frontend: FunctionBuilderContext::new(),
    };
    let mut functions = Vec::new();
    for element in &program.elements {
        let mut of_element = [None; PARTS.len()];
        for (part, function) in PARTS.into_iter().zip(&mut of_element) {
            *function = made.part(element, part)?;
        }
        functions.push(of_element);
    }
    let memory = Executable::new(&made.code, made.calls)?;
    Ok(Box::new(Native {
        rows: memory.rows(),
        memory,
        functions,
    }))
}

/// This processor, with all that it can do.
fn processor() -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    let checks = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    for (name, value) in [
        ("opt_level", "speed"),
        ("enable_verifier", checks),
        ("unwind_info", "false"),
        // A function with many values steps through the stack page by page.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        let set = flags.set(name, value);
        set.map_err(|error| format!("the code generator: {error}"))?;
    }
    let builder = cranelift_native::builder().map_err(str::to_owned)?;
    let isa = builder.finish(settings::Flags::new(flags));
    isa.map_err(|error| format!("the code generator: {error}"))
}

/// Functions of a program while they are made.
struct Making<'a> {
    isa: OwnedTargetIsa,
    program: &'a Program,
    code: Vec<u8>,
    calls: Vec<Call>,
    frontend: FunctionBuilderContext,
}

impl Making<'_> {
    /// The function of a part; none if it has no code, or too much.
    fn part(&mut self, element: &Element, part: Part) -> Result<Option<Function>, String> {
        let (code, key) = match part {
            Part::Key => (&element.key.code, Some(&element.key)),
            Part::Update => match &element.update {
                Some(key) => (&key.code, Some(key)),
                None => return Ok(None),
            },
            Part::Body => (&element.body, None),
            Part::Keyless => (&element.keyless, None),
            Part::Timeout => (&element.timeout, None),
        };
        if code.blocks.is_empty() || code.ops().count() > OP_COUNT_MAX {
            return Ok(None);
        }
        let pointer = AbiParam::new(types::I64);
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(pointer);
        signature.returns.push(AbiParam::new(types::I64));
        let mut function = Intermediate::new();
        function.signature = signature.clone();
        signature.params.push(pointer);
        let mut builder = FunctionBuilder::new(&mut function, &mut self.frontend);
        let call_back = builder.import_signature(signature);
        let plain_key = key.filter(|_| code.ops().all(is_plain));
        let leaving = leaving(self.program, code, key.filter(|_| plain_key.is_none()));
        Generator {
            outcome: builder.declare_var(types::I64),
            dirty: builder.declare_var(types::I64),
            words: BTreeMap::new(),
            context: Value::from_u32(0),
            epilogue: builder.create_block(),
            refusal: None,
            plain_key,
            slots: Vec::new(),
            blocks: Vec::new(),
            program: self.program,
            calls: &mut self.calls,
            element,
            code,
            call_back,
            builder,
        }
        .function(&leaving, self.isa.frontend_config());
        let mut context = cranelift_codegen::Context::for_function(function);
        let made = context.compile(&*self.isa, &mut ControlPlane::default());
        let made = made.map_err(|error| format!("the code generator: {:?}", error.inner))?;
        if !made.buffer.relocs().is_empty() {
            return Err("the code generator wants a library that is not there".to_owned());
        }
        // Functions begin on a line of the cache.
        self.code.resize(self.code.len().next_multiple_of(64), 0xcc);
        let at = self.code.len();
        self.code.extend_from_slice(made.code_buffer());
        let metadata = self.program.metadata.len();
        Ok(Some(Function {
            at,
            // The parts of a key are read from the slots behind such code; of others, metadata.
            slots: match (key, plain_key) {
                (Some(_), None) => code.slots.len(),
                _ => metadata,
            },
            is_writing: code.ops().any(|op| matches!(op, Op::SetField { .. })),
            is_plain_key: plain_key.is_some(),
        }))
    }
}

/// Slots that are read behind the code: metadata that it writes, and the parts of a key.
fn leaving(program: &Program, code: &Code, key: Option<&Key>) -> BTreeSet<Slot> {
    let metadata = program.metadata.len();
    let mut slots: BTreeSet<Slot> = code
        .ops()
        .flat_map(written)
        .filter(|slot| usize::from(*slot) < metadata && !is_made(Wrong::Metadata))
        .collect();
    if let Some(key) = key {
        slots.insert(key.present);
        slots.extend(key.parts.iter().map(|part| part.slot));
    }
    slots
}

/// Slots that an operation writes.
fn written(op: &Op) -> Vec<Slot> {
    match op {
        Op::Set { to, .. }
        | Op::Unary { to, .. }
        | Op::Binary { to, .. }
        | Op::Select { to, .. }
        | Op::Resize { to, .. }
        | Op::Slice { to, .. }
        | Op::Concat { to, .. }
        | Op::Hash { to, .. }
        | Op::Field { to, .. }
        | Op::Valid { to, .. }
        | Op::Bytes { to, .. }
        | Op::Fact { to, .. }
        | Op::Flow { to, .. }
        | Op::Global { to, .. }
        | Op::StepGlobal { old: to, .. }
        | Op::Meter { to, .. } => vec![*to],
        Op::Lookup { hit, data, .. } => data.iter().chain([hit]).copied().collect(),
        _ => Vec::new(),
    }
}

/// A word of the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowWord {
    pub(crate) value: Variable,
    /// Bits of it that were written; none if the code writes none.
    pub(crate) mask: Option<Variable>,
}

/// A function while it is made.
pub(crate) struct Generator<'a, 'b> {
    pub(crate) builder: FunctionBuilder<'b>,
    pub(crate) program: &'a Program,
    pub(crate) element: &'a Element,
    pub(crate) code: &'a Code,
    /// Pointer to the [`Context`].
    pub(crate) context: Value,
    /// Words of the flow that the code touches.
    pub(crate) words: BTreeMap<u8, FlowWord>,
    /// Which of them it has written, a bit for each.
    pub(crate) dirty: Variable,
    /// The key that is made, by what the packet shows and nothing else.
    pub(crate) plain_key: Option<&'a Key>,
    /// Where code of a plain key gives up.
    pub(crate) refusal: Option<Block>,
    slots: Vec<Variable>,
    outcome: Variable,
    /// Of each block of the code; none if nothing leads there.
    blocks: Vec<Option<Block>>,
    epilogue: Block,
    calls: &'a mut Vec<Call>,
    call_back: SigRef,
}

impl Generator<'_, '_> {
    fn function(
        mut self,
        leaving: &BTreeSet<Slot>,
        config: cranelift_codegen::isa::TargetFrontendConfig,
    ) {
        let entry = self.builder.create_block();
        self.builder.append_block_params_for_function_params(entry);
        self.builder.append_block_param(self.epilogue, types::I64);
        self.begin_block(entry);
        self.context = self.builder.block_params(entry)[0];
        self.read_slots();
        self.read_flow();
        self.find_blocks();
        let code = self.code;
        for (number, block) in code.blocks.iter().enumerate() {
            let Some(target) = self.blocks[number] else {
                continue;
            };
            if number == 0 {
                self.builder.ins().jump(target, &[]);
            }
            // All that lead here lie in front of it.
            self.begin_block(target);
            for op in &block.ops {
                self.op(op);
            }
            self.end(&block.end);
        }
        self.begin_block(self.epilogue);
        for slot in leaving {
            self.write_slot(*slot);
        }
        self.write_flow();
        let end = self.builder.block_params(self.epilogue)[0];
        let decided = self.builder.use_var(self.outcome);
        let mut all = self.builder.ins().bor(decided, end);
        if let Some(key) = self.plain_key {
            let has_key = self.write_key(key);
            all = self.builder.ins().bor(all, has_key);
        }
        self.builder.ins().return_(&[all]);
        if let Some(refusal) = self.refusal {
            self.begin_block(refusal);
            let refused = self.int(end::REFUSED);
            self.builder.ins().return_(&[refused]);
        }
        self.builder.finalize(config);
    }

    /// Goes on in a block to which all jumps have been made.
    pub(crate) fn begin_block(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.builder.seal_block(block);
    }

    fn read_slots(&mut self) {
        let widths: &[Width] = &self.code.slots;
        let metadata = self.program.metadata.len();
        let from = self.pointer(offset_of!(Context, slots));
        for (slot, width) in widths.iter().enumerate() {
            let variable = self.builder.declare_var(kind(*width));
            let value = if slot < metadata {
                let at = (slot * size_of::<u128>()) as i32;
                self.wide(from, at, *width)
            } else {
                self.constant(0, *width)
            };
            self.builder.def_var(variable, value);
            self.slots.push(variable);
        }
        let nothing = self.int(0);
        self.builder.def_var(self.outcome, nothing);
    }

    /// Makes a block of each to which something leads.
    fn find_blocks(&mut self) {
        let mut is_reached = vec![false; self.code.blocks.len()];
        is_reached[0] = true;
        for (number, block) in self.code.blocks.iter().enumerate() {
            if !is_reached[number] {
                continue;
            }
            let targets = match &block.end {
                End::Jump(to) => vec![*to],
                End::Branch {
                    then, otherwise, ..
                } => vec![*then, *otherwise],
                End::Switch { cases, default, .. } => {
                    cases.iter().map(|(_, to)| *to).chain([*default]).collect()
                }
                End::Next | End::Done => Vec::new(),
            };
            for to in targets {
                is_reached[usize::from(to)] = true;
            }
        }
        for is_reached in is_reached {
            let block = is_reached.then(|| self.builder.create_block());
            self.blocks.push(block);
        }
    }

    fn target(&self, block: u16) -> Block {
        // `find_blocks` has made one for whatever is jumped to.
        self.blocks[usize::from(block)].unwrap_or(self.epilogue)
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Jump(to) => {
                let to = self.target(*to);
                self.builder.ins().jump(to, &[]);
            }
            End::Branch {
                when,
                then,
                otherwise,
                ..
            } => {
                let (mut then, mut otherwise) = (self.target(*then), self.target(*otherwise));
                if is_made(Wrong::Branch) {
                    (then, otherwise) = (otherwise, then);
                }
                let when = self.slot(*when);
                self.builder.ins().brif(when, then, &[], otherwise, &[]);
            }
            End::Switch { on, cases, default } => {
                let mut switch = Switch::new();
                for (value, to) in cases {
                    switch.set_entry(*value, self.target(*to));
                }
                let (on, default) = (self.slot(*on), self.target(*default));
                switch.emit(&mut self.builder, on, default);
            }
            End::Next => self.leave(end::NEXT),
            End::Done => self.leave(end::DONE),
        }
    }

    fn leave(&mut self, end: u64) {
        let end = self.int(end);
        self.builder.ins().jump(self.epilogue, &[end.into()]);
    }

    /// A field of the context.
    pub(crate) fn pointer(&mut self, at: usize) -> Value {
        let at = at as i32;
        self.builder.ins().load(types::I64, PLAIN, self.context, at)
    }

    /// A value of a width in a row of numbers of 128 bits.
    pub(crate) fn wide(&mut self, from: Value, at: i32, width: Width) -> Value {
        let low = self.builder.ins().load(types::I64, PLAIN, from, at);
        if width <= 64 {
            return low;
        }
        let high = self.builder.ins().load(types::I64, PLAIN, from, at + 8);
        self.builder.ins().iconcat(low, high)
    }

    /// Writes it into such a row.
    pub(crate) fn set_wide(&mut self, to: Value, at: i32, value: Value, width: Width) {
        let (low, high) = if width <= 64 {
            (value, self.int(0))
        } else {
            self.builder.ins().isplit(value)
        };
        self.builder.ins().store(PLAIN, low, to, at);
        self.builder.ins().store(PLAIN, high, to, at + 8);
    }

    fn write_slot(&mut self, slot: Slot) {
        let (value, width) = (self.slot(slot), self.width(slot));
        let to = self.pointer(offset_of!(Context, slots));
        let at = i32::from(slot) * size_of::<u128>() as i32;
        self.set_wide(to, at, value, width);
    }

    pub(crate) fn width(&self, slot: Slot) -> Width {
        self.code.slots[usize::from(slot)]
    }

    pub(crate) fn slot(&mut self, slot: Slot) -> Value {
        self.builder.use_var(self.slots[usize::from(slot)])
    }

    /// What a slot holds from here on.
    pub(crate) fn set(&mut self, slot: Slot, value: Value) {
        self.builder.def_var(self.slots[usize::from(slot)], value);
    }

    /// A value and its width.
    pub(crate) fn value(&mut self, value: Operand) -> (Value, Width) {
        match value {
            Operand::Slot(slot) => (self.slot(slot), self.width(slot)),
            Operand::Const(number, width) => (self.constant(number, width), width),
        }
    }

    /// Puts bits in place of those of a mask in what is decided.
    pub(crate) fn decide(&mut self, mask: u64, bits: u64) {
        let decided = self.builder.use_var(self.outcome);
        let keep = self.int(if is_made(Wrong::Verdict) { !0 } else { !mask });
        let kept = self.builder.ins().band(decided, keep);
        let bits = self.int(bits);
        let decided = self.builder.ins().bor(kept, bits);
        self.builder.def_var(self.outcome, decided);
    }

    /// Calls back for an operation. Its results lie in the row of results then.
    pub(crate) fn call(&mut self, op: &Op, width: Width) {
        let given = arguments(op);
        let number = self.calls.len() as u64;
        self.calls.push(Call {
            op: op.clone(),
            arguments: given.len(),
            width,
        });
        if !given.is_empty() {
            let to = self.pointer(offset_of!(Context, arguments));
            for (at, value) in given.into_iter().enumerate() {
                let (value, width) = self.value(value);
                self.set_wide(to, (at * size_of::<u128>()) as i32, value, width);
            }
        }
        let function = self.int(call_back_address());
        let number = self.int(number);
        let arguments = [self.context, number];
        let call = self
            .builder
            .ins()
            .call_indirect(self.call_back, function, &arguments);
        let end = self.builder.inst_results(call)[0];
        let on = self.builder.create_block();
        self.builder
            .ins()
            .brif(end, self.epilogue, &[end.into()], on, &[]);
        self.begin_block(on);
    }

    /// A result of the last call, cut off at a width.
    pub(crate) fn result(&mut self, at: usize, width: Width) -> Value {
        let from = self.pointer(offset_of!(Context, results));
        let value = self.wide(from, (at * size_of::<u128>()) as i32, width);
        self.masked(value, width)
    }
}
