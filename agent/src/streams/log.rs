//! A log over WebSocket: each piece is a message.

use coracle_http::Upgraded;
use coracle_http::channel::Receiver;
use coracle_http::websocket::frames::CLOSE_NORMAL;
use coracle_http::websocket::{Writer, open};
use tokio::time::timeout;

use super::channels::LINGER;

/// Until the log ends, or the client has gone.
pub async fn carry(upgraded: Upgraded, base64: bool, lines: Receiver) {
    let (mut reader, mut writer) = open(upgraded);
    tokio::select! {
        () = async { while let Ok(Some(_)) = reader.next().await {} } => {}
        _ = write(&mut writer, base64, lines) => {}
    }
    let _ = timeout(LINGER, async {
        if writer.close(CLOSE_NORMAL).await.is_ok() {
            reader.drain().await;
        }
    })
    .await;
}

async fn write(writer: &mut Writer, base64: bool, mut lines: Receiver) -> std::io::Result<()> {
    // Tells clients that all is connected.
    writer.message(base64, &[]).await?;
    loop {
        tokio::select! {
            ping = writer.ping() => if let Some(ping) = ping { writer.pong(&ping).await? },
            line = lines.recv() => match line {
                None => return Ok(()),
                Some(line) if base64 => writer.message(true,
                    &[coracle_schema::base64::encode(&line).as_bytes()]).await?,
                Some(line) => writer.message(false, &[&line]).await?,
            },
        }
    }
}
