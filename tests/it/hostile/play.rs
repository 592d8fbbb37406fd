//! Plays a script of a connection over a socket.

use super::subject::{PATIENCE, Subject, Which};
use crate::tls::{self, HTTP_1, HTTP_2};
use coracle_tests::fuzz::connections::{End, Handshake, Protocol, Reads, Script};
use coracle_tests::fuzz::{Dice, spoil_bytes};
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing has come for so long: the server has said what it has to say, or waits.
const MOMENT: Duration = Duration::from_millis(4);
/// A server that takes nothing holds up a player for so long.
const TAKES: Duration = Duration::from_millis(100);
/// Bytes of an answer that are read before its reader has enough.
const ENOUGH: usize = 4 << 20;
const A_FEW: usize = 300;

pub struct Player<'s> {
    subject: &'s Subject,
    /// Players have addresses of their own, by which the server counts.
    from: [u8; 4],
    /// By protocol, version and certificate.
    configs: Vec<Vec<Arc<ClientConfig>>>,
}

/// A connection as its client has it.
struct Wire {
    socket: TcpStream,
    session: Option<ClientConnection>,
    /// The server has ended it, or the client has seen what it does not take.
    is_over: bool,
}

impl Player<'_> {
    pub fn new(subject: &Subject, number: usize) -> Player<'_> {
        let certificates = || std::iter::once(None).chain(subject.leaves.iter().map(Some));
        let of = |protocol: &[u8], versions: &[&'static rustls::SupportedProtocolVersion]| {
            certificates().map(|leaf| tls::config_of(&subject.authority, leaf, protocol, versions)).collect()
        };
        let (all, old) = (rustls::DEFAULT_VERSIONS, &[&rustls::version::TLS12]);
        let configs = [HTTP_1, HTTP_2, b"spdy/9"].map(|protocol| [of(protocol, all), of(protocol, old)]);
        let from = [127, 0, 1, 1 + number as u8];
        Player { subject, from, configs: configs.into_iter().flatten().collect() }
    }

    /// `Err`: the server does not end what it has to end.
    pub fn play(&self, script: &Script, dice: &mut Dice) -> Result<(), String> {
        let Some(mut wire) = self.connect(script) else { return Ok(()) };
        match &script.handshake {
            Handshake::Flood(count) => {
                let held: Vec<Wire> = (0..*count).filter_map(|_| self.connect(script)).collect();
                for mut one in held.into_iter().chain([wire]) {
                    let hello = one.flight();
                    one.send(&hello[..hello.len() / 2]);
                }
                return Ok(());
            }
            Handshake::None => wire.session = None,
            Handshake::Bytes(bytes) => {
                wire.session = None;
                wire.send(bytes);
            }
            _ => wire.shake(script, dice),
        }
        let is_cut = matches!(script.handshake, Handshake::Cut(_) | Handshake::Bytes(_));
        if !is_cut {
            for part in &script.parts {
                wire.say(part, script, dice);
            }
        }
        if script.reads == Reads::All {
            wire.read(ENOUGH);
        }
        self.leave(wire, script.end)
    }

    fn connect(&self, script: &Script) -> Option<Wire> {
        // The server's backlog may be full; it is seen below whether it serves.
        let socket = tls::connect(self.subject.address, self.from, TAKES).ok()?;
        let protocol = match script.protocol {
            Protocol::Http1 => 0,
            Protocol::Http2 => 1,
            Protocol::Unknown => 2,
        };
        let configs = &self.configs[2 * protocol + usize::from(script.is_tls12)];
        let session = tls::session(&configs[script.certificate % configs.len()]);
        Some(Wire { socket, session: Some(session), is_over: false })
    }

    fn leave(&self, mut wire: Wire, end: End) -> Result<(), String> {
        // A master waits longer than a test.
        let end = if self.subject.which == Which::Master && end == End::Awaits { End::Leaves } else { end };
        match end {
            End::Leaves => {}
            // What was not read makes it a reset, or the closing without a wait.
            End::Resets => _ = socket2::SockRef::from(&wire.socket).set_linger(Some(Duration::ZERO)),
            End::HalfCloses => {
                let _ = wire.socket.shutdown(std::net::Shutdown::Write);
                return wire.is_ended("a client that sends no more");
            }
            End::Awaits => return wire.is_ended("a client that says no more"),
        }
        Ok(())
    }
}

impl Wire {
    /// What TLS has to send now.
    fn flight(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(session) = &mut self.session
            && session.wants_write()
        {
            session.write_tls(&mut bytes).expect("a buffer takes all");
        }
        bytes
    }

    fn send(&mut self, bytes: &[u8]) {
        self.is_over |= self.socket.write_all(bytes).is_err();
    }

    fn shake(&mut self, script: &Script, dice: &mut Dice) {
        for flight in 0..8 {
            let mut bytes = self.flight();
            match script.handshake {
                Handshake::Spoiled(at) if at == flight => spoil_bytes(&mut bytes, dice),
                Handshake::Cut(at) if at == flight => {
                    bytes.truncate(dice.below(bytes.len() + 1));
                    return self.send(&bytes);
                }
                _ => {}
            }
            if script.handshake == Handshake::Slow {
                let each = 1 + dice.below(60);
                for piece in bytes.chunks(each).take(20) {
                    self.send(piece);
                    thread::sleep(Duration::from_millis(script.pause_ms.min(3)));
                }
            } else if !bytes.is_empty() {
                self.send(&bytes);
            }
            if self.is_over || self.session.as_ref().is_none_or(|session| !session.is_handshaking()) {
                return;
            }
            self.take(TAKES);
        }
    }

    /// Sends a part of the conversation, and reads between.
    fn say(&mut self, part: &[u8], script: &Script, dice: &mut Dice) {
        // Large parts in several steps: a server that answers while it reads is to be heard, or not.
        for piece in part.chunks(32 << 10) {
            if self.is_over {
                return;
            }
            match &mut self.session {
                None => self.send(piece),
                // A client whose handshake was refused sends nothing.
                Some(session) if session.is_handshaking() => return,
                Some(session) => {
                    self.is_over |= session.writer().write_all(piece).is_err();
                    let mut bytes = self.flight();
                    if script.handshake == Handshake::RecordsSpoiled && dice.once_in(2) {
                        spoil_bytes(&mut bytes, dice);
                    }
                    self.send(&bytes);
                }
            }
            match script.reads {
                Reads::Nothing => {}
                Reads::Little => self.read(A_FEW),
                Reads::All => self.take_what_is_there(),
            }
        }
        thread::sleep(Duration::from_millis(script.pause_ms));
    }

    fn take_what_is_there(&mut self) {
        self.is_over |= self.socket.set_nonblocking(true).is_err();
        while !self.is_over && self.take_once() > 0 {}
        self.is_over |= self.socket.set_nonblocking(false).is_err();
    }

    /// Until so much has come, or nothing for a moment.
    fn read(&mut self, enough: usize) {
        let mut come = 0;
        while come < enough && !self.is_over {
            match self.take(MOMENT) {
                0 => return,
                count => come += count,
            }
        }
    }

    fn take(&mut self, patience: Duration) -> usize {
        self.is_over |= self.socket.set_read_timeout(Some(patience)).is_err();
        self.take_once()
    }

    /// The bytes that came; none: there were none in time, or no more will come.
    fn take_once(&mut self) -> usize {
        let mut buffer = [0; 16 << 10];
        let count = match self.socket.read(&mut buffer) {
            Ok(0) => {
                self.is_over = true;
                return 0;
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return 0,
            Err(_) => {
                self.is_over = true;
                return 0;
            }
        };
        let mut rest = &buffer[..count];
        while let Some(session) = &mut self.session
            && !rest.is_empty()
            && !self.is_over
        {
            self.is_over |= session.read_tls(&mut rest).is_err() || session.process_new_packets().is_err();
            // What it says is not looked at: who behaves is another client.
            let mut plain = [0; 16 << 10];
            while session.reader().read(&mut plain).is_ok_and(|count| count > 0) {}
        }
        count
    }

    /// Reads on until the server ends the connection.
    fn is_ended(&mut self, what: &str) -> Result<(), String> {
        let begun = Instant::now();
        let mut buffer = [0; 16 << 10];
        if self.socket.set_read_timeout(Some(PATIENCE)).is_err() {
            return Ok(());
        }
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) if begun.elapsed() < PATIENCE => {}
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
                Ok(_) | Err(_) => return Err(format!("the server goes on with {what}")),
            }
        }
    }
}
