//! Chain files of benchmarks, as text: a source, macswap NFs in a row or on two branches, a sink.

use std::fmt::Write as _;

/// What the links of a benchmark say.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// Slots of all links; the chain file's default if absent.
    pub(crate) slots: Option<u32>,
    /// Trust of all links; the chain's own choice if absent.
    pub(crate) trust: Option<String>,
    /// `aggregate` of the links from the source and to the sink; left out if absent.
    pub(crate) outer: Option<String>,
    /// `aggregate` of the links between NFs; left out if absent.
    pub(crate) inner: Option<String>,
}

/// How NFs are joined.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One after the other
    Line,
    /// A classifier, two NFs side by side, a merge
    Branch,
}

/// A benchmark's chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainText {
    /// Settings of the source, as the inside of a YAML map.
    pub(crate) source: String,
    /// Settings of the sink.
    pub(crate) sink: String,
    /// Core of the first half, core of the second; `None` leaves them where they start.
    pub(crate) cores: Option<[usize; 2]>,
    /// Whether the sink is a worker of its own, also on the source's core.
    pub(crate) sink_apart: bool,
    pub(crate) links: Links,
}

impl ChainText {
    /// NFs `swap1` to `swap{length}` in a row.
    pub(crate) fn line(&self, length: usize) -> String {
        let nfs: Vec<_> = (1..=length)
            .map(|n| (format!("swap{n}"), "type: macswap".to_owned()))
            .collect();
        let mut stops = vec!["source".to_owned()];
        stops.extend(nfs.iter().map(|(name, _)| name.clone()));
        stops.push("sink".to_owned());
        let pairs = stops
            .windows(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()));
        self.write(&nfs, &pairs.collect::<Vec<_>>())
    }

    /// `split` sends packets of the first EtherType to `left` and others to `right`; `join` takes
    /// both.
    pub(crate) fn branch(&self) -> String {
        let split = "type: classify, default: right, rules: [{ to: left, ether_type: 0x88b5 }]";
        let nfs = [
            ("split", split),
            ("left", "type: macswap"),
            ("right", "type: macswap"),
            ("join", "type: merge"),
        ];
        let pairs = [
            ("source", "split"),
            ("split.left", "left"),
            ("split.right", "right"),
            ("left", "join"),
            ("right", "join"),
            ("join", "sink"),
        ];
        let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        self.write(&nfs.map(owned), &pairs.map(owned))
    }

    fn write(&self, nfs: &[(String, String)], pairs: &[(String, String)]) -> String {
        // Neighbours are spread over the cores in contiguous runs.
        let place = |n: usize| {
            self.cores.map_or_else(String::new, |[from, to]| {
                let core = if 2 * n <= nfs.len() { from } else { to };
                format!(", core: {core}")
            })
        };
        let end = |side: usize| {
            self.cores
                .map_or_else(String::new, |cores| format!(", core: {}", cores[side]))
        };
        let Self { source, sink, .. } = self;
        let mut text = format!(
            "ports:\n  source: {{ bench-source: {{ {source} }}{} }}\n  \
             sink: {{ bench-sink: {{ {sink} }}{}{} }}\n",
            end(0),
            end(1),
            if self.sink_apart { ", group: sink" } else { "" },
        );
        if !nfs.is_empty() {
            text += "nfs:\n";
        }
        for (n, (name, settings)) in nfs.iter().enumerate() {
            let _ = writeln!(text, "  {name}: {{ {settings}{} }}", place(n + 1));
        }
        text += "links:\n";
        for (from, to) in pairs {
            let is_outer = from == "source" || to == "sink";
            let _ = writeln!(
                text,
                "  - {{ link: {from} -> {to}{} }}",
                self.keys(is_outer)
            );
        }
        text
    }

    /// Keys of a link beside its path.
    fn keys(&self, is_outer: bool) -> String {
        let links = &self.links;
        let mut keys = String::new();
        if let Some(slots) = links.slots {
            let _ = write!(keys, ", slots: {slots}");
        }
        if let Some(trust) = &links.trust {
            let _ = write!(keys, ", trust: {trust}");
        }
        let aggregate = if is_outer { &links.outer } else { &links.inner };
        if let Some(aggregate) = aggregate {
            let _ = write!(keys, ", aggregate: {aggregate}");
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use catena_engine::chain::Chain;

    use super::*;

    fn text() -> ChainText {
        ChainText {
            source: "size: 64".to_owned(),
            sink: String::new(),
            cores: Some([0, 1]),
            sink_apart: false,
            links: Links {
                slots: Some(512),
                trust: None,
                outer: None,
                inner: None,
            },
        }
    }

    #[test]
    fn chains_are_chains() {
        let registry = crate::bench::registry();
        for body in [text().line(0), text().line(4), text().branch()] {
            let file = format!("name: bench\n{body}");
            Chain::parse(&file, Path::new("."), &registry, None)
                .map_err(|errors| format!("{errors}\n{file}"))
                .unwrap();
        }
    }

    #[test]
    fn outer_and_inner_links_differ() {
        let mut text = text();
        text.links.outer = Some("on".to_owned());
        text.links.inner = Some("off".to_owned());
        let line = text.line(2);
        let of = |name: &str| line.lines().find(|l| l.contains(name)).unwrap().to_owned();
        assert!(of("source -> swap1").contains("aggregate: on"));
        assert!(of("swap1 -> swap2").contains("aggregate: off"));
        assert!(of("swap2 -> sink").contains("aggregate: on"));
        assert!(
            text.line(0)
                .contains("source -> sink, slots: 512, aggregate: on")
        );
    }
}
