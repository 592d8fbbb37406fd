//! Objects of manifest files: a refused one hides no other, and what ran of it runs on.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;

pub const TESTS: &[Test] = &[("whole_files_refused_object", refused_object)];

fn pod(name: &str, command: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: {name}
    image: {BUSYBOX}
    {command}: [sleep, '3600']
"
    )
}

fn refused_object(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("shop", &pod("till", "command"));
    let before = bed.until("it runs", |bed| bed.running_of("till").pop());
    bed.drop_manifest("shop", &format!("{}---\n{}", pod("till", "comand"), pod("scale", "command")));
    bed.until("the other object is taken", |bed| bed.running_of("scale").pop());
    let says = "Pod default/till (line 1): spec.containers[0].comand (line 8): unknown; did you mean command? (its \
     last \
                good version goes on)";
    bed.until("the log names the field", |bed| bed.log("agent").contains(says).then_some(()));
    assert_eq!(bed.running_of("till"), [before.clone()]);
    // Also over a restart of the agent.
    bed.kill_agent();
    bed.start_agent_with(&[]);
    bed.until("the agent has looked", |bed| bed.pod_like("scale").filter(|pod| pod["status"]["phase"] == "Running"));
    assert_eq!(bed.running_of("till"), [before]);
    // A file that parses and has an object no more ends the object.
    bed.drop_manifest("shop", &pod("scale", "command"));
    bed.until("it is gone", |bed| bed.running_of("till").is_empty().then_some(()));
    assert_eq!(bed.running_of("scale").len(), 1);
}
