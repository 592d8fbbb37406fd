//! Resolves the host names in probes and hooks: by `/etc/hosts`, and by asking the resolvers of this host.
//!
//! No thread waits: a silent resolver delays only the probes and hooks that need its names. A name is asked once at a
//! time, however many tasks wait for the answer.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::question::{self, Said};
use super::upstream;

/// Names that are looked up at once: each has a task and a socket.
const NAMES_MAX: usize = 64;
/// The time limit for a name, with all its search domains.
const PATIENCE: Duration = Duration::from_secs(10);
const HOSTS: &str = "/etc/hosts";
/// What is read of it: some thousand names.
const HOSTS_BYTES_MAX: u64 = 256 * 1024;

type Found = Result<Vec<IpAddr>, String>;
type Asked = HashMap<String, watch::Receiver<Option<Found>>>;

/// The names that are looked up now.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<Asked>>);

impl Names {
    /// The error is in the words of programs in Go.
    pub async fn addresses(&self, name: &str) -> Found {
        self.addresses_by(name, find).await
    }

    async fn addresses_by<F>(&self, name: &str, find: impl FnOnce(String) -> F) -> Found
    where
        F: Future<Output = Found> + Send + 'static,
    {
        let mut answer = self.ask(name, find)?;
        let lost = |_| format!("lookup {name}: the lookup was given up");
        let found = answer.wait_for(Option::is_some).await.map_err(lost)?;
        found.clone().unwrap_or_else(|| Ok(Vec::new()))
    }

    fn ask<F>(&self, name: &str, find: impl FnOnce(String) -> F) -> Result<watch::Receiver<Option<Found>>, String>
    where
        F: Future<Output = Found> + Send + 'static,
    {
        let mut asked = self.lock();
        if let Some(answer) = asked.get(name) {
            return Ok(answer.clone());
        }
        if asked.len() >= NAMES_MAX {
            return Err(format!("lookup {name}: lookup is busy: {NAMES_MAX} other names are looked up"));
        }
        let (sender, answer) = watch::channel(None);
        asked.insert(name.to_owned(), answer.clone());
        let (all, own, found) = (self.clone(), name.to_owned(), find(name.to_owned()));
        tokio::spawn(async move {
            let late = |_| Err(format!("lookup {own}: i/o timeout"));
            let found = timeout(PATIENCE, found).await.unwrap_or_else(late);
            all.lock().remove(&own);
            sender.send_replace(Some(found));
        });
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn find(name: String) -> Found {
    let hosts = question::of_hosts(&read(HOSTS, HOSTS_BYTES_MAX), &name);
    if !hosts.is_empty() {
        return Ok(hosts);
    }
    let resolver = upstream::of_host();
    let servers = upstream::servers(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut why = "no such host";
    for candidate in question::candidates(&name, &resolver) {
        match ask(&candidate, &servers).await {
            Said::Addresses(addresses) => return Ok(addresses),
            Said::Nothing => {}
            Said::Trouble(trouble) => why = trouble,
        }
    }
    Err(format!("lookup {name}: {why}"))
}

/// Returns the IPv4 addresses of a name, or its IPv6 addresses if there is no IPv4 address.
async fn ask(name: &str, servers: &[std::net::SocketAddr]) -> Said {
    let mut said = Said::Nothing;
    for kind in [question::A, question::AAAA] {
        let Some(query) = question::query(name, kind) else { return Said::Nothing };
        let mut number = [0; 2];
        if File::open("/dev/urandom").and_then(|mut chance| chance.read_exact(&mut number)).is_err() {
            return Said::Trouble("the kernel gives no chance");
        }
        let number = u16::from_be_bytes(number);
        let mut reply = upstream::ask(&query, servers, 0, false, number).await;
        if reply.as_ref().is_some_and(|(reply, _)| super::answer::is_cut(reply)) {
            reply = upstream::ask(&query, servers, 0, true, number).await.or(reply);
        }
        said = match reply {
            Some((reply, _)) => question::said(&reply, kind),
            None => Said::Trouble("i/o timeout"),
        };
        if said != Said::Nothing {
            break;
        }
    }
    said
}

fn read(path: &str, bytes_max: u64) -> String {
    let mut bytes = Vec::new();
    // A missing file counts as empty.
    let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_name_is_looked_up_once_at_a_time() {
        let (names, goes_on, asked) = (Names::default(), Arc::new(Notify::new()), Rc::new(Cell::new(0)));
        let find = |last: u8| {
            let (goes_on, asked) = (goes_on.clone(), asked.clone());
            move |_: String| {
                asked.set(asked.get() + 1);
                async move {
                    goes_on.notified().await;
                    Ok(vec![IpAddr::from([192, 0, 2, last])])
                }
            }
        };
        let both = async { tokio::join!(names.addresses_by("a", find(1)), names.addresses_by("a", find(2))) };
        let (both, ()) = tokio::join!(both, async {
            tokio::task::yield_now().await;
            goes_on.notify_one();
        });
        assert_eq!((both, asked.get()), ((Ok(vec![[192, 0, 2, 1].into()]), Ok(vec![[192, 0, 2, 1].into()])), 1));
        goes_on.notify_one();
        assert_eq!(names.addresses_by("a", find(3)).await, Ok(vec![[192, 0, 2, 3].into()]), "it is asked anew");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_resolvers_hold_up_nobody_else() {
        let names = Names::default();
        let never = |_: String| std::future::pending::<Found>();
        let waiting: Vec<_> = (0..NAMES_MAX).map(|n| names.ask(&format!("{n}.slow"), never).unwrap()).collect();
        let busy = names.addresses_by("other", never).await.unwrap_err();
        assert!(busy.contains("lookup is busy"), "{busy}");
        for (n, mut answer) in waiting.into_iter().enumerate() {
            let found = answer.wait_for(Option::is_some).await.unwrap().clone();
            assert_eq!(found, Some(Err(format!("lookup {n}.slow: i/o timeout"))));
        }
        let address = vec![IpAddr::from([192, 0, 2, 1])];
        let there = address.clone();
        assert_eq!(names.addresses_by("other", |_| async move { Ok(there) }).await, Ok(address));
    }
}
