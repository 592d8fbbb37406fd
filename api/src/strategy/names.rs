//! The valid forms of names, and Kubernetes' messages for invalid names. Each rule gives what is wrong with a text:
//! nothing, or one sentence for each rule it breaks.

use super::network::Range;
use coracle_schema::{Path, Problem};

/// Longest label of a DNS name, label value and name part of a label key.
const LABEL_BYTES_MAX: usize = 63;
/// Longest DNS name, and with it longest object name.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest name of a port (RFC 6335).
const PORT_NAME_BYTES_MAX: usize = 15;
/// Longest label value that fitted a file name or a selector in 2014; Kubernetes of 2014 had no limit.
const OLD_LABEL_BYTES_MAX: usize = 253;

const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                           must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                           used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                               or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
                               regex used for validation is \
                               '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
                            '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
                            regex used for validation is \
                            '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                               an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                               validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
                                 or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                                 'my_value',  or '12345', regex used for validation is \
                                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const IP_WORDS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const PATH_WORDS: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const NO_BACK_STEPS: &str = "must not contain '..'";
const CIDR_WORDS: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// The problems of a text: none, or a sentence for each broken rule.
pub type Faults = Vec<String>;

/// Names of namespaces, containers, volumes, ports of services: `my-name`.
pub fn label(name: &str) -> Faults {
    let mut faults = no_longer_than(name, LABEL_BYTES_MAX);
    if !is_label(name) {
        // A valid subdomain has only one fault here: the dots.
        let dots = subdomain(name).is_empty();
        faults.push(if dots { "must not contain dots" } else { LABEL_WORDS }.into());
    }
    faults
}

/// Names of most objects: `my.name`.
pub fn subdomain(name: &str) -> Faults {
    let mut faults = no_longer_than(name, SUBDOMAIN_BYTES_MAX);
    if !name.split('.').all(is_label) {
        faults.push(SUBDOMAIN_WORDS.into());
    }
    faults
}

pub fn is_subdomain(name: &str) -> bool {
    subdomain(name).is_empty()
}

/// The same, in the words of what checks kinds by declarations.
pub fn long_name(name: &str) -> Faults {
    let words = format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters");
    subdomain(name)
        .into_iter()
        .map(|fault| if fault == words { fault.replace("characters", "bytes") } else { fault })
        .collect()
}

/// Names of objects within a limit of their own.
pub fn short_subdomain(name: &str, bytes_max: usize) -> Faults {
    let mut faults = no_longer_than(name, bytes_max);
    faults.extend(subdomain(name));
    faults
}

/// Ids of 2014: what names a file and a path segment without doubt.
pub fn old_id(name: &str) -> Faults {
    let mut faults = no_longer_than(name, SUBDOMAIN_BYTES_MAX);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.starts_with('.') || !name.bytes().all(good) {
        faults.push("must consist of letters, digits, '-', '_' or '.', and must not start with '.'".into());
    }
    faults
}

/// Keys of labels and annotations, names of resources and taints: `example.com/MyName`.
pub fn qualified(name: &str) -> Faults {
    let mut faults = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            faults.push("prefix part must be non-empty".into());
            name
        }
        [prefix, name] => {
            faults.extend(long_name(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            name
        }
        _ => {
            let shape = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {QUALIFIED_WORDS} {shape}")];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else {
        faults.extend(no_more_bytes(name).into_iter().map(|fault| format!("name part {fault}")));
    }
    if !is_token(name) {
        faults.push(format!("name part {QUALIFIED_WORDS}"));
    }
    faults
}

/// Values of labels: empty, or `MyValue`.
pub fn label_value(value: &str) -> Faults {
    let mut faults = no_more_bytes(value);
    if !value.is_empty() && !is_token(value) {
        faults.push(LABEL_VALUE_WORDS.into());
    }
    faults
}

/// Keys of labels in 2014, unchecked at that time: every key that a selector can still name is valid.
pub fn old_label_key(key: &str) -> Faults {
    let bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '=' | ',' | '!' | '(' | ')');
    if key.is_empty() || key.contains(bad) {
        return vec!["must not be empty, nor hold blanks, control characters or any of '=,!()'".into()];
    }
    no_longer_than(key, OLD_LABEL_BYTES_MAX)
}

/// Values of labels in 2014, also unchecked at that time: the guestbook of 2014 has `redisslave,redis-master`.
pub fn old_label_value(value: &str) -> Faults {
    if value.contains(char::is_control) {
        return vec!["must not hold control characters".into()];
    }
    no_longer_than(value, OLD_LABEL_BYTES_MAX)
}

/// Names of container ports (RFC 6335): `http`.
pub fn port_name(name: &str) -> Faults {
    let mut faults = no_longer_than(name, PORT_NAME_BYTES_MAX);
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(good) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".into());
    }
    faults
}

/// Names of environment variables.
pub fn env_name(name: &str) -> Faults {
    if name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()]
}

/// Domains that a resolver tries: `my.name`, and `_tcp` within it.
pub fn search_domain(name: &str) -> Faults {
    let mut faults = no_longer_than(name, SUBDOMAIN_BYTES_MAX);
    let plain = |part: &str| is_label(&part.strip_prefix('_').unwrap_or(part).replace('_', "a"));
    if !name.split('.').all(|part| plain(part) && !part.ends_with('_')) {
        faults.push(SEARCH_WORDS.into());
    }
    faults
}

/// Paths that cannot leave the start directory.
pub fn no_back_steps(path: &str) -> Faults {
    if path.split('/').any(|part| part == "..") { vec![NO_BACK_STEPS.into()] } else { Vec::new() }
}

/// Paths below a directory.
pub fn descending(path: &str) -> Faults {
    let absolute = path.starts_with('/').then(|| "must be a relative path".to_owned());
    absolute.into_iter().chain(no_back_steps(path)).collect()
}

/// Paths below a directory that is written all at once: names that begin with two dots are its writer's.
pub fn not_reserved(path: &str) -> Faults {
    let mut faults = descending(path);
    if path.starts_with("..") && path != ".." && !path.starts_with("../") {
        faults.push("must not start with '..'".into());
    }
    faults
}

/// Numbers of ports.
pub fn port_number(port: i64) -> Faults {
    between(port, 1, 65535)
}

pub fn between(number: i64, low: i64, high: i64) -> Faults {
    if (low..=high).contains(&number) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// Addresses, of either family.
pub fn ip(address: &str) -> Faults {
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            vec!["must not be an IPv4-mapped IPv6 address".into()]
        }
        Ok(_) => Vec::new(),
        Err(_) if has_leading_zeros(address) => vec!["must not have leading 0s".into()],
        Err(_) => vec![IP_WORDS.into()],
    }
}

/// Whether only zeros before its numbers keep an address from being one.
fn has_leading_zeros(address: &str) -> bool {
    let plain = |part: &str| part.trim_start_matches('0').to_owned();
    let parts = address
        .split('.')
        .map(|part| if plain(part).is_empty() && !part.is_empty() { "0".to_owned() } else { plain(part) });
    parts.collect::<Vec<_>>().join(".").parse::<std::net::Ipv4Addr>().is_ok()
}

/// Address ranges, of either family.
pub fn cidr(range: &str) -> Faults {
    let (address, bits) = range.split_once('/').unwrap_or_default();
    let zeros = address.parse::<std::net::IpAddr>().is_err() && has_leading_zeros(address);
    let rest = if zeros { format!("0.0.0.0/{bits}") } else { range.to_owned() };
    let said = match Range::parse(&rest) {
        None => CIDR_WORDS,
        Some(_) if zeros || bits.len() > 1 && bits.starts_with('0') => {
            "must not have leading 0s in IP or prefix length"
        }
        Some(range) if range.is_mapped() => "must not have an IPv4-mapped IPv6 address",
        Some(range) if !range.is_bare() => "must not have bits set beyond the prefix length",
        Some(_) => return Vec::new(),
    };
    vec![said.into()]
}

/// The problems of a controller's name, `example.com/name`.
pub fn domain_prefixed(name: &str, path: &Path) -> Vec<Problem> {
    match name.split_once('/') {
        _ if name.is_empty() => vec![Problem::required(path, "")],
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            let mut found = problems(path, domain, subdomain(domain));
            found.extend((!is_path(rest)).then(|| Problem::invalid(path, rest, PATH_WORDS)));
            found
        }
        _ => vec![Problem::invalid(path, name, "must be a domain-prefixed path (such as \"acme.io/foo\")")],
    }
}

/// The characters that need no escape in a URL.
fn is_path(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))
}

/// Each fault as a problem of the value at a path.
pub fn problems(path: &Path, value: impl Into<serde_json::Value>, faults: Faults) -> Vec<Problem> {
    let value = value.into();
    faults.into_iter().map(|fault| Problem::invalid(path, value.clone(), fault)).collect()
}

/// The problems of keys and values of labels, whose limits are worded otherwise.
fn no_more_bytes(text: &str) -> Faults {
    if text.len() <= LABEL_BYTES_MAX {
        Vec::new()
    } else {
        vec![format!("must be no more than {LABEL_BYTES_MAX} bytes")]
    }
}

pub fn no_longer_than(text: &str, bytes_max: usize) -> Faults {
    if text.len() <= bytes_max { Vec::new() } else { vec![format!("must be no more than {bytes_max} characters")] }
}

fn is_label(name: &str) -> bool {
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(end)
        && bytes.last().is_some_and(end)
        && bytes.iter().all(|byte| end(byte) || *byte == b'-')
}

fn is_token(name: &str) -> bool {
    let bytes = name.as_bytes();
    let end = u8::is_ascii_alphanumeric;
    bytes.first().is_some_and(end)
        && bytes.last().is_some_and(end)
        && bytes.iter().all(|byte| end(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        fn check(rule: fn(&str) -> Faults, good: &[&str], bad: &[(&str, &[&str])]) {
            for text in good {
                assert_eq!(rule(text), Faults::new(), "{text:?}");
            }
            for (text, expected) in bad {
                let found = rule(text);
                assert_eq!(found.len(), expected.len(), "{text:?}: {found:?}");
                for (fault, start) in found.iter().zip(*expected) {
                    assert!(fault.starts_with(start), "{text:?}: {fault:?} should start {start:?}");
                }
            }
        }
        let long = "x".repeat(64);
        let longer = "x".repeat(254);
        let no_label: &[&str] = &["a lowercase RFC 1123 label"];
        check(
            label,
            &["a", "1a", "my-name"],
            &[("", no_label), ("A", no_label), ("-a", no_label), ("a-", no_label), ("a.b", &["must not contain dots"])],
        );
        check(label, &[&long[1..]], &[(&long, &["must be no more than 63 characters"])]);
        let no_subdomain: &[&str] = &["a lowercase RFC 1123 subdomain"];
        check(
            subdomain,
            &["a", "a.b-c.1", &long],
            &[("a..b", no_subdomain), (".", no_subdomain), ("a_b", no_subdomain)],
        );
        check(subdomain, &[], &[(&longer, &["must be no more than 253 characters"])]);
        let no_id: &[&str] = &["must consist of letters"];
        check(
            old_id,
            &["frontendController", "a_b", "a..b"],
            &[(".a", no_id), ("a/b", no_id), ("a b", no_id), ("ä", no_id)],
        );
        let no_name: &[&str] = &["name part must consist"];
        check(
            qualified,
            &["a", "A_b.c-1", "example.com/a"],
            &[("a b", no_name), ("-a", no_name), ("a.b/c d", no_name)],
        );
        check(qualified, &[], &[("", &["name part must be non-empty", "name part must consist"])]);
        check(
            qualified,
            &[],
            &[("/a", &["prefix part must be non-empty"]), ("a/b/c", &["a valid label key must consist"])],
        );
        check(
            qualified,
            &[],
            &[("A/b", &["prefix part a lowercase"]), (&long, &["name part must be no more than 63 bytes"])],
        );
        let no_value: &[&str] = &["a valid label must be"];
        check(label_value, &["", "a", "MyValue_1"], &[("a b", no_value), ("-", no_value), ("/", no_value)]);
        check(old_label_key, &["name", "a/b/c"], &[("", &["must not be empty"]), ("a b", &["must not be empty"])]);
        check(old_label_value, &["", "a b", "/", "a,b"], &[("a\n", &["must not hold"])]);
        check(port_name, &["http", "a1-b"], &[("nope!", &["must contain only"]), ("80", &["must contain at least"])]);
        check(
            port_name,
            &[],
            &[("a--b", &["must not contain consec"]), ("a-", &["must not begin"]), (&long[..16], &["must be no more"])],
        );
        let no_env: &[&str] = &["a valid environment variable name"];
        check(env_name, &["A", "1A", "a.b c"], &[("A=B", no_env), ("ä", no_env), ("a\n", no_env)]);
        check(search_domain, &["a.b", "_tcp.a", "a_b"], &[("a_", no_subdomain), ("A", no_subdomain)]);
        check(
            not_reserved,
            &["a/b", ".a", "a..b"],
            &[("/a", &["must be a relative"]), ("../a", &["must not contain"]), ("..a", &["must not start"])],
        );
        check(
            ip,
            &["10.0.0.1", "fd00::1"],
            &[
                ("x", &["must be a valid IP"]),
                ("10.0.0.01", &["must not have leading 0s"]),
                ("::ffff:10.0.0.1", &["must not be an IPv4-mapped"]),
            ],
        );
        let (no_cidr, zeros): (&[&str], &[&str]) =
            (&["must be a valid CIDR"], &["must not have leading 0s in IP or prefix length"]);
        let beyond: &[&str] = &["must not have bits set beyond the prefix length"];
        let bad = [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "010.0.0.0/33",
            "10.0.0.0/+8",
            "fd00::/129",
            "10.0/8",
            "10.0.0.0/8/8",
        ];
        check(
            cidr,
            &["10.0.0.0/24", "fd00::/64", "0.0.0.0/0", "10.0.0.1/32", "::/0", "::1/128"],
            &bad.map(|range| (range, no_cidr)),
        );
        check(
            cidr,
            &[],
            &["010.0.0.0/8", "10.0.0.00/8", "10.0.0.0/08", "10.0.0.1/08", "fd00::/064"].map(|range| (range, zeros)),
        );
        check(cidr, &[], &["10.0.0.1/8", "192.168.0.5/24", "fd00::1/64", "10.0.0.0/0"].map(|range| (range, beyond)));
        check(cidr, &[], &[("::ffff:10.0.0.0/104", &["must not have an IPv4-mapped IPv6 address"])]);
    }
}
