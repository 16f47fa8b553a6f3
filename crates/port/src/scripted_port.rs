//! A port for tests of wrappers: what it receives is a script, what it sends is kept.

use std::sync::{Arc, Mutex};

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortError, RxBurst, RxState, TxBurst};

/// What the port was told, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Packets sent, with the time.
    pub(crate) sent: Vec<(Nanos, Vec<u8>)>,
    /// Whether the port was closed.
    pub(crate) is_closed: bool,
}

/// Receives each frame of its script when its time has come, and takes what it is sent.
#[derive(Debug, Default)]
pub(crate) struct ScriptedPort {
    pub(crate) script: std::collections::VecDeque<(Nanos, Vec<u8>)>,
    pub(crate) heard: Arc<Mutex<Heard>>,
    /// How many packets it takes in one call, at most.
    pub(crate) takes: Option<usize>,
    pub(crate) close_error: Option<PortError>,
}

impl ScriptedPort {
    pub(crate) fn new(script: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        Self {
            script: script
                .into_iter()
                .map(|(time, bytes)| (Nanos(time), bytes))
                .collect(),
            ..Self::default()
        }
    }

    pub(crate) fn heard(&self) -> Arc<Mutex<Heard>> {
        self.heard.clone()
    }
}

impl Port for ScriptedPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        while burst.room() > 0 {
            match self.script.front() {
                None => return RxState::Finished,
                Some((time, _)) if *time > now => return RxState::Until(*time),
                Some((_, bytes)) => {
                    burst.push_copy(bytes);
                    self.script.pop_front();
                }
            }
        }
        RxState::More
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        let packets = burst.packets();
        let sent = self.takes.unwrap_or(usize::MAX).min(packets.len());
        let mut heard = self.heard.lock().unwrap();
        heard.sent.extend(
            packets[..sent]
                .iter()
                .map(|packet| (now, packet.bytes().to_vec())),
        );
        sent
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.heard.lock().unwrap().is_closed = true;
        self.close_error.clone().map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([("scripted", 1)]);
    }
}
