//! Storage: classes of volumes, attachments of volumes, and the reports of CSI drivers.

use super::kind::Kind;
use super::row::Group;
use crate::strategy::{self, advice};

const STORAGE: Group = Group { name: "storage.k8s.io", version: "v1", package: "storage" };

pub fn rows() -> Vec<Kind> {
    vec![
        STORAGE
            .row("csidrivers", "csidriver", "CSIDriver", &strategy::CSI_DRIVER)
            .of_cluster()
            .put_names_revision()
            .delete_shows()
            .idle(),
        STORAGE
            .row("csinodes", "csinode", "CSINode", &strategy::CSI_NODE)
            .of_cluster()
            .put_names_revision()
            .delete_shows(),
        STORAGE
            .row("csistoragecapacities", "csistoragecapacity", "CSIStorageCapacity", &strategy::CSI_CAPACITY)
            .put_names_revision()
            .idle(),
        STORAGE
            .row("storageclasses", "storageclass", "StorageClass", &strategy::STORAGE_CLASS)
            .of_cluster()
            .advised(advice::storage_class)
            .short(&["sc"])
            .delete_shows(),
        STORAGE
            .row("volumeattachments", "volumeattachment", "VolumeAttachment", &strategy::VOLUME_ATTACHMENT)
            .of_cluster()
            .with_status()
            .status_keeps(&["annotations", "finalizers", "labels", "ownerReferences"])
            .put_names_revision()
            .delete_shows()
            .idle(),
        STORAGE
            .row(
                "volumeattributesclasses",
                "volumeattributesclass",
                "VolumeAttributesClass",
                &strategy::ATTRIBUTES_CLASS,
            )
            .of_cluster()
            .short(&["vac"])
            .delete_shows()
            .idle(),
    ]
}
