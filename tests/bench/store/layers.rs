//! The four that are compared, each with one call: an object is durable when it returns.

use super::etcd::Etcd;
use super::objects::{Item, with_rules};
use coracle_master::store::{FlatStore, Refused, Store, Write};
use coracle_tests::block::plain::{self, Plain};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Writes that may wait for SQLite's one writer.
const QUEUE: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    Store,
    Files,
    Sqlite,
    Etcd,
}

pub const ALL: [Which; 4] = [Which::Store, Which::Files, Which::Sqlite, Which::Etcd];

impl Which {
    pub fn name(self) -> &'static str {
        match self {
            Which::Store => "store",
            Which::Files => "a file an object",
            Which::Sqlite => "SQLite",
            Which::Etcd => "etcd",
        }
    }

    pub fn open(self, at: &Path) -> Result<Box<dyn Layer>, String> {
        let root = at.join("data");
        Ok(match self {
            Which::Store => Box::new(Real(with_rules(|rules| FlatStore::open(&root, None, rules)).map_err(|e| e.to_string())?.store)),
            Which::Files => Box::new(Files(Plain::open(&root, plain::Rules::ALL, Arc::default()).map_err(|e| e.to_string())?)),
            Which::Sqlite => Box::new(Sqlite::open(&root)?),
            Which::Etcd => Box::new(Etcd::start(&root)?),
        })
    }
}

pub trait Layer: Send + Sync {
    /// It may be made again, where another writer had the same key.
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String>;
    /// What it does every ten minutes, here without the wait.
    fn tidy(&self) -> Result<(), String> {
        Ok(())
    }
    /// The process that does it, where it is another.
    fn server(&self) -> Option<u32> {
        None
    }
    /// In order, with everything in its place.
    fn close(self: Box<Self>) -> Result<(), String>;
}

pub struct Real(pub FlatStore);

impl Layer for Real {
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String> {
        loop {
            let (Item { key, object, durable }, claims) = (make(), Vec::new());
            let now = self.0.get(&key).map_err(|damaged| damaged.why)?;
            let outcome = match now {
                None => self.0.write(Write::Create { key, object, durable, claims }),
                Some(stored) => self.0.write(Write::Update { key, object, seen: stored.revision, durable, claims }),
            };
            match outcome {
                Ok(_) => return Ok(()),
                Err(Refused::Stale { .. } | Refused::Exists { .. }) => {}
                Err(refused) => return Err(refused.to_string()),
            }
        }
    }

    fn tidy(&self) -> Result<(), String> {
        self.0.checkpoint_now().map_err(|e| e.to_string())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        self.0.close().map_err(|e| e.to_string())
    }
}

struct Files(Plain);

impl Layer for Files {
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String> {
        let item = make();
        let name = format!("{}.json", item.key.to_string().replace('/', "_"));
        self.0.write(&name, |_| serde_json::to_string_pretty(&item.object).ok()).map(drop).map_err(|e| e.to_string())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

struct Wanted {
    key: String,
    value: String,
    answer: SyncSender<Result<(), String>>,
}

/// WAL, synchronous=FULL, one transaction for all who wait: the best it can do.
struct Sqlite {
    queue: Mutex<Option<SyncSender<Wanted>>>,
    writer: JoinHandle<Result<(), String>>,
}

impl Sqlite {
    fn open(root: &Path) -> Result<Sqlite, String> {
        std::fs::create_dir_all(root).map_err(|e| e.to_string())?;
        let database = Connection::open(root.join("kv.sqlite")).map_err(|e| e.to_string())?;
        let setup = "pragma journal_mode=wal; pragma synchronous=full;
                     create table kv (key text primary key, value blob) without rowid;";
        database.execute_batch(setup).map_err(|e| format!("SQLite: {e}"))?;
        let (queue, wanted) = sync_channel(QUEUE);
        let writer = std::thread::spawn(move || write_groups(database, &wanted));
        Ok(Sqlite { queue: Mutex::new(Some(queue)), writer })
    }
}

fn write_groups(mut database: Connection, wanted: &Receiver<Wanted>) -> Result<(), String> {
    while let Ok(first) = wanted.recv() {
        let group: Vec<Wanted> = std::iter::once(first).chain(wanted.try_iter()).collect();
        let mut write = || -> rusqlite::Result<()> {
            let transaction = database.transaction()?;
            for Wanted { key, value, .. } in &group {
                let mut statement = transaction.prepare_cached("insert or replace into kv values (?1, ?2)")?;
                statement.execute(params![key, value.as_bytes()])?;
            }
            transaction.commit()
        };
        let outcome = write().map_err(|e| format!("SQLite: {e}"));
        for wanted in group {
            wanted.answer.send(outcome.clone()).ok();
        }
    }
    database.close().map_err(|(_, e)| format!("SQLite: {e}"))
}

impl Layer for Sqlite {
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String> {
        let item = make();
        let queue = self.queue.lock().map_err(|e| e.to_string())?.clone().ok_or("closed")?;
        let (answer, answered) = sync_channel(1);
        queue.send(Wanted { key: item.key.to_string(), value: item.object.to_string(), answer }).map_err(|e| e.to_string())?;
        answered.recv().map_err(|e| e.to_string())?
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        drop(self.queue.lock().map_err(|e| e.to_string())?.take());
        self.writer.join().map_err(|_| "SQLite's writer panicked".to_owned())?
    }
}
