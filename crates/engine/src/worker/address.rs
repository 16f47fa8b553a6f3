//! Addresses of this thread's network namespace: where to listen, and where the host is.
//!
//! Control path, once per TCP link. Read from what the kernel shows of the namespace, which takes
//! no privilege, in a container as outside.

use std::net::Ipv4Addr;

use crate::protocol::Bind;

/// The address to listen on; what to do about it if there is none.
pub(super) fn listening_address(bind: Bind) -> Result<Ipv4Addr, String> {
    match bind {
        Bind::Loopback => Ok(Ipv4Addr::LOCALHOST),
        Bind::Any => Ok(Ipv4Addr::UNSPECIFIED),
        Bind::Own => own_address(&read("/proc/thread-self/net/fib_trie")).ok_or_else(|| {
            "this network namespace has no IPv4 address but the loopback's; give it one, or give \
             its container a network"
                .to_owned()
        }),
    }
}

/// The address of the host, where it is the gateway of this namespace.
pub(super) fn gateway_address() -> Result<Ipv4Addr, String> {
    gateway(&read("/proc/thread-self/net/route")).ok_or_else(|| {
        "this network namespace has no default route, so the host, where the receiver runs, cannot \
         be found; add one by way of the bridge"
            .to_owned()
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The first local address of a table of routes that is not of the loopback network.
fn own_address(fib_trie: &str) -> Option<Ipv4Addr> {
    let mut leaf = None;
    for line in fib_trie.lines() {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(address) = leaf.filter(|address| !address.is_loopback())
        {
            return Some(address);
        }
    }
    None
}

/// The gateway of the default route.
fn gateway(route: &str) -> Option<Ipv4Addr> {
    route.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let word = u32::from_str_radix(gateway, 16).ok()?;
        // The kernel prints the word as it lies in memory.
        (destination == "00000000" && word != 0).then(|| Ipv4Addr::from(word.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.88.0.0/16 2 0 2
        |-- 10.88.0.0
           /16 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.88.0.0/16 2 0 2
        +-- 10.88.0.0/29 2 0 2
           |-- 10.88.0.0
              /16 link UNICAST
           |-- 10.88.0.5
              /32 host LOCAL
        |-- 10.88.255.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
";

    #[test]
    fn own_address_is_not_the_loopbacks() {
        assert_eq!(own_address(FIB_TRIE), Some(Ipv4Addr::new(10, 88, 0, 5)));
        let (_, loopback) = FIB_TRIE.split_once("127.0.0.0/8").unwrap();
        assert_eq!(own_address(loopback), None);
        assert_eq!(own_address("no such file"), None);
    }

    #[test]
    fn the_gateway_is_the_default_routes() {
        let table = "Iface\tDestination\tGateway \tFlags\n\
                     eth0\t0000580A\t00000000\t0001\n\
                     eth0\t00000000\t0100580A\t0003\n";
        assert_eq!(gateway(table), Some(Ipv4Addr::new(10, 88, 0, 1)));
        assert_eq!(gateway("Iface\nlo\t00000000\t00000000\n"), None);
    }
}
