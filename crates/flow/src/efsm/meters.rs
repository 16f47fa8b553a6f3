//! Meters of a document.
//!
//! Part of making a program. Rates in bits count bytes, since bursts and costs do.

use catena_engine::units::Rate;

use crate::meter::{Gcra, MeterError, SrTcm, TrTcm, Window};
use crate::program::ir::MeterKind;

use super::model::MeterModel;

/// A meter's parameters, and whether it counts bytes.
pub(super) fn meter(model: &MeterModel) -> Result<(MeterKind, bool), String> {
    let wrong = |error: MeterError| error.to_string();
    // Bytes are what bursts and costs count, so a rate in bits is one of bytes.
    let rate = |rate: Rate| {
        let (value, is_of_bytes) = match rate {
            Rate::PacketsPerSecond(value) => (value, false),
            Rate::BitsPerSecond(value) => (value / 8.0, true),
        };
        if value.fract() != 0.0 || !(1.0..=1e13).contains(&value) {
            return Err(
                "a meter's rate is a whole number of packets or bytes per second".to_owned(),
            );
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and within 1 and 10^13"
        )]
        Ok((value as u64, is_of_bytes))
    };
    Ok(match model {
        MeterModel::Gcra { rate: one, burst } => {
            let (one, is_of_bytes) = rate(*one)?;
            (
                MeterKind::Gcra(Gcra::new(one, *burst).map_err(wrong)?),
                is_of_bytes,
            )
        }
        MeterModel::Window { interval, burst } => (
            MeterKind::Window(Window::new(interval.ns, *burst).map_err(wrong)?),
            false,
        ),
        MeterModel::SrTcm { cir, cbs, ebs } => {
            let (cir, is_of_bytes) = rate(*cir)?;
            (
                MeterKind::SrTcm(SrTcm::new(cir, *cbs, *ebs).map_err(wrong)?),
                is_of_bytes,
            )
        }
        MeterModel::TrTcm { pir, pbs, cir, cbs } => {
            let ((pir, is_of_bytes), (cir, other)) = (rate(*pir)?, rate(*cir)?);
            if is_of_bytes != other {
                return Err("one rate is of packets, the other of bits".to_owned());
            }
            (
                MeterKind::TrTcm(TrTcm::new(cir, *cbs, pir, *pbs).map_err(wrong)?),
                is_of_bytes,
            )
        }
    })
}
