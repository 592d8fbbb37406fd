//! The kernel's netfilter, asked over netlink.
//!
//!     flows over UDP            ended one by one where they lead to somebody who serves a port no more
//!     the rules' generation     a number that is another after every change of rules, whoever made it
//!
//! Flows are looked at only after a change of who serves something over UDP; the table of a busy host is read in some
//! milliseconds, on a thread of its own.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::network::services::flows::{self, Flow, FlowBatch, Moved};
use crate::network::services::netlink;

/// The receive buffer. The kernel's messages have at most 32 KiB.
const PIECE_BYTES: usize = 64 * 1024;
/// The kernel answers at once; a silence is a mistake of ours.
const SILENCE_S: i64 = 5;
/// Flows that are deleted in a single pass. Any further flows end by their own timeout.
const ENDED_MAX: usize = 100_000;
const NO_SUCH: i32 = nix::errno::Errno::ENOENT as i32;

/// How many were ended.
pub async fn end_stale(moved: Moved) -> Result<usize, String> {
    let ended = tokio::task::spawn_blocking(move || end_them(&moved)).await;
    ended.map_err(|error| error.to_string())?.map_err(|error| format!("end old flows over UDP: {error}"))
}

fn end_them(moved: &Moved) -> io::Result<usize> {
    let kernel = open()?;
    let mut over: Vec<Flow> = Vec::new();
    exchange(&kernel, &flows::list(), |heard| {
        let room = ENDED_MAX.saturating_sub(over.len());
        over.extend(heard.flows.into_iter().filter(|flow| moved.is_over(flow)).take(room));
    })?;
    for flow in &over {
        match exchange(&kernel, &flows::end(flow), |_| ()) {
            // It was quicker.
            Err(error) if error.raw_os_error() == Some(NO_SUCH) => {}
            other => other?,
        }
    }
    Ok(over.len())
}

fn open() -> io::Result<OwnedFd> {
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)?;
    setsockopt(&kernel, ReceiveTimeout, &TimeVal::seconds(SILENCE_S))?;
    Ok(kernel)
}

/// None: the kernel does not say.
pub fn generation() -> Option<u32> {
    let kernel = open().ok()?;
    send(kernel.as_raw_fd(), &netlink::generation(), MsgFlags::empty()).ok()?;
    let mut piece = [0; 1024];
    let length = recv(kernel.as_raw_fd(), &mut piece, MsgFlags::empty()).ok()?;
    netlink::read_generation(&piece[..length])?.ok()
}

fn exchange(kernel: &OwnedFd, question: &[u8], mut hear: impl FnMut(FlowBatch)) -> io::Result<()> {
    send(kernel.as_raw_fd(), question, MsgFlags::empty())?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = recv(kernel.as_raw_fd(), &mut piece, MsgFlags::empty())?;
        let heard = flows::read(&piece[..length]);
        let over = heard.over;
        hear(heard);
        match over {
            None => {}
            Some(0) => return Ok(()),
            Some(code) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}
