//! Watches over the network side: each event at once, and nobody waits for a slow reader.
use super::wire::{Demo, Peer, get, serves};
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

/// The items of a body in chunks, each as long as it says, and whether its end has come.
fn items(mut body: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut items = Vec::new();
    while let Some(at) = body.windows(2).position(|two| two == b"\r\n") {
        let bytes = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        let (item, rest) = body[at + 2..].split_at(bytes);
        assert!(rest.starts_with(b"\r\n"), "a chunk of {bytes} bytes ends where it says");
        if bytes == 0 {
            return (items, true);
        }
        items.push(item);
        body = &rest[2..];
    }
    (items, false)
}

#[test]
fn what_the_socket_did_not_take_at_once_comes_whole_and_in_order() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut slow = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    slow.send(&get("/watch"));
    slow.until_text("\r\n\r\n");
    let mut published = 0;
    while demo.watchers() > 0 {
        demo.publish(format!("{published:060000}").as_bytes());
        published += 1;
    }
    let all = slow.until(|all| all.ends_with(b"\r\n0\r\n\r\n"));
    let (items, ended) = items(&all);
    // The last one was not taken.
    let wanted: Vec<String> = (0..published - 1).map(|n| format!("{n:060000}")).collect();
    assert!(ended && items.iter().eq(wanted.iter().map(|item| item.as_bytes()).collect::<Vec<_>>().iter()));
    demo.a_stream_is_left();
    plane.stop();
}

/// More than two sockets hold.
const LARGE_BYTES: usize = 16 << 20;

#[test]
fn a_watcher_that_was_behind_goes_on() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    for _ in 0..2 {
        demo.publish(&vec![b'a'; LARGE_BYTES]);
        demo.publish(b"");
        demo.publish(b"b\n");
        let all = peer.until(|all| all.ends_with(b"\r\n2\r\nb\n\r\n"));
        assert_eq!(
            items(&all).0.iter().map(|item| item.len()).collect::<Vec<_>>(),
            [LARGE_BYTES, 2],
            "an empty item is nothing"
        );
        demo.publish(b"c\n");
        assert_eq!(peer.until_text("c\n\r\n"), "2\r\nc\n\r\n");
    }
    plane.stop();
}

#[test]
fn a_stop_sends_what_was_begun() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    demo.publish(&vec![b'a'; LARGE_BYTES]);
    let mut all = peer.until(|all| all.ends_with(b"a"));
    let stop = std::thread::spawn(move || plane.stop());
    all.extend(peer.rest());
    let (items, ended) = items(&all);
    assert!(ended && items == [&vec![b'a'; LARGE_BYTES]], "{} items", items.len());
    demo.a_stream_is_left();
    stop.join().unwrap();
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
    let plane = demo.network(|limits| limits.streams_max = 20);
    let from = |last| Peer::tcp_from(&plane, [127, 0, 0, last], 1 << 16);
    // One address leaves room to another, and both to a third.
    let open = |last: u8| {
        let mut kept = Vec::new();
        loop {
            let mut peer = from(last);
            peer.send(&get("/watch"));
            let head = peer.until_text("\r\n\r\n");
            match head.starts_with("HTTP/1.1 200") {
                true => kept.push(peer),
                false => return (kept, head.starts_with("HTTP/1.1 429")),
            }
        }
    };
    let all = [1, 2, 3].map(open);
    assert_eq!(
        all.iter().map(|(kept, refused)| (kept.len(), *refused)).collect::<Vec<_>>(),
        [(17, true), (2, true), (0, true)]
    );
    drop(all);
    let mut again = from(1);
    super::wire::eventually("the places come back", || {
        again = from(1);
        again.send(&get("/watch"));
        again.until_text("\r\n\r\n").starts_with("HTTP/1.1 200")
    });
    plane.stop();
}
