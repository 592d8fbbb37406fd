//! Kinds that a running master is given: types of their own, rules with an environment, a namespaced one and one of the
//! cluster.

use crate::transcript::{Bed, ask, check_on};
use coracle_api::kinds::{Kind, Names};
use coracle_api::strategy::meta::Scope;
use coracle_api::strategy::{Custom, StrategyRef};
use coracle_api::types;
use coracle_schema::{Path, Problem, Types};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TYPES: &str = "
package stable.example.com.v1 = com.example.stable.v1
[CronTab] -- Runs a command now and then.
  apiVersion 0 string
  kind 0 string
  metadata 1 ObjectMeta default={}
  spec 2 CronTabSpec required
  status 3 CronTabStatus
[CronTabList]
  apiVersion 0 string
  kind 0 string
  metadata 1 ListMeta
  items 2 [CronTab] declared
[CronTabSpec]
  cronSpec 1 string required -- When it runs.
  replicas 2 int32 default=1
  ports 3 [CronTabPort] keys=port
[CronTabPort]
  port 1 int32 required
  name 2 string
[CronTabStatus]
  runs 1 int64
[Backdrop]
  apiVersion 0 string
  kind 0 string
  metadata 1 ObjectMeta default={}
  colour 2 string enum=red|blue
[BackdropList]
  apiVersion 0 string
  kind 0 string
  metadata 1 ListMeta
  items 2 [Backdrop] declared
";

fn row(plural: &'static str, kind: &'static str, strategy: Custom) -> Kind {
    let names = Names {
        group: "stable.example.com".into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        kind: kind.into(),
    };
    let types = Types::parse(TYPES, &types::builtin()).unwrap();
    Kind::new(names, types, format!("stable.example.com.v1.{kind}").into(), StrategyRef::Own(Arc::new(strategy)))
}

/// `replicas_max`: known at run time alone, as the rules of a definition are.
fn crontabs(replicas_max: i64) -> Kind {
    let check = move |object: &Value, old: Option<&Value>| {
        let (spec, path) = (&object["spec"], Path::new("spec"));
        let mut found = Vec::new();
        if spec["replicas"].as_i64().is_some_and(|replicas| replicas > replicas_max) {
            let words = format!("must be at most {replicas_max}");
            found.push(Problem::invalid(&path.field("replicas"), spec["replicas"].clone(), words));
        }
        if old.is_some_and(|old| old["spec"]["cronSpec"] != spec["cronSpec"]) {
            found.push(Problem::invalid(&path.field("cronSpec"), spec["cronSpec"].clone(), "field is immutable"));
        }
        found
    };
    row("crontabs", "CronTab", Custom { scope: Scope::Namespaced, check: Box::new(check) }).with_status()
}

fn backdrops() -> Kind {
    row("backdrops", "Backdrop", Custom { scope: Scope::Cluster, check: Box::new(|_, _| Vec::new()) }).of_cluster()
}

#[test]
fn a_kind_of_run_time_is_served_like_any_other() {
    check_on("run-time-kinds", || {
        let bed = Bed::new();
        let known = |path: &str| ask(bed.network(), "GET", path, &[], "").code;
        let described = || String::from_utf8(ask(bed.network(), "GET", "/openapi/v3", &[], "").body).unwrap();
        assert_eq!(known("/apis/stable.example.com/v1/crontabs"), 404, "nobody has defined it yet");
        assert!(!described().contains("stable.example.com"));
        bed.define(crontabs(10)).unwrap();
        bed.define(backdrops()).unwrap();
        assert_eq!(
            bed.define(backdrops()).unwrap_err().to_string(),
            "stable.example.com/v1 has a kind with the name backdrops already"
        );
        assert_eq!(known("/apis/stable.example.com/v1/crontabs"), 200);
        assert!(described().contains("apis/stable.example.com/v1"), "another table has other documents");
        bed
    });
}

const CRONTABS: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";
/// The folder of the master in the other process.
const FOLDER: &str = "CORACLE_IT_LIFE";

/// A master in a process of its own, which knows no kind of run time before it is told to.
struct Life {
    process: Child,
    address: SocketAddr,
    said: Lines<BufReader<ChildStdout>>,
}

impl Life {
    fn begin(folder: &std::path::Path) -> Life {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "--nocapture", "run_time_kinds::lives_until_it_is_ended"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut said = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let address = heard(&mut said, "serves ").parse().expect("an address");
        Life { process, address, said }
    }

    /// `define`, `withdraw`: every kind of run time.
    fn tell(&mut self, word: &str) {
        writeln!(self.process.stdin.as_ref().expect("a pipe"), "{word}").expect("it listens");
        assert_eq!(heard(&mut self.said, "done "), word);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = ask(Box::new(self.connect()), method, path, &[], &body);
        (reply.code, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    fn code(&self, path: &str) -> u16 {
        self.ask("GET", path, &Value::Null).0
    }

    /// Until a path answers with this code.
    fn wait_for(&self, path: &str, code: u16) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.code(path) != code {
            assert!(Instant::now() < until, "{path} does not answer {code}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A stop in order, or `kill -9`.
    fn end(mut self, in_order: bool) {
        if in_order {
            drop(self.process.stdin.take());
        } else {
            self.process.kill().expect("it runs");
        }
        self.process.wait().expect("it ends");
    }
}

fn heard(said: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    let line = said.map(|line| line.expect("text")).find_map(|line| line.strip_prefix(word).map(str::to_owned));
    line.unwrap_or_else(|| panic!("the other process never says {word:?}"))
}

#[test]
#[ignore = "a part of another test, in a process of its own"]
fn lives_until_it_is_ended() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let bed = Bed::living_in(std::path::Path::new(&folder));
    println!("\nserves {}", bed.address());
    for word in std::io::stdin().lines() {
        let word = word.expect("text");
        match word.as_str() {
            "define" => [crontabs(10), backdrops()].into_iter().for_each(|kind| bed.define(kind).unwrap()),
            "withdraw" => [crontabs(10), backdrops()].iter().for_each(|kind| assert!(bed.withdraw(&kind.resource))),
            word => panic!("{word}"),
        }
        println!("done {word}");
    }
}

fn crontab(name: &str, owner: Option<&Value>) -> Value {
    let owner = owner.map(|owner| {
        let meta = &owner["metadata"];
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]})
    });
    json!({"metadata": {"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {"cronSpec": "x"}})
}

/// Objects of a kind that the next master does not know yet are whole: at once when their kind is known, and so at
/// every end of a master.
#[test]
fn objects_outlive_their_kind_and_their_master() {
    for in_order in [true, false] {
        let folder = Bed::empty_folder();
        let mut first = Life::begin(&folder);
        first.tell("define");
        let (code, made) = first.ask("POST", CRONTABS, &crontab("a", None));
        assert_eq!(code, 201, "{made}");
        let (_, gone) = first.ask("POST", CRONTABS, &crontab("gone", None));
        assert_eq!(first.ask("DELETE", &format!("{CRONTABS}/gone"), &Value::Null).0, 200, "{gone}");
        let shine = json!({"metadata": {"name": "b"}, "colour": "red"});
        assert_eq!(first.ask("POST", "/apis/stable.example.com/v1/backdrops", &shine).0, 201);
        first.end(in_order);
        for life in 0..2 {
            let mut next = Life::begin(&folder);
            let case = format!("in order: {in_order}, life {life}");
            assert_eq!(next.code(CRONTABS), 404, "{case}: nobody has defined it");
            next.tell("define");
            assert_eq!(next.ask("GET", &format!("{CRONTABS}/a"), &Value::Null), (200, made.clone()), "{case}");
            let (_, list) = next.ask("GET", CRONTABS, &Value::Null);
            assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{case}: {list}");
            assert_eq!(next.code("/apis/stable.example.com/v1/backdrops/b"), 200, "{case}");
            assert_eq!(next.ask("POST", CRONTABS, &crontab("a", None)).0, 409, "{case}");
            next.end(in_order);
        }
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}

/// A kind that comes or goes while controllers run and clients watch.
#[test]
fn controllers_and_watches_follow_the_kinds() {
    let folder = Bed::empty_folder();
    let mut life = Life::begin(&folder);
    life.tell("define");
    let (_, owner) = life.ask("POST", CRONTABS, &crontab("owner", None));
    let maps = "/api/v1/namespaces/default/configmaps";
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": crontab("", Some(&owner))["metadata"]
        ["ownerReferences"]}});
    assert_eq!(life.ask("POST", maps, &owned).0, 201);
    let (_, map) = life.ask("POST", maps, &json!({"metadata": {"name": "m"}}));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": map["metadata"]});
    assert_eq!(life.ask("POST", CRONTABS, &crontab("owned", Some(&map))).0, 201);
    let mut watch = life.connect();
    write!(watch, "GET {CRONTABS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is taken");
    let mut watch = BufReader::new(watch).lines().map(|line| line.expect("the watch is whole"));
    assert!(watch.any(|line| line.contains("\"owner\"")), "what stands is told");
    life.tell("withdraw");
    // The chunk of nothing ends it.
    assert!(watch.any(|line| line == "0"), "the watch ends");
    assert_eq!(life.code(CRONTABS), 404);
    // Unknown is not absent: the owner may be there. What the other map owns is nobody's to collect now.
    assert_eq!(life.ask("DELETE", &format!("{maps}/m"), &Value::Null).0, 200);
    life.end(false);
    let mut life = Life::begin(&folder);
    assert_eq!(life.code(&format!("{maps}/owned")), 200);
    life.tell("define");
    life.wait_for(&format!("{CRONTABS}/owned"), 404);
    assert_eq!((life.code(&format!("{maps}/owned")), life.code(&format!("{CRONTABS}/owner"))), (200, 200));
    assert_eq!(life.ask("DELETE", &format!("{CRONTABS}/owner"), &Value::Null).0, 200);
    life.wait_for(&format!("{maps}/owned"), 404);
    // A namespace ends with what lies in it of such kinds.
    assert_eq!(life.ask("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).0, 201);
    let there = "/apis/stable.example.com/v1/namespaces/n/crontabs";
    assert_eq!(life.ask("POST", there, &crontab("a", None)).0, 201);
    assert_eq!(life.ask("DELETE", "/api/v1/namespaces/n", &Value::Null).0, 200);
    life.wait_for("/api/v1/namespaces/n", 404);
    assert_eq!(life.code(&format!("{there}/a")), 404);
    life.end(true);
    std::fs::remove_dir_all(&folder).expect("ours");
}
