//! The share of authorization in a GET, with a thousand roles and bindings.

use crate::load::{Way, run};
use crate::servers::Ground;
use crate::tls::HTTP_1;
use coracle_api::meta::{Durable, Key, Resource};
use coracle_http::Identity;
use coracle_master::authorize::{Attributes, Authorizer, Rbac};
use coracle_master::store::{FlatStore, KindRow, Store, StoreRules, Write};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROLES: usize = 1000;
const NAMESPACES: usize = 20;
const QUESTIONS: usize = 200_000;
const GROUP: &str = "rbac.authorization.k8s.io";
const KINDS: [(&str, &str); 4] = [
    ("roles", "Role"),
    ("rolebindings", "RoleBinding"),
    ("clusterroles", "ClusterRole"),
    ("clusterrolebindings", "ClusterRoleBinding"),
];
const LASTS: Duration = Duration::from_secs(2);
const AIM_PERCENT: f64 = 2.0;

pub fn share(ground: &Ground) -> Result<String, String> {
    let server = ground.master()?;
    let config = Some(ground.config(Some(&ground.viewer), HTTP_1));
    let way = Way { address: server.secure, config, is_http2: false, path: &server.path };
    let get = run(&way, server.pid(), 1, LASTS)?;
    server.stop();
    let (each_us, refused_us) = question_us(ground)?;
    let share = each_us / get.cpu_us * 100.0;
    let verdict = if share <= AIM_PERCENT { "met" } else { "NOT MET" };
    Ok(format!(
        "  {ROLES} roles and {ROLES} bindings: {each_us:.2} us for what is allowed, {refused_us:.2} us for what is \
         refused; {share:.1} % of a GET ({:.1} us of CPU); aim {AIM_PERCENT} %: {verdict}\n",
        get.cpu_us
    ))
}

/// For a user whom the last binding of a namespace lets read, and for one whom none does.
fn question_us(ground: &Ground) -> Result<(f64, f64), String> {
    let folder = ground.path("rules");
    let store = FlatStore::open(&folder, None, &rules()).map_err(|e| e.to_string())?.store;
    for n in 0..ROLES {
        let (namespace, name) = (format!("ns-{}", n % NAMESPACES), format!("r{n}"));
        let rule = json!({"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list"]});
        put(&store, ("roles", &namespace, &name), json!({"rules": [rule]}))?;
        let binding = json!({
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": format!("user-{n}")}],
        });
        put(&store, ("rolebindings", &namespace, &name), binding)?;
    }
    let rbac = Rbac::new(Arc::new(store.clone()));
    let namespace = format!("ns-{}", (ROLES - 1) % NAMESPACES);
    let asked = Attributes::resource("get", &Resource::core("configmaps"), "", (&namespace, "a"));
    let each = |user: &str, expected: bool| {
        let groups = vec!["team".to_owned(), "system:authenticated".to_owned()];
        let identity = Identity { user: user.to_owned(), groups, ..Identity::none() };
        // The first compiles the rules.
        if rbac.authorize(&asked, &identity).allows() != expected {
            return Err(format!("{user} is answered wrongly"));
        }
        let begun = Instant::now();
        (0..QUESTIONS).for_each(|_| _ = std::hint::black_box(rbac.authorize(&asked, &identity)));
        Ok(begun.elapsed().as_secs_f64() * 1e6 / QUESTIONS as f64)
    };
    let measured = Ok((each(&format!("user-{}", ROLES - 1), true)?, each("nobody", false)?));
    store.close().map_err(|e| e.to_string())?;
    measured
}

fn put(
    store: &FlatStore,
    (plural, namespace, name): (&'static str, &str, &str),
    mut object: Value,
) -> Result<(), String> {
    let kind = KINDS.iter().find(|row| row.0 == plural).map_or("", |row| row.1);
    object["apiVersion"] = format!("{GROUP}/v1").into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"namespace": namespace, "name": name, "uid": name});
    let resource = Resource { group: GROUP.into(), plural: plural.into() };
    let key = Key { resource, namespace: namespace.to_owned(), name: name.to_owned() };
    let write = Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() };
    store.write(write).map(drop).map_err(|e| format!("{e:?}"))
}

fn rules() -> StoreRules<'static> {
    let row = |(plural, kind): (&'static str, &'static str)| KindRow {
        resource: Resource { group: GROUP.into(), plural: plural.into() },
        api_version: format!("{GROUP}/v1").into(),
        kind: kind.into(),
    };
    StoreRules {
        kinds: KINDS.map(row).into(),
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|_, _| Some(Durable::Nothing),
        durable: &|_, _| Durable::Nothing,
        sealing: Default::default(),
    }
}
