//! The agent's client against both sides, and against servers that break off.
use super::wire::{Demo, Private};
use bytes::Bytes;
use coracle_http::client::{CallError, Client, LINE_BYTES_MAX, Target};
use coracle_http::local::LocalPort;
use coracle_http::{LocalLimits, Method, StatusCode, local};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn on_both_sides(check: impl AsyncFn(&Demo, Client)) {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let directory = Private::new();
    let limits = LocalLimits { heartbeat: Duration::from_millis(50), ..LocalLimits::HOST };
    let local = local::start(&directory.socket(), demo.handler.clone(), LocalPort::of_root(limits)).unwrap();
    for target in [format!("http://{}", plane.address), format!("unix://{}", directory.socket().display())] {
        on_a_runtime(check(&demo, Client::new(target.parse::<Target>().unwrap(), "test")));
    }
    local.stop();
    plane.stop();
}

/// A server of one connection that answers every request with these bytes and closes.
fn says(answer: Vec<u8>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&answer);
    });
    Client::new(target, "test")
}

#[test]
fn calls() {
    on_both_sides(async |_, client| {
        let reply = client.call(Method::GET, "/dump?a=b%20c", None).await.unwrap();
        assert_eq!((reply.status, reply.body.as_ref()), (StatusCode::OK, b"GET /dump?a=b%20c 0".as_slice()));
        let reply = client.call(Method::PUT, "/dump", Some(Bytes::from_static(b"{}"))).await.unwrap();
        assert_eq!(reply.body, "PUT /dump 2");
        let reply = client.call(Method::GET, "/nowhere", None).await.unwrap();
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
        let reply = client.call(Method::GET, "/list", None).await.unwrap();
        assert_eq!(reply.body.len(), 4 << 20);
    });
}

#[test]
fn watches() {
    on_both_sides(async |demo, client| {
        let mut lines = client.stream("/watch").await.unwrap();
        demo.publish(b"{\"a\":1}\n\n \n{\"b\":");
        demo.publish(b"2}\n");
        assert_eq!(lines.next().await.unwrap().unwrap(), "{\"a\":1}");
        assert_eq!(lines.next().await.unwrap().unwrap(), "{\"b\":2}");
        demo.end_streams();
        assert!(lines.next().await.unwrap().is_none());
        demo.a_stream_is_left_soon().await;
        match client.stream("/nowhere").await {
            Err(CallError::Refused(_, reply)) => assert_eq!(reply.status, StatusCode::NOT_FOUND),
            _ => panic!("a watch that is refused"),
        }
        // Several at once; a client that forgets its watch leaves it.
        let (first, second) = tokio::join!(client.stream("/watch"), client.stream("/watch"));
        drop((first.unwrap(), second.unwrap()));
        for _ in 0..2 {
            demo.a_stream_is_left_soon().await;
        }
    });
}

#[test]
fn servers_that_break_off() {
    let call = |answer: &[u8]| on_a_runtime(says(answer.to_vec()).call(Method::GET, "/", None));
    assert!(matches!(call(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"), Err(CallError::Broken(..))));
    assert!(matches!(call(b""), Err(CallError::Broken(..))));
    assert!(matches!(call(b"SSH-2.0-server\r\n"), Err(CallError::Broken(..))));
    assert!(matches!(call(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), Err(CallError::TooLarge(..))));
    let watch = |body: &[u8]| {
        let client = says([b"HTTP/1.1 200 OK\r\n\r\n", body].concat());
        on_a_runtime(async {
            let mut lines = client.stream("/").await?;
            while lines.next().await?.is_some() {}
            Ok::<(), CallError>(())
        })
    };
    assert!(watch(b"{}\n{}\n").is_ok());
    assert!(matches!(watch(b"{}\n{"), Err(CallError::Broken(..))), "a line without its end is no event");
    assert!(matches!(watch(&vec![b'a'; LINE_BYTES_MAX + (1 << 20)]), Err(CallError::TooLarge(..))));
    let nobody: Target = "unix:///nonexistent/api.sock".parse().unwrap();
    assert!(matches!(
        on_a_runtime(Client::new(nobody, "test").call(Method::GET, "/", None)),
        Err(CallError::Unreachable(..))
    ));
}
