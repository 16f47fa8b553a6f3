//! Heat maps: counts over two axes, such as latency over time.

use super::axis::Axis;
use super::colour::HEAT_CLASSES;
use super::figure::{Figure, Shade};
use super::frame::{Frame, LegendEntry, Margins, Size, label_width};
use super::svg::Anchor;
use crate::csv;

/// Why cells make no heat map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeatMapError {
    /// An axis without at least two edges has no cell.
    #[error("a heat map needs at least two edges on each axis, the {axis} axis has {count}")]
    Edges {
        /// `x` or `y`.
        axis: &'static str,
        /// Number of edges given.
        count: usize,
    },
    /// Cells and edges disagree.
    #[error(
        "a heat map of {columns} by {rows} cells needs {} values, {count} were given",
        columns * rows
    )]
    Cells {
        /// Columns by the edges of the horizontal axis.
        columns: usize,
        /// Rows by the edges of the vertical axis.
        rows: usize,
        /// Number of values given.
        count: usize,
    },
}

/// Values over a grid; darker (on a dark ground: lighter) means more, on a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    title: String,
    x: Axis,
    y: Axis,
    x_edges: Vec<f64>,
    y_edges: Vec<f64>,
    cells: Vec<f64>,
    shades: Vec<Shade>,
    unit: String,
    size: Size,
}

impl HeatMap {
    /// A map with ascending edges of columns and rows, and one value for each cell, row by row
    /// from the lowest. Cells that are not above zero stay empty.
    ///
    /// # Errors
    ///
    /// Numbers of edges and cells that do not fit each other.
    pub fn new(
        title: impl Into<String>,
        (x, x_edges): (Axis, Vec<f64>),
        (y, y_edges): (Axis, Vec<f64>),
        cells: Vec<f64>,
    ) -> Result<Self, HeatMapError> {
        for (axis, edges) in [("x", &x_edges), ("y", &y_edges)] {
            if edges.len() < 2 {
                let count = edges.len();
                return Err(HeatMapError::Edges { axis, count });
            }
        }
        let (columns, rows) = (x_edges.len() - 1, y_edges.len() - 1);
        if cells.len() != columns * rows {
            let count = cells.len();
            return Err(HeatMapError::Cells {
                columns,
                rows,
                count,
            });
        }
        Ok(Self {
            title: title.into(),
            x: x.tight(x_edges[0], x_edges[columns]),
            y: y.tight(y_edges[0], y_edges[rows]),
            x_edges,
            y_edges,
            cells,
            shades: Vec::new(),
            unit: String::from("count"),
            size: Size::default(),
        })
    }

    /// What a cell's value counts, written at the scale of colours.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Marks a stretch of the horizontal axis below the map, such as a stall.
    #[must_use]
    pub fn shade(mut self, shade: Shade) -> Self {
        self.shades.push(shade);
        self
    }

    /// Outer size in pixels; 720 by 400 unless set.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = Size::of(width, height);
        self
    }

    /// Lowest and highest shown value.
    fn extent(&self) -> Option<(f64, f64)> {
        let shown = self.cells.iter().filter(|cell| is_shown(**cell));
        shown.fold(None, |extent, cell| match extent {
            None => Some((*cell, *cell)),
            Some((low, high)) => Some((cell.min(low), cell.max(high))),
        })
    }

    fn draw_cells(&self, frame: &mut Frame, (low, high): (f64, f64)) {
        let area = frame.area;
        let x = self
            .x
            .project(self.x_edges.iter().copied(), area.left, area.right);
        let y = self
            .y
            .project(self.y_edges.iter().copied(), area.bottom, area.top);
        let columns = self.x_edges.len() - 1;
        for (row, values) in self.cells.chunks(columns).enumerate() {
            let bottom = y.clamped_pixel(self.y_edges[row]);
            let top = y.clamped_pixel(self.y_edges[row + 1]);
            let shades: Vec<_> = values
                .iter()
                .map(|value| shade_of(*value, low, high))
                .collect();
            let mut column = 0;
            while column < columns {
                // Neighbours of one shade become one rectangle, which keeps files small.
                let same = shades[column..]
                    .iter()
                    .take_while(|shade| **shade == shades[column]);
                let end = column + same.count();
                if let Some(shade) = shades[column] {
                    let left = x.clamped_pixel(self.x_edges[column]);
                    let right = x.clamped_pixel(self.x_edges[end]);
                    let at = (left, top, (right - left).max(0.3), (bottom - top).max(0.3));
                    frame.svg.rect(at, &format!("h{shade}"), "");
                }
                column = end;
            }
        }
        for shade in &self.shades {
            let (from, to) = (x.clamped_pixel(shade.from), x.clamped_pixel(shade.to));
            let at = (from, area.bottom - 5.0, (to - from).max(1.0), 5.0);
            frame.svg.rect(at, "f1", &shade.label);
        }
        frame.x_axis(&x.ticks(8), &self.x.label);
    }

    fn draw_scale(&self, frame: &mut Frame, (low, high): (f64, f64)) {
        let area = frame.area;
        let left = area.right + 18.0;
        let step = (area.bottom - area.top - 22.0) / HEAT_CLASSES as f64;
        for class in 0..HEAT_CLASSES {
            let top = area.bottom - step * (class + 1) as f64;
            frame
                .svg
                .rect((left, top, 12.0, step), &format!("h{class}"), "");
        }
        let write = Axis::new("").si();
        let highest = (left + 16.0, area.bottom - step * HEAT_CLASSES as f64 + 9.0);
        let lowest = (left + 16.0, area.bottom);
        for (at, value) in [(highest, high), (lowest, low)] {
            let text = write.write_value(value);
            frame.svg.text(at, Anchor::Start, "small", &text);
        }
        frame
            .svg
            .text((left, area.top + 10.0), Anchor::Start, "small", &self.unit);
    }
}

fn is_shown(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Which of the shades a value has.
fn shade_of(value: f64, low: f64, high: f64) -> Option<usize> {
    if !is_shown(value) {
        return None;
    }
    if high <= low {
        return Some(HEAT_CLASSES - 1);
    }
    let share = (value / low).log10() / (high / low).log10();
    Some(((share * HEAT_CLASSES as f64) as usize).min(HEAT_CLASSES - 1))
}

impl Figure for HeatMap {
    fn fragment(&self) -> String {
        let y = self.y.project(self.y_edges.iter().copied(), 1.0, 0.0);
        let margins = Margins {
            y_labels: label_width(&y, 7),
            x_labels: if self.x.label.is_empty() { 18.0 } else { 34.0 },
            right: 62.0,
        };
        let mut legend: Vec<LegendEntry> = Vec::new();
        for shade in &self.shades {
            if !legend.iter().any(|entry| entry.text == shade.label) {
                legend.push(LegendEntry {
                    class: String::from("f1"),
                    text: shade.label.clone(),
                });
            }
        }
        let mut frame = Frame::open(self.size, &self.title, &self.y.label, &legend, margins);
        let y = y.moved(frame.area.bottom, frame.area.top);
        frame.y_axis(&y.ticks(7));
        match self.extent() {
            Some(extent) => {
                self.draw_cells(&mut frame, extent);
                self.draw_scale(&mut frame, extent);
            }
            None => {
                self.draw_cells(&mut frame, (1.0, 1.0));
                frame.say_empty();
            }
        }
        frame.edges();
        frame.svg.close()
    }

    /// Cells that are not empty.
    fn data(&self) -> String {
        let heads = [&self.x, &self.y].map(Axis::head);
        let [x, y] = heads
            .each_ref()
            .map(|head| (format!("{head} from"), format!("{head} to")));
        let mut text = csv::line([&x.0, &x.1, &y.0, &y.1, &self.unit]);
        let columns = self.x_edges.len() - 1;
        for (index, value) in self.cells.iter().enumerate() {
            let (column, row) = (index % columns, index / columns);
            if is_shown(*value) {
                let [left, right] = [column, column + 1].map(|edge| self.x_edges[edge].to_string());
                let [low, high] = [row, row + 1].map(|edge| self.y_edges[edge].to_string());
                text += &csv::line([&left, &right, &low, &high, &value.to_string()]);
            }
        }
        text
    }
}
