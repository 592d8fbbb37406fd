//! The API of 2014.

use crate::transcript::check;

#[test]
fn pods() {
    check("v1beta1-pods");
}

#[test]
fn replication_controllers() {
    check("v1beta1-replicationcontrollers");
}

#[test]
fn services() {
    check("v1beta1-services");
}

#[test]
fn others() {
    check("v1beta1-others");
}

#[test]
fn errors() {
    check("v1beta1-errors");
}

#[test]
fn v1beta3() {
    check("v1beta3");
}
