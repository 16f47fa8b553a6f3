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
mod figure;
mod frame;
mod heat;
mod line;
mod svg;
#[cfg(test)]
mod tests;

pub use axis::{Axis, TickFormat};
pub use bars::{Bar, BarPlot};
pub use colour::css;
pub use figure::{Drawing, Figure, Shade, standalone};
pub use heat::{HeatMap, HeatMapError};
pub use line::{LinePlot, Mark, Series, cdf, survival};
pub use svg::escape;
