//! Kinds that came in 2015 with a spec and a status from the start: the flat versions and v1beta3 differ in where the
//! metadata stands and in how amounts are written, so the same rows are laid out twice.

/// `meta`: the fields of the metadata. `amounts`: how cores and bytes are written. `disk`, `path`: the names of two
/// volume sources.
macro_rules! kinds {
    (
        meta: $meta:expr, labels: $labels:expr, amounts: $amounts:expr, disk: $disk:literal,
        disk_also: $disk_also:literal
    ) => {
        pub(crate) static SECRET: Shape = Shape(&[$meta, same! { "data": Form::TextMap, "type": Form::Text }]);

        pub(crate) static ACCOUNT: Shape = Shape(&[
            $meta,
            $labels,
            same! {
                "secrets": Form::List(&REFERENCE, &["name"]),
                "imagePullSecrets": Form::List(&SECRET_NAME, &["name"]),
            },
        ]);

        pub(crate) static LIMIT_RANGE: Shape = Shape(&[$meta, $labels, same! { "spec": Form::Object(&LIMITS) }]);

        static LIMITS: Shape = Shape(&[same! { "limits": Form::List(&LIMIT, &["type"]) }]);

        static LIMIT: Shape =
            Shape(&[same! { "type": Form::Text, "max": $amounts, "min": $amounts, "default": $amounts }]);

        pub(crate) static QUOTA: Shape = Shape(&[
            $meta,
            $labels,
            same! { "spec": Form::Object(&HARD) },
            &[field("status", &["status"], Form::Object(&USED)).observed().lax()],
        ]);

        static HARD: Shape = Shape(&[same! { "hard": $amounts }]);

        static USED: Shape = Shape(&[same! { "hard": $amounts, "used": $amounts }]);

        pub(crate) static VOLUME: Shape = Shape(&[
            $meta,
            $labels,
            same! { "spec": Form::Object(&VOLUME_SPEC) },
            &[field("status", &["status"], Form::Object(&VOLUME_STATUS)).observed().lax()],
        ]);

        static VOLUME_SPEC: Shape = Shape(&[
            same! {
                "capacity": $amounts,
                "accessModes": Form::Texts,
                "claimRef": Form::Object(&REFERENCE),
                "persistentVolumeReclaimPolicy": Form::Text,
            },
            SOURCES,
        ]);

        const SOURCES: &[Field] = &[
            field($disk, &["gcePersistentDisk"], Form::Present(&DISK)).also(&[$disk_also]),
            field("awsElasticBlockStore", &["awsElasticBlockStore"], Form::Present(&BLOCK_STORE)),
            field("hostPath", &["hostPath"], Form::Present(&PATH)).also(&["hostDir"]),
            field("glusterfs", &["glusterfs"], Form::Present(&GLUSTERFS)),
            field("nfs", &["nfs"], Form::Present(&NFS)),
            field("rbd", &["rbd"], Form::Present(&RBD)),
            field("iscsi", &["iscsi"], Form::Present(&ISCSI)),
        ];

        static VOLUME_STATUS: Shape =
            Shape(&[same! { "phase": Form::Text, "message": Form::Text, "reason": Form::Text }]);

        pub(crate) static CLAIM: Shape = Shape(&[
            $meta,
            $labels,
            same! { "spec": Form::Object(&CLAIM_SPEC) },
            &[field("status", &["status"], Form::Object(&CLAIM_STATUS)).observed().lax()],
        ]);

        static CLAIM_SPEC: Shape = Shape(&[
            same! { "accessModes": Form::Texts, "resources": Form::Object(&AMOUNTS), "volumeName": Form::Text },
        ]);

        static AMOUNTS: Shape = Shape(&[same! { "limits": $amounts, "requests": $amounts }]);

        static CLAIM_STATUS: Shape =
            Shape(&[same! { "phase": Form::Text, "accessModes": Form::Texts, "capacity": $amounts }]);

        pub(crate) static COMPONENT: Shape =
            Shape(&[$meta, $labels, same! { "conditions": Form::List(&COMPONENT_CONDITION, &["type"]) }]);

        static COMPONENT_CONDITION: Shape =
            Shape(&[same! { "type": Form::Text, "message": Form::Text, "error": Form::Text }, CONDITION_STATUS]);
    };
}

pub(super) mod flat {
    use super::super::common::{CONDITION_WORDS, LABELS, META, REFERENCE};
    use super::super::pod::SECRET_NAME;
    use super::super::shape::{Field, Form, Shape, field, same};
    use super::super::volume::{BLOCK_STORE, DISK, GLUSTERFS, ISCSI, NFS, PATH, RBD};

    kinds! { meta: META, labels: LABELS, amounts: Form::Amounts, disk: "persistentDisk",
    disk_also: "gcePersistentDisk" }

    const CONDITION_STATUS: &[Field] = &[field("status", &["status"], Form::Word(CONDITION_WORDS))];
}

pub(super) mod upright {
    use super::super::common::REFERENCE;
    use super::super::pod::SECRET_NAME;
    use super::super::shape::{Field, Form, Shape, field, same};
    use super::super::upright::META;
    use super::super::volume::{BLOCK_STORE, DISK, GLUSTERFS, ISCSI, NFS, PATH, RBD};

    kinds! { meta: META, labels: &[], amounts: Form::Plain, disk: "gcePersistentDisk", disk_also: "persistentDisk" }

    const CONDITION_STATUS: &[Field] = &[field("status", &["status"], Form::Text)];
}
