// SPDX-License-Identifier: Apache-2.0
//! Goal: a worker that has given up system calls makes machine code of its program.
//! Method: a thread gives them up as workers in processes do, then compiles and runs the policer.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use catena_flow::efsm::source::load;
use catena_flow::program::run::Arrival;
use catena_flow::simulate::Simulation;
use catena_shm::confine::refuse_system_calls;

#[test]
fn code_is_made_where_system_calls_are_refused() {
    let confined = std::thread::spawn(|| {
        rustix::thread::set_no_new_privs(true).unwrap();
        refuse_system_calls().unwrap();
        let text = include_str!("../../flow/programs/policer.yaml");
        let program = load("policer", text).unwrap().0.remove(0).compiled.program;
        let compiled = catena_jit::compile(&program).unwrap();
        let mut simulation = Simulation::with(program, Some(compiled)).unwrap();
        assert!(simulation.running().is_compiled());
        let mut frame = vec![0; 60];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253]);
        let arrival = Arrival {
            now_ns: 1 << 40,
            input: 0,
        };
        let mut passed = 0;
        for _ in 0..20 {
            passed += u32::from(simulation.packet(&frame, arrival).verdict == "out");
        }
        passed
    });
    // The window's first packet, and as many as it has room for.
    assert_eq!(confined.join().unwrap(), 3);
}
