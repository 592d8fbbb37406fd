//! The pods of a history, as documents.

use coracle_agent::facts::naming::Source;
use coracle_agent::runtime::fake::Random;
use serde_json::{Value, json};

use super::theme::Traits;

const IMAGES: [&str; 16] = [
    "steady:1",
    "steady:1",
    "steady:1",
    "steady:1",
    "steady:1",
    "slow:1",
    "slow:1",
    "stubborn:1",
    "crash:1",
    "done:1",
    "done:1",
    "heal3:1",
    "exit3:1",
    "bad:1",
    "absent:1",
    "local:1",
];
const POLICIES: [&str; 4] = ["Always", "Always", "OnFailure", "Never"];
/// The names of a ConfigMap and a Secret, whose data are one text.
pub const OBJECTS: [&str; 2] = ["m0", "x0"];
const RESTART_ALL: &str = "RestartAllContainers";
pub const KEY: &str = "text";
/// The volume that one of them fills.
pub const FILLED: &str = "filled";

/// Draws pods.
pub struct Maker<'a> {
    pub random: &'a mut Random,
    pub traits: Traits,
}

impl Maker<'_> {
    pub fn pod(&mut self, number: usize) -> (Source, Value, bool) {
        let traits = self.traits;
        let source = if self.random.percent(traits.master) { Source::Master } else { Source::File };
        let policy = traits.policy.unwrap_or(self.pick(&POLICIES));
        let containers: Vec<Value> =
            (0..1 + self.random.below(2)).map(|index| self.main(&format!("c{index}"))).collect();
        let mut document = json!({
            "metadata": {"namespace": "default", "name": format!("pod{number}"), "uid": format!("u{number}")},
            "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 2, "containers": containers},
        });
        let spec = &mut document["spec"];
        if self.random.percent(traits.init) {
            spec["initContainers"] = self.init_containers();
        }
        if self.random.percent(traits.restart_all) {
            self.add_restart_all(spec);
        }
        let mut volumes = Vec::new();
        if self.random.percent(40) {
            volumes.push(json!({"name": "v", "emptyDir": {}}));
        }
        if self.random.percent(traits.content) {
            let of_map = self.random.percent(50);
            let source = if of_map {
                json!({"configMap": {"name": OBJECTS[0]}})
            } else {
                json!({"secret": {"secretName": OBJECTS[1]}})
            };
            let mut volume = json!({"name": FILLED});
            volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
            volumes.push(volume);
            spec["containers"][0]["volumeMounts"] = json!([{"name": FILLED, "mountPath": "/filled"}]);
        }
        if !volumes.is_empty() {
            spec["volumes"] = volumes.into();
        }
        if self.random.percent(traits.deadline) {
            spec["activeDeadlineSeconds"] = json!(3 + self.random.below(50));
        }
        if self.random.percent(traits.ports) {
            self.set_port(spec);
        }
        let refused = self.random.percent(traits.refused);
        if refused {
            spec["hostUsers"] = json!(false);
        }
        (source, document, refused)
    }

    /// One of its containers has a rule by which all start anew, and ends so, mostly once.
    fn add_restart_all(&mut self, spec: &mut Value) {
        let inits = spec["initContainers"].as_array().map_or(0, Vec::len);
        let at = usize::try_from(self.random.below(inits as u64 + 2)).unwrap();
        let container = if at < inits { &mut spec["initContainers"][at] } else { &mut spec["containers"][0] };
        let name = container["name"].as_str().unwrap().to_owned();
        let ever = if self.random.percent(10) { "exit3:1" } else { "heal3:1" };
        container["image"] = json!(if is_init(&name) { "try3:1" } else { ever });
        container["imagePullPolicy"] = json!("IfNotPresent");
        container["restartPolicy"] = json!(if is_sidecar(&name) { "Always" } else { "Never" });
        container["restartPolicyRules"] =
            json!([{"action": RESTART_ALL, "exitCodes": {"operator": "In", "values": [3]}}]);
    }

    /// One to three: those that end, and sidecars, in any order.
    fn init_containers(&mut self) -> Value {
        let (mut inits, mut sidecars) = (0, 0);
        let mut all = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            if self.random.percent(50) {
                let image = if self.random.percent(75) { "done:1" } else { "try3:1" };
                let mut init = json!({"name": format!("i{inits}"), "image": image, "imagePullPolicy": "IfNotPresent"});
                if self.random.percent(self.traits.own_policies) {
                    self.add_policy(&mut init);
                }
                all.push(init);
                inits += 1;
            } else {
                let image = self.pick(&["steady:1", "slow:1", "stubborn:1"]);
                let name = format!("s{sidecars}");
                let mut sidecar =
                    json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always"});
                self.add_checks(&mut sidecar);
                all.push(sidecar);
                sidecars += 1;
            }
        }
        all.into()
    }

    pub fn main(&mut self, name: &str) -> Value {
        let mut container = self.plain(name);
        self.add_checks(&mut container);
        if self.random.percent(self.traits.resources) {
            self.add_resources(&mut container);
            if self.random.percent(30) {
                container["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
            }
        }
        if self.random.percent(self.traits.own_policies) {
            self.add_policy(&mut container);
        }
        container
    }

    /// Nothing but a name and an image.
    pub fn plain(&mut self, name: &str) -> Value {
        let image = self.pick(&IMAGES);
        let pull = if image.starts_with("local") || self.random.percent(20) { "Always" } else { "IfNotPresent" };
        json!({"name": name, "image": image, "imagePullPolicy": pull})
    }

    fn add_checks(&mut self, container: &mut Value) {
        if self.random.percent(self.traits.probes) {
            let chances =
                [("startupProbe", "startup", 40), ("livenessProbe", "live", 60), ("readinessProbe", "ready", 60)];
            for (field, word, _) in
                chances.into_iter().filter(|(_, _, chance)| self.random.percent(*chance)).collect::<Vec<_>>()
            {
                let (period, failures) = (2 + self.random.below(8), 1 + self.random.below(3));
                container[field] =
                    json!({"exec": {"command": [word]}, "periodSeconds": period, "failureThreshold": failures});
                if word == "ready" {
                    container[field]["successThreshold"] = json!(1 + self.random.below(2));
                }
            }
        }
        if self.random.percent(self.traits.hooks) {
            if self.random.percent(40) {
                let hangs = container["name"] == "c0" && self.random.percent(self.traits.hanging);
                let takes = if hangs { "250000" } else { "300" };
                container["lifecycle"]["postStart"] = json!({"exec": {"command": ["postStart", takes]}});
            }
            if self.random.percent(80) {
                // The last takes longer than the grace.
                let takes = self.pick(&["10", "900", "9000"]);
                container["lifecycle"]["preStop"] = json!({"exec": {"command": ["preStop", takes]}});
            }
        }
    }

    pub fn add_resources(&mut self, container: &mut Value) {
        let (cpu, memory) = (100 + 100 * self.random.below(14), 100 + 100 * self.random.below(10));
        let mut amounts = json!({"cpu": format!("{cpu}m")});
        if !container["resources"]["limits"]["memory"].is_null() || self.random.percent(50) {
            amounts["memory"] = json!(format!("{memory}Mi"));
        }
        // A limit that is there is never taken away: the API does not let it.
        let limited = !container["resources"]["limits"].is_null() || self.random.percent(50);
        container["resources"] =
            if limited { json!({"requests": amounts, "limits": amounts}) } else { json!({"requests": amounts}) };
    }

    fn add_policy(&mut self, container: &mut Value) {
        container["restartPolicy"] = json!(self.pick(&["Always", "OnFailure", "Never"]));
        if container["name"].as_str().unwrap().starts_with('i') && container["restartPolicy"] == "Always" {
            container["restartPolicy"] = json!("Never");
        }
        if self.random.percent(60) {
            let operator = self.pick(&["In", "NotIn"]);
            container["restartPolicyRules"] =
                json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": [3]}}]);
        }
    }

    pub fn set_port(&mut self, spec: &mut Value) {
        let port = 8080 + self.random.below(2);
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.random.below(from.len() as u64)).unwrap()]
    }
}

/// What kind of container a name is of, in this simulation.
pub fn is_init(name: &str) -> bool {
    name.starts_with('i')
}

pub fn is_sidecar(name: &str) -> bool {
    name.starts_with('s')
}

/// The container of that name, wherever it stands in a pod.
pub fn container<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists
        .iter()
        .flat_map(|list| document["spec"][list].as_array().into_iter().flatten())
        .find(|container| container["name"] == name)
}

/// Whether one of its containers has a rule by which all start anew.
pub fn has_restart_all(document: &Value) -> bool {
    containers(document).any(is_source)
}

/// Init containers and main ones.
pub fn containers(document: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].iter().flat_map(|list| document["spec"][list].as_array().into_iter().flatten())
}

/// Whether the rule of a container is that all start anew.
pub fn is_source(container: &Value) -> bool {
    container["restartPolicyRules"].as_array().into_iter().flatten().any(|rule| rule["action"] == RESTART_ALL)
}

/// Whether Kubernetes starts a container again that ended with this code. Written down here once more, on purpose.
pub fn starts_again(document: &Value, name: &str, code: i32) -> bool {
    let Some(container) = container(document, name) else { return false };
    if is_sidecar(name) {
        return true;
    }
    if is_init(name) && code == 0 {
        return false;
    }
    for rule in container["restartPolicyRules"].as_array().into_iter().flatten() {
        let listed = rule["exitCodes"]["values"].as_array().unwrap().contains(&json!(code));
        if listed == (rule["exitCodes"]["operator"] == "In") {
            return true;
        }
    }
    match container["restartPolicy"].as_str().unwrap_or(document["spec"]["restartPolicy"].as_str().unwrap()) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}
