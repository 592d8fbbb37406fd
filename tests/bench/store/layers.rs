//! The four that are compared, each with one call: an object is durable when it returns. And what bounds them: a log
//! alone, and a block.

use super::etcd::Etcd;
use super::objects::{self, Item, with_rules};
use coracle_master::store::{FlatStore, Refused, Store, Write};
use coracle_tests::block::plain::{self, Plain};
use rusqlite::{Connection, params};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Writes that may wait for the one who writes for all.
const QUEUE: usize = 256;
/// A log begins each batch on a block of its own, and begins again at its end.
const BLOCK_BYTES: usize = 4096;
const LOG_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    Store,
    Files,
    Sqlite,
    Etcd,
    /// The least that many durable writes can be: their lines in a file that stands ready, and one fdatasync for all
    /// who wait. It checks nothing, remembers nothing and gives nothing back. A writer alone waits for its thread as
    /// well, which the store's does not.
    Log,
    /// The least that the writes of one can be: a block in a file that stands ready, and its fdatasync.
    Block,
}

pub const ALL: [Which; 4] = [Which::Store, Which::Files, Which::Sqlite, Which::Etcd];

impl Which {
    pub fn name(self) -> &'static str {
        match self {
            Which::Store => "store",
            Which::Files => "a file an object",
            Which::Sqlite => "SQLite",
            Which::Etcd => "etcd",
            Which::Log => "a log alone",
            Which::Block => "a block alone",
        }
    }

    pub fn open(self, at: &Path) -> Result<Box<dyn Layer>, String> {
        let root = at.join("data");
        Ok(match self {
            Which::Store => Box::new(Real(
                with_rules(|rules| FlatStore::open(&root, None, rules)).map_err(|e| e.to_string())?.store,
            )),
            Which::Files => {
                Box::new(Files(Plain::open(&root, plain::Rules::ALL, Arc::default()).map_err(|e| e.to_string())?))
            }
            Which::Sqlite => Box::new(Groups::of_sqlite(&root)?),
            Which::Log => Box::new(Groups::of_log(&root)?),
            Which::Block => Box::new(Block::new(&root)?),
            Which::Etcd => Box::new(Etcd::start(&root)?),
        })
    }
}

pub trait Layer: Send + Sync {
    /// It may be made again, where another writer had the same key.
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String>;
    /// Writes after which it is as in the long run; every key is there then.
    fn first(&self) -> u64 {
        objects::KEYS
    }
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

    /// It has old segments of its journal to write over.
    fn first(&self) -> u64 {
        6 * objects::KEYS
    }

    fn tidy(&self) -> Result<(), String> {
        // Behind the one that the keeper may be at.
        self.0.flush().map_err(|e| e.to_string())
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

/// One thread writes for all who wait.
struct Groups {
    queue: Mutex<Option<SyncSender<Wanted>>>,
    writer: JoinHandle<()>,
}

impl Groups {
    fn with(mut write: impl FnMut(&[Wanted]) -> Result<(), String> + Send + 'static) -> Groups {
        let (queue, wanted): (_, Receiver<Wanted>) = sync_channel(QUEUE);
        let writer = std::thread::spawn(move || {
            while let Ok(first) = wanted.recv() {
                let group: Vec<Wanted> = std::iter::once(first).chain(wanted.try_iter()).collect();
                let outcome = write(&group);
                for wanted in group {
                    wanted.answer.send(outcome.clone()).ok();
                }
            }
        });
        Groups { queue: Mutex::new(Some(queue)), writer }
    }

    /// WAL, synchronous=FULL, one transaction for all who wait: the best it can do.
    fn of_sqlite(root: &Path) -> Result<Groups, String> {
        std::fs::create_dir_all(root).map_err(|e| e.to_string())?;
        let mut database = Connection::open(root.join("kv.sqlite")).map_err(|e| e.to_string())?;
        let setup = "pragma journal_mode=wal; pragma synchronous=full;
                     create table kv (key text primary key, value blob) without rowid;";
        database.execute_batch(setup).map_err(|e| format!("SQLite: {e}"))?;
        Ok(Groups::with(move |group| put_all(&mut database, group).map_err(|e| format!("SQLite: {e}"))))
    }

    fn of_log(root: &Path) -> Result<Groups, String> {
        let (file, mut at) = (standing_ready(root)?, 0);
        Ok(Groups::with(move |group| append(&file, &mut at, group).map_err(|e| format!("the log: {e}"))))
    }
}

/// A file that is as long as it gets.
fn standing_ready(root: &Path) -> Result<File, String> {
    std::fs::create_dir_all(root).map_err(|e| e.to_string())?;
    let path = root.join("log");
    std::fs::write(&path, vec![b'\n'; LOG_BYTES]).map_err(|e| e.to_string())?;
    let file = OpenOptions::new().write(true).open(&path).map_err(|e| e.to_string())?;
    file.sync_all().map_err(|e| e.to_string())?;
    Ok(file)
}

fn put_all(database: &mut Connection, group: &[Wanted]) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    for Wanted { key, value, .. } in group {
        let mut statement = transaction.prepare_cached("insert or replace into kv values (?1, ?2)")?;
        statement.execute(params![key, value.as_bytes()])?;
    }
    transaction.commit()
}

fn append(file: &File, at: &mut usize, group: &[Wanted]) -> std::io::Result<()> {
    let mut text = Vec::new();
    for Wanted { key, value, .. } in group {
        for part in [key.as_str(), " ", value, "\n"] {
            text.extend_from_slice(part.as_bytes());
        }
    }
    text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
    if *at + text.len() > LOG_BYTES {
        *at = 0;
    }
    file.write_all_at(&text, *at as u64)?;
    *at += text.len();
    file.sync_data()
}

impl Layer for Groups {
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String> {
        let item = make();
        let queue = self.queue.lock().map_err(|e| e.to_string())?.clone().ok_or("closed")?;
        let (answer, answered) = sync_channel(1);
        queue
            .send(Wanted { key: item.key.to_string(), value: item.object.to_string(), answer })
            .map_err(|e| e.to_string())?;
        answered.recv().map_err(|e| e.to_string())?
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        drop(self.queue.lock().map_err(|e| e.to_string())?.take());
        self.writer.join().map_err(|_| "the writer panicked".to_owned())
    }
}

/// Nobody's object: what the disk takes for one write, whoever asks for it.
struct Block {
    file: File,
    written: AtomicU64,
}

impl Block {
    fn new(root: &Path) -> Result<Block, String> {
        Ok(Block { file: standing_ready(root)?, written: AtomicU64::new(0) })
    }
}

impl Layer for Block {
    fn put(&self, _: &dyn Fn() -> Item) -> Result<(), String> {
        let block = self.written.fetch_add(1, Ordering::Relaxed) % (LOG_BYTES / BLOCK_BYTES) as u64;
        let written = self.file.write_all_at(&[b'x'; BLOCK_BYTES], block * BLOCK_BYTES as u64);
        written.and_then(|()| self.file.sync_data()).map_err(|e| format!("the block: {e}"))
    }

    fn first(&self) -> u64 {
        0
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}
