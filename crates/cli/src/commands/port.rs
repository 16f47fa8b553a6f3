//! `catena port`: what ports and wrappers there are, what each takes, and what this machine has for
//! them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use catena_engine::port::{PortKind, WrapKind};
use catena_port::dpdk;
use catena_port::offers::cards::{Card, cards, judge_card};
use catena_port::offers::{Interface, Offer, Rights, interfaces, judge, judge_tap};
use serde_json::{Value, json};

use super::{Failure, Outcome, kinds};
use crate::document;
use crate::registry::registry;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List ports, wrappers to put around them, and what this machine offers to ports
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe one port or wrapper and its settings
    Describe {
        /// Its type
        #[arg(add = crate::completion::port_types())]
        name: String,
        /// As JSON, with the schema of its settings
        #[arg(long)]
        json: bool,
    },
    /// What the port `dpdk` needs
    #[command(subcommand)]
    Dpdk(Dpdk),
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Dpdk {
    /// Build the plug-in of the port `dpdk` against the DPDK of this machine
    Build {
        /// Where to put it, if not where workers look for it
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Builds the plug-in, and says where it lies.
fn build_plugin(output: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let usual = dpdk::usual_place();
    let file = output.unwrap_or(&usual);
    let version = dpdk::build(file).map_err(Failure::input)?;
    if as_json {
        // What workers have to be told, where they do not look there by themselves.
        let variable = (file != usual).then_some(dpdk::VARIABLE);
        let built = json!({ "plugin": file, "version": version, "variable": variable });
        return document::print("catena.port.dpdk.build/1", &built);
    }
    outln!("built {} against DPDK {version}", file.display());
    if file != usual {
        outln!("workers find it by {}={}", dpdk::VARIABLE, file.display());
    }
    Ok(())
}

pub(crate) fn run(command: &Command) -> Outcome {
    let registry = registry();
    let ports = registry.ports.iter().map(|kind| Kind::of_port(kind));
    let wraps = registry.wraps.iter().map(|kind| Kind::of_wrap(kind));
    let all: Vec<Kind> = ports.chain(wraps).collect();
    match command {
        Command::Dpdk(Dpdk::Build { output, json }) => build_plugin(output.as_deref(), *json)?,
        Command::List { json: true } => {
            let list: Vec<Value> = all.iter().map(Kind::as_json).collect();
            let list = json!({ "ports": list, "machine": machine_as_json() });
            document::print("catena.ports/1", &list)?;
        }
        Command::List { json: false } => {
            for kind in &all {
                let note = if kind.is_wrapper { " (wrapper)" } else { "" };
                outln!("{:<12} {}{note}", kind.name, kind.summary);
            }
            print_machine();
        }
        Command::Describe { name, json } => {
            let names = all.iter().map(|kind| kind.name);
            let kind = all.iter().find(|kind| kind.name == name);
            let kind = kind.ok_or_else(|| kinds::unknown("port or wrapper", name, names))?;
            if *json {
                document::print("catena.port/1", &kind.as_json())?;
            } else {
                kind.describe();
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What this machine offers to ports.
fn print_machine() {
    let rights = Rights::of_this_thread();
    outln!("\nThis machine, as this user, in this network namespace:");
    for interface in interfaces() {
        let Interface {
            name, mtu, queues, ..
        } = &interface;
        let driver = interface.driver.as_deref().unwrap_or("no driver name");
        let state = if interface.is_up { "up" } else { "down" };
        let (has, most) = queues;
        let more = if most > has {
            format!(" of {most}")
        } else {
            String::new()
        };
        let program = match &interface.program {
            Some(hung) => format!(
                ", XDP program {}",
                hung.name.as_deref().unwrap_or("unknown")
            ),
            None => String::new(),
        };
        outln!("{name}: {driver}, {state}, MTU {mtu}, queues: {has}{more}{program}");
        for offer in judge(&interface, &rights) {
            print_offer(&offer);
        }
    }
    for card in cards() {
        let Card { address, id, .. } = &card;
        outln!(
            "{address}: card {id}, {}",
            card.driver.as_deref().unwrap_or("no driver")
        );
        print_offer(&judge_card(&card));
    }
    outln!("new interfaces");
    print_offer(&judge_tap(&rights));
    let (all, free) = rights.huge_pages;
    outln!("huge pages of 2 MiB: {all}, {free} free");
    if free == 0 {
        outln!("  pools lie on 4 KiB pages; sysctl vm.nr_hugepages=64");
    }
    match rights.pinned_max.filter(|_| !rights.ipc_lock) {
        Some(limit) => outln!(
            "memory to be pinned: {} KiB; ulimit -l unlimited",
            limit / 1024
        ),
        None => outln!("memory to be pinned: no limit"),
    }
    match dpdk::installed() {
        Ok(found) => {
            outln!("DPDK: {}, plug-in {}", found.version, found.file.display());
            outln!("  drivers: {}", found.drivers.join(" "));
        }
        Err(why) => outln!("DPDK: no: {why}"),
    }
}

fn print_offer(offer: &Offer) {
    let word = if offer.is_usable { "yes" } else { "no" };
    outln!("  {:<13} {word:<3} {}", offer.port, offer.what);
    if let Some(repair) = &offer.repair {
        outln!("  {:<17} {repair}", "");
    }
}

fn machine_as_json() -> Value {
    let rights = Rights::of_this_thread();
    let offer = |offer: &Offer| {
        json!({
            "port": offer.port,
            "is_usable": offer.is_usable,
            "what": offer.what,
            "repair": offer.repair,
        })
    };
    let found = interfaces();
    let interfaces = found.iter().map(|interface| {
        json!({
            "name": interface.name,
            "driver": interface.driver,
            "is_up": interface.is_up,
            "mtu": interface.mtu,
            "queues": interface.queues.0,
            "queues_max": interface.queues.1,
            "xdp_native": interface.xdp.map(|xdp| xdp.native),
            "xdp_zero_copy": interface.xdp.map(|xdp| xdp.zero_copy),
            "xdp_program": interface.program.as_ref().map(|hung| {
                json!({ "id": hung.id, "name": hung.name, "is_of_a_port": hung.is_of_a_port() })
            }),
            "ports": judge(interface, &rights).iter().map(offer).collect::<Vec<_>>(),
        })
    });
    let all_cards = cards();
    let found_cards = all_cards.iter().map(|card| {
        json!({
            "address": card.address,
            "id": card.id,
            "driver": card.driver,
            "interfaces": card.interfaces,
            "has_iommu": card.has_iommu,
            "ports": [offer(&judge_card(card))],
        })
    });
    json!({
        "interfaces": interfaces.collect::<Vec<_>>(),
        "cards": found_cards.collect::<Vec<_>>(),
        "new_interfaces": offer(&judge_tap(&rights)),
        "huge_pages": { "total": rights.huge_pages.0, "free": rights.huge_pages.1 },
        // Null: no limit.
        "pinned_bytes_max": rights.pinned_max.filter(|_| !rights.ipc_lock),
        "dpdk": dpdk_as_json(),
    })
}

fn dpdk_as_json() -> Value {
    match dpdk::installed() {
        Ok(found) => json!({
            "is_usable": true,
            "version": found.version,
            "plugin": found.file,
            "drivers": found.drivers,
            "why": null,
        }),
        Err(why) => json!({ "is_usable": false, "why": why.to_string() }),
    }
}

/// A type of port, or of what is put around one.
struct Kind {
    name: &'static str,
    summary: &'static str,
    schema: fn() -> schemars::Schema,
    is_wrapper: bool,
}

impl Kind {
    fn of_port(kind: &PortKind) -> Self {
        Self {
            name: kind.name,
            summary: kind.summary,
            schema: kind.schema,
            is_wrapper: false,
        }
    }

    fn of_wrap(kind: &WrapKind) -> Self {
        Self {
            name: kind.name,
            summary: kind.summary,
            schema: kind.schema,
            is_wrapper: true,
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "name": self.name,
            "summary": self.summary,
            "is_wrapper": self.is_wrapper,
            "settings": (self.schema)(),
        })
    }

    fn describe(&self) {
        outln!("{}: {}", self.name, self.summary);
        if self.is_wrapper {
            outln!("a wrapper: written in the wrap list of a port");
        }
        kinds::print_settings(&(self.schema)());
        outln!("\n`--json` prints the schema.");
    }
}
