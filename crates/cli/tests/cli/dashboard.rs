//! The Grafana dashboard against a real Prometheus that scrapes a real chain: every query of every
//! panel is understood, and none is empty.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::harness::{Place, repository, until};

/// Drops, frames, and counters of ports and NFs: something of everything that panels show.
const CHAIN: &str = "name: web
ports:
  in:  { generator: { rate: 40kpps, size: 64 } }
  out: { sink: { verify: true } }
nfs:
  police: { type: policer, rate: 20kpps, burst: 32 }
  seen:   { type: count }
links:
  - { link: in -> police, aggregate: on }
  - { link: police -> seen, aggregate: on }
  - seen -> out
run: { mode: process }
";

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Every query of the dashboard, as Grafana sends it for its default choices.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$chain", "web")
                .replace("$__rate_interval", "2s");
            (title.to_owned(), query)
        })
    });
    queries.collect()
}

#[test]
fn no_query_of_the_dashboard_is_empty() {
    const NAME: &str = "no_query_of_the_dashboard_is_empty";
    if Command::new("prometheus")
        .arg("--version")
        .output()
        .is_err()
    {
        return println!("SKIP {NAME}: no prometheus; apt-get install prometheus");
    }
    let file = repository().join("docs/reference/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let place = Place::new();
    place.write("web.yaml", CHAIN);
    let (metrics, port) = (free_port(), free_port());
    let address = format!("127.0.0.1:{metrics}");
    let chain = place.start("web", &["--quiet", "--metrics", &address, "web.yaml"]);
    let scrape = format!(
        "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\nscrape_configs:\n  \
         - job_name: catena\n    static_configs: [{{ targets: [\"{address}\"] }}]\n"
    );
    let settings = place.write("prometheus.yml", scrape);
    let mut server = Command::new("prometheus");
    server.arg(format!("--config.file={}", settings.display()));
    server.arg(format!(
        "--storage.tsdb.path={}",
        place.path("data").display()
    ));
    server.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let server = Running(
        server
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );

    let queries = queries(&dashboard);
    assert!(queries.len() > 10, "{queries:?}");
    for (panel, query) in queries {
        let path = format!("/api/v1/query?query={}", escaped(&query));
        until(&format!("{panel}: {query}"), || {
            let answer: Value = serde_json::from_str(&get(port, &path)?).ok()?;
            assert_eq!(answer["status"], "success", "{panel}: {query}: {answer}");
            let found = answer["data"]["result"].as_array()?;
            // A quotient of nothing by nothing is no number.
            let has_number = found.iter().any(|one| {
                let value = one["value"][1]
                    .as_str()
                    .and_then(|text| text.parse::<f64>().ok());
                value.is_some_and(f64::is_finite)
            });
            has_number.then_some(())
        });
    }
    // What the dashboard offers to choose from.
    let labels = get(port, "/api/v1/label/chain/values").unwrap();
    assert!(labels.contains("\"web\""), "{labels}");
    drop(server);
    place.catena(&["stop"]).assert_code(0);
    chain.end().assert_code(0);
}
