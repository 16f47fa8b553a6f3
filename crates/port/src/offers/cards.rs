//! Network cards on the PCI bus, with whoever drives them: for ports that take a card from the
//! kernel.
//!
//! Control path, for `catena port list`. `/sys` shows the cards of the whole machine, and of their
//! interfaces those of the network namespace that it was mounted in. References: sysfs-bus-pci
//! (Linux), "Linux Drivers" of DPDK's Getting Started Guide.

use std::fs;
use std::path::Path;

use super::Offer;

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its address on the bus, as DPDK's devargs name it: `0000:03:00.0`.
    pub address: String,
    /// Numbers of vendor and device, in hexadecimal: `8086:1593`.
    pub id: String,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Interfaces that this driver has made of it.
    pub interfaces: Vec<String>,
    /// Whether an IOMMU keeps it to the memory that it is given.
    pub has_iommu: bool,
}

/// Drivers that hand a card to a process.
const HANDING: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Drivers of the kernel beside which DPDK uses the card.
const SHARING: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];
/// Class of network controllers on the bus, its first two digits.
const NETWORK: &str = "0x02";

/// The cards of this machine, by address.
pub fn cards() -> Vec<Card> {
    cards_in(Path::new("/sys/bus/pci/devices"))
}

fn cards_in(devices: &Path) -> Vec<Card> {
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let mut cards: Vec<_> = entries.filter_map(|entry| card(&entry.path())).collect();
    cards.sort_by(|one, other| one.address.cmp(&other.address));
    cards
}

/// The card in a folder of `/sys`; none if it is no network card.
fn card(folder: &Path) -> Option<Card> {
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    if !text("class").starts_with(NETWORK) {
        return None;
    }
    let number = |file: &str| text(file).trim().trim_start_matches("0x").to_owned();
    let driver = fs::read_link(folder.join("driver")).ok();
    let mut interfaces = names(&folder.join("net"));
    // Those of a virtual card lie below the device that it is on its own bus.
    for below in names(folder)
        .iter()
        .filter(|name| name.starts_with("virtio"))
    {
        interfaces.extend(names(&folder.join(below).join("net")));
    }
    Some(Card {
        address: folder.file_name()?.to_string_lossy().into_owned(),
        id: format!("{}:{}", number("vendor"), number("device")),
        driver: driver.and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned())),
        interfaces,
        has_iommu: folder.join("iommu_group").exists(),
    })
}

/// Names in a folder, sorted; none if there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether the port `dpdk` can use a card as it is bound now.
pub fn judge_card(card: &Card) -> Offer {
    const PORT: &str = "dpdk";
    let address = &card.address;
    let bind = format!("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}");
    let Some(driver) = card.driver.as_deref() else {
        return Offer::refused(PORT, "no driver has it", Some(bind));
    };
    if HANDING.contains(&driver) {
        let what = format!("device: \"{address}\"");
        if driver == "vfio-pci" && !card.has_iommu {
            let repair = "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
            let what = format!("{what}, if vfio may do without an IOMMU");
            return Offer::usable(PORT, what, Some(repair.to_owned()));
        }
        return Offer::usable(PORT, what, None);
    }
    if SHARING.contains(&driver) {
        return Offer::usable(
            PORT,
            format!("device: \"{address}\", beside the kernel"),
            None,
        );
    }
    let what = match card.interfaces.as_slice() {
        [] => format!("the kernel's {driver} has it"),
        names => format!(
            "the kernel's {driver} has it, as {}: gone then",
            names.join(", ")
        ),
    };
    Offer::refused(PORT, what, Some(bind))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A bus with a card of the kernel's, a virtual one, one that is handed out, one that nobody
    /// has, and a disk.
    #[test]
    fn cards_are_told_with_their_drivers_and_what_frees_them() {
        let bus = tempfile::tempdir().unwrap();
        let device = |address: &str, class: &str, driver: Option<&str>, below: &[&str]| {
            let folder = bus.path().join(address);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [
                ("class", class),
                ("vendor", "0x8086\n"),
                ("device", "0x1593\n"),
            ] {
                fs::write(folder.join(file), text).unwrap();
            }
            for path in below {
                fs::create_dir_all(folder.join(path)).unwrap();
            }
            if let Some(driver) = driver {
                symlink(
                    Path::new("../../drivers").join(driver),
                    folder.join("driver"),
                )
                .unwrap();
            }
        };
        device("0000:05:00.0", "0x020000\n", Some("mlx5_core"), &["net/p0"]);
        device("0000:04:00.0", "0x020000\n", None, &[]);
        device(
            "0000:03:00.1",
            "0x020000\n",
            Some("vfio-pci"),
            &["iommu_group"],
        );
        device(
            "0000:03:00.0",
            "0x020000\n",
            Some("ice"),
            &["net/eth1", "net/eth0"],
        );
        device(
            "0000:00:03.0",
            "0x020000\n",
            Some("virtio-pci"),
            &["virtio2/net/ens3"],
        );
        device(
            "0000:00:04.0",
            "0x010000\n",
            Some("virtio-pci"),
            &["virtio3"],
        );
        device("0000:06:00.0", "0x028000\n", Some("vfio-pci"), &[]);
        let found = cards_in(bus.path());
        let wanted = [
            (
                "0000:00:03.0",
                false,
                "virtio-pci has it, as ens3",
                "--bind=vfio-pci 0000:00:03.0",
            ),
            (
                "0000:03:00.0",
                false,
                "ice has it, as eth0, eth1",
                "--bind=vfio-pci 0000:03:00.0",
            ),
            ("0000:03:00.1", true, "device: \"0000:03:00.1\"", ""),
            (
                "0000:04:00.0",
                false,
                "no driver has it",
                "--bind=vfio-pci 0000:04:00.0",
            ),
            ("0000:05:00.0", true, "beside the kernel", ""),
            (
                "0000:06:00.0",
                true,
                "without an IOMMU",
                "enable_unsafe_noiommu_mode",
            ),
        ];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (card, (address, is_usable, what, repair)) in found.iter().zip(wanted) {
            let offer = judge_card(card);
            assert_eq!((&*card.address, &*card.id), (address, "8086:1593"));
            assert_eq!(
                (offer.port, offer.is_usable),
                ("dpdk", is_usable),
                "{offer:?}"
            );
            assert!(offer.what.contains(what), "{offer:?}");
            assert_eq!(offer.repair.is_some(), !repair.is_empty(), "{offer:?}");
            assert!(offer.repair.unwrap_or_default().contains(repair));
        }
        assert!(cards_in(&bus.path().join("none")).is_empty());
    }
}
