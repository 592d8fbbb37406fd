//! Kinds that a running master is given: types of their own, rules with an environment, a namespaced one and one of the
//! cluster.

use crate::transcript::{Bed, ask, check_on};
use coracle_api::kinds::{Kind, Names};
use coracle_api::strategy::meta::Scope;
use coracle_api::strategy::{Custom, StrategyRef};
use coracle_api::types;
use coracle_schema::{Path, Problem, Types};
use serde_json::Value;
use std::sync::Arc;

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
