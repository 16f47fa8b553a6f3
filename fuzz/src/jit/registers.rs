// SPDX-License-Identifier: Apache-2.0
//! Random programs' use of registers: those of a flow, of meters, and of the program.

use catena_flow::program::ir::{Binary, Op, Value};

use super::program::Writer;

/// Registers of a flow that meters use, from this one on.
const METER_REGISTER: u8 = 1;
const STEPS: [Binary; 9] = {
    use Binary::*;
    [Add, Sub, AddSat, SubSat, And, Or, Xor, Min, Max]
};

impl Writer<'_, '_, '_> {
    pub(super) fn flow_read(&mut self) -> Op {
        let Some(flows) = self.flows else {
            return self.field_read();
        };
        let register = self.source.below(flows.registers.len());
        let to = self.slot(flows.registers[register].width);
        let register = register as u8;
        Op::Flow { to, register }
    }

    pub(super) fn flow_write(&mut self) -> Op {
        let Some(flows) = self.flows else {
            return self.binary();
        };
        let register = self.source.below(flows.registers.len());
        let from = self.value(flows.registers[register].width);
        let register = register as u8;
        Op::SetFlow { register, from }
    }

    /// Charges a meter: most packets are within some burst.
    pub(super) fn charge(&mut self) -> Op {
        if self.flows.is_none() {
            return self.flow_write();
        }
        let cost = match self.source.chance(160) {
            true => {
                let cost = self.source.below(3) * self.source.one_of(&[1, 250]);
                Value::Const(cost as u128, 32)
            }
            false => self.value(32),
        };
        Op::Meter {
            to: self.slot(2),
            meter: self.source.below(self.program.meters.len()) as u16,
            register: METER_REGISTER,
            cost,
            before: self.value(2),
        }
    }

    pub(super) fn global(&mut self) -> Op {
        let number = self.source.below(self.program.globals.len());
        let width = self.program.globals[number].width;
        let global = number as u16;
        let index = match self.source.chance(180) {
            true => Value::Const(self.source.below(6) as u128, 8),
            false => self.any_value(),
        };
        match self.source.below(4) {
            0 => Op::SetGlobal {
                global,
                index,
                from: self.value(width),
            },
            1 | 2 => Op::StepGlobal {
                old: self.slot(width),
                global,
                index,
                op: self.source.one_of(&STEPS),
                by: self.value(width),
            },
            _ => {
                let to = self.slot(width);
                Op::Global { to, global, index }
            }
        }
    }
}
