//! Values in the units that people read them in; documents have them in one unit each.

/// Nanoseconds in the unit that people read them in.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        large if large >= 999_500_000.0 => (ns / 1e9, "s"),
        large if large >= 999_500.0 => (ns / 1e6, "ms"),
        large if large >= 999.5 => (ns / 1e3, "us"),
        _ => return format!("{ns:.0} ns"),
    };
    // Three digits that count.
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0} {unit}"),
        large if large >= 9.995 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// Packets per second in the unit that people read them in, with four digits that count: searches
/// tell rates half a percent apart.
pub fn rate(pps: f64) -> String {
    let (value, unit) = match pps.abs() {
        large if large >= 999_950.0 => (pps / 1e6, "Mpps"),
        large if large >= 999.95 => (pps / 1e3, "kpps"),
        _ => (pps, "pps"),
    };
    match value.abs() {
        large if large >= 999.95 || (large >= 99.995 && unit == "pps") => {
            format!("{value:.0} {unit}")
        }
        large if large >= 99.995 => format!("{value:.1} {unit}"),
        large if large >= 9.9995 => format!("{value:.2} {unit}"),
        0.0 => format!("0 {unit}"),
        _ => format!("{value:.3} {unit}"),
    }
}

/// A share as a percentage with three decimals, as tables have it.
pub(super) fn percent(value: f64) -> String {
    format!("{:.3} %", value * 100.0)
}
