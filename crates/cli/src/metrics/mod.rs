//! Metrics of a running chain for Prometheus: `catena run --metrics ADDRESS:PORT`.
//!
//! Control plane only: the counters that the workers write anyway are read by the supervisor when
//! somebody asks, at most every [`http::FRESH_FOR`]. Nothing of it reaches the data path.
//!
//! - `exposition`: from a status to text, a pure function.
//! - `http`: as much of HTTP/1.1 as a scraper needs.

mod exposition;
mod http;

pub(crate) use http::Server;
