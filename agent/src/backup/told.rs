//! The messages of tar, in our words. PURE.

/// Lines of tar that are kept; of more there is a count.
const LINES_MAX: usize = 50;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Files that may be torn: they changed, shrank or went while they were read.
    pub changed: Vec<String>,
    /// Sockets, which have no content.
    pub notes: Vec<String>,
    /// Why the archive, or what was unpacked, is not whole.
    pub failed: Option<String>,
}

/// `code`: None where a signal ended it.
pub fn told(code: Option<i32>, said: &str) -> Told {
    let (mut told, mut others) = (Told::default(), Vec::new());
    for line in said.lines().map(|line| line.trim().trim_start_matches("tar: ")).filter(|line| !line.is_empty()) {
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        if has(&["file changed as we read it", "File shrank by", "File removed before we read it"]) {
            told.changed.push(line.to_owned());
        } else if line.ends_with(": socket ignored") {
            told.notes.push(line.to_owned());
        } else if !has(&["Exiting with failure status due to previous errors"]) {
            others.push(line.to_owned());
        }
    }
    match code {
        Some(0) => told.notes.append(&mut others),
        Some(1) if others.is_empty() && !told.changed.is_empty() => {}
        _ => {
            let why = others.first().or(told.changed.first()).cloned();
            let ended = code.map_or_else(|| "a signal ended it".to_owned(), |code| format!("exit code {code}"));
            told.failed = Some(why.map_or_else(|| format!("tar: {ended}"), |why| format!("tar: {why}")));
        }
    }
    bound(&mut told.changed);
    bound(&mut told.notes);
    told
}

fn bound(lines: &mut Vec<String>) {
    if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tar_says() {
        let check = |code, said: &str, changed: &[&str], notes: &[&str], failed: Option<&str>| {
            let found = told(code, said);
            assert_eq!(
                (&found.changed[..], &found.notes[..], found.failed.as_deref()),
                (
                    &changed.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()[..],
                    &notes.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()[..],
                    failed,
                ),
                "{said}"
            );
        };
        check(Some(0), "", &[], &[], None);
        check(Some(0), "tar: ./s: socket ignored\n", &[], &["./s: socket ignored"], None);
        check(Some(1), "tar: ./a: file changed as we read it\n", &["./a: file changed as we read it"], &[], None);
        let gone = "./b: File removed before we read it";
        check(Some(1), &format!("tar: {gone}\ntar: ./s: socket ignored\n"), &[gone], &["./s: socket ignored"], None);
        let denied =
            "tar: ./c: Cannot open: Permission denied\ntar: Exiting with failure status due to previous errors\n";
        check(Some(2), denied, &[], &[], Some("tar: ./c: Cannot open: Permission denied"));
        check(Some(1), "", &[], &[], Some("tar: exit code 1"));
        check(None, "", &[], &[], Some("tar: a signal ended it"));
        check(Some(0), "tar: ./x: Cannot set ACL\n", &[], &["./x: Cannot set ACL"], None);
        let many: String = (0..60).map(|at| format!("tar: ./{at}: socket ignored\n")).collect();
        let found = told(Some(0), &many);
        assert_eq!((found.notes.len(), found.notes.last().unwrap().as_str()), (LINES_MAX + 1, "and 10 more"));
    }
}
