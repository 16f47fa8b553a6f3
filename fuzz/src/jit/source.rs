// SPDX-License-Identifier: Apache-2.0
//! The fuzzer's bytes as choices: small numbers, numbers of a width, and packets.
//!
//! Behind the end all choices are 0, so that a shorter input is a simpler case.

use catena_flow::program::field::ones;

/// Bytes, read from the front.
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next one.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `count`, at most 65536.
    pub fn below(&mut self, count: usize) -> usize {
        let number = if count > 256 {
            usize::from(self.byte()) << 8 | usize::from(self.byte())
        } else {
            usize::from(self.byte())
        };
        number % count.max(1)
    }

    /// True in so many of 256 cases, and never at the end.
    pub fn chance(&mut self, of_256: u8) -> bool {
        self.byte().wrapping_sub(1) < of_256
    }

    /// A number of a width: often one at an edge.
    pub fn number(&mut self, width: u8) -> u128 {
        let kind = self.byte();
        let number = match kind % 12 {
            0 => 0,
            1 => 1,
            2 => u128::MAX,
            3 => 1 << (width - 1),
            4 => u128::from(kind / 12),
            5 => u128::from(width),
            6 => u128::MAX - u128::from(kind / 12),
            _ => {
                let count = usize::from(width.div_ceil(8));
                (0..count).fold(0, |number, _| number << 8 | u128::from(self.byte()))
            }
        };
        number & ones(width)
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A frame: one of many kinds, with some bytes changed, or cut short.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut frame = self.whole_frame();
        for _ in 0..self.below(4) {
            let at = self.below(frame.len());
            frame[at] = self.byte();
        }
        if self.chance(20) {
            frame.truncate(self.below(frame.len()).max(1));
        }
        frame
    }

    fn whole_frame(&mut self) -> Vec<u8> {
        let hosts = [self.byte() % 4, self.byte() % 4];
        let ports = [self.one_of(&[53, 80, 7000, 40_000]), self.one_of(&[80, 9])];
        let payload = vec![0xa5; self.below(40)];
        let transport = match self.below(4) {
            0 => (17, udp(ports, &payload)),
            1 => (6, tcp(ports, self.byte(), &payload)),
            2 => (1, [&[8, 0, 0, 0, 0, 1, 0, 2], &*payload].concat()),
            _ => (47, payload),
        };
        let (protocol, rest) = transport;
        let inner = if self.chance(60) {
            (0x86dd, ipv6(protocol, hosts, &rest))
        } else {
            (0x0800, ipv4(protocol, hosts, &rest))
        };
        let (kind, packet) = match self.below(8) {
            0 => {
                let mut tunnel = vec![0x30, 0xff];
                tunnel.extend((inner.1.len() as u16).to_be_bytes());
                tunnel.extend([0, 0, 0, hosts[0]]);
                tunnel.extend(inner.1);
                (0x0800, ipv4(17, hosts, &udp([2152, 2152], &tunnel)))
            }
            1 => {
                let mut tunnel = vec![8, 0, 0, 0, 0, 0, 5, 0];
                tunnel.extend(ethernet(inner.0, &inner.1));
                (0x0800, ipv4(17, hosts, &udp([9, 4789], &tunnel)))
            }
            2 => {
                let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
                error.extend(inner.1);
                (0x0800, ipv4(1, hosts, &error))
            }
            3 => {
                let mut tagged = vec![0x20, 5];
                tagged.extend(u16::to_be_bytes(inner.0));
                tagged.extend(inner.1);
                (0x8100, tagged)
            }
            4 if inner.0 == 0x0800 => (0x0800, ipv4(4, hosts, &inner.1)),
            5 => (0x0806, vec![1; 28]),
            _ => inner,
        };
        ethernet(kind, &packet)
    }
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(rest);
    frame
}

fn ipv4(protocol: u8, [src, dst]: [u8; 2], rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0x28];
    packet.extend((20 + rest.len() as u16).to_be_bytes());
    packet.extend([0, 3, 0x40, 0, 9, protocol, 0x12, 0x34]);
    packet.extend([10, 0, 0, src, 10, 0, 0, dst]);
    packet.extend(rest);
    packet
}

fn ipv6(next: u8, [src, dst]: [u8; 2], rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x62, 0x80, 0, 7];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 9]);
    for host in [src, dst] {
        packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(rest);
    packet
}

fn udp([src, dst]: [u16; 2], rest: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [src, dst, 8 + rest.len() as u16, 0x5678] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(rest);
    datagram
}

fn tcp([src, dst]: [u16; 2], flags: u8, rest: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(src.to_be_bytes());
    segment.extend(dst.to_be_bytes());
    segment.extend([0, 0, 0, 9, 0, 0, 0, 7, 0x50, flags, 2, 0, 0x9a, 0xbc, 0, 0]);
    segment.extend(rest);
    segment
}
