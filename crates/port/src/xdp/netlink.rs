//! What the kernel says of XDP on an interface, asked by netlink: what its driver can do, and which
//! program hangs there.
//!
//! Control path. Messages are built and read as bytes; an answer that is not understood is none.
//! Sources: `linux/netdev.h` and `Documentation/netlink/specs/netdev.yaml` (Linux 6.3),
//! rtnetlink(7), `linux/if_link.h`.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
    socket_with,
};

const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;
const REQUEST: u16 = 1;
/// `nlmsghdr`.
const HEADER_LEN: usize = 16;
/// `genlmsghdr`.
const COMMAND_LEN: usize = 4;
const GET_LINK: u16 = 18;
/// `ifinfomsg`.
const LINK_LEN: usize = 16;
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
/// `XDP_ATTACHED_SKB`.
const XDP_ATTACHED_SKB: u8 = 2;
const XDP_PROGRAM_ID: u16 = 4;

/// What a driver can do with XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Runs programs and sends packets on to sockets.
    pub native: bool,
    /// Has the card read and write packets in a socket's memory.
    pub zero_copy: bool,
}

impl Features {
    /// From `enum netdev_xdp_act`.
    fn of(bits: u64) -> Self {
        const REDIRECT: u64 = 1 << 1;
        const ZERO_COPY: u64 = 1 << 3;
        Self {
            native: bits & REDIRECT != 0,
            zero_copy: bits & ZERO_COPY != 0,
        }
    }

    /// Of interface `index`; none if this kernel does not say.
    pub(crate) fn ask(index: u32) -> Option<Self> {
        let named = attribute(FAMILY_NAME, b"netdev\0");
        let family = ask_generic(CONTROL, GET_FAMILY, &named)?;
        let family = u16::from_ne_bytes(find(&family, FAMILY_ID)?.try_into().ok()?);
        let named = attribute(DEVICE_INDEX, &index.to_ne_bytes());
        let device = ask_generic(family, GET_DEVICE, &named)?;
        let bits = find(&device, DEVICE_FEATURES)?.try_into().ok()?;
        Some(Self::of(u64::from_ne_bytes(bits)))
    }
}

/// Number of the program that hangs on interface `index` of this network namespace (unlike the
/// index, a program's number is the same in all of them), and whether it hangs in the kernel's
/// stack.
pub(super) fn program_on(index: u32) -> Option<(u32, bool)> {
    let mut link = [0; LINK_LEN];
    link[4..8].copy_from_slice(&index.to_ne_bytes());
    // rtnetlink is protocol 0.
    let answer = call(None, GET_LINK, &link).ok()?;
    let link = after_header(&answer, LINK_LEN)?;
    let xdp = find(link, LINK_XDP)?;
    let program = find(xdp, XDP_PROGRAM_ID)?.try_into().ok()?;
    let is_generic = find(xdp, XDP_ATTACHED)? == [XDP_ATTACHED_SKB];
    Some((u32::from_ne_bytes(program), is_generic))
}

/// The attributes of a generic family's answer.
fn ask_generic(family: u16, command: u8, attribute: &[u8]) -> Option<Vec<u8>> {
    let mut body = vec![command, 1, 0, 0];
    body.extend(attribute);
    let answer = call(Some(netlink::GENERIC), family, &body).ok()?;
    Some(after_header(&answer, COMMAND_LEN)?.to_vec())
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = 4 + value.len();
    let mut bytes = Vec::with_capacity(len + 3);
    bytes.extend((len as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(len.next_multiple_of(4), 0);
    bytes
}

/// Sends a request and gives the answer to it.
fn call(protocol: Option<Protocol>, kind: u16, body: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut request = Vec::with_capacity(HEADER_LEN + body.len());
    request.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence number and port are of no use on a socket with one question.
    request.extend([0; 8]);
    request.extend(body);
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; 16_384];
    // The kernel has answered before `send` returns.
    let (len, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(len);
    Ok(answer)
}

/// What follows the headers of an answer that is no error.
fn after_header(answer: &[u8], len: usize) -> Option<&[u8]> {
    const ERROR: [u8; 2] = 2_u16.to_ne_bytes();
    if answer.get(4..6)? == ERROR {
        return None;
    }
    answer.get(HEADER_LEN + len..)
}

/// The value of an attribute.
fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let two = |bytes: &[u8], at: usize| {
        let field = bytes.get(at..at + 2)?;
        Some(u16::from_ne_bytes(field.try_into().ok()?))
    };
    let mut rest = attributes;
    while rest.len() >= 4 {
        let len = usize::from(two(rest, 0)?);
        if two(rest, 2)? & 0x3fff == wanted {
            return rest.get(4..len);
        }
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_read_and_an_error_is_none() {
        let mut answer = vec![0; HEADER_LEN + COMMAND_LEN];
        answer.extend(attribute(9, &[1, 2]));
        answer.extend(attribute(3, &11_u64.to_ne_bytes()));
        let attributes = after_header(&answer, COMMAND_LEN).unwrap();
        assert_eq!(find(attributes, 9), Some(&[1, 2][..]));
        assert_eq!(find(attributes, 3), Some(&11_u64.to_ne_bytes()[..]));
        assert_eq!(find(attributes, 4), None);
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(after_header(&answer, COMMAND_LEN), None);
        let both = Features {
            native: true,
            zero_copy: true,
        };
        assert_eq!(Features::of(11), both);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for wanted in 0..4 {
                let _ = after_header(&bytes, LINK_LEN).map(|rest| find(rest, wanted));
            }
        }
    }
}
