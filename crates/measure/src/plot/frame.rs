//! What surrounds the data of every figure: title, legend, axes with their labels.
//!
//! ```text
//!   title
//!   legend ■ one ■ two
//!   y label
//!   ticks │ data
//!         └──────── ticks
//!            x label
//! ```

use super::axis::{Projection, Tick};
use super::svg::{Anchor, Svg};

/// Outer size of a figure, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Size {
    /// What is asked for, as far as a plot can be read then.
    pub(super) fn of(width: u32, height: u32) -> Self {
        Self {
            width: f64::from(width.clamp(200, 4000)),
            height: f64::from(height.clamp(150, 4000)),
        }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self {
            width: 720.0,
            height: 400.0,
        }
    }
}

/// The rectangle in which data are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn clip(self) -> (f64, f64, f64, f64) {
        let (width, height) = (self.right - self.left, self.bottom - self.top);
        (self.left, self.top, width, height)
    }
}

/// One entry of a legend: the class of its swatch, and its text.
#[derive(Clone, Debug)]
pub(super) struct LegendEntry {
    pub(super) class: String,
    pub(super) text: String,
}

/// Average width of a character of the small font; enough to lay out, not to typeset.
const CHARACTER_WIDTH: f64 = 6.4;
const ROW_HEIGHT: f64 = 17.0;
const EDGE: f64 = 10.0;

pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER_WIDTH
}

/// A figure being drawn: the canvas, and where data go.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) svg: Svg,
    pub(super) area: Area,
}

/// What a figure needs outside its data area.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Margins {
    /// Width of the longest label of the vertical axis.
    pub(super) y_labels: f64,
    /// Height of the labels of the horizontal axis.
    pub(super) x_labels: f64,
    /// Room on the right, for a scale of colours.
    pub(super) right: f64,
}

impl Frame {
    pub(super) fn open(
        size: Size,
        title: &str,
        y_label: &str,
        legend: &[LegendEntry],
        margins: Margins,
    ) -> Self {
        let mut svg = Svg::open(size.width, size.height, title);
        let mut top = EDGE;
        if !title.is_empty() {
            svg.text((EDGE, top + 12.0), Anchor::Start, "title", title);
            top += 24.0;
        }
        top = draw_legend(&mut svg, legend, top, size.width);
        if !y_label.is_empty() {
            svg.text((EDGE, top + 11.0), Anchor::Start, "small", y_label);
            top += 20.0;
        }
        let area = Area {
            left: EDGE + margins.y_labels + 8.0,
            top: top + 4.0,
            right: size.width - EDGE - 14.0 - margins.right,
            bottom: size.height - EDGE - margins.x_labels - 6.0,
        };
        Self { svg, area }
    }

    pub(super) fn y_axis(&mut self, ticks: &[Tick]) {
        let Area { left, right, .. } = self.area;
        for tick in ticks {
            self.svg.line((left, tick.at), (right, tick.at), "grid");
            let at = (left - 6.0, tick.at + 4.0);
            self.svg.text(at, Anchor::End, "small", &tick.label);
        }
    }

    pub(super) fn x_axis(&mut self, ticks: &[Tick], label: &str) {
        let Area { top, bottom, .. } = self.area;
        let mut free_from = f64::NEG_INFINITY;
        for tick in ticks {
            self.svg.line((tick.at, top), (tick.at, bottom), "grid");
            let half = text_width(&tick.label) / 2.0;
            // A label that would touch the one before is left out; its line stays.
            if tick.at - half > free_from {
                let at = (tick.at, bottom + 15.0);
                self.svg.text(at, Anchor::Middle, "small", &tick.label);
                free_from = tick.at + half + 4.0;
            }
        }
        self.x_label(label, bottom + 32.0);
    }

    pub(super) fn x_label(&mut self, label: &str, y: f64) {
        if !label.is_empty() {
            let middle = f64::midpoint(self.area.left, self.area.right);
            self.svg.text((middle, y), Anchor::Middle, "small", label);
        }
    }

    /// The two lines that data stand on.
    pub(super) fn edges(&mut self) {
        let Area {
            left,
            top,
            right,
            bottom,
        } = self.area;
        self.svg.line((left, top), (left, bottom), "edge");
        self.svg.line((left, bottom), (right, bottom), "edge");
    }

    pub(super) fn say_empty(&mut self) {
        let middle = f64::midpoint(self.area.left, self.area.right);
        let at = (middle, f64::midpoint(self.area.top, self.area.bottom));
        self.svg.text(at, Anchor::Middle, "small", "no data");
    }
}

/// Width that the labels of a vertical axis take; pixels do not matter yet.
pub(super) fn label_width(projection: &Projection<'_>, count_max: usize) -> f64 {
    projection
        .ticks(count_max)
        .iter()
        .map(|tick| text_width(&tick.label))
        .fold(0.0, f64::max)
}

/// Draws entries in rows and returns where the next thing may begin.
fn draw_legend(svg: &mut Svg, entries: &[LegendEntry], top: f64, width: f64) -> f64 {
    if entries.is_empty() {
        return top;
    }
    let (mut x, mut y) = (EDGE, top);
    for entry in entries {
        let needed = 16.0 + text_width(&entry.text) + 14.0;
        if x > EDGE && x + needed > width - EDGE {
            (x, y) = (EDGE, y + ROW_HEIGHT);
        }
        svg.rect((x, y + 2.0, 11.0, 11.0), &entry.class, "");
        let at = (x + 16.0, y + 12.0);
        svg.text(at, Anchor::Start, "small", &entry.text);
        x += needed;
    }
    y + ROW_HEIGHT + 4.0
}
