//! Requests for certificates: who is approved by rule, what is signed, what fails, what goes.

use super::super::intent::Memo;
use super::super::settings::Permission;
use super::super::signing::REQUESTS;
use super::*;
use coracle_schema::base64;

/// Of CN=system:node:n1, O=system:nodes, without other names.
const NODE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHsMIGSAgEAMDAxFTATBgNVBAoMDHN5c3RlbTpub2RlczEXMBUGA1UEAwwOc3lz
dGVtOm5vZGU6bjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAShxY7j5pj+VU3A
laqr0e1WX4InEo5VITQcLrQwu76rMNP1N5NY94kIrMd52UdMJOISlbAujkwjtR3S
HMi9Y72GoAAwCgYIKoZIzj0EAwIDSQAwRgIhAOleH0fypv0LrIBjZfXFPPMmFNN5
8sS3glF4VOqRNX6DAiEA0LxrjXKt8wPV0JHDz7Tuk285+aF3m2JGKFzTHqWk3R4=
-----END CERTIFICATE REQUEST-----
";
/// Of the same node, with the names that a server has.
const NODE_SERVER: &str = crate::cluster_keys::request::tests::OF_A_NODE;
/// Of CN=alice.
const ALICE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHKMHICAQAwEDEOMAwGA1UEAwwFYWxpY2UwWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAARGjl0Ayg3zdPDhvu7w5swcF83dH+0n3zAxM/8ggSWgnVZkCSUi/3n766b2
41KJMNzQBwbReKd/6x+CDg8vDCkUoAAwCgYIKoZIzj0EAwIDSAAwRQIgEVMDhJOh
rsuE7Fe64IXqZ26xL4PKDJmlu61Qfhg0nTYCIQCCEjyjDp8m76ZwiAyVA+Nzaxb0
86A1LWnoYQB6nXpyGA==
-----END CERTIFICATE REQUEST-----
";
/// Of CN=mallory, O=developers, O=system:masters.
const MASTERS: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIH6MIGiAgEAMEAxEzARBgNVBAoMCmRldmVsb3BlcnMxFzAVBgNVBAoMDnN5c3Rl
bTptYXN0ZXJzMRAwDgYDVQQDDAdtYWxsb3J5MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE6lOE1PgvBnfeZEch5Tdx9zt7TD8ND2RkQbUZUMqTuP5HkrTpeULH1acU
5Lr35Z3PSUJVk+zAJgCVf6Zv5wakNaAAMAoGCCqGSM49BAMCA0cAMEQCIDFBAExc
45nmqP6Oo70rwfy5xMd53rJ5R8HafcjI5RdFAiAH91qLQhyyIz4d5KY65VlOAVHb
T1Y+Gd+9j5JuVRjMxQ==
-----END CERTIFICATE REQUEST-----
";
const NODE_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVER_SIGNER: &str = "kubernetes.io/kubelet-serving";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const OF_CLIENT: &[&str] = &["digital signature", "client auth"];
const OF_SERVER: &[&str] = &["digital signature", "server auth"];

fn request(pem: &str, signer: &str, usages: &[&str], user: &str) -> Value {
    json!({
        "metadata": {"name": "r", "uid": "u", "creationTimestamp": "2027-01-15T08:00:00Z"},
        "spec": {"request": base64::encode(pem.as_bytes()), "signerName": signer, "usages": usages, "username": user,
            "groups": ["system:authenticated"], "expirationSeconds": 3600},
    })
}

fn approved(mut request: Value) -> Value {
    let condition = json!({"type": "Approved", "status": "True", "lastUpdateTime": "2027-01-15T08:00:00Z"});
    request["status"] = json!({"conditions": [condition]});
    request
}

/// May create these subresources: whoever asks.
fn may(subresources: &'static [&'static str]) -> Option<Permission> {
    Some(Arc::new(move |_, subresource| subresources.contains(&subresource)))
}

fn look(request: Value, may_request: Option<Permission>, uptime: Duration, wall_s: i64) -> Decision {
    let settings = Settings { may_request, ..Settings::default() };
    let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
    let mut before = request.clone();
    before.as_object_mut().expect("an object").remove("status");
    let change = |request: Value| event("certificatesigningrequests", 7, Some(request), "r");
    // It was seen to come without a decision, so that decisions are as old as the uptime says.
    cluster.apply(&change(before), Duration::ZERO);
    cluster.apply(&change(request), Duration::ZERO);
    let now = Now { wall: Time::from_seconds(wall_s).expect("a time"), uptime };
    decide(&cluster, "signing requests", key("certificatesigningrequests", "r"), now)
}

/// 2027-01-15T08:00:00Z
const CREATED_S: i64 = 1_800_000_000;

fn told(decision: &Decision) -> Vec<String> {
    let line = |intent: &Intent| match intent {
        Intent::Approve { condition, .. } => condition["message"].as_str().unwrap_or_default().to_owned(),
        Intent::Sign { usages, life, .. } => format!("sign {} {life:?}", usages.join(", ")),
        Intent::Status { status, .. } => {
            let last = status["conditions"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
            format!("{} {}: {}", last["type"], last["reason"], last["message"])
        }
        Intent::Delete { .. } => "delete".to_owned(),
        other => format!("{other:?}"),
    };
    decision.intents.iter().map(line).collect()
}

#[test]
fn nodes_are_approved_by_rule() {
    let own = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    let other = "Auto approving kubelet client certificate after SubjectAccessReview.";
    let (self_right, right): (&[&str], &[&str]) = (&["selfnodeclient"], &["nodeclient"]);
    let n1 = "system:node:n1";
    for (request, may_request, expected) in [
        (request(NODE, NODE_SIGNER, OF_CLIENT, n1), may(self_right), vec![own]),
        (request(NODE, NODE_SIGNER, OF_CLIENT, n1), may(right), vec![other]),
        (request(NODE, NODE_SIGNER, OF_CLIENT, "boot"), may(right), vec![other]),
        (request(NODE, NODE_SIGNER, OF_CLIENT, "boot"), may(self_right), vec![]),
        (request(NODE, NODE_SIGNER, OF_CLIENT, n1), may(&[]), vec![]),
        (request(NODE, NODE_SIGNER, OF_CLIENT, n1), None, vec![]),
        // A person looks at the rest.
        (request(NODE, NODE_SIGNER, &["client auth"], n1), may(self_right), vec![]),
        (request(NODE, NODE_SIGNER, &["client auth", "server auth", "digital signature"], n1), may(self_right), vec![]),
        (request(NODE_SERVER, NODE_SIGNER, OF_CLIENT, n1), may(self_right), vec![]),
        (request(NODE_SERVER, SERVER_SIGNER, OF_SERVER, n1), may(self_right), vec![]),
        (request(ALICE, NODE_SIGNER, OF_CLIENT, "alice"), may(self_right), vec![]),
        (request(NODE, CLIENT_SIGNER, OF_CLIENT, n1), may(self_right), vec![]),
    ] {
        let decision = look(request.clone(), may_request, Duration::ZERO, CREATED_S);
        assert_eq!(told(&decision), expected, "{request}");
        assert_eq!(decision.wake_at, Some(24 * 60 * MINUTE), "it goes after a day");
    }
}

/// A join token takes no node over that stands, and the name is free once the Node has gone.
#[test]
fn a_join_token_takes_no_node_over() {
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    let settings = Settings { may_request: may(&["nodeclient"]), ..Settings::default() };
    let told_for = |user: &str, groups: &[&str], node_name: &str| {
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings.clone());
        let mut asked = request(NODE, NODE_SIGNER, OF_CLIENT, user);
        asked["spec"]["groups"] = json!(groups);
        cluster.apply(&event("certificatesigningrequests", 7, Some(asked), "r"), Duration::ZERO);
        let (_, standing) = node(node_name, json!({}));
        cluster.apply(&event("nodes", 8, Some(standing), node_name), Duration::ZERO);
        decide(&cluster, "signing requests", key("certificatesigningrequests", "r"), at(Duration::ZERO))
    };
    let joiners: &[&str] = &["system:bootstrappers:kubeadm:default-node-token"];
    for (user, groups) in [("system:bootstrap:abcdef", &[][..]), ("ci", joiners)] {
        let decision = told_for(user, groups, "n1");
        let [Intent::Announce(event)] = &decision.intents[..] else { panic!("{user}: {:?}", decision.intents) };
        assert!(event.message.contains("node n1 stands") && event.message.contains("certificate approve r"));
        assert_eq!(decision.memo.as_ref().and_then(Memo::read), Some(&true), "it is told once");
        assert_eq!(told(&told_for(user, groups, "n2")), [message], "{user}: the name is free");
    }
    // The node itself renews its certificate, and a person's own program may have the right.
    assert_eq!(told(&told_for("system:node:n1", &["system:nodes"], "n1")), [message]);
    assert_eq!(told(&told_for("ci", &[], "n1")), [message]);
    // A Node that goes wakes what waits.
    let mut cluster = empty();
    let waiting = request(NODE, NODE_SIGNER, OF_CLIENT, "system:bootstrap:abcdef");
    cluster.apply(&event("certificatesigningrequests", 1, Some(waiting), "r"), Duration::ZERO);
    let woken = |gone: bool| {
        let before = super::super::cluster::Before::default();
        let concerned = Controllers::builtin().concerned(&cluster, &node_key("n1"), gone, &before);
        concerned.iter().any(|owner| owner.key.resource == REQUESTS)
    };
    assert_eq!((woken(true), woken(false)), (true, false));
}

#[test]
fn signers_take_what_those_of_kubernetes_take() {
    let hour = "Some(3600s)";
    let failed = |why: &str| vec![format!("\"Failed\" \"SignerValidationFailure\": \"{why}\"")];
    let signed = |usages: &str| vec![format!("sign {usages} {hour}")];
    let enciphering: &[&str] = &["client auth", "key encipherment", "digital signature"];
    for (pem, signer, usages, expected) in [
        (NODE, NODE_SIGNER, OF_CLIENT, signed("digital signature, client auth")),
        (NODE, NODE_SIGNER, enciphering, signed("client auth, key encipherment, digital signature")),
        (NODE_SERVER, SERVER_SIGNER, OF_SERVER, signed("digital signature, server auth")),
        (ALICE, CLIENT_SIGNER, OF_CLIENT, signed("digital signature, client auth")),
        (ALICE, CLIENT_SIGNER, &["digital signature"], {
            failed("missing required usage for client certificate: client auth")
        }),
        (ALICE, CLIENT_SIGNER, OF_SERVER, failed("invalid usage for client certificate: server auth")),
        // Whichever way it came past admission.
        (MASTERS, CLIENT_SIGNER, OF_CLIENT, {
            failed("use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
        }),
        (ALICE, NODE_SIGNER, OF_CLIENT, failed("subject organization is not system:nodes")),
        (NODE_SERVER, NODE_SIGNER, OF_CLIENT, failed("DNS subjectAltNames are not allowed")),
        (NODE, NODE_SIGNER, OF_SERVER, {
            failed("usages did not match [client auth digital signature key encipherment]")
        }),
        (NODE, SERVER_SIGNER, OF_SERVER, failed("DNS or IP subjectAltName is required")),
        (NODE_SERVER, SERVER_SIGNER, OF_CLIENT, {
            failed("usages did not match [digital signature key encipherment server auth]")
        }),
        // Others sign for themselves, and nobody for the signer of before.
        (ALICE, "example.com/own", OF_CLIENT, vec![]),
        (ALICE, "kubernetes.io/legacy-unknown", OF_CLIENT, vec![]),
    ] {
        let decision = look(approved(request(pem, signer, usages, "x")), None, Duration::ZERO, CREATED_S);
        assert_eq!(told(&decision), expected, "{signer} {usages:?}");
    }
}

#[test]
fn nothing_is_done_with_what_is_decided() {
    for (kind, more) in [("Denied", None), ("Failed", None), ("Approved", Some("Denied")), ("Approved", Some("Failed"))]
    {
        let mut request = request(NODE, NODE_SIGNER, OF_CLIENT, "system:node:n1");
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastUpdateTime": "2027-01-15T08:00:00Z"});
        request["status"] = json!({"conditions": [condition(kind), more.map(condition)]});
        if more.is_none() {
            request["status"]["conditions"].as_array_mut().expect("a list").truncate(1);
        }
        let decision = look(request, may(&["selfnodeclient"]), Duration::ZERO, CREATED_S);
        assert_eq!((told(&decision), decision.wake_at), (vec![], Some(60 * MINUTE)), "{kind} {more:?}");
    }
}

#[test]
fn old_requests_go() {
    let plain = || request(ALICE, "example.com/own", OF_CLIENT, "alice");
    let decided = |kind: &str, certificate: &str| {
        let mut request = plain();
        let condition = json!({"type": kind, "status": "True", "lastUpdateTime": "2027-01-15T08:00:00Z"});
        request["status"] = json!({"conditions": [condition], "certificate": certificate});
        request
    };
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let go = |request: Value, uptime: Duration| {
        // The clock on the wall stands still: what was seen is as old as the uptime says.
        let decision = look(request, None, uptime, CREATED_S);
        told(&decision) == ["delete"]
    };
    for (request, life) in
        [(plain(), 24), (decided("Denied", ""), 1), (decided("Failed", ""), 1), (decided("Approved", "eA=="), 1)]
    {
        assert!(!go(request.clone(), hours(life) - Duration::from_secs(1)), "{request}");
        assert!(go(request.clone(), hours(life)), "{request}");
    }
    // Approved, and its signer has not come yet.
    assert!(!go(decided("Approved", ""), hours(1000)));
    // Found by a start: as old as the clock says.
    let mut cluster = empty();
    cluster.apply(&event("certificatesigningrequests", 7, Some(decided("Denied", "")), "r"), Duration::ZERO);
    let of = |wall_s: i64| {
        let now = Now { wall: Time::from_seconds(wall_s).expect("a time"), uptime: Duration::ZERO };
        told(&decide(&cluster, "signing requests", key("certificatesigningrequests", "r"), now))
    };
    assert_eq!((of(CREATED_S + 3599), of(CREATED_S + 3600)), (vec![], vec!["delete".to_owned()]));
}

#[test]
fn a_change_of_rights_concerns_what_waits() {
    let mut cluster = empty();
    let waiting = request(NODE, NODE_SIGNER, OF_CLIENT, "boot");
    let mut other = approved(waiting.clone());
    other["metadata"]["name"] = "other".into();
    cluster.apply(&event("certificatesigningrequests", 1, Some(waiting), "r"), Duration::ZERO);
    cluster.apply(&event("certificatesigningrequests", 2, Some(other), "other"), Duration::ZERO);
    let binding = Key {
        resource: super::super::view::of_group("rbac.authorization.k8s.io", "clusterrolebindings"),
        namespace: String::new(),
        name: "b".into(),
    };
    let controllers = Controllers::builtin();
    let concerned = controllers.concerned(&cluster, &binding, false, &super::super::cluster::Before::default());
    let names: Vec<String> =
        concerned.iter().filter(|owner| owner.key.resource == REQUESTS).map(|o| o.key.name.clone()).collect();
    assert_eq!(names, ["r"]);
}

#[test]
fn a_deleted_node_loses_its_certificates() {
    use super::super::cluster::Before;
    let with_uid = |uid: &str| cluster(&[node("n1", json!({"metadata": {"name": "n1", "uid": uid}}))]);
    let controllers = Controllers::builtin();
    let of = |is: &Cluster, was: Option<&Cluster>, gone: bool| -> Vec<String> {
        let was = was.and_then(|was| was.nodes.get("n1").cloned());
        let views = was.map(|was| Box::new(was) as Box<dyn std::any::Any>).into_iter().collect();
        let concerned = controllers.concerned(is, &node_key("n1"), gone, &Before { views, ..Before::default() });
        let owners = concerned.into_iter().filter(|owner| owner.controller == "node certificates");
        owners.flat_map(|owner| decide(is, owner.controller, owner.key, at(Duration::ZERO)).intents).map(say).collect()
    };
    let (first, second, none) = (with_uid("u1"), with_uid("u2"), empty());
    assert_eq!(of(&first, None, false), ["settle n1 u1"]);
    assert_eq!(of(&first, Some(&first), false), ["settle n1 u1"], "a report takes nothing away");
    assert_eq!(of(&none, Some(&first), true), ["revoke n1"]);
    // It joined again before anybody looked.
    assert_eq!(of(&second, Some(&first), true), ["settle n1 u2", "revoke n1"]);
    assert_eq!(of(&second, Some(&first), false), ["settle n1 u2", "revoke n1"]);
}

fn say(intent: Intent) -> String {
    match intent {
        Intent::Settle { node, uid } => format!("settle {node} {uid}"),
        Intent::Revoke { node } => format!("revoke {node}"),
        other => format!("{other:?}"),
    }
}
