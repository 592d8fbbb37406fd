//! Restarts of pods that somebody asked for, on this host's own disk: an agent that is killed in the middle goes on.
//!
//!     POST /restart -> DATA/restarts.json -> the loop -> a container of the new round -> the request is forgotten

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use tokio::sync::watch;

use super::unkept::Unkept;
use crate::facts::restarts::{Restart, Restarts};
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::facts::world::World;
use crate::host::private;

const NAME: &str = "restarts.json";
/// Bytes: a row of 100 for each pod of a host, and room to spare; what is bigger was not written by this file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The requests, shared by the socket, which adds some, and the loop, which carries them out.
#[derive(Clone, Debug)]
pub struct RestartList {
    folder: PathBuf,
    list: Arc<watch::Sender<Arc<Restarts>>>,
    unkept: Unkept,
}

/// What the last agent was asked for.
pub fn read(data_dir: &str) -> Restarts {
    let path = Path::new(data_dir).join(NAME);
    let read = || -> io::Result<Restarts> {
        if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
            return Err(io::Error::other("it is too big"));
        }
        serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
    };
    read().unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            log::error!("{}: {error}; restarts that were asked for and not begun are not made", path.display());
        }
        Restarts::default()
    })
}

impl RestartList {
    pub fn new(data_dir: &str, unkept: Unkept) -> RestartList {
        let list = Arc::new(watch::channel(Arc::new(read(data_dir))).0);
        RestartList { folder: data_dir.into(), list, unkept }
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<Restarts>> {
        self.list.subscribe()
    }

    /// The request is on the disk before the loop hears of it.
    pub fn add(&self, uid: &str, restart: Restart) -> io::Result<()> {
        let mut list = (**self.list.borrow()).clone();
        list.insert(uid.to_owned(), restart);
        self.keep(list)
    }

    fn keep(&self, list: Restarts) -> io::Result<()> {
        if **self.list.borrow() == list {
            return Ok(());
        }
        let text = serde_json::to_vec(&list).map_err(io::Error::other)?;
        private::replace_files(&self.folder, [(NAME.into(), text)].into_iter())?;
        self.list.send_replace(Arc::new(list));
        Ok(())
    }

    /// Forgets what is done, as `is_done` says. Ends with the loop.
    pub async fn follow(
        self,
        mut shown: watch::Receiver<Arc<Shown>>,
        is_done: impl Fn(Restart, &Wanted, &World) -> bool,
    ) {
        let path = self.folder.join(NAME);
        let mut attempts = 0;
        loop {
            let alive = tokio::select! {
                changed = shown.changed() => changed.is_ok(),
                () = self.unkept.due(&path, &mut attempts) => true,
            };
            if !alive {
                return;
            }
            let list = self.list.borrow().clone();
            if !list.is_empty() {
                let rest = rest(&list, &shown.borrow_and_update(), &is_done);
                self.unkept.note(&path, "which pods are to be restarted", self.keep(rest));
            }
        }
    }
}

/// The requests that are not carried out yet. A pod that no source knows of at present may come back.
fn rest(list: &Restarts, shown: &Shown, is_done: &impl Fn(Restart, &Wanted, &World) -> bool) -> Restarts {
    let pods = &shown.desired.pods;
    let goes_on = |uid: &str, restart: Restart| match pods.get(uid) {
        Some(wanted) => !is_done(restart, wanted, &shown.world),
        None => !shown.looked || !shown.desired.unknown.is_empty(),
    };
    list.iter()
        .filter(|(uid, restart)| goes_on(uid, **restart))
        .map(|(uid, restart)| (uid.clone(), *restart))
        .collect::<BTreeMap<_, _>>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::naming::Source;
    use serde_json::json;

    fn shown(pod: bool, unknown: bool) -> Shown {
        let mut desired = Desired::default();
        let document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"containers": []}});
        if pod {
            desired.pods.insert("u".to_owned(), Arc::new(Wanted::new(Source::File, document).unwrap()));
        }
        desired.unknown.extend(unknown.then_some(Source::File));
        Shown { desired: Arc::new(desired), looked: true, ..Shown::default() }
    }

    #[test]
    fn a_request_goes_when_it_is_done_or_its_pod_is_gone() {
        let list = Restarts::from([("u".to_owned(), Restart { round: 3, sandbox: Some(1) })]);
        for (pod, unknown, done, stays) in [
            (true, false, false, true),
            (true, false, true, false),
            (false, false, false, false),
            (false, true, false, true),
        ] {
            let left = rest(&list, &shown(pod, unknown), &|_, _, _| done);
            assert_eq!(!left.is_empty(), stays, "{pod} {unknown} {done}");
        }
        assert!(!rest(&list, &Shown::default(), &|_, _, _| true).is_empty(), "nothing was seen yet");
    }

    #[test]
    fn the_next_agent_reads_it() {
        let dir = std::env::temp_dir().join(format!("coracle-restarts-{}", std::process::id()));
        let data_dir = dir.display().to_string();
        assert_eq!(read(&data_dir), Restarts::default());
        let list = RestartList::new(&data_dir, Unkept::default());
        list.add("u", Restart { round: 1, sandbox: None }).unwrap();
        list.add("v", Restart { round: 2, sandbox: Some(0) }).unwrap();
        assert_eq!(read(&data_dir), **list.subscribe().borrow());
        fs::write(dir.join(NAME), "{").unwrap();
        assert_eq!(read(&data_dir), Restarts::default());
        fs::remove_dir_all(dir).unwrap();
    }
}
