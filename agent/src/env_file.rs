//! A file of variables, as `fileKeyRef` reads it: lines NAME='VALUE', of which a value may have several. PURE.

/// Stands for a value that is read when the container is made. No text of a variable has a NUL in it.
pub fn mark(index: usize) -> String {
    format!("\0{index}\0")
}

/// The first variable of this name; None: there is none, or nothing in it. The error says what is no variable.
pub fn value(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| Err(format!("invalid environment variable format at line {}: {what}", index + 1));
        let Some((name, rest)) = line.split_once('=') else { return wrong("missing '='") };
        if name.is_empty() {
            return wrong("empty variable name");
        }
        if name.ends_with([' ', '\t']) {
            return wrong("whitespace before '=' is not allowed");
        }
        // As in a shell, where a value ends at a blank.
        if rest.starts_with([' ', '\t']) {
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else { return wrong("value must be enclosed in single quotes") };
        let mut found = String::new();
        let after = loop {
            if let Some((inside, after)) = rest.split_once('\'') {
                found.push_str(inside);
                break after.trim_start_matches([' ', '\t']);
            }
            found.push_str(rest);
            found.push('\n');
            match lines.next() {
                Some((_, line)) => rest = line,
                None => {
                    return Err(format!(
                        "invalid environment variable format starting at line {}: unclosed single quote",
                        index + 1
                    ));
                }
            }
        };
        if !after.is_empty() && !after.starts_with('#') {
            return wrong("unexpected content after closing quote");
        }
        if name == key {
            return Ok(Some(found).filter(|found| !found.is_empty()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |text: &str, expected: Result<Option<&str>, &str>| {
            let found = value(text, "K");
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected, "{text}");
        };
        check("# K='no'\n\n  A='x'\n\tK='a $b \"c\"' # why\n", Ok(Some("a $b \"c\"")));
        check("K='one\n two\n'", Ok(Some("one\n two\n")));
        check("K='1'\nK='2'", Ok(Some("1")));
        check("K=''", Ok(None));
        check("K= 'x'\n", Ok(None));
        check("A='x'", Ok(None));
        check("", Ok(None));
        check("A= x\nK='1'", Ok(Some("1")));
        check("nothing", Err("invalid environment variable format at line 1: missing '='"));
        check("\n='x'", Err("invalid environment variable format at line 2: empty variable name"));
        check("K ='x'", Err("invalid environment variable format at line 1: whitespace before '=' is not allowed"));
        check("K=x", Err("invalid environment variable format at line 1: value must be enclosed in single quotes"));
        check("K='x' y", Err("invalid environment variable format at line 1: unexpected content after closing quote"));
        check("A='x'\nK='y", Err("invalid environment variable format starting at line 2: unclosed single quote"));
    }
}
