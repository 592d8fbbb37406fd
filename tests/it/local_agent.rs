//! The agent of this host, as a running master sees it: by the header with which it names its node.

use crate::transcript::{Bed, Reply, ask};
use serde_json::Value;

fn send(pipe: Pipe<'_>, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match pipe {
        Pipe::Socket(bed) => ask(bed.local(), method, path, &headers, body),
        Pipe::Port(bed) => ask(bed.network(), method, path, &headers, body),
    }
}

#[derive(Clone, Copy)]
enum Pipe<'a> {
    Socket(&'a Bed),
    Port(&'a Bed),
}

#[test]
fn an_agent_is_held_like_a_node() {
    let bed = Bed::new();
    for pipe in [Pipe::Socket(&bed), Pipe::Port(&bed)] {
        let who = |headers: &[(&str, &str)]| {
            let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
            let headers = [&[("Content-Type", "application/json")], headers].concat();
            let reply = send(pipe, "POST", path, &headers, "{}");
            let review: Value = serde_json::from_slice(&reply.body).expect("JSON");
            (reply.code, review["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
        };
        let node = [("Coracle-Node", "n1")];
        // Root's kubectl is who it was.
        assert_eq!(who(&[]), (201, "system:admin".to_owned()));
        assert_eq!(who(&node), (201, "system:node:n1".to_owned()));
        assert_eq!(who(&[("Coracle-Node", "../n1")]).0, 401);
        let code = |method: &str, path: &str| send(pipe, method, path, &node, "").code;
        for (path, expected) in [
            ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200),
            ("/apis/discovery.k8s.io/v1/endpointslices", 200),
            ("/api/v1/persistentvolumes", 200),
            ("/api/v1/nodes?fieldSelector=metadata.name%3Dformer", 200),
            ("/api/v1/namespaces/kube-system", 200),
            ("/api/v1/namespaces/default", 403),
            ("/api/v1/pods", 403),
            ("/api/v1/secrets", 403),
            ("/coracle/rbac/adoption", 403),
        ] {
            assert_eq!(code("GET", path), expected, "{path}");
        }
        // What it is, it cannot leave: it acts for nobody else.
        let other = [("Coracle-Node", "n1"), ("Impersonate-User", "system:admin")];
        assert_eq!(who(&other).0, 403);
    }
}
