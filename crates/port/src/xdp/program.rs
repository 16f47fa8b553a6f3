//! The program that sends packets of an interface to its AF_XDP sockets, as eBPF instructions.
//!
//! Before any packet moves: made here from what is to be taken, loaded by `attach`. The kernel runs
//! it for each packet that arrives, before its own network stack: what is taken goes to the socket
//! of the queue that it came by, everything else, and what comes by a queue without a socket, goes
//! on as if there were no program. Pure: numbers in, instructions out. Sources: RFC 9669;
//! `linux/bpf.h`.
//!
//! What is taken: a packet with one of the VLANs, if some are named, and one of the EtherTypes or
//! to one of the UDP ports, if some are named. One VLAN tag is looked behind (802.1Q or 802.1ad); a
//! tag that the sender leaves to its network card is not in the packet and not seen. UDP is found
//! behind IPv4 with options, and behind IPv6 without extension headers; fragments have no ports,
//! and are not taken by theirs, the first one neither.

use schemars::JsonSchema;
use serde::Deserialize;

use catena_engine::config::ConfigError;

/// Most entries of each list: a program is run for each packet, and its jumps reach 32,767.
const LIST_MAX: usize = 64;
/// `XDP_PASS`: on to the kernel's network stack.
const PASS: i32 = 2;
/// `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// Source register that makes a 64-bit constant the map behind a descriptor.
const PSEUDO_MAP_FD: u8 = 1;

const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: i32 = 17;

/// Which packets are taken; without any of it, all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Steering {
    /// EtherTypes, behind a VLAN tag if there is one.
    pub ether_types: Vec<u16>,
    /// UDP destination ports, over IPv4 and IPv6.
    pub udp_ports: Vec<u16>,
    /// VLAN numbers: 0 to 4094.
    pub vlans: Vec<u16>,
}

impl Steering {
    /// What is wrong with it.
    pub(super) fn check(&self, errors: &mut Vec<ConfigError>) {
        let lists = [
            ("steer/ether_types", &self.ether_types),
            ("steer/udp_ports", &self.udp_ports),
            ("steer/vlans", &self.vlans),
        ];
        for (path, list) in lists {
            if list.len() > LIST_MAX {
                let repair = format!("name at most {LIST_MAX}");
                errors.push(ConfigError::new(path, "the list is too long", repair));
            }
        }
        if self.vlans.iter().any(|vlan| *vlan > 4094) {
            let repair = "give numbers from 0 to 4094";
            errors.push(ConfigError::new(
                "steer/vlans",
                "no VLAN has this number",
                repair,
            ));
        }
    }

    fn takes_all_types(&self) -> bool {
        self.ether_types.is_empty() && self.udp_ports.is_empty()
    }
}

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// The packet is taken.
    Take,
    /// It is not.
    Pass,
    Tagged,
    VlanTaken,
    Typed,
    Ipv4,
    Ipv6,
    Udp,
}

#[derive(Clone, Copy)]
enum Width {
    Byte = 0x71,
    Half = 0x69,
    Word = 0x61,
}

/// Registers, by what is kept in them.
mod register {
    pub(super) const RESULT: u8 = 0;
    pub(super) const ARGUMENTS: [u8; 3] = [1, 2, 3];
    /// Start of the packet and its end; both before the arguments are needed.
    pub(super) const DATA: u8 = 2;
    pub(super) const DATA_END: u8 = 3;
    pub(super) const BOUND: u8 = 4;
    pub(super) const ETHER_TYPE: u8 = 5;
    pub(super) const CONTEXT: u8 = 6;
    pub(super) const VALUE: u8 = 7;
    /// Start of the header that is looked at.
    pub(super) const HEADER: u8 = 8;
}
use register::{ARGUMENTS, BOUND, CONTEXT, DATA, DATA_END, ETHER_TYPE, HEADER, RESULT, VALUE};

/// Instructions with jumps that are not resolved yet.
#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, To)>,
    labels: Vec<(To, usize)>,
}

impl Assembler {
    fn put(&mut self, opcode: u8, target: u8, source: u8, offset: i16, constant: i32) {
        let instruction = u64::from(opcode)
            | u64::from(target) << 8
            | u64::from(source) << 12
            | u64::from(offset.cast_unsigned()) << 16
            | u64::from(constant.cast_unsigned()) << 32;
        self.code.push(instruction);
    }

    fn load(&mut self, width: Width, target: u8, from: u8, offset: i16) {
        self.put(width as u8, target, from, offset, 0);
    }

    fn copy(&mut self, target: u8, source: u8) {
        self.put(0xbf, target, source, 0, 0);
    }

    fn set(&mut self, target: u8, constant: i32) {
        self.put(0xb7, target, 0, 0, constant);
    }

    fn add(&mut self, target: u8, constant: i32) {
        self.put(0x07, target, 0, 0, constant);
    }

    fn and(&mut self, target: u8, constant: i32) {
        self.put(0x57, target, 0, 0, constant);
    }

    fn jump(&mut self, to: To) {
        self.branch(0x05, 0, 0, to);
    }

    fn if_equal(&mut self, target: u8, constant: i32, to: To) {
        self.branch(0x15, target, constant, to);
    }

    fn if_not_equal(&mut self, target: u8, constant: i32, to: To) {
        self.branch(0x55, target, constant, to);
    }

    fn if_below(&mut self, target: u8, constant: i32, to: To) {
        self.branch(0xa5, target, constant, to);
    }

    fn branch(&mut self, opcode: u8, target: u8, constant: i32, to: To) {
        self.jumps.push((self.code.len(), to));
        self.put(opcode, target, 0, 0, constant);
    }

    /// Has the verifier, and the program, know that `count` bytes from `from` on are there.
    fn need(&mut self, from: u8, count: i32) {
        self.copy(BOUND, from);
        self.add(BOUND, count);
        self.jumps.push((self.code.len(), To::Pass));
        self.put(0x2d, BOUND, DATA_END, 0, 0);
    }

    fn label(&mut self, label: To) {
        self.labels.push((label, self.code.len()));
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, to) in &self.jumps {
            let found = self.labels.iter().find(|(label, _)| label == to);
            let target = found.map_or(*at, |(_, target)| *target);
            // Lists are short: a program has some hundred instructions.
            let offset = i16::try_from(target - at - 1).unwrap_or(0);
            self.code[*at] |= u64::from(offset.cast_unsigned()) << 16;
        }
        self.code
    }
}

/// A field of two bytes as a little-endian load sees it.
fn network(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The program that takes what `steering` says and gives it to the sockets in map `map`.
pub(super) fn program(steering: &Steering, map: i32) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(CONTEXT, ARGUMENTS[0]);
    if *steering != Steering::default() {
        select(&mut code, steering);
    }
    code.label(To::Take);
    // rx_queue_index of struct xdp_md.
    code.load(Width::Word, ARGUMENTS[1], CONTEXT, 16);
    code.put(0x18, ARGUMENTS[0], PSEUDO_MAP_FD, 0, map);
    code.put(0, 0, 0, 0, 0);
    code.set(ARGUMENTS[2], PASS);
    code.put(0x85, 0, 0, 0, REDIRECT_MAP);
    code.put(0x95, 0, 0, 0, 0);
    // The kernel refuses instructions that nothing leads to.
    if code.jumps.iter().any(|(_, to)| *to == To::Pass) {
        code.label(To::Pass);
        code.set(RESULT, PASS);
        code.put(0x95, 0, 0, 0, 0);
    }
    code.finish()
}

/// Goes to `Take` or `Pass`.
fn select(code: &mut Assembler, steering: &Steering) {
    code.load(Width::Word, DATA, CONTEXT, 0);
    code.load(Width::Word, DATA_END, CONTEXT, 4);
    code.need(DATA, 14);
    code.load(Width::Half, ETHER_TYPE, DATA, 12);
    code.copy(HEADER, BOUND);
    for tag in VLAN_TYPES {
        code.if_equal(ETHER_TYPE, network(tag), To::Tagged);
    }
    code.jump(if steering.vlans.is_empty() {
        To::Typed
    } else {
        To::Pass
    });
    code.label(To::Tagged);
    code.need(DATA, 18);
    if !steering.vlans.is_empty() {
        code.load(Width::Half, VALUE, DATA, 14);
        code.and(VALUE, network(0x0fff));
        for vlan in &steering.vlans {
            code.if_equal(VALUE, network(*vlan), To::VlanTaken);
        }
        code.jump(To::Pass);
        code.label(To::VlanTaken);
    }
    code.load(Width::Half, ETHER_TYPE, DATA, 16);
    code.copy(HEADER, BOUND);
    code.label(To::Typed);
    if steering.takes_all_types() {
        return code.jump(To::Take);
    }
    for ether_type in &steering.ether_types {
        code.if_equal(ETHER_TYPE, network(*ether_type), To::Take);
    }
    if !steering.udp_ports.is_empty() {
        select_udp(code, &steering.udp_ports);
    }
    code.jump(To::Pass);
}

fn select_udp(code: &mut Assembler, ports: &[u16]) {
    code.if_equal(ETHER_TYPE, network(IPV4), To::Ipv4);
    code.if_equal(ETHER_TYPE, network(IPV6), To::Ipv6);
    code.jump(To::Pass);
    code.label(To::Ipv4);
    code.need(HEADER, 20);
    code.load(Width::Byte, VALUE, HEADER, 9);
    code.if_not_equal(VALUE, UDP, To::Pass);
    // More fragments, or not the first.
    code.load(Width::Half, VALUE, HEADER, 6);
    code.and(VALUE, network(0x3fff));
    code.if_not_equal(VALUE, 0, To::Pass);
    code.load(Width::Byte, VALUE, HEADER, 0);
    code.and(VALUE, 0x0f);
    code.put(0x67, VALUE, 0, 0, 2);
    code.if_below(VALUE, 20, To::Pass);
    code.put(0x0f, HEADER, VALUE, 0, 0);
    code.jump(To::Udp);
    code.label(To::Ipv6);
    code.need(HEADER, 40);
    code.load(Width::Byte, VALUE, HEADER, 6);
    code.if_not_equal(VALUE, UDP, To::Pass);
    code.add(HEADER, 40);
    code.label(To::Udp);
    code.need(HEADER, 8);
    code.load(Width::Half, VALUE, HEADER, 2);
    for port in ports {
        code.if_equal(VALUE, network(*port), To::Take);
    }
}

/// How names of these programs begin.
pub(super) const NAME_START: &str = "catena_";

/// A name that tells programs apart which take different packets: 15 bytes at most.
pub(super) fn name_of(steering: &Steering) -> String {
    let mut hash = 0x811c_9dc5_u32;
    for instruction in program(steering, 0) {
        for byte in instruction.to_le_bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    format!("{NAME_START}{hash:08x}")
}

#[cfg(test)]
mod tests;
