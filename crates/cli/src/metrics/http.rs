//! As much of HTTP/1.1 as a scraper needs: GET of two paths, one request per connection.
//!
//! Limits: [`SEATS`] connections at a time, more are closed; a request has at most
//! [`REQUEST_BYTES_MAX`] and must have come after [`PATIENCE`], and as long may its client take to
//! read the answer. Anything else is refused by its number. RFC 9112.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catena_engine::shard::name_in_file;
use catena_engine::supervisor::status::Status;
use serde_json::json;

use super::exposition::{Upfs, exposition};
use crate::commands::Failure;
use crate::commands::control::{Answer, Request, exchange};
use crate::seats::SEATS;

/// How long one status serves all who ask.
pub(super) const FRESH_FOR: Duration = Duration::from_millis(100);
/// How long a client, and the chain, may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Where metrics are asked for.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address, so that it is known before anything starts whether it can be had.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let repair = match error.kind() {
                ErrorKind::AddrInUse => "; stop who uses it, or take another port",
                ErrorKind::PermissionDenied => "; take a port from 1024",
                ErrorKind::AddrNotAvailable => "; take an address of this machine",
                _ => "",
            };
            Failure::running(format!("--metrics {address}: {error}{repair}"))
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the chain whose control socket this is, to the end of the process.
    ///
    /// # Errors
    /// There can be no thread for it.
    pub(crate) fn serve(self, control: PathBuf) -> std::io::Result<()> {
        let source = Arc::new(Mutex::new(Source {
            control,
            latest: None,
        }));
        let seats = Arc::new(());
        let serve = move || {
            for stream in self.listener.incoming() {
                match stream {
                    Ok(stream) => seat(stream, &seats, &source),
                    // No descriptor is free, or the like: others may come.
                    Err(_) => std::thread::sleep(FRESH_FOR),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(serve).map(drop)
    }
}

/// Serves a connection in a thread of its own, so that a silent client keeps nobody waiting. Where
/// there is no room for it, it is closed.
fn seat(stream: TcpStream, seats: &Arc<()>, source: &Arc<Mutex<Source>>) {
    if Arc::strong_count(seats) > SEATS {
        return;
    }
    let (taken, source) = (seats.clone(), source.clone());
    let thread = std::thread::Builder::new().name("scrape".to_owned());
    // Without a thread it is closed, too: clients come again.
    let _ = thread.spawn(move || {
        // A client that goes away is not our concern.
        let _ = converse(&stream, &mut || {
            let source = source.lock();
            source.map_err(|error| error.to_string())?.told()
        });
        drop(taken);
    });
}

/// Statuses from the supervisor, none asked for twice in [`FRESH_FOR`].
struct Source {
    control: PathBuf,
    latest: Option<(Instant, Told)>,
}

/// A status, and what UPFs say of themselves.
type Told = (Status, Upfs);

impl Source {
    fn told(&mut self) -> Result<Told, String> {
        let is_fresh = |at: &Instant| at.elapsed() < FRESH_FOR;
        match &self.latest {
            Some((at, told)) if is_fresh(at) => Ok(told.clone()),
            _ => {
                let status = ask(&self.control)?;
                let upfs = ask_upfs(&self.control, &status);
                self.latest = Some((Instant::now(), (status.clone(), upfs.clone())));
                Ok((status, upfs))
            }
        }
    }
}

/// What the UPFs of a chain say: each shard by itself. One that does not answer says nothing.
fn ask_upfs(control: &Path, status: &Status) -> Upfs {
    let nodes = status.nodes.iter().filter(|node| node.type_name == "upf");
    // Of shards the node is asked, once for all of them.
    let names = nodes.map(|node| name_in_file(&node.name).to_owned());
    let mut names: Vec<String> = names.collect();
    names.dedup();
    let mut upfs = Vec::new();
    for node in names {
        let request = Request::Control {
            node: node.clone(),
            request: json!({ "show": "metrics" }),
        };
        let Ok(Answer::Control(answer)) = exchange(control, &request, PATIENCE) else {
            continue;
        };
        match answer.get("slices") {
            Some(_) => upfs.push((node, answer)),
            None => upfs.extend(answer.as_object().cloned().into_iter().flatten()),
        }
    }
    upfs
}

fn ask(control: &Path) -> Result<Status, String> {
    match exchange(control, &Request::Status, PATIENCE) {
        Ok(Answer::Status(status)) => Ok(*status),
        Ok(other) => Err(format!("unexpected answer: {other:?}")),
        Err(error) => Err(format!("the chain {error}")),
    }
}

/// An answer: number and reason, type, text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn plain(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into() + "\n",
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let allow = match self.status {
            METHOD_NOT_ALLOWED => "Allow: GET\r\n",
            _ => "",
        };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}\
             Connection: close\r\n\r\n{}",
            self.status,
            self.content_type,
            self.body.len(),
            self.body
        )
        .into_bytes()
    }
}

const OK: &str = "200 OK";
const BAD_REQUEST: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";
const METHOD_NOT_ALLOWED: &str = "405 Method Not Allowed";
const TIMEOUT: &str = "408 Request Timeout";
const TOO_LARGE: &str = "431 Request Header Fields Too Large";
const UNAVAILABLE: &str = "503 Service Unavailable";

type AskStatus<'a> = dyn FnMut() -> Result<Told, String> + 'a;

fn converse(stream: &TcpStream, status: &mut AskStatus<'_>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let deadline = Instant::now() + PATIENCE;
    let response = match read_head(stream, deadline)? {
        Head::Whole(head) => respond(&head, status),
        Head::TooLarge => Response::plain(TOO_LARGE, "the request has more than 8 KiB"),
        Head::Late => Response::plain(TIMEOUT, "the request took more than 1 s"),
        Head::Gone => return Ok(()),
    };
    let mut stream = stream;
    stream.write_all(&response.bytes())?;
    stream.shutdown(Shutdown::Write)?;
    // Bytes left unread would make the kernel cut the answer off.
    let mut rest = [0; 4096];
    let mut taken = 0;
    while taken < 8 * REQUEST_BYTES_MAX {
        match read_until(stream, &mut rest, deadline)? {
            0 => break,
            count => taken += count,
        }
    }
    Ok(())
}

/// What came of a request's head.
enum Head {
    Whole(Vec<u8>),
    TooLarge,
    Late,
    Gone,
}

fn read_head(stream: &TcpStream, deadline: Instant) -> std::io::Result<Head> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let count = match read_until(stream, &mut piece, deadline) {
            Ok(0) => return Ok(Head::Gone),
            Ok(count) => count,
            Err(error) if is_late(&error) => return Ok(Head::Late),
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&piece[..count]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(Head::Whole(head));
        }
        if head.len() > REQUEST_BYTES_MAX {
            return Ok(Head::TooLarge);
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn read_until(
    mut stream: &TcpStream,
    into: &mut [u8],
    deadline: Instant,
) -> std::io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(into)
}

/// The answer to a request's head. Pure but for `status`.
fn respond(head: &[u8], status: &mut AskStatus<'_>) -> Response {
    let Some((method, path)) = request_line(head) else {
        return Response::plain(BAD_REQUEST, "this is no HTTP/1 request");
    };
    let path = path.split('?').next().unwrap_or(path);
    if !["/metrics", "/healthz"].contains(&path) {
        return Response::plain(NOT_FOUND, "there are /metrics and /healthz");
    }
    if method != "GET" {
        return Response::plain(METHOD_NOT_ALLOWED, "only GET is served");
    }
    let (status, upfs) = match status() {
        Ok(told) => told,
        Err(reason) => return Response::plain(UNAVAILABLE, reason),
    };
    if path == "/metrics" {
        return Response {
            status: OK,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: exposition(&status, &upfs),
        };
    }
    let workers = status.workers.iter();
    let down: Vec<_> = workers
        .filter(|worker| worker.state != "running")
        .map(|worker| format!("worker {} is {}", worker.name, worker.state))
        .collect();
    match down.as_slice() {
        [] => Response::plain(OK, "ok"),
        down => Response::plain(UNAVAILABLE, down.join("\n")),
    }
}

/// Method and path of `METHOD SP PATH SP HTTP/1.x`.
fn request_line(head: &[u8]) -> Option<(&str, &str)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_right = is_method
        && path.starts_with('/')
        && version.starts_with("HTTP/1.")
        && words.next().is_none();
    is_right.then_some((method, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn answer(head: &str) -> Response {
        respond(head.as_bytes(), &mut || Ok((sample::status(), Vec::new())))
    }

    #[test]
    fn two_paths_are_served_and_only_to_get() {
        let metrics = answer("GET /metrics HTTP/1.1\r\nHost: x");
        assert_eq!(metrics.status, OK);
        assert!(metrics.body.starts_with("# HELP catena_"));
        assert_eq!(answer("GET /metrics?x=1 HTTP/1.0").status, OK);
        assert_eq!(answer("GET /healthz HTTP/1.1").body, "ok\n");
        assert_eq!(answer("GET / HTTP/1.1").status, NOT_FOUND);
        assert_eq!(answer("POST /metrics HTTP/1.1").status, METHOD_NOT_ALLOWED);
        assert_eq!(answer("HEAD /metrics HTTP/1.1").status, METHOD_NOT_ALLOWED);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in [
            "",
            "GET",
            "GET /metrics",
            "GET  /metrics HTTP/1.1",
            "GET /metrics HTTP/2",
            "GET metrics HTTP/1.1",
            "get /metrics HTTP/1.1",
            "GET /metrics HTTP/1.1 x",
        ] {
            assert_eq!(answer(head).status, BAD_REQUEST, "{head:?}");
        }
        let mut status = || Ok((sample::status(), Vec::new()));
        assert_eq!(
            respond(b"\xff /x HTTP/1.1", &mut status).status,
            BAD_REQUEST
        );
    }

    #[test]
    fn a_worker_that_does_not_run_is_named() {
        let mut status = sample::status();
        status.workers[1].state = "dead".to_owned();
        let response = respond(b"GET /healthz HTTP/1.1", &mut || {
            Ok((status.clone(), Vec::new()))
        });
        assert_eq!(response.status, UNAVAILABLE);
        assert_eq!(response.body, "worker police is dead\n");
    }

    #[test]
    fn a_chain_that_does_not_answer_is_unavailable() {
        let response = respond(b"GET /metrics HTTP/1.1", &mut || Err("late".to_owned()));
        assert_eq!(response, Response::plain(UNAVAILABLE, "late"));
    }

    /// Sends `request` to a server on this machine; gives all that comes back.
    fn served(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            converse(&stream, &mut || Ok((sample::status(), Vec::new())))
        });
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        drop(client);
        let _ = server.join().unwrap();
        text
    }

    #[test]
    fn silent_clients_keep_nobody_waiting() {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address();
        // Nobody listens there: whoever asks is told so, which is an answer.
        server.serve("/nonexistent/control.sock".into()).unwrap();
        let silent = || TcpStream::connect(address).unwrap();
        let silent: Vec<_> = std::iter::repeat_with(silent).take(20).collect();
        let began = Instant::now();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        // One after the other they would have taken a second each.
        assert!(began.elapsed() < 10 * PATIENCE, "{:?}", began.elapsed());
        drop(silent);
    }

    #[test]
    fn a_request_over_the_limit_gets_an_answer_too() {
        let mut request = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        request.resize(3 * REQUEST_BYTES_MAX, b'x');
        assert!(served(&request).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn a_request_that_never_ends_is_cut_off() {
        let began = Instant::now();
        assert!(served(b"GET /metrics HTTP/1.1\r\nHo").starts_with("HTTP/1.1 408 "));
        assert!(began.elapsed() < 5 * PATIENCE);
    }

    #[test]
    fn the_length_is_that_of_the_body() {
        let text = served(b"GET /metrics HTTP/1.1\r\n\r\n");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
    }
}
