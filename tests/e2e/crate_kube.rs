//! The crate `kube` looks into pods: a command, a terminal, the container's own process, ports.

use crate::Test;
use crate::bed::{Bed, MASTER};
use crate::images::BUSYBOX;
use crate::streams::{bytes, pod, start_box};
use futures_util::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, TerminalSize};
use kube::{Api, Client, Config};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub const TESTS: &[Test] = &[("streams_crate_kube", crate_kube)];

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Nothing that is awaited here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);
const LARGE_BYTES: usize = 3 << 20;

fn crate_kube(bed: &mut Bed) {
    start_box(bed);
    let listens = "while read -r line; do echo heard $line; done; echo end";
    let container =
        json!({"name": "c", "image": BUSYBOX, "stdin": true, "stdinOnce": true, "command": ["sh", "-c", listens]});
    pod(bed, "ears", &json!({"restartPolicy": "Never", "containers": [container]}));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread");
    let looked = runtime.block_on(async {
        let client = Client::try_from(Config::new(format!("http://{MASTER}").parse()?))?;
        let pods: Api<Pod> = Api::default_namespaced(client);
        tokio::time::timeout(PATIENCE, command(&pods)).await??;
        tokio::time::timeout(PATIENCE, terminal(&pods)).await??;
        tokio::time::timeout(PATIENCE, attached(&pods)).await??;
        tokio::time::timeout(PATIENCE, ports(&pods)).await?
    });
    looked.unwrap_or_else(|why: Box<dyn std::error::Error>| panic!("{why}"));
}

async fn command(pods: &Api<Pod>) -> Outcome {
    let params = AttachParams::default().stdin(true).container("c");
    let mut process = pods.exec("box", ["sh", "-c", "cat; echo err >&2; exit 7"], &params).await?;
    let (mut stdin, mut stdout) = (process.stdin().ok_or("no stdin")?, process.stdout().ok_or("no stdout")?);
    let (mut stderr, status) = (process.stderr().ok_or("no stderr")?, process.take_status().ok_or("no status")?);
    let (large, mut back, mut errors) = (bytes(LARGE_BYTES), Vec::new(), String::new());
    let write = async {
        stdin.write_all(&large).await?;
        stdin.shutdown().await?;
        drop(stdin);
        Ok(())
    };
    let (written, read, complained) =
        tokio::join!(write, stdout.read_to_end(&mut back), stderr.read_to_string(&mut errors));
    let _: (usize, usize) = (read?, complained?);
    written.map_err(|error: std::io::Error| error)?;
    assert!(back == large && errors == "err\n", "{} bytes, {errors:?}", back.len());
    let status = status.await.ok_or("nobody says how it ended")?;
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"), "{status:?}");
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    assert_eq!(causes.first().and_then(|cause| cause.message.as_deref()), Some("7"));
    Ok(process.join().await?)
}

async fn terminal(pods: &Api<Pod>) -> Outcome {
    let sized = "until [ \"$(stty size 2>/dev/null)\" = '31 97' ]; do sleep 0.1; done; echo sized";
    let mut process = pods.exec("box", ["sh", "-c", sized], &AttachParams::interactive_tty().container("c")).await?;
    process.terminal_size().ok_or("no sizes")?.send(TerminalSize { width: 97, height: 31 }).await?;
    let mut said = String::new();
    process.stdout().ok_or("no stdout")?.read_to_string(&mut said).await?;
    assert_eq!(said, "sized\r\n");
    Ok(process.join().await?)
}

/// To one that listens, and to one that says nothing and goes on when it is left.
async fn attached(pods: &Api<Pod>) -> Outcome {
    let process = pods.attach("box", &AttachParams::default().container("c")).await?;
    process.abort();
    let mut process = pods.attach("ears", &AttachParams::default().stdin(true).container("c")).await?;
    let (mut stdin, mut stdout) = (process.stdin().ok_or("no stdin")?, process.stdout().ok_or("no stdout")?);
    stdin.write_all(b"one\ntwo\n").await?;
    let mut said = vec![0; "heard one\nheard two\n".len()];
    stdout.read_exact(&mut said).await?;
    assert_eq!(String::from_utf8_lossy(&said), "heard one\nheard two\n");
    stdin.shutdown().await?;
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).await?;
    assert_eq!(rest, "end\n", "its end of input is heard");
    Ok(process.join().await?)
}

async fn ports(pods: &Api<Pod>) -> Outcome {
    let mut forwarded = pods.portforward("box", &[8080, 9]).await?;
    let mut http = forwarded.take_stream(8080).ok_or("no stream")?;
    http.write_all(b"GET /cgi-bin/sum HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    http.read_to_string(&mut answer).await?;
    assert!(answer.contains("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), "{answer}");
    let why = forwarded.take_error(9).ok_or("no error")?.await.unwrap_or_default();
    assert!(why.contains("connection refused"), "{why}");
    forwarded.abort();
    Ok(())
}
