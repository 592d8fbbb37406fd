//! `/healthz`, `/livez`, `/readyz`: whether this master serves, and with `?verbose` what it could not read.
//!
//! Damaged objects do not make a master unhealthy: it serves all others, and a restart would not mend them. A disk that
//! takes nothing does, but it is no reason to be restarted either: `livez` does not look at it. A store that is full
//! takes deletes and answers reads, so it is well; `readyz` says it all the same, without being asked for more.

use crate::page;
use crate::store::{self, Store};
use coracle_http::{Answer, StatusCode};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Closed objects that are named, of any number.
const SHUT_NAMED_MAX: usize = 20;

/// Name, whether `livez` minds it, and what is wrong if anything is.
type Check = (&'static str, bool, fn(&store::Health) -> Option<String>);

const CHECKS: [Check; 2] = [
    // Who answers, lives.
    ("ping", true, |_| None),
    ("store", false, |health| health.degraded.clone()),
];

/// The check whose path stands for the details of all.
pub const DETAILED: &str = "store";

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

fn checks(endpoint: &str) -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().filter(move |(_, of_livez, _)| *of_livez || endpoint != "livez")
}

/// The check that Kubernetes has under another name; what has no part here is well where this server answers.
fn own_name<'n>(endpoint: &str, name: &'n str) -> &'n str {
    match (endpoint, name) {
        ("healthz", "etcd") => "store",
        ("livez", "etcd") | (_, "log") | ("readyz", "informer-sync" | "shutdown") => "ping",
        _ => name,
    }
}

/// All paths.
pub fn paths() -> Vec<String> {
    let below = |endpoint: &'static str| checks(endpoint).map(move |(name, ..)| format!("/{endpoint}/{name}"));
    ENDPOINTS.into_iter().flat_map(|endpoint| std::iter::once(format!("/{endpoint}")).chain(below(endpoint))).collect()
}

/// None: there is no such check.
pub fn answer(store: &dyn Store, asked: &page::HealthQuestion) -> Option<Answer> {
    told(&store.health(), asked)
}

fn told(health: &store::Health, asked: &page::HealthQuestion) -> Option<Answer> {
    match &asked.check {
        None => Some(all(health, asked)),
        Some(name) => {
            let name = own_name(asked.endpoint, name);
            let (name, _, check) = checks(asked.endpoint).find(|(known, ..)| *known == name)?;
            Some(match check(health) {
                None => Answer::text(StatusCode::OK, "ok"),
                Some(why) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{name} failed: {why}\n")),
            })
        }
    }
}

/// The same for whoever may not hear more than whether it is well: messages name files and objects.
pub fn bare(store: &dyn Store, asked: &page::HealthQuestion) -> Option<Answer> {
    told(&bared(store.health()), asked)
}

fn bared(health: store::Health) -> store::Health {
    let degraded = health.degraded.map(|_| "reason withheld".to_owned());
    store::Health { degraded, ..store::Health::default() }
}

fn all(health: &store::Health, asked: &page::HealthQuestion) -> Answer {
    let mut text = String::new();
    let mut well = true;
    for (name, _, check) in checks(asked.endpoint) {
        // Writing to a String cannot fail; the results are dropped.
        let _ = if asked.exclude.iter().any(|excluded| excluded == name) {
            writeln!(text, "[+]{name} excluded: ok")
        } else if let Some(why) = check(health) {
            well = false;
            writeln!(text, "[-]{name} failed: {why}")
        } else {
            writeln!(text, "[+]{name} ok")
        };
    }
    for damage in &health.damaged {
        let _ = writeln!(text, "[!]damaged file: {damage}");
    }
    if let Some(why) = &health.keyless {
        let _ = writeln!(text, "[!]encryption: {why}");
    }
    for damage in health.shut.iter().take(SHUT_NAMED_MAX) {
        let _ = writeln!(text, "[!]closed file: {}: {damage}", damage.file);
    }
    let full: String = health.fill.warnings.iter().map(|warning| format!("[!]full: {warning}\n")).collect();
    text.push_str(&full);
    if let Some(behind) = &health.behind {
        let _ = writeln!(text, "[!]files: they cannot be brought up to the journal, which holds everything: {behind}");
    }
    for remark in &health.remarks {
        let _ = writeln!(text, "[!]mended: {remark}");
    }
    for edit in &health.edits {
        let _ = writeln!(text, "[!]edited file: {edit}");
    }
    let unknown: BTreeSet<String> = asked
        .exclude
        .iter()
        .filter(|name| checks(asked.endpoint).all(|(known, ..)| known != name))
        .map(|name| format!("{name:?}"))
        .collect();
    let unknown: Vec<String> = unknown.into_iter().collect();
    if !unknown.is_empty() {
        let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {}", unknown.join(","));
    }
    let _ = writeln!(text, "{} check {}", asked.endpoint, if well { "passed" } else { "failed" });
    match (well, asked.verbose) {
        (true, false) if asked.endpoint == "readyz" && !full.is_empty() => {
            Answer::text(StatusCode::OK, format!("ok\n{full}"))
        }
        (true, false) => Answer::text(StatusCode::OK, "ok"),
        (true, true) => Answer::text(StatusCode::OK, text),
        (false, _) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_http::Body;

    fn check(degraded: Option<&str>, asked: page::HealthQuestion, code: u16, expected: &str) {
        let health = store::Health { degraded: degraded.map(str::to_owned), ..store::Health::default() };
        let answer = all(&health, &asked);
        let Body::Whole(text) = answer.body else { panic!("text is whole") };
        assert_eq!((answer.status.as_u16(), &*String::from_utf8_lossy(&text)), (code, expected));
    }

    #[test]
    fn what_is_full_is_said_and_is_no_failure() {
        let said = |endpoint: &'static str, verbose: bool| {
            let fill = store::FillLevel {
                warnings: vec!["the store holds 9 MB of the 9 MB that it may".to_owned()],
                ..store::FillLevel::default()
            };
            let asked = page::HealthQuestion { endpoint, check: None, verbose, exclude: Vec::new() };
            let answer = all(&store::Health { fill, ..store::Health::default() }, &asked);
            let Body::Whole(text) = answer.body else { panic!("text is whole") };
            assert_eq!(answer.status.as_u16(), 200, "{endpoint}");
            String::from_utf8_lossy(&text).into_owned()
        };
        let line = "[!]full: the store holds 9 MB of the 9 MB that it may\n";
        assert_eq!(said("readyz", false), format!("ok\n{line}"));
        assert_eq!((&*said("livez", false), &*said("healthz", false)), ("ok", "ok"));
        for endpoint in ENDPOINTS {
            assert!(said(endpoint, true).contains(&format!("\n{line}")), "{endpoint}");
        }
    }

    #[test]
    fn whoever_may_not_hear_of_files_hears_of_none() {
        let health = store::Health {
            degraded: Some("/var/lib/x: no space left".to_owned()),
            keyless: Some("/media/stick/key".to_owned()),
            behind: Some("/var/lib/x".to_owned()),
            ..store::Health::default()
        };
        let asked = |check: Option<&str>, verbose| page::HealthQuestion {
            endpoint: "readyz",
            check: check.map(str::to_owned),
            verbose,
            exclude: Vec::new(),
        };
        let text = |health: &store::Health, asked: page::HealthQuestion| {
            let Body::Whole(text) = told(health, &asked).expect("a check").body else { panic!("text is whole") };
            String::from_utf8_lossy(&text).into_owned()
        };
        assert!(text(&health, asked(None, true)).contains("/media/stick/key"));
        let bare = bared(health);
        let whole = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
        assert_eq!(text(&bare, asked(None, true)), whole);
        assert_eq!(text(&bare, asked(None, false)), whole);
        assert_eq!(text(&bare, asked(Some("store"), false)), "store failed: reason withheld\n");
    }

    #[test]
    fn names_of_kubernetes() {
        for (endpoint, name, own) in [
            ("livez", "etcd", "ping"),
            ("healthz", "etcd", "store"),
            ("readyz", "etcd", "etcd"),
            ("readyz", "log", "ping"),
            ("readyz", "shutdown", "ping"),
            ("livez", "shutdown", "shutdown"),
            ("readyz", "store", "store"),
        ] {
            assert_eq!(own_name(endpoint, name), own, "{endpoint}/{name}");
        }
    }

    #[test]
    fn what_is_asked_is_looked_at() {
        let asked = |endpoint, verbose, exclude: &[&str]| page::HealthQuestion {
            endpoint,
            check: None,
            verbose,
            exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
        };
        let full = Some("no space left");
        check(None, asked("healthz", false, &[]), 200, "ok");
        check(None, asked("readyz", true, &[]), 200, "[+]ping ok\n[+]store ok\nreadyz check passed\n");
        check(
            full,
            asked("readyz", false, &[]),
            500,
            "[+]ping ok\n[-]store failed: no space left\nreadyz check failed\n",
        );
        check(full, asked("livez", false, &[]), 200, "ok");
        check(full, asked("readyz", true, &["store"]), 200, "[+]ping ok\n[+]store excluded: ok\nreadyz check passed\n");
        let warning =
            "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"etcd\"\nlivez check passed\n";
        check(None, asked("livez", true, &["etcd"]), 200, warning);
        let warning = warning.replace("\"etcd\"", "\"a,b\",\"etcd\"");
        check(None, asked("livez", true, &["etcd", "a,b", "etcd"]), 200, &warning);
    }
}
