use catena_pcs::Simd;
use catena_pcs::fast::{Receiver, Transmitter};
use catena_pcs::llid::Accept;
use catena_pcs::params::{CODEWORD_BITS, DATA_BLOCKS, Params};
use catena_pcs::rs::{Code, Codec, Correction, PARITY, ROW, Row};
use catena_pcs::stage::{Direction, Receive, Received, Transmit};
use std::time::Instant;
struct R(u64);
impl R {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, l: usize) -> usize {
        ((self.next() >> 32) as usize * l) >> 32
    }
    fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }
}
fn best(name: &str, mut f: impl FnMut() -> usize) {
    let mut best = f64::MAX;
    let t0 = Instant::now();
    while t0.elapsed().as_millis() < std::env::args().nth(2).map_or(250, |x| x.parse().unwrap()) {
        let t = Instant::now();
        let n = f();
        best = best.min(t.elapsed().as_nanos() as f64 / n as f64);
    }
    println!("{name:40} {best:8.1} ns/cw {:6.2} Gb/s", 2046.0 / best);
}
fn main() {
    let want = std::env::args().nth(1).unwrap_or_default();
    for simd in Simd::all().skip(1) {
        let n = simd.name();
        let go = |name: &str| format!("{name} {n}").contains(&want);
        let mut r = R(5);
        let codec = Codec::new(Code::EPON, simd);
        let mut sent = vec![Row::ZERO; 512];
        for row in &mut sent {
            for b in &mut row.0[5..ROW - PARITY] {
                *b = (r.next() >> 40) as u8;
            }
        }
        codec.encode_rows(&mut sent);
        if go("rs-encode") {
            let mut rows = sent.clone();
            best(&format!("rs-encode {n}"), || {
                codec.encode_rows(&mut rows);
                512
            });
        }
        for e in [0usize, 1, 2, 3, 4, 8, 16] {
            let name = format!("rs-decode-{e}");
            if !go(&name) {
                continue;
            }
            let mut bad = sent.clone();
            for row in &mut bad {
                let mut p = vec![];
                while p.len() < e {
                    let x = 5 + r.below(ROW - 5);
                    if !p.contains(&x) {
                        p.push(x);
                        row.0[x] ^= 1 + r.below(255) as u8;
                    }
                }
            }
            let mut rows = bad.clone();
            let mut v = vec![Correction::Clean; 512];
            best(&format!("{name} {n}"), || {
                rows.copy_from_slice(&bad);
                codec.decode_rows(&mut rows, &mut v);
                512
            });
            assert_eq!(rows, sent);
        }
        for len in [64usize, 1518] {
            let name = format!("tx-{len}");
            if !go(&name) {
                continue;
            }
            let mut t = Transmitter::new(Direction::Downstream, Params::default(), simd);
            let frame: Vec<u8> = (0..len - 4).map(|_| (r.next() >> 40) as u8).collect();
            let mut line = vec![0; 32 * CODEWORD_BITS / 8 + 1];
            best(&format!("{name} {n}"), || {
                let mut bits = 0;
                while bits < 512 * CODEWORD_BITS {
                    while t.waiting_blocks() < 32 * DATA_BLOCKS {
                        t.push(&frame, 1).unwrap();
                    }
                    bits += t.pull(&mut line, 3);
                }
                bits / CODEWORD_BITS
            });
        }
        for (len, ber) in [(1518usize, 0.0), (1518, 1e-4), (1518, 1e-3), (64, 1e-4)] {
            let name = format!("rx-{len}-{ber}");
            if !go(&name) {
                continue;
            }
            let mut t = Transmitter::new(Direction::Downstream, Params::default(), simd);
            let frame: Vec<u8> = (0..len - 4).map(|_| (r.next() >> 40) as u8).collect();
            let mut line = vec![0; 2048 * CODEWORD_BITS / 8 + 1];
            let mut bits = 0;
            while bits < 2048 * CODEWORD_BITS {
                while t.waiting_blocks() < 16 * DATA_BLOCKS {
                    t.push(&frame, 1).unwrap();
                }
                let end = ((bits + CODEWORD_BITS).div_ceil(8) + 1).min(line.len());
                let w = t.pull(&mut line[..end], bits);
                if w == 0 {
                    break;
                }
                bits += w;
            }
            if ber > 0.0 {
                let mut at = 0.0;
                loop {
                    at += (r.unit().ln() / (1.0f64 - ber).ln()).floor() + 1.0;
                    if at >= bits as f64 {
                        break;
                    }
                    line[at as usize / 8] ^= 1 << (at as usize % 8);
                }
            }
            let mut rx = Receiver::new(Direction::Downstream, Accept::Any, Params::default(), simd);
            let mut frames = 0u64;
            best(&format!("{name} {n}"), || {
                let b = rx.counters().codewords;
                let mut sink = |_: &Received<'_>| frames += 1;
                let c = 32 * CODEWORD_BITS;
                for at in (0..bits).step_by(c) {
                    rx.receive(&line, at, c.min(bits - at), &mut sink);
                }
                (rx.counters().codewords - b) as usize
            });
            if frames == 0 {
                println!("NO FRAMES");
            }
        }
    }
}
