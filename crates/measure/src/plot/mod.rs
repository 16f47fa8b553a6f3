//! Figures as SVG text: what benchmarks and reports draw with.
//!
//! A figure is plain data with builders; [`Figure::fragment`] gives an `<svg>` element for a page
//! that contains [`css`] once, [`Figure::to_svg`] a file that stands alone. The text depends on the
//! data only, so figures can be compared byte by byte. Colours come from CSS classes, light and
//! dark by `prefers-color-scheme`; no script, no font and nothing from a network is needed.
//!
//! ```
//! use catena_measure::plot::{Axis, Figure, LinePlot, Series};
//!
//! let plot = LinePlot::new("Loss", Axis::new("offered load (packets/s)").si(), Axis::new("loss"))
//!     .series(Series::new("macswap", vec![(1e6, 0.0), (2e6, 0.0), (3e6, 0.2)]));
//! assert!(plot.to_svg().starts_with("<svg"));
//! ```
//!
//! Values that cannot be shown (not finite, not positive on a logarithmic axis) are left out; a
//! figure without values says so. Nothing here panics on data.

mod axis;
mod bars;
mod colour;
mod frame;
mod heat;
mod line;
mod svg;
#[cfg(test)]
mod tests;

pub use axis::{Axis, TickFormat};
pub use bars::{Bar, BarPlot};
pub use colour::css;
pub use heat::{HeatMap, HeatMapError};
pub use line::{LinePlot, Mark, Series, cdf, survival};
pub use svg::escape;

/// Something that can be drawn.
pub trait Figure {
    /// The `<svg>` element, coloured by the classes of [`css`], for a page that contains those.
    fn fragment(&self) -> String;

    /// An SVG document that carries its own colours.
    fn to_svg(&self) -> String {
        standalone(&self.fragment())
    }
}

/// The SVG document that a figure's fragment is with colours of its own.
pub fn standalone(fragment: &str) -> String {
    // The fragment's first tag ends at the first '>': attribute values are escaped.
    let end = fragment.find('>').map_or(0, |index| index + 1);
    let (open, rest) = fragment.split_at(end);
    format!("{open}<style>{}</style>{rest}\n", css())
}

/// A stretch of an axis that is set apart from the rest, such as where samples are too few or where
/// the machine stood still.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Where it begins, in the axis' values.
    pub from: f64,
    /// Where it ends, in the axis' values.
    pub to: f64,
    /// What it means; shown in the legend.
    pub label: String,
}
