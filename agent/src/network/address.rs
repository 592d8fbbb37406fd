//! The address of this host, which a lease may change. The kernel reports each changed address or route, so the agent
//! does not poll.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::host::machine;

/// The kernel's groups of news about addresses and routes of IPv4.
const GROUPS: u32 = 0x10 | 0x40;
/// A lease that is renewed takes an address away and gives another.
const SETTLE: Duration = Duration::from_secs(1);

/// Never ends, unless the kernel cannot be heard. A host that is on no network for now keeps the address that it had.
pub async fn follow(address: watch::Sender<String>) {
    let Err(error) = listen(&address).await;
    log::warn!(
        "news of this host's addresses cannot be heard ({error}): restart the agent when {} changes",
        *address.borrow()
    );
}

async fn listen(address: &watch::Sender<String>) -> io::Result<std::convert::Infallible> {
    let news = open()?;
    loop {
        // Also finds changes from before the socket was open.
        if let Some(now) = machine::outward().map(|address| address.to_string()) {
            address.send_if_modified(|was| {
                let differs = *was != now;
                if differs {
                    log::info!("this host is known by {now} now, no longer by {was}");
                    *was = now;
                }
                differs
            });
        }
        heard(&news).await?;
        sleep(SETTLE).await;
        drain(&news)?;
    }
}

fn open() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let news = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(news.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
    #[expect(deprecated, reason = "its replacement is unsafe; what is wrong with it cannot happen with an OwnedFd")]
    AsyncFd::new(news)
}

async fn heard(news: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = news.readable().await?;
        if drain(news)? {
            return Ok(());
        }
        ready.clear_ready();
    }
}

/// Whether the kernel sent any news. The content is not read: the caller looks the addresses up.
fn drain(news: &AsyncFd<OwnedFd>) -> io::Result<bool> {
    let mut any = false;
    loop {
        match recv(news.get_ref().as_raw_fd(), &mut [0; 4096], MsgFlags::empty()) {
            Ok(_) | Err(Errno::EINTR) => any = true,
            // The socket's buffer overflowed: something has changed.
            Err(Errno::ENOBUFS) => any = true,
            Err(Errno::EAGAIN) => return Ok(any),
            Err(error) => return Err(error.into()),
        }
    }
}
