//! The names of a pod: its hostname, its name in the cluster, and its /etc/hosts in the kubelet's form. PURE.
//!
//! The file is made with the sandbox, whose address nobody knows yet: a mark stands in its place until the sandbox has
//! started.

use coracle_api::pod::HostAlias;

use crate::facts::resolv::Dns;
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;

/// The default domain, without a cluster.
const DOMAIN: &str = "cluster.local";
/// The kernel's limit, less one for how Kubernetes counts.
const HOSTNAME_LENGTH_MAX: usize = 63;
/// The kernel's.
const FULL_NAME_LENGTH_MAX: usize = 64;
/// Begins a comment, should anybody read it as it is.
const MARK: &str = "#POD-ADDRESS";
const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

/// The names of a pod that does not use the host's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNames {
    pub hostname: String,
    /// `db.default.svc.cluster.local`; empty where the pod names no subdomain.
    domain: String,
    aliases: Vec<HostAlias>,
    full: bool,
}

impl HostNames {
    pub fn of(wanted: &Wanted, dns: &Dns) -> HostNames {
        let spec = &wanted.pod.spec;
        let given = if spec.hostname.is_empty() { &wanted.name.name } else { &spec.hostname };
        let own = spec.hostname_override.as_ref().unwrap_or(given);
        let cluster = dns.cluster.as_ref().map_or(DOMAIN, |cluster| cluster.domain.as_str());
        let domain = match (&spec.hostname_override, spec.subdomain.as_str()) {
            (Some(_), _) | (None, "") => String::new(),
            (None, subdomain) => format!("{subdomain}.{}.svc.{cluster}", wanted.name.namespace),
        };
        let aliases = spec.host_aliases.clone();
        HostNames { hostname: short(own), domain, aliases, full: spec.set_hostname_as_fqdn == Some(true) }
    }

    /// What the kernel calls it.
    pub fn of_kernel(&self) -> Result<String, Waiting> {
        if !self.full || self.domain.is_empty() {
            return Ok(self.hostname.clone());
        }
        let name = format!("{}.{}", self.hostname, self.domain);
        if name.len() <= FULL_NAME_LENGTH_MAX {
            return Ok(name);
        }
        let text = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {name} is too long \
             ({FULL_NAME_LENGTH_MAX} characters is the max, {} characters requested)",
            name.len()
        );
        Err(Waiting::new(WaitReason::SetupFailed, text))
    }

    /// The content of /etc/hosts, with the mark for the address.
    pub fn text(&self) -> String {
        let (name, domain) = (&self.hostname, &self.domain);
        let own =
            if domain.is_empty() { format!("{MARK}\t{name}\n") } else { format!("{MARK}\t{name}.{domain}\t{name}\n") };
        let mut text = format!("{HEAD}{own}");
        if !self.aliases.is_empty() {
            text += "\n# Entries added by HostAliases.\n";
        }
        for alias in &self.aliases {
            text += &format!("{}\t{}\n", alias.ip, alias.hostnames.join("\t"));
        }
        text
    }
}

/// Whether the address is missing. `head`: the first bytes of the file; the aliases stand behind the mark.
pub fn is_unfinished(head: &str) -> bool {
    head.contains(MARK)
}

/// The text with the address where the mark was; None if there is none, or not any more.
pub fn complete(text: &str, address: &str) -> Option<String> {
    is_unfinished(text).then(|| text.replacen(MARK, address, 1))
}

fn short(name: &str) -> String {
    let short: String = name.chars().take(HOSTNAME_LENGTH_MAX).collect();
    short.trim_end_matches(['-', '.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::{Value, json};

    fn names(spec: Value) -> HostNames {
        let document = json!({"metadata": {"namespace": "ns", "name": "web-0", "uid": "u"}, "spec": spec});
        HostNames::of(&Wanted::new(Source::Master, document).unwrap(), &Dns::default())
    }

    #[test]
    fn names_of_a_pod() {
        let check = |spec: Value, kernel: &str, line: &str| {
            let names = names(spec);
            assert_eq!(names.of_kernel().as_deref().unwrap_or_else(|waiting| &waiting.message), kernel);
            let text = complete(&names.text(), "10.244.0.9").unwrap();
            assert_eq!(text.strip_prefix(HEAD), Some(line));
            assert_eq!(complete(&text, "10.244.0.8"), None, "once is enough");
        };
        check(json!({}), "web-0", "10.244.0.9\tweb-0\n");
        check(json!({"hostname": "db"}), "db", "10.244.0.9\tdb\n");
        let line = "10.244.0.9\tweb-0.web.ns.svc.cluster.local\tweb-0\n";
        check(json!({"subdomain": "web"}), "web-0", line);
        check(json!({"subdomain": "web", "setHostnameAsFQDN": true}), "web-0.web.ns.svc.cluster.local", line);
        check(json!({"setHostnameAsFQDN": true}), "web-0", "10.244.0.9\tweb-0\n");
        check(json!({"hostnameOverride": "a.b", "subdomain": "web"}), "a.b", "10.244.0.9\ta.b\n");
        let long = format!("{}-", "x".repeat(62));
        check(json!({"hostname": format!("{long}y")}), &long[..62], &format!("10.244.0.9\t{}\n", &long[..62]));
        let full = format!("{}.web.ns.svc.cluster.local", "x".repeat(40));
        let text = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long (64 characters is \
             the max, 65 characters requested)"
        );
        let line = format!("10.244.0.9\t{full}\t{}\n", "x".repeat(40));
        check(json!({"hostname": "x".repeat(40), "subdomain": "web", "setHostnameAsFQDN": true}), &text, &line);
        let aliases = json!([{"ip": "10.0.0.9", "hostnames": ["db.local", "db"]}]);
        let line = "10.244.0.9\tweb-0\n\n# Entries added by HostAliases.\n10.0.0.9\tdb.local\tdb\n";
        check(json!({"hostAliases": aliases}), "web-0", line);
    }
}
