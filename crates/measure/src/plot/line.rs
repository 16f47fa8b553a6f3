//! Lines, steps and points over two axes, with bands of uncertainty and shaded stretches.

use super::axis::{Axis, Projection};
use super::colour::SERIES_CLASSES;
use super::figure::{Figure, Shade};
use super::frame::{Frame, LegendEntry, Margins, Size, label_width};
use super::svg::Anchor;
use crate::csv;

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Line,
    LineAndPoints,
    Points,
    Steps,
}

/// Named points in the order in which they are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64, f64)>,
    style: Style,
}

impl Series {
    /// A line through points `(x, y)`.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            band: Vec::new(),
            style: Style::Line,
        }
    }

    /// With a dot at each point.
    #[must_use]
    pub fn with_points(mut self) -> Self {
        self.style = Style::LineAndPoints;
        self
    }

    /// Dots alone.
    #[must_use]
    pub fn points_only(mut self) -> Self {
        self.style = Style::Points;
        self
    }

    /// Each value holds until the next point, as in a distribution of samples.
    #[must_use]
    pub fn steps(mut self) -> Self {
        self.style = Style::Steps;
        self
    }

    /// A band `(x, low, high)` behind the line: an interval at each x.
    #[must_use]
    pub fn with_band(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        self.band = band;
        self
    }
}

/// A dashed line across the figure at one value of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What is there, written beside it.
    pub label: String,
}

/// Series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlot {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    shades: Vec<Shade>,
    marks: Vec<Mark>,
    size: Size,
}

impl LinePlot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            shades: Vec::new(),
            marks: Vec::new(),
            size: Size::default(),
        }
    }

    /// Adds a series; colours go by order.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Sets a stretch of the horizontal axis apart.
    #[must_use]
    pub fn shade(mut self, shade: Shade) -> Self {
        self.shades.push(shade);
        self
    }

    /// Marks a value of the horizontal axis.
    #[must_use]
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// Outer size in pixels; 720 by 400 unless set.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = Size::of(width, height);
        self
    }

    fn x_values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| {
            let band = series.band.iter().map(|(x, ..)| *x);
            series.points.iter().map(|(x, _)| *x).chain(band)
        });
        points.chain(self.marks.iter().map(|mark| mark.x))
    }

    fn y_values(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| {
            let band = series.band.iter().flat_map(|(_, low, high)| [*low, *high]);
            series.points.iter().map(|(_, y)| *y).chain(band)
        })
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let named = self.series.iter().enumerate();
        let named = named.filter(|(_, series)| !series.name.is_empty());
        let series = named.map(|(index, series)| LegendEntry {
            class: format!("f{}{}", index % SERIES_CLASSES, alternate(index)),
            text: series.name.clone(),
        });
        let mut entries: Vec<_> = series.collect();
        for shade in &self.shades {
            if !entries.iter().any(|entry| entry.text == shade.label) {
                entries.push(LegendEntry {
                    class: String::from("shade"),
                    text: shade.label.clone(),
                });
            }
        }
        entries
    }

    fn draw_series(&self, frame: &mut Frame, x: &Projection<'_>, y: &Projection<'_>) {
        for (index, series) in self.series.iter().enumerate() {
            let class = index % SERIES_CLASSES;
            let edge = |side: fn(&(f64, f64, f64)) -> f64| {
                series.band.iter().filter_map(move |interval| {
                    Some((x.pixel(interval.0)?, y.clamped_pixel(side(interval))))
                })
            };
            let mut band: Vec<_> = edge(|interval| interval.1).collect();
            let above: Vec<_> = edge(|interval| interval.2).collect();
            band.extend(above.into_iter().rev());
            let band_class = format!("band f{class}");
            frame.svg.path(&band, true, &band_class);
            let place = |(px, py): &(f64, f64)| Some((x.pixel(*px)?, y.pixel(*py)?));
            let points: Vec<_> = series.points.iter().filter_map(place).collect();
            let line_class = format!("l l{class}{}", alternate(index));
            match series.style {
                Style::Line | Style::LineAndPoints => {
                    frame.svg.path(&points, false, &line_class);
                }
                Style::Steps => frame.svg.path(&steps(&points), false, &line_class),
                Style::Points => {}
            }
            // One point alone makes no line and would be invisible.
            let is_dotted = matches!(series.style, Style::LineAndPoints | Style::Points);
            if is_dotted || points.len() == 1 {
                for point in points {
                    frame.svg.circle(point, 2.8, &format!("f{class}"));
                }
            }
        }
    }
}

fn alternate(index: usize) -> &'static str {
    if (index / SERIES_CLASSES).is_multiple_of(2) {
        ""
    } else {
        " alt"
    }
}

/// Corners between points whose values hold until the next. Points that are no further than
/// [`UNSEEN`] from the one before are left out, but for the last.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for (index, (x, y)) in points.iter().enumerate() {
        let Some((last_x, last_y)) = corners.last().copied() else {
            corners.push((*x, *y));
            continue;
        };
        let is_unseen = (x - last_x).abs() < UNSEEN && (y - last_y).abs() < UNSEEN;
        if !is_unseen || index + 1 == points.len() {
            corners.push((*x, last_y));
            corners.push((*x, *y));
        }
    }
    corners
}

/// Pixels that a line of steps may be beside its place: less than a third of its own width.
const UNSEEN: f64 = 0.5;

const X_TICKS: usize = 8;
const Y_TICKS: usize = 7;

impl Figure for LinePlot {
    fn fragment(&self) -> String {
        let y = self.y.project(self.y_values(), 1.0, 0.0);
        let margins = Margins {
            y_labels: label_width(&y, Y_TICKS),
            x_labels: if self.x.label.is_empty() { 18.0 } else { 34.0 },
            right: 0.0,
        };
        let legend = self.legend();
        let mut frame = Frame::open(self.size, &self.title, &self.y.label, &legend, margins);
        let area = frame.area;
        let y = y.moved(area.bottom, area.top);
        let x = self.x.project(self.x_values(), area.left, area.right);
        for shade in &self.shades {
            let (from, to) = (x.clamped_pixel(shade.from), x.clamped_pixel(shade.to));
            let at = (from, area.top, (to - from).max(0.5), area.bottom - area.top);
            frame.svg.rect(at, "shade", &shade.label);
        }
        frame.y_axis(&y.ticks(Y_TICKS));
        frame.x_axis(&x.ticks(X_TICKS), &self.x.label);
        frame.svg.begin_clip(area.clip());
        self.draw_series(&mut frame, &x, &y);
        frame.svg.end_clip();
        for mark in &self.marks {
            let Some(at) = x.pixel(mark.x) else { continue };
            frame.svg.line((at, area.top), (at, area.bottom), "mark");
            let is_right = at > f64::midpoint(area.left, area.right);
            let (anchor, offset) = if is_right {
                (Anchor::End, -4.0)
            } else {
                (Anchor::Start, 4.0)
            };
            let place = (at + offset, area.top + 11.0);
            frame.svg.text(place, anchor, "small", &mark.label);
        }
        frame.edges();
        if self.series.iter().all(|series| series.points.is_empty()) {
            frame.say_empty();
        }
        frame.svg.close()
    }

    /// Points, then the bands behind them.
    fn data(&self) -> String {
        let mut text = csv::line(["series", &self.x.head(), &self.y.head(), "low", "high"]);
        for series in &self.series {
            for (x, y) in &series.points {
                text += &csv::line([&series.name, &x.to_string(), &y.to_string(), "", ""]);
            }
            for (x, low, high) in &series.band {
                let [x, low, high] = [x, low, high].map(ToString::to_string);
                text += &csv::line([&series.name, &x, "", &low, &high]);
            }
        }
        text
    }
}

/// Most points that a distribution is drawn with: more would not be seen.
const DISTRIBUTION_POINTS_MAX: usize = 1000;

/// Indices from 0 to `count - 1`, thinned; both ends are dense, where tails are.
fn thinned(count: usize) -> Vec<usize> {
    if count <= DISTRIBUTION_POINTS_MAX {
        return (0..count).collect();
    }
    let half = DISTRIBUTION_POINTS_MAX / 2;
    let even = (0..half).map(|index| index * (count - 1) / (half - 1));
    let tail = (0..half).map(|index| {
        let from_end = (count as f64).powf(index as f64 / (half - 1) as f64) as usize;
        count - from_end.clamp(1, count)
    });
    let mut indices: Vec<_> = even.chain(tail).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<_> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Points of the cumulative distribution of samples: share of samples not above x.
pub fn cdf(samples: &[f64]) -> Vec<(f64, f64)> {
    let sorted = sorted(samples);
    let count = sorted.len();
    let points = thinned(count).into_iter();
    points
        .map(|index| (sorted[index], (index + 1) as f64 / count as f64))
        .collect()
}

/// Points of the complementary distribution: share of samples not below x, for two logarithmic
/// axes, where it shows the tail.
pub fn survival(samples: &[f64]) -> Vec<(f64, f64)> {
    let sorted = sorted(samples);
    let count = sorted.len();
    let points = thinned(count).into_iter();
    points
        .map(|index| (sorted[index], (count - index) as f64 / count as f64))
        .collect()
}
