//! Signs of life: what is done at each step of the loop, whatever the supervisor is doing.
//!
//! A change of the chain takes many steps, and so does its end: whoever watches this process from
//! outside is to see that it goes on all the while.

use std::time::Instant;

/// What is done at each step.
#[derive(Default)]
pub(super) struct Pulse(Option<Box<dyn FnMut(Instant) + Send>>);

impl Pulse {
    pub(super) fn of(act: impl FnMut(Instant) + Send + 'static) -> Self {
        Self(Some(Box::new(act)))
    }

    pub(super) fn beat(&mut self) {
        if let Some(act) = &mut self.0 {
            act(Instant::now());
        }
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pulse").field(&self.0.is_some()).finish()
    }
}
