//! A table of the agent's own in the kernel's rules: loaded as a whole, and looked at for changes of others.
//!
//!     `load`: one `nft -f -` transaction · `was_changed`: another program has flushed or changed the table since
//!     `end_stale`: flows over UDP that a change of the table leaves at an endpoint of before
//!
//! Whose: services' (`net`), host ports' of pods (`pod_network/keep`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::facts::hash::hash_text;
use crate::host::tool::run_tool;
use crate::network::netfilter;
use crate::network::services::ends::Led;
use crate::network::services::flows::Moved;

pub struct KernelTable {
    /// The family and the name.
    name: &'static str,
    /// The part of a listing that only a program changes, and never the kernel itself.
    lasting: fn(&str) -> String,
    /// A hash of the table as the kernel listed it first after the last load: a later difference comes from another
    /// program. None: the next check lists the table, because a large table takes its time to list.
    listed: Option<String>,
    /// The generation of the kernel's rules when the table was listed: while the generation stays nobody has changed
    /// anything, and nothing is listed.
    generation: Option<u32>,
    /// The UDP endpoints when flows were last checked.
    led: Option<Led>,
}

impl KernelTable {
    pub fn new(name: &'static str, lasting: fn(&str) -> String) -> KernelTable {
        KernelTable { name, lasting, listed: None, generation: None, led: None }
    }

    /// What the table holds now. None: there is no such table.
    pub async fn listing(&self) -> Option<String> {
        table(self.name).await.ok()
    }

    pub async fn is_missing(&self) -> bool {
        self.listing().await.is_none()
    }

    /// Whether another program has changed or removed the table since the last load.
    pub async fn was_changed(&mut self) -> bool {
        let generation = netfilter::generation();
        if generation.is_some() && self.generation == generation && self.listed.is_some() {
            return false;
        }
        self.generation = generation;
        let Some(listing) = self.listing().await else { return true };
        let now = hash_text(&(self.lasting)(&listing));
        *self.listed.get_or_insert_with(|| now.clone()) != now
    }

    /// Packets that came while the table was gone were led nowhere, and their flows go on so: the next `end_stale` ends
    /// these flows, too.
    pub fn forget_flows(&mut self) {
        self.led = None;
    }

    /// Loads a script that makes the table, or changes the table.
    pub async fn load(&mut self, script: &str) -> Result<(), String> {
        nft(script).await?;
        self.listed = None;
        Ok(())
    }

    /// A UDP flow keeps its old endpoint after the rules have changed, until the flow is deleted. `now`: the endpoints
    /// of the loaded rules. Returns how many flows were ended.
    pub async fn end_stale(
        &mut self,
        now: Led,
        addresses: &BTreeSet<IpAddr>,
        local: &[IpAddr],
    ) -> Result<usize, String> {
        let moved = Moved::between(self.led.as_ref(), &now, addresses, local);
        self.led = Some(now);
        if moved.is_empty() { Ok(0) } else { netfilter::end_stale(moved).await }
    }
}

pub async fn nft(script: &str) -> Result<(), String> {
    run_tool("nft", &["-f", "-"], Some(script)).await.map(drop)
}

/// Every chain of every table of this host, including chains of other programs.
pub async fn rule_set() -> Result<String, String> {
    run_tool("nft", &["list", "chains"], None).await
}

/// What a table holds, by its family and name.
pub async fn table(name: &str) -> Result<String, String> {
    let words: Vec<&str> = ["list", "table"].into_iter().chain(name.split_whitespace()).collect();
    run_tool("nft", &words, None).await
}
