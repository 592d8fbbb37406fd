//! An address of this host that changes, in a network namespace of its own.

use crate::service_rules::inside;
use coracle_agent::host::machine;
use coracle_agent::network::address;
use std::net::IpAddr;
use std::process::Command;
use tokio::sync::watch;
use tokio::task::yield_now;

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip of iproute2");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_lease_that_changes_is_heard_of() {
    if !inside("address::a_lease_that_changes_is_heard_of") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        assert_eq!(machine::outward(), None);
        ip("link add eth0 type veth peer name eth1");
        ip("link set eth1 up");
        ip("link set eth0 up");
        ip("addr add 192.0.2.7/24 dev eth0");
        assert_eq!(machine::outward(), Some(IpAddr::from([192, 0, 2, 7])));
        let (sender, mut address) = watch::channel("198.51.100.1".to_owned());
        let mut next = async || {
            address.changed().await.expect("it follows");
            address.borrow_and_update().clone()
        };
        let changes = async {
            assert_eq!(next().await, "192.0.2.7", "what changed before it listened");
            yield_now().await;
            // Between two leases it is the one of before.
            ip("addr del 192.0.2.7/24 dev eth0");
            ip("addr add 192.0.2.9/24 dev eth0");
            assert_eq!(next().await, "192.0.2.9");
        };
        tokio::select! {
            () = address::follow(sender) => panic!("it hears nothing any more"),
            () = changes => {}
        }
    });
}
