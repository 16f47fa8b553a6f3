//! Axes: from values to pixels, and ticks that people can read.

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    /// By powers of ten; values must be positive.
    Log,
    /// By the number of nines: a share q lies at -log10(1 - q), so that 0.9, 0.99 and 0.999 are
    /// equally far apart.
    Nines,
}

/// How an axis writes its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickFormat {
    /// As they are.
    Plain,
    /// With k, M, G: for rates and counts.
    Si,
    /// Values are nanoseconds, written as ns, µs, ms or s.
    Nanos,
    /// Values are shares, written in percent.
    Percent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Range {
    Auto,
    FromZero,
    Fixed(f64, f64),
}

/// A labelled axis. Linear and fitted to the data unless told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    scale: Scale,
    format: TickFormat,
    range: Range,
}

impl Axis {
    /// A linear axis with a label that names quantity and unit.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            format: TickFormat::Plain,
            range: Range::Auto,
        }
    }

    /// Logarithmic, in powers of ten; values that are not positive are left out.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// For shares below 1, by their number of nines, as percentile plots want it; in percent.
    #[must_use]
    pub fn nines(mut self) -> Self {
        self.scale = Scale::Nines;
        self.format = TickFormat::Percent;
        self
    }

    /// Values with k, M, G.
    #[must_use]
    pub fn si(mut self) -> Self {
        self.format = TickFormat::Si;
        self
    }

    /// Values are nanoseconds.
    #[must_use]
    pub fn nanos(mut self) -> Self {
        self.format = TickFormat::Nanos;
        self
    }

    /// Values are shares; the axis writes percent.
    #[must_use]
    pub fn percent(mut self) -> Self {
        self.format = TickFormat::Percent;
        self
    }

    /// Begins at zero, as axes of bars must.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.range = Range::FromZero;
        self
    }

    /// From `low` to `high`, whatever the data.
    #[must_use]
    pub fn fixed(mut self, low: f64, high: f64) -> Self {
        self.range = Range::Fixed(low, high);
        self
    }

    /// From `low` to `high`, unless a range was chosen.
    #[must_use]
    pub(super) fn tight(mut self, low: f64, high: f64) -> Self {
        if self.range == Range::Auto {
            self.range = Range::Fixed(low, high);
        }
        self
    }

    /// Whether it is logarithmic.
    pub fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// Its label as the head of a column, with the unit that the values are in.
    pub(super) fn head(&self) -> String {
        match self.format {
            TickFormat::Plain | TickFormat::Si => self.label.clone(),
            TickFormat::Nanos => format!("{} (ns)", self.label),
            TickFormat::Percent => format!("{} (share of 1)", self.label),
        }
    }

    fn transform(&self, value: f64) -> Option<f64> {
        let transformed = match self.scale {
            Scale::Linear => value,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Nines if (0.0..1.0).contains(&value) => -(1.0 - value).log10(),
            Scale::Log | Scale::Nines => return None,
        };
        transformed.is_finite().then_some(transformed)
    }

    /// Lowest and highest of what can be shown, transformed.
    fn extent(&self, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        values
            .filter_map(|value| self.transform(value))
            .fold(None, |extent, value| match extent {
                None => Some((value, value)),
                Some((low, high)) => Some((low.min(value), high.max(value))),
            })
    }

    /// Fits the axis to values and lays it from one pixel coordinate to another.
    pub(super) fn project(
        &self,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Projection<'_> {
        let extent = self.extent(values).unwrap_or((0.0, 1.0));
        let fixed = match self.range {
            Range::Fixed(low, high) => self
                .transform(low)
                .zip(self.transform(high))
                .filter(|(low, high)| low < high),
            Range::Auto | Range::FromZero => None,
        };
        let (low, high) = fixed.unwrap_or_else(|| self.fit(extent));
        Projection {
            axis: self,
            low,
            high,
            from,
            to,
        }
    }

    fn fit(&self, (low, high): (f64, f64)) -> (f64, f64) {
        match self.scale {
            Scale::Linear => fit_linear(low, high, self.range == Range::FromZero),
            Scale::Log if high - low > 1.5 => (low.floor(), high.ceil()),
            Scale::Log => fit_log(low, high),
            Scale::Nines => (0.0, high.max(1.0)),
        }
    }

    /// A value as this axis writes it, for `reference` the size of its neighbours and `step` their
    /// distance.
    fn write(&self, value: f64, reference: f64, step: Option<f64>) -> String {
        let (divisor, unit) = self.format.unit(reference);
        let scaled = value / divisor;
        let text = match step {
            Some(step) => {
                let decimals = (-(step / divisor).log10().floor()).clamp(0.0, 9.0);
                // A step of 2.5 needs one decimal more than its magnitude says.
                let magnitude = 10f64.powf((step / divisor).log10().floor());
                let is_half = ((step / divisor / magnitude).fract() - 0.5).abs() < 0.01;
                let extra = f64::from(u8::from(is_half && decimals < 9.0));
                format!("{scaled:.*}", (decimals + extra) as usize)
            }
            None => significant(scaled),
        };
        if text.trim_start_matches(['-', '0', '.']).is_empty() {
            let is_si = self.format == TickFormat::Si;
            return format!("0{}", if is_si { "" } else { unit });
        }
        format!("{text}{unit}")
    }

    /// A single value with three significant digits, as this axis writes it.
    pub(super) fn write_value(&self, value: f64) -> String {
        self.write(value, value.abs(), None)
    }
}

impl TickFormat {
    /// What to divide by and what to append, for values about as large as `reference`.
    fn unit(self, reference: f64) -> (f64, &'static str) {
        let steps: &[(f64, &'static str)] = match self {
            Self::Plain => &[],
            Self::Percent => return (0.01, " %"),
            Self::Si => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")],
            Self::Nanos => &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (0.0, " ns")],
        };
        steps
            .iter()
            .find(|(size, _)| reference >= *size * 0.999_999)
            .map_or((1.0, ""), |(size, unit)| (size.max(1.0), *unit))
    }
}

/// Three significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return String::from("0");
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (2.0 - magnitude).clamp(0.0, 9.0) as usize;
    let mut text = format!("{value:.decimals$}");
    while text.contains('.') && text.ends_with(['0', '.']) {
        text.pop();
    }
    text
}

fn fit_linear(low: f64, high: f64, is_from_zero: bool) -> (f64, f64) {
    let (low, high) = if is_from_zero {
        (low.min(0.0), high.max(0.0))
    } else {
        (low, high)
    };
    let spread = high - low;
    if spread <= 0.0 {
        let margin = if low == 0.0 { 1.0 } else { low.abs() * 0.05 };
        let below = if is_from_zero { 0.0 } else { margin };
        return (low - below, high + margin);
    }
    let margin = spread * 0.05;
    let below = if is_from_zero && low == 0.0 {
        0.0
    } else {
        margin
    };
    let above = if is_from_zero && high == 0.0 {
        0.0
    } else {
        margin
    };
    (low - below, high + above)
}

/// To the next of 1, 2, 5 times a power of ten on both sides.
fn fit_log(low: f64, high: f64) -> (f64, f64) {
    let grid = [0.0, 2f64.log10(), 5f64.log10(), 1.0];
    let (low_decade, high_decade) = (low.floor(), high.floor());
    let below = grid
        .iter()
        .rev()
        .find(|step| low_decade + **step <= low + 1e-9);
    let above = grid.iter().find(|step| high_decade + **step >= high - 1e-9);
    let low = low_decade + below.copied().unwrap_or(0.0);
    let high = high_decade + above.copied().unwrap_or(1.0);
    if high - low > 1e-9 {
        (low, high)
    } else {
        (low - 1.0, high + 1.0)
    }
}

/// One labelled place of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// An axis laid onto pixels.
#[derive(Clone, Debug)]
pub(super) struct Projection<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Projection<'_> {
    /// Same values, other pixels.
    pub(super) fn moved(mut self, from: f64, to: f64) -> Self {
        (self.from, self.to) = (from, to);
        self
    }

    /// Where a value lies; `None` if this axis cannot show it.
    pub(super) fn pixel(&self, value: f64) -> Option<f64> {
        self.axis.transform(value).map(|value| self.place(value))
    }

    /// As [`Self::pixel`], but what lies outside is moved to the edge.
    pub(super) fn clamped_pixel(&self, value: f64) -> f64 {
        let transformed =
            self.axis
                .transform(value)
                .unwrap_or(if value > 0.0 { self.high } else { self.low });
        self.place(transformed.clamp(self.low, self.high))
    }

    fn place(&self, transformed: f64) -> f64 {
        let share = (transformed - self.low) / (self.high - self.low);
        // Bounded, since SVG viewers stumble over coordinates of many digits.
        self.from + share.clamp(-10.0, 11.0) * (self.to - self.from)
    }

    /// Ticks, at most about `count_max`, from low to high.
    pub(super) fn ticks(&self, count_max: usize) -> Vec<Tick> {
        match self.axis.scale {
            Scale::Linear => self.linear_ticks(count_max),
            Scale::Log => self.log_ticks(count_max),
            Scale::Nines => self.nines_ticks(),
        }
    }

    fn linear_ticks(&self, count_max: usize) -> Vec<Tick> {
        let rough = (self.high - self.low) / count_max.max(2) as f64;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= rough * 0.999_999)
            .unwrap_or(10.0 * magnitude);
        let reference = self.low.abs().max(self.high.abs());
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last.min(first.saturating_add(64)))
            .map(|index| {
                let value = index as f64 * step;
                Tick {
                    at: self.place(value),
                    label: self.axis.write(value, reference, Some(step)),
                }
            })
            .collect()
    }

    fn log_ticks(&self, count_max: usize) -> Vec<Tick> {
        let decades = self.high - self.low;
        let factors: &[f64] = if decades * 3.0 <= count_max as f64 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let stride = (decades / count_max.max(2) as f64).ceil().max(1.0) as usize;
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        (first..=last)
            .step_by(stride)
            .flat_map(|decade| {
                factors
                    .iter()
                    .map(move |factor| factor * 10f64.powi(decade))
            })
            .filter(|value| {
                let place = value.log10();
                place >= self.low - 1e-9 && place <= self.high + 1e-9
            })
            .map(|value| Tick {
                at: self.place(value.log10()),
                label: self.axis.write_value(value),
            })
            .collect()
    }

    fn nines_ticks(&self) -> Vec<Tick> {
        let half = (0.5f64, String::from("50 %"));
        let nines = (1..=9).map(|nines| {
            let label = match nines {
                1 => String::from("90 %"),
                2 => String::from("99 %"),
                _ => format!("99.{} %", "9".repeat(nines - 2)),
            };
            (1.0 - 10f64.powi(-(nines as i32)), label)
        });
        [(0.0, String::from("0 %")), half]
            .into_iter()
            .chain(nines)
            .filter_map(|(value, label)| {
                let place = self.axis.transform(value)?;
                (place <= self.high + 1e-9).then(|| Tick {
                    at: self.place(place),
                    label,
                })
            })
            .collect()
    }
}
