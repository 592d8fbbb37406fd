//! Names and labels of containers <-> what they are. PURE.

/// On every container and network of ours; the value is the kind of thing.
pub const LABEL_OWNED: &str = "dev.coracle.kind";
