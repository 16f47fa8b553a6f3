//! Bars: grouped with intervals, or stacked; dots where bars have no foot.

use super::axis::{Axis, Projection};
use super::colour::SERIES_CLASSES;
use super::figure::Figure;
use super::frame::{Frame, LegendEntry, Margins, Size, label_width, text_width};
use super::svg::Anchor;
use crate::csv;

/// One bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Lowest and highest plausible value, drawn as a whisker.
    pub interval: Option<(f64, f64)>,
}

impl Bar {
    /// A bar without an interval.
    pub fn new(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }

    /// A bar with an interval.
    pub fn with_interval(value: f64, low: f64, high: f64) -> Self {
        Self {
            value,
            interval: Some((low, high)),
        }
    }
}

/// Bars in categories along the horizontal axis, one colour for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPlot {
    title: String,
    y: Axis,
    categories: Vec<String>,
    groups: Vec<(String, Vec<Option<Bar>>)>,
    style: Style,
    size: Size,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    SideBySide,
    Stacked,
    Dots,
}

impl BarPlot {
    /// A plot without bars; the vertical axis always begins at zero.
    pub fn new<T: Into<String>>(
        title: impl Into<String>,
        y: Axis,
        categories: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            title: title.into(),
            y: y.from_zero(),
            categories: categories.into_iter().map(Into::into).collect(),
            groups: Vec::new(),
            style: Style::SideBySide,
            size: Size::default(),
        }
    }

    /// Adds a group: one bar for each category, in their order; `None` where there is none. What
    /// exceeds the categories is left out.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>, bars: Vec<Option<Bar>>) -> Self {
        self.groups.push((name.into(), bars));
        self
    }

    /// Puts the groups upon each other instead of side by side: parts of a whole. Intervals are
    /// not drawn then, and negative parts count as nothing.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.style = Style::Stacked;
        self
    }

    /// Draws dots instead of bars, which a logarithmic axis wants: bars have no foot there.
    #[must_use]
    pub fn dots(mut self) -> Self {
        self.style = Style::Dots;
        self
    }

    /// Outer size in pixels; 720 by 400 unless set.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = Size::of(width, height);
        self
    }

    fn bars(&self, category: usize) -> impl Iterator<Item = (usize, &str, Bar)> {
        self.groups
            .iter()
            .enumerate()
            .filter_map(move |(index, (name, bars))| {
                let bar = bars.get(category).copied().flatten()?;
                bar.value.is_finite().then_some((index, name.as_str(), bar))
            })
    }

    fn heights(&self) -> Vec<f64> {
        let categories = 0..self.categories.len();
        if self.style == Style::Stacked {
            return categories
                .map(|category| {
                    self.bars(category)
                        .map(|(.., bar)| bar.value.max(0.0))
                        .sum()
                })
                .collect();
        }
        categories
            .flat_map(|category| self.bars(category))
            .flat_map(|(.., bar)| {
                let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
                [bar.value, low, high]
            })
            .collect()
    }

    fn draw_grouped(
        &self,
        frame: &mut Frame,
        y: &Projection<'_>,
        category: usize,
        (left, slot): (f64, f64),
    ) {
        let width = slot * 0.8 / self.groups.len().max(1) as f64;
        let base = y.clamped_pixel(0.0);
        for (index, name, bar) in self.bars(category) {
            let x = left + slot * 0.1 + width * index as f64;
            let top = y.clamped_pixel(bar.value);
            let value = self.y.write_value(bar.value);
            let tip = format!("{}, {name}: {value}", self.categories[category]);
            let at = (
                x + 0.5,
                top.min(base),
                (width - 1.0).max(0.5),
                (base - top).abs(),
            );
            frame.svg.rect(at, &class(index), &tip);
            let middle = x + width / 2.0;
            let mut label_y = top.min(base);
            if let Some((low, high)) = bar.interval {
                let (low, high) = (y.clamped_pixel(low), y.clamped_pixel(high));
                let cap = (width / 4.0).min(5.0);
                frame.svg.line((middle, low), (middle, high), "interval");
                for end in [low, high] {
                    frame
                        .svg
                        .line((middle - cap, end), (middle + cap, end), "interval");
                }
                label_y = label_y.min(high);
            }
            if text_width(&value) < width + 4.0 {
                let at = (middle, label_y - 4.0);
                frame.svg.text(at, Anchor::Middle, "small", &value);
            }
        }
    }

    fn draw_dots(
        &self,
        frame: &mut Frame,
        y: &Projection<'_>,
        category: usize,
        (left, slot): (f64, f64),
    ) {
        let width = slot * 0.8 / self.groups.len().max(1) as f64;
        for (index, _, bar) in self.bars(category) {
            let middle = left + slot * 0.1 + width * (index as f64 + 0.5);
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            let ends = [low, high].map(|end| y.clamped_pixel(end));
            frame
                .svg
                .line((middle, ends[0]), (middle, ends[1]), "interval");
            let at = (middle, y.clamped_pixel(bar.value));
            frame.svg.circle(at, 4.0, &class(index));
            let value = self.y.write_value(bar.value);
            if text_width(&value) < width + 4.0 {
                let at = (middle, ends[1].min(at.1) - 7.0);
                frame.svg.text(at, Anchor::Middle, "small", &value);
            }
        }
    }

    fn draw_stacked(
        &self,
        frame: &mut Frame,
        y: &Projection<'_>,
        category: usize,
        (left, slot): (f64, f64),
    ) {
        let mut below = 0.0;
        for (index, name, bar) in self.bars(category) {
            let part = bar.value.max(0.0);
            let (bottom, top) = (y.clamped_pixel(below), y.clamped_pixel(below + part));
            let value = self.y.write_value(part);
            let tip = format!("{}, {name}: {value}", self.categories[category]);
            let at = (left + slot * 0.15, top, slot * 0.7, bottom - top);
            frame.svg.rect(at, &class(index), &tip);
            below += part;
        }
    }
}

fn class(index: usize) -> String {
    let alternate = if (index / SERIES_CLASSES).is_multiple_of(2) {
        ""
    } else {
        " alt"
    };
    format!("f{}{alternate}", index % SERIES_CLASSES)
}

const Y_TICKS: usize = 7;
/// Turned labels of categories are cut at this many characters.
const LABEL_CHARACTERS_MAX: usize = 28;

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS_MAX {
        return label.to_owned();
    }
    let kept = label.chars().take(LABEL_CHARACTERS_MAX - 1);
    kept.chain(['…']).collect()
}

impl Figure for BarPlot {
    fn fragment(&self) -> String {
        let y = self.y.project(self.heights().into_iter(), 1.0, 0.0);
        let labels: Vec<_> = self.categories.iter().map(|name| shortened(name)).collect();
        let longest = labels
            .iter()
            .map(|name| text_width(name))
            .fold(0.0, f64::max);
        let y_labels = label_width(&y, Y_TICKS);
        let slot = (self.size.width - y_labels - 50.0) / labels.len().max(1) as f64;
        let is_turned = longest > slot - 4.0;
        // Turned labels reach to the left of their category.
        let reach = longest * 0.82 - slot / 2.0 - 10.0;
        let margins = Margins {
            y_labels: if is_turned {
                y_labels.max(reach)
            } else {
                y_labels
            },
            x_labels: if is_turned {
                longest * 0.6 + 16.0
            } else {
                18.0
            },
            right: 0.0,
        };
        let legend: Vec<_> = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| !name.is_empty())
            .map(|(index, (name, _))| LegendEntry {
                class: class(index),
                text: name.clone(),
            })
            .collect();
        let mut frame = Frame::open(self.size, &self.title, &self.y.label, &legend, margins);
        let area = frame.area;
        let y = y.moved(area.bottom, area.top);
        frame.y_axis(&y.ticks(Y_TICKS));
        let slot = (area.right - area.left) / labels.len().max(1) as f64;
        for (category, label) in labels.iter().enumerate() {
            let left = area.left + slot * category as f64;
            let at = (left, slot);
            match self.style {
                Style::SideBySide => self.draw_grouped(&mut frame, &y, category, at),
                Style::Stacked => self.draw_stacked(&mut frame, &y, category, at),
                Style::Dots => self.draw_dots(&mut frame, &y, category, at),
            }
            let middle = left + slot / 2.0;
            if is_turned {
                let at = (middle + 4.0, area.bottom + 13.0);
                frame
                    .svg
                    .turned_text(at, -35.0, Anchor::End, "small", label);
            } else {
                let at = (middle, area.bottom + 15.0);
                frame.svg.text(at, Anchor::Middle, "small", label);
            }
        }
        frame.edges();
        if (0..labels.len()).all(|category| self.bars(category).next().is_none()) {
            frame.say_empty();
        }
        frame.svg.close()
    }

    fn data(&self) -> String {
        let mut text = csv::line(["category", "group", &self.y.head(), "low", "high"]);
        for (category, of) in self.categories.iter().enumerate() {
            for (_, group, bar) in self.bars(category) {
                let [low, high] = match bar.interval {
                    Some((low, high)) => [low, high].map(|end| end.to_string()),
                    None => [String::new(), String::new()],
                };
                text += &csv::line([of, group, &bar.value.to_string(), &low, &high]);
            }
        }
        text
    }
}
