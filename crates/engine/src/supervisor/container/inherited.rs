//! Containers of a chain whose supervisor has died, for its successor: they go on under their
//! engine, which removes them when their workers have ended.

use crate::supervisor::book::{WrittenContainer, WrittenContainers};
use crate::supervisor::container::{
    Container, Containers, ENGINES, JOIN, LABEL, Plan, Process, ask,
};
use crate::supervisor::runtime_dir::RuntimeDir;

impl Containers {
    /// As they were. Those that run and are not in `kept` are removed: their workers had not come,
    /// and nobody expects them any more.
    pub(in crate::supervisor) fn inherited(
        written: &WrittenContainers,
        kept: &[&str],
        runtime: &RuntimeDir,
    ) -> Option<Self> {
        let plan = Plan {
            engine: engine(&written.engine)?,
            socket_dir: runtime.worker_dir(),
            system_calls: written.system_calls.clone(),
            user: written.user.clone(),
        };
        plan.remove_others(kept);
        Some(Self {
            plan,
            strangers: Vec::new(),
            departing: Vec::new(),
        })
    }
}

impl Plan {
    pub(in crate::supervisor) fn written(&self) -> WrittenContainers {
        WrittenContainers {
            engine: self.engine.to_owned(),
            system_calls: self.system_calls.clone(),
            user: self.user.clone(),
        }
    }

    /// Removes containers of this folder but those of these names.
    pub(super) fn remove_others(&self, kept: &[&str]) {
        if self.engine == JOIN {
            return;
        }
        let filter = format!("label={LABEL}={}", self.socket_dir.display());
        let list = ["ps", "--all", "--format", "{{.Names}}", "--filter", &filter];
        let left = ask(self.engine, &list).unwrap_or_default();
        for name in left.split_whitespace().filter(|name| !kept.contains(name)) {
            let _ = ask(self.engine, &["kill", name]);
            let _ = ask(self.engine, &["rm", "--force", name]);
        }
    }
}

impl Container {
    pub(in crate::supervisor) fn written(&self) -> WrittenContainer {
        WrittenContainer {
            name: self.name.clone(),
            has_come: self.worker.is_some(),
        }
    }

    /// The container `name`, whose worker has come and is `worker`; none of a worker that was to
    /// join and had not.
    pub(in crate::supervisor) fn inherited(
        containers: &WrittenContainers,
        name: &str,
        worker: Option<Process>,
    ) -> Option<Self> {
        Some(Self {
            engine: engine(&containers.engine)?,
            name: name.to_owned(),
            client: None,
            worker,
            killers: Vec::new(),
            is_inherited: true,
        })
    }
}

/// An engine by its name.
fn engine(name: &str) -> Option<&'static str> {
    let mut known = ENGINES.into_iter().chain([JOIN]);
    known.find(|engine| *engine == name)
}
