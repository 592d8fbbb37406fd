//! Watches over the network side: each event at once, and nobody waits for a slow reader.
use crate::wire::{Demo, Peer, get, serves};
use std::time::Duration;

#[test]
fn each_event_is_a_chunk_of_its_own() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    for i in 0..3 {
        demo.publish(format!("{{\"n\":{i}}}\n").as_bytes());
        assert_eq!(peer.until_text("}\n\r\n"), format!("8\r\n{{\"n\":{i}}}\n\r\n"));
    }
    demo.end_streams();
    assert_eq!(peer.until_text("0\r\n\r\n"), "0\r\n\r\n");
    demo.a_stream_is_left();
    // The connection goes on.
    peer.send(&get("/small"));
    peer.until_text("small\n");
    plane.stop();
}

#[test]
fn a_watcher_that_leaves_is_noticed_while_nothing_happens() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    drop(peer);
    demo.a_stream_is_left();
    plane.stop();
}

#[test]
fn a_slow_watcher_is_dropped_by_its_publisher_and_ends_cleanly() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut slow = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    slow.send(&get("/watch"));
    slow.until_text("\r\n\r\n");
    let event = [vec![b' '; 64 << 10], b"\n".to_vec()].concat();
    while demo.watchers() > 0 {
        demo.publish(&event);
    }
    assert!(serves(Peer::tcp(&plane)));
    let all = slow.until(|all| all.ends_with(b"\r\n0\r\n\r\n"));
    assert!(all.ends_with(b"\n\r\n0\r\n\r\n"), "what was accepted arrives, then the end");
    demo.a_stream_is_left();
    plane.stop();
}

#[test]
fn a_watcher_that_reads_nothing_is_disconnected() {
    let demo = Demo::new();
    let plane = demo.network(|limits| limits.stall = Duration::from_millis(500));
    let mut stuck = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    stuck.send(&get("/watch"));
    stuck.until_text("\r\n\r\n");
    let event = [vec![b' '; 64 << 10], b"\n".to_vec()].concat();
    while demo.watchers() > 0 {
        demo.publish(&event);
    }
    // It holds a full buffer and never takes it: not the publisher but the connection gives up.
    demo.a_stream_is_left();
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn more_streams_than_there_are_places() {
    let demo = Demo::new();
    let plane = demo.network(|limits| limits.streams_max = 1);
    let mut first = Peer::tcp(&plane);
    first.send(&get("/watch"));
    first.until_text("\r\n\r\n");
    let mut second = Peer::tcp(&plane);
    second.send(&get("/watch"));
    second.until_text("HTTP/1.1 429");
    drop(first);
    plane.stop();
}
