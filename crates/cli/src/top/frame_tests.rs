//! Frames as an operator sees them.

use super::*;
use crate::sample;
use crate::top::rates::rates;

fn now() -> Rates {
    rates(&sample::status(), &sample::later())
}

fn past() -> History {
    let mut history = History::default();
    for _ in 0..20 {
        history.add(&now());
    }
    history
}

fn look(width: usize, height: Option<usize>) -> Look {
    Look {
        width,
        height,
        ..Look::default()
    }
}

fn text(lines: &[Line]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    lines.join("\n")
}

#[test]
fn a_frame_of_80_by_24() {
    let frame = look(80, Some(24)).frame(&now(), &past());
    let wanted = r"
catena top: web  pid 4242  up 13.0 s  sample 0.50 s  4000/4096 buffers free
wait: yield 3x, then sleep (2 pollers on 2 cores; yield 274 ns, wake 1433 ns)
WORKER  MODE     STATE    RESTARTS  AWAKE            BUSY  SLEEPS/S   PID
ports   process  running         0  [######--]  75%   25%        50  4243
police  process  running         0  [##------]  20%   25%        50  4244

NODE   TYPE    RX PPS RX BPS TX PPS TX BPS DROPS/S DROPS TREND
in     pcap     1.00k   800k      0      0       0     0 ████████████████████
out    pcap         0      0    960   768k       0     0 ████████████████████
police policer  1.00k   800k    960   768k      40    60 ████████████████████
swap   macswap  1.00k   800k    960   768k       0     0 ████████████████████

LINK           KIND   TRUST    PPS  BPS OCCUPANCY      TREND              FULL
in -> police   ring   shared 1.00k 800k [--------]   0                    block
police -> swap inline -
swap -> out    ring   copy     960 768k [######--] 384 ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆ block

DROPS OF  REASON       PPS  TOTAL
police    policer_red   40     60

COUNTS OF  COUNTER  PER S  TOTAL
police     marked       0      3

q quit  ? help  j/k scroll  s sort: file order  space pause";
    assert_eq!(
        text(&frame),
        wanted.trim_start_matches('\n'),
        "\n{}\n",
        text(&frame)
    );
}

#[test]
fn no_line_is_longer_than_the_width_and_no_frame_higher_than_the_screen() {
    let rates = now();
    for width in [0, 1, 7, 20, 40, 79, 80, 81, 200] {
        for height in [0, 1, 2, 3, 4, 10, 24, 100] {
            let frame = look(width, Some(height)).frame(&rates, &past());
            assert_eq!(frame.len(), height, "{width}x{height}");
            for line in &frame {
                assert!(line.text.chars().count() <= width, "{width}: {line:?}");
            }
        }
    }
}

#[test]
fn scrolling_stops_at_the_last_line() {
    let rates = now();
    let mut look = look(80, Some(10));
    look.scroll = 10_000;
    let frame = look.frame(&rates, &past());
    assert!(frame[8].text.contains("marked"), "{}", text(&frame));
    assert!(frame[9].text.ends_with("  14-20/20"), "{}", text(&frame));
    look.scroll = look.scroll_max(&rates);
    assert_eq!(look.frame(&rates, &past()), frame);
}

#[test]
fn nodes_are_sorted_as_chosen() {
    let rates = now();
    let names = |sort| {
        let look = Look {
            sort,
            ..look(80, None)
        };
        let frame = text(&look.frame(&rates, &past()));
        let nodes = frame.split("\nNODE").nth(1).unwrap();
        let nodes = nodes.split("\n\n").next().unwrap().lines().skip(1);
        let names = nodes.map(|line| line.split(' ').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(Sort::File), ["in", "out", "police", "swap"]);
    assert_eq!(names(Sort::Rate), ["in", "police", "swap", "out"]);
    assert_eq!(names(Sort::Trouble), ["police", "in", "out", "swap"]);
    assert_eq!(names(Sort::Name), ["in", "out", "police", "swap"]);
    let all = [Sort::File, Sort::Rate, Sort::Trouble, Sort::Name];
    assert_eq!(
        all.map(Sort::next),
        [Sort::Rate, Sort::Trouble, Sort::Name, Sort::File]
    );
}

#[test]
fn what_needs_a_look_is_marked() {
    let mut after = sample::later();
    after.workers[1].state = "dead".to_owned();
    after.links[2].occupancy = 500;
    let frame = look(80, None).frame(&rates(&sample::status(), &after), &past());
    let alerts = frame.iter().filter(|line| line.style == Style::Alert);
    let alerts: Vec<&str> = alerts.map(|line| line.text.as_str()).collect();
    let starts = ["police ", "police ", "swap -> out", "police "];
    assert_eq!(alerts.len(), starts.len(), "{alerts:?}");
    for (alert, start) in alerts.iter().zip(starts) {
        assert!(alert.starts_with(start), "{alert}");
    }
}

#[test]
fn numbers_have_three_digits_and_fit() {
    let cases = [
        (0.0, "0"),
        (7.0, "7"),
        (7.25, "7.25"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1.00k"),
        (12_345.0, "12.3k"),
        (999_499.0, "999k"),
        (999_500.0, "1.00M"),
        (14_880_952.0, "14.9M"),
        (9.5e15, "10P"),
    ];
    for (value, wanted) in cases {
        assert_eq!(si(value), wanted, "{value}");
        assert!(si(value).len() <= 6);
    }
    assert_eq!(count(99_999), "99999");
    assert_eq!(count(100_000), "100k");
}

#[test]
fn a_little_is_more_than_nothing_in_a_bar() {
    assert_eq!(bar(0.0, 8), "[--------]");
    assert_eq!(bar(0.001, 8), "[#-------]");
    assert_eq!(bar(1.0, 8), "[########]");
    assert_eq!(bar(7.0, 8), "[########]");
}

#[test]
fn help_replaces_the_numbers() {
    let look = Look {
        shows_help: true,
        ..look(80, Some(24))
    };
    let frame = text(&look.frame(&now(), &past()));
    assert!(frame.contains("scroll down"));
    assert!(!frame.contains("macswap"));
}
