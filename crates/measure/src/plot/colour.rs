//! Colours and letters of figures, as CSS: light by default, dark where the reader prefers it.
//!
//! Rules name colours outright (no CSS variables), since viewers of single SVG files know no
//! variables. The eight colours of series are told apart by people with any common kind of colour
//! vision (after Okabe and Ito); series nine to sixteen have the same colours, dashed or paler.

use std::fmt::Write as _;

/// Colours of series, for paper and for a dark ground.
const SERIES: [(&str, &str); 8] = [
    ("#0072b2", "#56a8e8"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#2fc99a"),
    ("#b0568f", "#e39cc8"),
    ("#b88a00", "#e6bf3c"),
    ("#3aa0d8", "#9ad6f7"),
    ("#5b4b9a", "#a99be8"),
    ("#6b6b6b", "#b4b4b4"),
];

/// Shades of a heat map from little to much, for paper and for a dark ground.
const HEAT: [(&str, &str); 10] = [
    ("#e8f1f8", "#10202e"),
    ("#cfe3f1", "#12304a"),
    ("#aed0e8", "#154267"),
    ("#86b9dc", "#1b5685"),
    ("#5c9fce", "#246ca4"),
    ("#3a83ba", "#3584bf"),
    ("#2567a0", "#559fd4"),
    ("#194d82", "#7fbbe4"),
    ("#103561", "#aed6f1"),
    ("#081f3f", "#e0f0fb"),
];

/// Classes of a series repeat after this many.
pub(super) const SERIES_CLASSES: usize = SERIES.len();
/// Number of shades of a heat map.
pub(super) const HEAT_CLASSES: usize = HEAT.len();

struct Ground {
    paper: &'static str,
    ink: &'static str,
    muted: &'static str,
    grid: &'static str,
    shade: &'static str,
}

const LIGHT: Ground = Ground {
    paper: "#ffffff",
    ink: "#1b1f24",
    muted: "#57606a",
    grid: "#d8dee4",
    shade: "#8c959f",
};

const DARK: Ground = Ground {
    paper: "#0d1117",
    ink: "#e6edf3",
    muted: "#9aa4af",
    grid: "#2b323b",
    shade: "#6e7681",
};

/// The style sheet of all figures: what a page with fragments contains once.
pub fn css() -> String {
    let mut css = String::from(
        ".plot{max-width:100%;height:auto;font:12px system-ui,'DejaVu Sans',sans-serif}\
         .plot .title{font-size:14px;font-weight:600}.plot .m{text-anchor:middle}\
         .plot .e{text-anchor:end}.plot .small{font-size:11px}\
         .plot line,.plot path{fill:none;stroke-width:1}\
         .plot path.l{stroke-width:1.8;stroke-linejoin:round}.plot path.alt{stroke-dasharray:5 3}\
         .plot .band{opacity:.2;stroke:none}.plot rect.alt{opacity:.55}\
         .plot .shade{opacity:.22;stroke:none}.plot .interval{stroke-width:1.5}",
    );
    css.push_str(&ground_rules(&LIGHT, |(light, _)| light));
    css.push_str("@media (prefers-color-scheme:dark){");
    css.push_str(&ground_rules(&DARK, |(_, dark)| dark));
    css.push('}');
    css
}

fn ground_rules(ground: &Ground, pick: fn((&'static str, &'static str)) -> &'static str) -> String {
    let Ground {
        paper,
        ink,
        muted,
        grid,
        shade,
    } = ground;
    let mut css = format!(
        ".plot .paper{{fill:{paper}}}.plot text{{fill:{ink}}}.plot text.small{{fill:{muted}}}\
         .plot .grid{{stroke:{grid}}}.plot .edge{{stroke:{muted}}}.plot .interval{{stroke:{ink}}}\
         .plot .mark{{stroke:{ink};stroke-dasharray:2 3}}.plot .shade{{fill:{shade}}}"
    );
    for (index, colours) in SERIES.into_iter().enumerate() {
        let colour = pick(colours);
        // Writing to a string cannot fail.
        let _ = write!(
            css,
            ".plot .l{index}{{stroke:{colour}}}\
             .plot .f{index},.plot path.band.f{index}{{fill:{colour}}}"
        );
    }
    for (index, colours) in HEAT.into_iter().enumerate() {
        let _ = write!(css, ".plot .h{index}{{fill:{}}}", pick(colours));
    }
    css
}
