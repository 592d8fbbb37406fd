//! The engine's runtime that a pod asks for by the name of a RuntimeClass. PURE.

use crate::facts::desired::Desired;
use crate::facts::naming::Source;
use crate::facts::objects::{ObjectKind, ObjectState};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;

/// None: the engine's own. A file names a runtime of the engine itself, for it has no RuntimeClasses. The error is what
/// the pod waits for.
pub fn handler(desired: &Desired, wanted: &Wanted) -> Result<Option<String>, Waiting> {
    let name = wanted.pod.spec.runtime_class_name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    if wanted.name.source == Source::File {
        return Ok(Some(name.to_owned()));
    }
    match desired.objects.find_in(&wanted.name, ObjectKind::RuntimeClass, "", name) {
        ObjectState::There(class) | ObjectState::Kept(class) => {
            Ok(class.facts["handler"].as_str().filter(|name| !name.is_empty()).map(str::to_owned))
        }
        ObjectState::Absent => {
            let text = format!("failed to get sandbox runtime: runtimeclass.node.k8s.io \"{name}\" not found");
            Err(Waiting::new(WaitReason::SetupFailed, text))
        }
        ObjectState::Unknown { silent: true } => {
            Err(Waiting::new(WaitReason::SetupFailed, format!("runtime class \"{name}\": the master does not answer")))
        }
        ObjectState::Unknown { silent: false } => Err(Waiting::creating()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::objects::{Object, Objects, Ref};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_class_names_a_runtime() {
        let class =
            |name: &str| Ref { kind: ObjectKind::RuntimeClass, namespace: String::new(), name: name.to_owned() };
        let kata = Object::read(ObjectKind::RuntimeClass, &json!({"handler": "kata-qemu", "overhead": {}}));
        let known = [(class("kata"), Some(Arc::new(kata))), (class("gone"), None)].into();
        let desired = Desired { objects: Arc::new(Objects { known, ..Objects::default() }), ..Desired::default() };
        let check = |source: Source, name: &str, expected: Result<Option<&str>, &str>| {
            let document =
                json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"runtimeClassName": name}});
            let found = handler(&desired, &Wanted::new(source, document).unwrap());
            let found = found.as_ref().map(Option::as_deref).map_err(|waiting| waiting.message.as_str());
            assert_eq!(found, expected, "{name}");
        };
        check(Source::Master, "", Ok(None));
        check(Source::Master, "kata", Ok(Some("kata-qemu")));
        check(
            Source::Master,
            "gone",
            Err("failed to get sandbox runtime: runtimeclass.node.k8s.io \"gone\" not found"),
        );
        check(Source::Master, "unheard", Err(""));
        check(Source::File, "runsc", Ok(Some("runsc")));
    }
}
