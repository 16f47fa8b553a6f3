//! The states of an element as a picture.
//!
//! For `catena flow graph`. States stand on a circle, the initial one at its top with a double
//! line; transitions are curves with their condition, those on a timeout dashed. What leads from
//! any state is listed below, since it would hide all else.

use std::f64::consts::TAU;
use std::fmt::Write;

use super::model::{ElementModel, On};

/// Radius of a state.
const STATE: f64 = 44.0;
/// Most characters of a condition in the picture; all of it stands in its tool tip.
const LABEL_CHARS_MAX: usize = 34;

/// Text that may stand in SVG.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

struct Place {
    x: f64,
    y: f64,
}

/// Draws an element's states and transitions as SVG.
pub fn graph(element: &ElementModel) -> String {
    let mut states: Vec<&str> = element.states.keys().map(String::as_str).collect();
    let initial = element.initial.as_deref().unwrap_or_default();
    states.sort_by_key(|state| *state != initial);
    if states.is_empty() {
        states.push("flow");
    }
    let radius = if states.len() == 1 {
        0.0
    } else {
        90.0 + 46.0 * states.len() as f64
    };
    let centre = radius + STATE + 150.0;
    let places: Vec<Place> = (0..states.len())
        .map(|number| {
            let angle = TAU * number as f64 / states.len() as f64 - TAU / 4.0;
            Place {
                x: centre + radius * angle.cos(),
                y: centre + radius * angle.sin(),
            }
        })
        .collect();
    let mut below = Vec::new();
    let mut edges = String::new();
    let mut seen = std::collections::BTreeMap::new();
    for transition in &element.transitions {
        let text = label(transition);
        let names = transition.from.all();
        if names.is_empty() && states.len() > 1 {
            let next = transition.next.as_deref().unwrap_or("same");
            below.push(format!("from any state to {next}: {text}"));
            continue;
        }
        let at = |name: &str| states.iter().position(|state| *state == name);
        let from: Vec<usize> = match names {
            [] => vec![0],
            names => names.iter().filter_map(|name| at(name)).collect(),
        };
        for from in from {
            let to = match transition.next.as_deref() {
                None => from,
                Some(super::element::FORGET) => 0,
                Some(next) => at(next).unwrap_or(from),
            };
            let count = seen.entry((from, to)).or_insert(0.0);
            *count += 1.0;
            edge(
                &mut edges,
                [&places[from], &places[to]],
                (centre, *count),
                &text,
                transition.on,
            );
        }
    }
    let height = 2.0 * centre + 20.0 * below.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
         markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" \
         fill=\"#444\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        2.0 * centre,
        escaped(&element.name),
    );
    svg += &edges;
    for (state, place) in states.iter().zip(&places) {
        let (x, y) = (place.x, place.y);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{STATE}\" fill=\"#eef3fa\" stroke=\"#336\"/>"
        );
        if *state == initial {
            let inner = STATE - 5.0;
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{inner}\" fill=\"none\" stroke=\"#336\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y + 4.0,
            escaped(state)
        );
    }
    for (line, text) in below.iter().enumerate() {
        let y = 2.0 * centre + 20.0 * line as f64;
        let _ = writeln!(svg, "<text x=\"20\" y=\"{y:.1}\">{}</text>", escaped(text));
    }
    svg + "</svg>\n"
}

fn label(transition: &super::model::TransitionModel) -> String {
    let mut parts: Vec<String> = transition.when.iter().cloned().collect();
    let patterns = transition.patterns.iter();
    parts.extend(patterns.map(|(value, pattern)| format!("{value} is {}", pattern.text())));
    let when = if parts.is_empty() {
        "always".to_owned()
    } else {
        parts.join(" and ")
    };
    match transition.on {
        On::Packet => when,
        On::Timeout => format!("time over, {when}"),
    }
}

/// A curve from one state to another, the `count`-th between the two.
fn edge(
    svg: &mut String,
    [from, to]: [&Place; 2],
    (centre, count): (f64, f64),
    text: &str,
    on: On,
) {
    let dash = if on == On::Timeout {
        " stroke-dasharray=\"5 4\""
    } else {
        ""
    };
    let short: String = text.chars().take(LABEL_CHARS_MAX).collect();
    let short = if short.len() < text.len() {
        format!("{short}...")
    } else {
        short
    };
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let len = dx.hypot(dy);
    let (path, x, y) = if len < 1.0 {
        // A loop on the side that faces away from the centre.
        let (mut ux, mut uy) = (from.x - centre, from.y - centre);
        let out = ux.hypot(uy);
        (ux, uy) = if out < 1.0 {
            (0.0, -1.0)
        } else {
            (ux / out, uy / out)
        };
        let reach = STATE + 34.0 + 20.0 * count;
        let point =
            |side: f64, far: f64| (from.x + ux * far - uy * side, from.y + uy * far + ux * side);
        let (a, b) = (point(-18.0, STATE - 4.0), point(18.0, STATE));
        let (c, d) = (point(-46.0, reach), point(46.0, reach));
        let path = format!(
            "M{:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            a.0, a.1, c.0, c.1, d.0, d.1, b.0, b.1
        );
        let (x, y) = point(0.0, reach - 8.0);
        (path, x, y)
    } else {
        let (ux, uy) = (dx / len, dy / len);
        let bend = 24.0 * count;
        let (x, y) = (
            f64::midpoint(from.x, to.x) - uy * bend,
            f64::midpoint(from.y, to.y) + ux * bend,
        );
        let path = format!(
            "M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}",
            from.x + ux * STATE,
            from.y + uy * STATE,
            to.x - ux * (STATE + 2.0),
            to.y - uy * (STATE + 2.0)
        );
        (path, x, y)
    };
    let _ = writeln!(
        svg,
        "<g><title>{}</title><path d=\"{path}\" fill=\"none\" stroke=\"#444\"{dash} \
         marker-end=\"url(#arrow)\"/><text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" \
         stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text></g>",
        escaped(text),
        escaped(&short)
    );
}
