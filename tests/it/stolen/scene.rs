//! What thieves find: a master with two nodes, and the credentials of each kind.

use super::PODS;
use crate::tls::{self, Asker, HTTP_1, Leaf};
use crate::transcript::{self, Bed};
use coracle_master::cluster_keys::{ClusterKeys, KeyOptions};
use coracle_master::config::SecureClients;
use coracle_schema::base64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A master with two nodes, each with a pod and what the pod uses.
pub struct Scene {
    pub bed: Bed,
    secure: SocketAddr,
    pub keys: ClusterKeys,
}

impl Scene {
    pub fn new() -> Scene {
        let bed = Bed::set_up(|config| {
            config.workloads = false;
            config.secure_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            config.secure_clients = SecureClients::Network;
        });
        let secure = bed.secure_address();
        let data_dir = bed.folder.join("data");
        let keys = ClusterKeys::of_directory(KeyOptions { data_dir, ..KeyOptions::default() }).expect("keys");
        let scene = Scene { bed, secure, keys };
        let core = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
        for (name, node) in [("own", "n"), ("theirs", "m")] {
            let taint = json!({"key": "keeper", "effect": "NoSchedule"});
            scene.make("/api/v1/nodes", json!({"metadata": {"name": node}, "spec": {"taints": [taint]}}));
            for plural in ["serviceaccounts", "secrets", "configmaps"] {
                scene.make(&core(plural), json!({"metadata": {"name": name}}));
            }
            let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            scene.make(&core("persistentvolumeclaims"), json!({"metadata": {"name": name}, "spec": claim}));
            let volumes = json!([
                {"name": "a", "secret": {"secretName": name}},
                {"name": "b", "configMap": {"name": name}},
                {"name": "c", "persistentVolumeClaim": {"claimName": name}},
            ]);
            let spec = json!({
                "nodeName": node, "serviceAccountName": name, "volumes": volumes,
                "containers": [{"name": "c", "image": "i"}],
            });
            scene.make(PODS, json!({"metadata": {"name": name}, "spec": spec}));
            let lease = json!({"metadata": {"name": node}, "spec": {"holderIdentity": node}});
            scene.make("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease);
        }
        scene
    }

    pub fn make(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.admin("POST", path, &object.to_string());
        assert_eq!(code, 201, "{path} {object}: {answer}");
        answer
    }

    /// As the administrator, on the plain port.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
        let reply = transcript::ask(self.bed.network(), method, path, &headers, body);
        (reply.code, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    pub fn with_token(&self, token: &str) -> Asker {
        let config = tls::config(&self.keys.authority(), None, HTTP_1);
        Asker::new(self.secure, config, format!("Authorization: Bearer {token}\r\n"))
    }

    pub fn node(&self, name: &str) -> Asker {
        self.node_for(name, None)
    }

    /// By a certificate that counts so long. `None`: without an end.
    pub fn node_for(&self, name: &str, life: Option<Duration>) -> Asker {
        let (user, groups) = (format!("system:node:{name}"), ["system:nodes".to_owned()]);
        let (chain, key) = self.keys.sign_client(&user, &groups, life).expect("a certificate");
        Asker::new(self.secure, tls::config(&self.keys.authority(), Some(&Leaf { chain, key }), HTTP_1), String::new())
    }

    /// As the pod has it in its file.
    pub fn pod_token(&self, name: &str) -> String {
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": name});
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let answer = self.make(&path, json!({"spec": {"boundObjectRef": bound}}));
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// `expiration`: of a time's form.
    pub fn bootstrap_token(&self, token: &str, expiration: &str) {
        let (id, secret) = token.split_once('.').expect("an id and a secret");
        let fields = [
            ("token-id", id),
            ("token-secret", secret),
            ("expiration", expiration),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"),
        ];
        let data: BTreeMap<&str, String> =
            fields.iter().map(|(name, value)| (*name, base64::encode(value.as_bytes()))).collect();
        let name = format!("bootstrap-token-{id}");
        let secret = json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "data": data});
        self.make("/api/v1/namespaces/kube-system/secrets", secret);
    }
}
