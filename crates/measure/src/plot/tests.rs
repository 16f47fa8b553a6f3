//! Golden figures, and that no data make a figure panic or ill-formed.

use proptest::prelude::*;

use super::*;

/// Compares with a figure that people have looked at.
#[track_caller]
fn check_golden(name: &str, svg: &str) {
    let path = format!("{}/src/plot/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("CATENA_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, svg).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == svg,
        "{path} differs from what is drawn now; run this test with CATENA_UPDATE_GOLDEN=1, look at \
         the file, and commit it if the change is wanted"
    );
    check_well_formed(svg);
}

/// Tags are balanced, and no number is one that viewers refuse.
#[track_caller]
fn check_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for bad in ["=\"NaN", "=\"inf", "=\"-inf", "\"-0\""] {
        assert!(!svg.contains(bad), "{bad} in {svg}");
    }
}

#[test]
fn lines_with_bands_marks_and_shades() {
    let points = |scale: f64| (1..=12).map(move |x| (f64::from(x) * 1e6, scale * f64::from(x)));
    let band = points(900.0).map(|(x, y)| (x, y * 0.8, y * 1.3)).collect();
    let plot = LinePlot::new(
        "Latency under load",
        Axis::new("offered load (packets/s)").si(),
        Axis::new("latency p99").log().nanos(),
    )
    .series(Series::new("thread", points(900.0).collect()).with_band(band))
    .series(Series::new("container <b>", points(9000.0).collect()).with_points())
    .series(Series::new("floor", points(20.0).collect()).steps())
    .mark(Mark {
        x: 9e6,
        label: String::from("NDR"),
    })
    .shade(Shade {
        from: 10e6,
        to: 20e6,
        label: String::from("too few samples"),
    });
    check_golden("lines", &plot.to_svg());
}

#[test]
fn percentiles_lie_by_their_nines() {
    let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
    let points = quantiles
        .iter()
        .zip([800.0, 900.0, 1100.0, 2400.0, 19e3, 410e3]);
    let plot = LinePlot::new(
        "One-way latency",
        Axis::new("percentile").nines(),
        Axis::new("latency").log().nanos(),
    )
    .series(Series::new("raw", points.map(|(q, v)| (*q, v)).collect()));
    let svg = plot.to_svg();
    assert!(svg.contains("99.9 %") && svg.contains("99.99 %") && !svg.contains("99.999 %"));
    check_golden("percentiles", &svg);
}

#[test]
fn bars_with_whiskers_and_gaps() {
    let plot = BarPlot::new(
        "Throughput",
        Axis::new("packets/s").si(),
        ["64 B", "512 B", "1518 B", "IMIX"],
    )
    .group(
        "inline",
        vec![
            Some(Bar::with_interval(14.2e6, 13.9e6, 14.6e6)),
            Some(Bar::with_interval(9.0e6, 8.1e6, 9.5e6)),
            None,
            Some(Bar::new(11e6)),
        ],
    )
    .group(
        "container",
        vec![
            Some(Bar::with_interval(7.2e6, 6.9e6, 7.6e6)),
            Some(Bar::new(f64::NAN)),
            Some(Bar::new(2.5e6)),
        ],
    );
    check_golden("bars", &plot.to_svg());
}

#[test]
fn stacked_parts_of_a_whole() {
    let parts = |values: [f64; 3]| values.into_iter().map(|v| Some(Bar::new(v))).collect();
    let plot = BarPlot::new(
        "Where the time goes",
        Axis::new("mean residence").nanos(),
        [
            "inline chain of three functions",
            "a process for each function",
            "a container for each function and long",
        ],
    )
    .group("ring wait", parts([0.0, 410.0, 450.0]))
    .group("copy", parts([0.0, 0.0, 210.0]))
    .group("nf", parts([120.0, 130.0, 140.0]))
    .stacked()
    .size(480, 320);
    check_golden("stack", &plot.to_svg());
}

#[test]
fn heat_over_time_with_stalls() {
    let cells = (0..6 * 20).map(|cell| f64::from((cell * 7919) % 97).powi(2) - 400.0);
    let map = HeatMap::new(
        "Latency over time",
        (
            Axis::new("time (s)"),
            (0..=20).map(|x| f64::from(x) * 0.5).collect(),
        ),
        (
            Axis::new("latency").log().nanos(),
            (2..=8).map(|y| 10f64.powi(y)).collect(),
        ),
        cells.collect(),
    )
    .unwrap()
    .unit("packets")
    .shade(Shade {
        from: 3.0,
        to: 3.2,
        label: String::from("stall"),
    });
    check_golden("heat", &map.to_svg());
}

#[test]
fn cells_that_do_not_fit_are_refused() {
    let edges = || (Axis::new(""), vec![0.0, 1.0, 2.0]);
    let short = HeatMap::new("", edges(), edges(), vec![1.0; 3]).unwrap_err();
    assert_eq!(
        short.to_string(),
        "a heat map of 2 by 2 cells needs 4 values, 3 were given"
    );
    let empty = HeatMap::new("", (Axis::new(""), vec![]), edges(), vec![]).unwrap_err();
    assert_eq!(
        empty,
        HeatMapError::Edges {
            axis: "x",
            count: 0
        }
    );
}

#[test]
fn a_figure_without_data_says_so() {
    let line = LinePlot::new("", Axis::new(""), Axis::new("")).to_svg();
    let bars = BarPlot::new("", Axis::new(""), [] as [&str; 0]).to_svg();
    for svg in [line, bars] {
        assert!(svg.contains("no data"));
        check_well_formed(&svg);
    }
}

#[test]
fn both_grounds_are_styled_alike() {
    let css = css();
    let (light, dark) = css
        .split_once("@media (prefers-color-scheme:dark)")
        .unwrap();
    for rule in [".paper", ".grid", ".l0", ".f7", ".h9", "text{"] {
        assert!(light.contains(rule) && dark.contains(rule), "{rule}");
    }
}

#[test]
fn distributions_are_thinned_but_keep_their_tail() {
    let samples: Vec<_> = (0..100_000).map(f64::from).collect();
    let cdf = cdf(&samples);
    assert!(cdf.len() <= 1000);
    assert_eq!(cdf.first(), Some(&(0.0, 0.000_01)));
    assert_eq!(cdf.last(), Some(&(99_999.0, 1.0)));
    assert!(cdf.contains(&(99_998.0, 0.999_99)));
    let survival = survival(&samples);
    assert_eq!(survival.last(), Some(&(99_999.0, 0.000_01)));
}

fn any_axis() -> impl Strategy<Value = Axis> {
    (0..7, any::<f64>(), any::<f64>()).prop_map(|(kind, low, high)| {
        let axis = Axis::new("<&\"'>");
        match kind {
            0 => axis,
            1 => axis.log().si(),
            2 => axis.nines(),
            3 => axis.nanos().from_zero(),
            4 => axis.percent(),
            5 => axis.log().nanos(),
            _ => axis.fixed(low, high),
        }
    })
}

proptest! {
    #[test]
    fn no_data_make_an_ill_formed_line_plot(
        x in any_axis(),
        y in any_axis(),
        points in proptest::collection::vec(any::<(f64, f64)>(), 0..20),
        from in any::<f64>(),
    ) {
        let band = points.iter().map(|(x, y)| (*x, *y, y * 2.0)).collect();
        let shade = Shade { from, to: from + 1.0, label: String::from("a & b") };
        let plot = LinePlot::new("t", x, y)
            .series(Series::new("n", points.clone()).with_band(band))
            .series(Series::new("m", points).steps())
            .shade(shade)
            .mark(Mark { x: from, label: String::from("<") });
        check_well_formed(&plot.to_svg());
    }

    #[test]
    fn no_data_make_ill_formed_bars_or_heat(
        y in any_axis(),
        values in proptest::collection::vec(any::<f64>(), 4),
        is_stacked in any::<bool>(),
    ) {
        let bars = values.iter().map(|value| Some(Bar::with_interval(*value, 0.0, *value)));
        let mut plot = BarPlot::new("t", y.clone(), ["a", "b"]).group("g", bars.collect());
        if is_stacked {
            plot = plot.stacked();
        }
        check_well_formed(&plot.to_svg());
        let edges = || vec![values[0], values[1], values[2]];
        let map = HeatMap::new("t", (y.clone(), edges()), (y, edges()), values.clone()).unwrap();
        check_well_formed(&map.to_svg());
    }
}

#[test]
fn figures_give_what_they_are_drawn_of() {
    let line = LinePlot::new(
        "a",
        Axis::new("percentile").nines(),
        Axis::new("delay").nanos(),
    )
    .series(Series::new("one, two", vec![(0.5, 10.0), (0.9, 20.5)]))
    .series(Series::new("b", vec![(0.5, 1.0)]).with_band(vec![(0.5, 0.5, 2.0)]));
    assert_eq!(
        line.data(),
        "series,percentile (share of 1),delay (ns),low,high\n\
         \"one, two\",0.5,10,,\n\"one, two\",0.9,20.5,,\nb,0.5,1,,\nb,0.5,,0.5,2\n"
    );
    let bars = BarPlot::new("a", Axis::new("rate").si(), ["64", "128"])
        .group("x", vec![Some(Bar::with_interval(2.0, 1.0, 3.5)), None])
        .group("y", vec![Some(Bar::new(4.0)), Some(Bar::new(f64::NAN))]);
    assert_eq!(
        bars.data(),
        "category,group,rate,low,high\n64,x,2,1,3.5\n64,y,4,,\n"
    );
    let heat = HeatMap::new(
        "a",
        (Axis::new("time (s)"), vec![0.0, 1.0, 2.0]),
        (Axis::new("delay").nanos(), vec![10.0, 100.0]),
        vec![0.0, 7.0],
    );
    assert_eq!(
        heat.unwrap().unit("packets").data(),
        "time (s) from,time (s) to,delay (ns) from,delay (ns) to,packets\n1,2,10,100,7\n"
    );
}
