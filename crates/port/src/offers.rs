//! What this machine offers to ports: interfaces, and whether each kind of port can use them.
//!
//! Control path: for `catena port list`. What is found is one thing ([`Interface`], [`Rights`],
//! [`cards`]), what follows from it another, and pure ([`judge`]): whether a port can be used, and
//! if not, why and what would change that.

pub mod cards;

use std::fs;
use std::os::fd::AsFd;

use rustix::net::netdevice::name_to_index;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::xdp::{self, Features, Hung};

/// An interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver, if it says so.
    pub driver: Option<String>,
    /// Whether it is up.
    pub is_up: bool,
    /// Longest packet without Ethernet header.
    pub mtu: u32,
    /// Queues that it has, and can have.
    pub queues: (u32, u32),
    /// What its driver can do with XDP; none if the kernel does not say (before Linux 6.3).
    pub xdp: Option<Features>,
    /// The XDP program that hangs there.
    pub program: Option<Hung>,
}

/// What this process may do, and what the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// CAP_NET_RAW.
    pub net_raw: bool,
    /// CAP_NET_ADMIN.
    pub net_admin: bool,
    /// CAP_BPF, or CAP_SYS_ADMIN.
    pub bpf: bool,
    /// AF_XDP sockets.
    pub has_xdp: bool,
    /// `/dev/net/tun`.
    pub has_tun: bool,
    /// Huge pages of 2 MiB: in all, and free.
    pub huge_pages: (u64, u64),
    /// CAP_IPC_LOCK.
    pub ipc_lock: bool,
    /// Bytes that may be pinned without it (`RLIMIT_MEMLOCK`); none without a limit.
    pub pinned_max: Option<u64>,
}

/// Bytes of a pool of buffers of the usual size and number, which AF_XDP pins.
const POOL_BYTES: u64 = 4096 * 2048;

/// Whether a kind of port can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The kind.
    pub port: &'static str,
    /// Whether it can be used as things are.
    pub is_usable: bool,
    /// How, or why not.
    pub what: String,
    /// The command, or the setting, that would change that; none if nothing would or need.
    pub repair: Option<String>,
}

impl Offer {
    fn usable(port: &'static str, what: impl Into<String>, repair: Option<String>) -> Self {
        Self {
            port,
            is_usable: true,
            what: what.into(),
            repair,
        }
    }

    fn refused(port: &'static str, what: impl Into<String>, repair: Option<String>) -> Self {
        Self {
            is_usable: false,
            ..Self::usable(port, what, repair)
        }
    }
}

/// Ports that use an interface which is there already, and whether they can use this one.
pub fn judge(interface: &Interface, rights: &Rights) -> [Offer; 2] {
    [
        judge_xdp(interface, rights),
        judge_packet_socket(interface, rights),
    ]
}

fn judge_xdp(interface: &Interface, rights: &Rights) -> Offer {
    let refused = |what: &str, repair: Option<String>| Offer::refused("xdp", what, repair);
    let name = &interface.name;
    if !rights.has_xdp {
        let repair = Some("a kernel with CONFIG_XDP_SOCKETS".to_owned());
        return refused("the kernel has no AF_XDP", repair);
    }
    if !(rights.net_admin && rights.net_raw && rights.bpf) {
        let what = "needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK";
        return refused(what, Some("run as root (sudo)".to_owned()));
    }
    if let Some(limit) = rights
        .pinned_max
        .filter(|limit| !rights.ipc_lock && *limit <= POOL_BYTES)
    {
        let what = format!(
            "a pool may not be pinned: the limit is {} KiB, without CAP_IPC_LOCK",
            limit / 1024
        );
        return refused(&what, Some("ulimit -l unlimited".to_owned()));
    }
    if name == "lo" {
        return refused("the loopback interface has no other end", None);
    }
    if interface.mtu > xdp::MTU_MAX {
        let repair = format!("ip link set dev {name} mtu {}", xdp::MTU_MAX);
        let what = format!(
            "its MTU is {}, AF_XDP takes {}",
            interface.mtu,
            xdp::MTU_MAX
        );
        return refused(&what, Some(repair));
    }
    if !interface.is_up {
        return refused("it is down", Some(format!("ip link set dev {name} up")));
    }
    if let Some(hung) = interface
        .program
        .as_ref()
        .filter(|hung| !hung.is_of_a_port())
    {
        let id = hung.id;
        let Some(called) = &hung.name else {
            let what = format!(
                "an XDP program is there (number {id}); whose it is takes CAP_SYS_ADMIN to see"
            );
            return refused(&what, Some("run as root (sudo)".to_owned()));
        };
        let what = format!("another XDP program is there ('{called}', number {id})");
        let mode = if hung.is_generic { "xdpgeneric" } else { "xdp" };
        let repair = format!("ip link set dev {name} {mode} off, or end who attached it");
        return refused(&what, Some(repair));
    }
    let what = match interface.xdp {
        Some(Features {
            zero_copy: true, ..
        }) => "native, zero-copy",
        Some(Features { native: true, .. }) => "native, the kernel copies",
        Some(_) => "generic: its driver runs no XDP programs",
        None => "native or generic: this kernel does not say what drivers can",
    };
    let what = match interface.program {
        Some(_) => format!("{what}; a port has it: others of the same `steer` take further queues"),
        None => what.to_owned(),
    };
    let repair = (interface.mtu > xdp::MTU_MAX_USUAL)
        .then(|| "in the chain file: run: { buffers: { 4KiB: 4096 } }".to_owned());
    Offer::usable("xdp", what, repair)
}

fn judge_packet_socket(interface: &Interface, rights: &Rights) -> Offer {
    const PORT: &str = "packet_socket";
    if !rights.net_raw {
        let repair = Some("run as root (sudo)".to_owned());
        return Offer::refused(PORT, "needs CAP_NET_RAW", repair);
    }
    if !interface.is_up {
        let repair = format!("ip link set dev {} up", interface.name);
        return Offer::usable(PORT, "it is down: nothing passes yet", Some(repair));
    }
    Offer::usable(PORT, "every packet is copied once", None)
}

/// Whether interfaces can be made by a TAP.
pub fn judge_tap(rights: &Rights) -> Offer {
    if !rights.has_tun {
        let repair = Some("modprobe tun".to_owned());
        return Offer::refused("tap", "there is no /dev/net/tun", repair);
    }
    if !rights.net_admin {
        let what = "needs CAP_NET_ADMIN, or an interface that belongs to you";
        let repair = "sudo ip tuntap add dev NAME mode tap user $USER";
        return Offer::refused("tap", what, Some(repair.to_owned()));
    }
    Offer::usable("tap", "makes interfaces of its own", None)
}

/// Interfaces of the calling thread's network namespace, by name.
pub fn interfaces() -> Vec<Interface> {
    let Ok(asking) = xdp::asking() else {
        return Vec::new();
    };
    let socket = asking.as_fd();
    let mut found: Vec<_> = names()
        .into_iter()
        .filter_map(|name| {
            let index = name_to_index(socket, &name).ok()?;
            Some(Interface {
                driver: xdp::driver(socket, &name)
                    .ok()
                    .filter(|driver| !driver.is_empty()),
                is_up: xdp::is_up(socket, &name).ok()?,
                mtu: xdp::mtu(socket, &name).ok()?,
                // A driver that does not say has one.
                queues: xdp::queues(socket, &name).map_or((1, 1), |(has, most)| (has.max(1), most)),
                xdp: Features::ask(index),
                program: Hung::on(index),
                name,
            })
        })
        .collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Names in `/proc/net/dev`, which is the calling process's, unlike `/sys`.
fn names() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = text.lines().skip(2);
    lines
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect()
}

impl Rights {
    /// Of the calling thread.
    pub fn of_this_thread() -> Self {
        let held = capabilities(None).map_or(CapabilitySet::empty(), |held| held.effective);
        let pages = |file: &str| {
            let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}");
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        Self {
            net_raw: held.contains(CapabilitySet::NET_RAW),
            net_admin: held.contains(CapabilitySet::NET_ADMIN),
            bpf: held.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN),
            has_xdp: xdp::is_known(),
            has_tun: fs::exists("/dev/net/tun").unwrap_or(false),
            huge_pages: (pages("nr_hugepages"), pages("free_hugepages")),
            ipc_lock: held.contains(CapabilitySet::IPC_LOCK),
            pinned_max: getrlimit(Resource::Memlock).current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth0".to_owned(),
            driver: Some("ice".to_owned()),
            is_up: true,
            mtu: 1500,
            queues: (4, 8),
            xdp: Some(Features {
                native: true,
                zero_copy: true,
            }),
            program: None,
        }
    }

    const ALL: Rights = Rights {
        net_raw: true,
        net_admin: true,
        bpf: true,
        has_xdp: true,
        has_tun: true,
        huge_pages: (0, 0),
        ipc_lock: true,
        pinned_max: Some(POOL_BYTES),
    };

    #[test]
    fn what_is_in_the_way_is_named_with_what_removes_it() {
        let mtu = |mtu| Interface { mtu, ..interface() };
        let down = Interface {
            is_up: false,
            ..interface()
        };
        let generic = Interface {
            xdp: Some(Features {
                native: false,
                zero_copy: false,
            }),
            ..interface()
        };
        let user = Rights {
            bpf: false,
            net_raw: false,
            ..ALL
        };
        let hung = |name: Option<&str>| Interface {
            program: Some(Hung {
                id: 7,
                name: name.map(str::to_owned),
                is_generic: false,
            }),
            ..interface()
        };
        let unlocked = Rights {
            ipc_lock: false,
            ..ALL
        };
        let off = Some("ip link set dev eth0 xdp off");
        let cases = [
            (hung(Some("other")), ALL, false, "'other', number 7", off),
            (hung(None), ALL, false, "CAP_SYS_ADMIN", Some("root")),
            (hung(Some("catena_1")), ALL, true, "a port has it", None),
            (interface(), unlocked, false, "8192 KiB", Some("ulimit -l")),
            (
                interface(),
                Rights {
                    pinned_max: None,
                    ..unlocked
                },
                true,
                "zero-copy",
                None,
            ),
            (interface(), ALL, true, "zero-copy", None),
            (mtu(3000), ALL, true, "zero-copy", Some("4KiB")),
            (
                mtu(9000),
                ALL,
                false,
                "9000",
                Some("ip link set dev eth0 mtu 3822"),
            ),
            (
                down.clone(),
                ALL,
                false,
                "down",
                Some("ip link set dev eth0 up"),
            ),
            (generic, ALL, true, "generic", None),
            (interface(), user, false, "CAP_BPF", Some("root")),
            (
                interface(),
                Rights {
                    has_xdp: false,
                    ..ALL
                },
                false,
                "no AF_XDP",
                Some("CONFIG"),
            ),
            (
                Interface {
                    xdp: None,
                    ..interface()
                },
                ALL,
                true,
                "does not say",
                None,
            ),
            (
                Interface {
                    name: "lo".to_owned(),
                    ..interface()
                },
                ALL,
                false,
                "loopback",
                None,
            ),
        ];
        for (interface, rights, is_usable, what, repair) in cases {
            let [offer, _] = judge(&interface, &rights);
            assert_eq!(offer.is_usable, is_usable, "{offer:?}");
            assert!(offer.what.contains(what), "{offer:?}");
            let told = offer.repair.as_deref();
            assert_eq!(told.is_some(), repair.is_some(), "{offer:?}");
            assert!(
                told.unwrap_or_default()
                    .contains(repair.unwrap_or_default()),
                "{offer:?}"
            );
        }
        let [_, socket] = judge(&interface(), &user);
        assert!(!socket.is_usable && socket.repair.is_some());
        let [_, socket] = judge(&down, &ALL);
        assert!(socket.is_usable && socket.repair.is_some());
        assert!(judge_tap(&ALL).is_usable);
        assert!(
            !judge_tap(&Rights {
                has_tun: false,
                ..ALL
            })
            .is_usable
        );
        assert!(
            !judge_tap(&Rights {
                net_admin: false,
                ..ALL
            })
            .is_usable
        );
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let found = interfaces();
        let lo = found
            .iter()
            .find(|interface| interface.name == "lo")
            .unwrap();
        assert!(lo.mtu >= 1500);
    }
}
