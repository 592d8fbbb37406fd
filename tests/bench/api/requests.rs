//! What a request takes with 1, 16 and 64 clients, and what the same takes of a kube-apiserver with its etcd, of the
//! store alone and of an etcd alone.

use super::Ground;
use super::client::Client;
use super::etcd::Etcd;
use super::layers::{Layer, Real};
use super::objects::{self, Item, with_rules};
use super::process::Usage;
use super::server::{Server, Which, pod};
use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::store::{FlatStore, Store};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: [usize; 3] = [1, 16, 64];
const LASTS: Duration = Duration::from_millis(1500);
/// In the namespace that is listed.
const LISTED: usize = 500;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const JSON: &str = "application/json";

#[derive(Clone, Copy, PartialEq)]
enum What {
    Get,
    List,
    Table,
    Create,
    Patch,
    Apply,
}

const ALL: [(What, &str); 6] = [
    (What::Get, "GET of a pod"),
    (What::List, "LIST of 500 pods"),
    (What::Table, "LIST of 500 pods, as a Table"),
    (What::Create, "create of a pod"),
    (What::Patch, "patch of a pod's status"),
    (What::Apply, "apply of a config map"),
];

/// Who is asked.
enum Of {
    Server(Server),
    Store(Real),
    Etcd(Etcd),
}

struct Figures {
    rate: f64,
    median_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
}

pub fn table(ground: &Ground) -> Result<String, String> {
    let mut others: Vec<(&str, Of)> = Vec::new();
    for &which in Which::all() {
        let server = Server::start(which, &ground.path(which.name()))?;
        server.fill(
            "/api/v1/namespaces",
            0..1,
            |_| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-00"}}),
        )?;
        server.fill("/api/v1/namespaces/ns-00/pods", 0..LISTED, pod)?;
        server.fill("/api/v1/namespaces/ns-00/configmaps", 0..LISTED, |n| config(n, 0))?;
        others.push((which.name(), Of::Server(server)));
    }
    let store =
        with_rules(|rules| FlatStore::open(&ground.path("store"), None, rules)).map_err(|e| e.to_string())?.store;
    others.push(("the store alone", Of::Store(Real(store))));
    others.push(("etcd alone", Of::Etcd(Etcd::start(&ground.path("etcd"))?)));
    for layer in others.iter().filter_map(|(_, other)| other.layer()) {
        (0..LISTED).try_for_each(|n| layer.put(&|| listed(n, 0)))?;
    }
    let mut text = format!("  {:<30}{:<25}", "", "");
    for clients in CLIENTS {
        text += &format!("{:>36}", format!("{clients} clients: /s, p50/p99 ms, us CPU"));
    }
    text.push('\n');
    for (what, name) in ALL {
        let mut rows: Vec<Vec<Figures>> = Vec::new();
        for (_, of) in &others {
            let cells = CLIENTS.map(|clients| measure(of, what, clients)).into_iter().collect::<Result<Vec<_>, _>>();
            rows.push(cells.map_err(|why| format!("{name}: {why}"))?);
        }
        for (at, cells) in rows.iter().enumerate() {
            text += &format!("  {:<30}{:<25}", if at == 0 { name } else { "" }, others[at].0);
            for cell in cells {
                text +=
                    &format!("{:>12.0} {:>7.2}/{:<8.2}{:>7.0}", cell.rate, cell.median_ms, cell.p99_ms, cell.cpu_us);
            }
            if at > 0 {
                let ratios: Vec<String> =
                    rows[0].iter().zip(cells).map(|(api, other)| format!("{:.2}", api.rate / other.rate)).collect();
                text += &format!("   API / this: a second x {}", ratios.join(", "));
            }
            text.push('\n');
        }
    }
    for (_, other) in others {
        match other {
            Of::Server(server) => server.stop()?,
            Of::Store(store) => Box::new(store).close()?,
            Of::Etcd(etcd) => Box::new(etcd).close()?,
        }
    }
    Ok(text)
}

impl Of {
    fn layer(&self) -> Option<&dyn Layer> {
        match self {
            Of::Server(_) => None,
            Of::Store(store) => Some(store),
            Of::Etcd(etcd) => Some(etcd),
        }
    }

    /// CPU of who does it; where that is this process, of who asks as well.
    fn cpu_ms(&self) -> Result<u64, String> {
        let usage = match self {
            Of::Server(server) => server.usage(),
            Of::Store(_) => Usage::of(std::process::id()),
            Of::Etcd(etcd) => Usage::of(etcd.server().unwrap_or_default()),
        };
        Ok(usage?.cpu_ms)
    }
}

fn measure(of: &Of, what: What, clients: usize) -> Result<Figures, String> {
    static MADE: AtomicUsize = AtomicUsize::new(1_000_000);
    let (before, begun) = (of.cpu_ms()?, Instant::now());
    let work = |client: usize| {
        let mut connection = match of {
            Of::Server(server) => Some(server.client(client + 1)?),
            Of::Store(_) | Of::Etcd(_) => None,
        };
        let (mut times_ms, mut at) = (Vec::new(), client * 37);
        while begun.elapsed() < LASTS {
            at += 1;
            let n = if what == What::Create { MADE.fetch_add(1, Ordering::Relaxed) } else { at % LISTED };
            let asked = Instant::now();
            match (of, &mut connection) {
                (_, Some(connection)) => ask(connection, what, n, at)?,
                (Of::Etcd(etcd), _) => ask_etcd(etcd, what, n, at)?,
                (Of::Store(store), _) => ask_store(store, what, n, at)?,
                (Of::Server(_), None) => {}
            }
            times_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        Ok::<_, String>(times_ms)
    };
    let outcomes: Result<Vec<Vec<f64>>, String> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || work(client))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let used_ms = of.cpu_ms()? - before;
    let mut times_ms = outcomes?.concat();
    times_ms.sort_by(f64::total_cmp);
    let count = times_ms.len() as f64;
    let at = |part: f64| times_ms.get((count * part) as usize).copied().unwrap_or_default();
    Ok(Figures { rate: count / seconds, median_ms: at(0.5), p99_ms: at(0.99), cpu_us: used_ms as f64 * 1e3 / count })
}

fn ask(client: &mut Client, what: What, n: usize, at: usize) -> Result<(), String> {
    const PODS: &str = "/api/v1/namespaces/ns-00/pods";
    let answer = match what {
        What::Get => client.get(&format!("{PODS}/p{n}"), JSON),
        What::List => client.get(&format!("{PODS}?limit={LISTED}"), JSON),
        What::Table => client.get(&format!("{PODS}?limit={LISTED}"), TABLE),
        // Elsewhere: what is listed stays as much as it is.
        What::Create => client.post("/api/v1/namespaces/default/pods", pod(n).to_string().as_bytes()),
        What::Patch => {
            let status = json!({"status": {"message": format!("{at:06}")}});
            client.patch(&format!("{PODS}/p{n}/status"), "application/merge-patch+json", status.to_string().as_bytes())
        }
        What::Apply => {
            let path = format!("/api/v1/namespaces/ns-00/configmaps/c{n}?fieldManager=bench&force=true");
            client.patch(&path, "application/apply-patch+yaml", config(n, at).to_string().as_bytes())
        }
    };
    answer.map(drop)
}

fn ask_store(store: &Real, what: What, n: usize, at: usize) -> Result<(), String> {
    match what {
        What::Get => store.0.get(&listed(n, 0).key).map(drop).map_err(|damaged| damaged.why),
        What::List | What::Table => {
            let items = store.0.list(&Resource::core("pods"), Some("ns-00")).items;
            let mut text = Vec::new();
            items.iter().for_each(|stored| text.extend_from_slice(&stored.json));
            Ok(())
        }
        What::Create => store.put(&|| objects::pod(n as u64, 0)),
        What::Patch | What::Apply => store.put(&|| listed(n, at)),
    }
}

fn ask_etcd(etcd: &Etcd, what: What, n: usize, at: usize) -> Result<(), String> {
    let one = || etcd.range(&listed(n, 0).key.to_string()).map(drop);
    match what {
        What::Get => one(),
        What::List | What::Table => etcd.range("pods/ns-00/").map(drop),
        What::Create => etcd.put(&|| objects::pod(n as u64, 0)),
        // Whoever changes an object has read it.
        What::Patch | What::Apply => one().and_then(|()| etcd.put(&|| listed(n, at))),
    }
}

/// The n-th pod of the namespace that is listed, where there is no API.
fn listed(n: usize, said: usize) -> Item {
    let Item { object, .. } = objects::pod(n as u64, said as u64);
    let name = format!("p{n:03}");
    Item {
        key: Key { resource: Resource::core("pods"), namespace: "ns-00".to_owned(), name },
        object,
        durable: Durable::Whole,
    }
}

fn config(n: usize, said: usize) -> Value {
    let data = json!({"said": said.to_string(), "filler": "x".repeat(1500)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{n}")}, "data": data})
}
