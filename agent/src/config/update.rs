//! The words of `update` on the command line. PURE.

/// What `update` asks of the running agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateWish {
    pub namespace: String,
    /// A pod, or a workload with or without its kind: `web`, `deployment/web`.
    pub name: String,
    pub dry_run: bool,
    /// None: the agent's own.
    pub deadline_seconds: Option<u64>,
}

/// The wish, and the other words, which are for the agent's own options. None: it is another command.
pub fn take(arguments: &[String]) -> Option<Result<(UpdateWish, Vec<String>), String>> {
    let (word, rest) = arguments.split_first()?;
    let asks_for_help = rest.iter().any(|word| word == "--help" || word == "-h");
    (word == "update" && !asks_for_help).then(|| read(rest))
}

fn read(arguments: &[String]) -> Result<(UpdateWish, Vec<String>), String> {
    let (mut wish, mut others) = (UpdateWish::default(), vec!["update".to_owned()]);
    wish.namespace = "default".to_owned();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let (key, joined) = match word.split_once('=') {
            Some((key, value)) if word.starts_with('-') => (key, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value =
            || joined.clone().or_else(|| rest.next().cloned()).ok_or_else(|| format!("{key} needs a value"));
        match key {
            "--dry-run" if joined.as_deref().is_none_or(|value| value == "true") => wish.dry_run = true,
            "-n" | "--namespace" => wish.namespace = value()?,
            "--deadline" => wish.deadline_seconds = Some(seconds(&value()?)?),
            "-o" => others.extend(["-o".to_owned(), value()?]),
            option if option.starts_with("--") => others.extend([option.to_owned(), value()?]),
            option if option.starts_with('-') => others.push(option.to_owned()),
            _ if wish.name.is_empty() => wish.name = word.strip_prefix("pod/").unwrap_or(word).to_owned(),
            _ => return Err(format!("{word:?}: update takes one pod or workload, see update --help")),
        }
    }
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._/".contains(&b));
    if wish.name.is_empty() {
        return Err("a pod or a workload is missing: coracle update NAME, see update --help".to_owned());
    }
    if !plain(&wish.name) || !plain(&wish.namespace) || wish.name.matches('/').count() > 1 {
        return Err(format!("{:?} in namespace {:?} is no name of a pod or workload", wish.name, wish.namespace));
    }
    Ok((wish, others))
}

/// `300`, `90s`, `5m`, `1h`
fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds
        .filter(|seconds| (1..=86_400).contains(seconds))
        .ok_or_else(|| format!("--deadline {text}: write seconds, or a number with s, m or h, up to 24h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_lines() {
        let check = |line: &str, name: &str, dry_run: bool, deadline_seconds: Option<u64>, others: &str| {
            let (namespace, name) = name.split_once(' ').unwrap();
            let wish = UpdateWish { namespace: namespace.to_owned(), name: name.to_owned(), dry_run, deadline_seconds };
            assert_eq!(take(&words(line)), Some(Ok((wish, words(others)))), "{line}");
        };
        check("update web", "default web", false, None, "update");
        check("update --dry-run -n shop deployment/web", "shop deployment/web", true, None, "update");
        check("update pod/web --deadline 5m -o json", "default web", false, Some(300), "update -o json");
        check("update web --config /a.conf --deadline=90", "default web", false, Some(90), "update --config /a.conf");
        check("update web --namespace=shop --node-name n1", "shop web", false, None, "update --node-name n1");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, why) in [
            ("update", "is missing"),
            ("update a b", "takes one"),
            ("update ../x/y", "no name"),
            ("update web --deadline 0", "--deadline 0"),
            ("update web --deadline soon", "--deadline soon"),
            ("update web -n", "-n needs a value"),
        ] {
            let said = take(&words(line)).unwrap().unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
        assert_eq!(take(&words("status")), None);
        assert_eq!(take(&words("update --help")), None);
    }
}
