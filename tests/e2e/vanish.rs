//! Who goes in the middle of a stream: its client, its container, the agent, the master, the engine. Nothing of it
//! stays.

use crate::Test;
use crate::bed::Bed;
use crate::kubectl::{Client, Going, clients, newest};
use crate::streams::start_box;
use std::fs;
use std::net::TcpStream;

pub const TESTS: &[Test] = &[
    ("vanish_clients", a_client),
    ("vanish_container", a_container),
    ("vanish_agent", the_agent),
    ("vanish_master", the_master),
    ("vanish_engine", the_engine),
];

/// Conversations at once.
const MANY: usize = 5;
/// What runs for as long as nobody ends it, and does not look for its client.
const LASTS: [&str; 2] = ["sleep", "4242"];

/// Descriptors that a process holds.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count()
}

/// Those of the master and of the agent, once nothing is on its way any more.
fn at_rest(bed: &Bed) -> [usize; 2] {
    let now = || [descriptors(bed.master_pid()), descriptors(bed.agent_pid())];
    // What the clients before have left closes some moments later.
    let (mut last, mut since) = (now(), 0);
    bed.until("it is quiet", |_| {
        let seen = now();
        since = if seen == last { since + 1 } else { 0 };
        last = seen;
        (since > 20).then_some(seen)
    })
}

/// Processes of that command in the box.
fn lasting(bed: &Bed) -> usize {
    let id = bed.running_of("c").pop().unwrap_or_default();
    let listed = bed.exec(&id, "ps").unwrap_or_default();
    listed.lines().filter(|line| line.contains(&LASTS.join(" ")) && !line.contains("sh -c")).count()
}

fn begin(bed: &Bed, client: &Client, count: usize) -> Vec<Going> {
    let begun: Vec<Going> =
        (0..count).map(|_| Going::start(client, &[&["exec", "-i", "box", "--"][..], &LASTS].concat())).collect();
    bed.until("they run", |bed| (lasting(bed) == count).then_some(()));
    begun
}

fn all_end(bed: &Bed, begun: &mut [Going]) {
    for one in begun {
        bed.until("who spoke through it is let go", |_| one.ended());
    }
}

fn answers(bed: &Bed) {
    bed.until("the next command runs", |_| {
        (newest().run(&["exec", "box", "--", "echo", "here"], b"").text() == "here\n").then_some(())
    });
}

fn a_client(bed: &mut Bed) {
    start_box(bed);
    answers(bed);
    let before = at_rest(bed);
    for client in clients() {
        let begun = begin(bed, &client, MANY);
        let mut forwarding = Going::start(&client, &["port-forward", "box", ":8080"]);
        let ports: Vec<TcpStream> = {
            let port = forwarding.port();
            (0..MANY).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect()
        };
        let mut following = Going::start(&client, &["logs", "-f", "box"]);
        assert_eq!(following.line(), "ready\n");
        bed.until("the agent holds them", |bed| (descriptors(bed.agent_pid()) > before[1] + MANY).then_some(()));
        begun.into_iter().chain([forwarding, following]).for_each(Going::kill);
        drop(ports);
        bed.until(&format!("{}: no command stays", client.name()), |bed| (lasting(bed) == 0).then_some(()));
        bed.until(&format!("{}: no descriptor stays", client.name()), |bed| {
            let now = [descriptors(bed.master_pid()), descriptors(bed.agent_pid())];
            (now[0] <= before[0] && now[1] <= before[1]).then_some(())
        });
    }
}

fn a_container(bed: &mut Bed) {
    start_box(bed);
    answers(bed);
    let clients = clients();
    let mut begun: Vec<Going> = clients
        .iter()
        .map(|client| Going::start(client, &[&["exec", "-i", "box", "--"][..], &LASTS].concat()))
        .collect();
    bed.until("they run", |bed| (lasting(bed) == clients.len()).then_some(()));
    let id = bed.running_of("c").pop().expect("it runs");
    bed.docker(&["kill", &id]);
    for (client, one) in clients.iter().zip(&mut begun) {
        let code = bed.until("who spoke with it is told", |_| one.ended());
        assert_eq!(code, 137, "{}: {}", client.name(), one.errors());
    }
    bed.until("it runs again", |bed| bed.running_of("c").pop().filter(|next| *next != id));
    answers(bed);
}

fn the_agent(bed: &mut Bed) {
    start_box(bed);
    for client in clients() {
        let mut begun = begin(bed, &client, 1);
        let id = bed.running_of("c");
        bed.kill_agent();
        let code = bed.until("who spoke through it is let go", |_| begun[0].ended());
        // Of SPDY an end without a word is what it is of a command that has ended well.
        assert!(code != 0 || client.name().contains("SPDY"), "{}: {}", client.name(), begun[0].errors());
        bed.start_agent();
        answers(bed);
        assert_eq!(bed.running_of("c"), id, "{}: the container goes on", client.name());
        bed.exec(&id[0], "pkill -f 'sleep 4242' || killall sleep || true").expect("it is ended by hand");
    }
}

fn the_master(bed: &mut Bed) {
    start_box(bed);
    answers(bed);
    let before = descriptors(bed.agent_pid());
    for client in clients() {
        let mut begun = begin(bed, &client, MANY);
        bed.kill_master();
        all_end(bed, &mut begun);
        bed.until(&format!("{}: no command stays", client.name()), |bed| (lasting(bed) == 0).then_some(()));
        bed.start_master();
        answers(bed);
    }
    bed.until("nor does a descriptor of the agent", |bed| (descriptors(bed.agent_pid()) <= before).then_some(()));
}

fn the_engine(bed: &mut Bed) {
    start_box(bed);
    answers(bed);
    let before = at_rest(bed);
    let mut begun = begin(bed, &newest(), MANY);
    bed.engine.signal("KILL");
    bed.engine.ended();
    all_end(bed, &mut begun);
    bed.engine.launch().expect("it starts again");
    answers(bed);
    bed.until("no descriptor stays", |bed| (descriptors(bed.agent_pid()) <= before[1]).then_some(()));
}
