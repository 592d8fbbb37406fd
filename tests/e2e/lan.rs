//! The LAN, which another network namespace plays: from there come requests of other hosts.

use crate::bed::run;
use std::process::Command;

/// This host's address in the LAN.
pub const HOST: &str = "192.0.2.1";

/// Another host of the LAN, which is gone with its value.
pub struct Lan(String);

impl Lan {
    pub fn new() -> Lan {
        let name = format!("{}-lan", std::env::var("CORACLE_E2E").unwrap_or_else(|_| "coracle-e2e".to_owned()));
        let lan = Lan(name);
        lan.end();
        let ip = |line: String| run(Command::new("ip").args(line.split(' '))).expect("ip does it");
        ip(format!("netns add {}", lan.0));
        ip(format!("link add lan0 type veth peer name eth0 netns {}", lan.0));
        ip(format!("addr add {HOST}/24 dev lan0"));
        ip("link set lan0 up".to_owned());
        for line in ["addr add 192.0.2.2/24 dev eth0", "link set eth0 up", "route add default via 192.0.2.1"] {
            ip(format!("-n {} {line}", lan.0));
        }
        lan
    }

    pub fn get(&self, url: &str) -> Result<String, String> {
        run(Command::new("ip").args(["netns", "exec", &self.0, "curl", "-sSf", "-m", "5", url]))
    }

    /// A program of this machine, run there.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        run(Command::new("ip").args(["netns", "exec", &self.0, program]).args(arguments))
    }

    /// Another address of the host that plays the LAN, or leads to this one.
    pub fn route(&self, address: &str) {
        run(Command::new("ip").args(["-n", &self.0, "route", "add", address, "via", HOST])).expect("a route");
    }

    fn end(&self) {
        let _ = run(Command::new("ip").args(["netns", "delete", &self.0]));
        let _ = run(Command::new("ip").args(["link", "delete", "lan0"]));
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.end();
    }
}
