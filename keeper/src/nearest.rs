//! Finds the known word behind a word with mistakes, for "did you mean command?". PURE.

/// A word of so many letters may have one mistake for each.
const LETTERS_A_MISTAKE: usize = 4;
/// More mistakes are another word.
const MISTAKES_MAX: usize = 3;
/// Longer words are not compared.
const LETTERS_MAX: usize = 64;

/// The known word with the fewest mistakes to this one; the first of several. None: none is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let count = word.chars().count();
    if count > LETTERS_MAX {
        return None;
    }
    let most = (count / LETTERS_A_MISTAKE).clamp(1, MISTAKES_MAX);
    let near = known.into_iter().filter(|other| *other != word && other.chars().count() <= LETTERS_MAX);
    let near = near.map(|other| (mistakes(word, other), other)).filter(|(mistakes, _)| *mistakes <= most);
    near.min_by_key(|(mistakes, _)| *mistakes).map(|(_, other)| other)
}

/// Letters that are missing, too many or wrong, and neighbours that changed places. A letter in the wrong case is no
/// mistake.
fn mistakes(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 0..one.len() {
        let mut next = vec![i + 1];
        for j in 0..other.len() {
            let wrong = row[j] + usize::from(one[i] != other[j]);
            let mut least = wrong.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant() {
        const FIELDS: [&str; 8] =
            ["args", "command", "env", "envFrom", "image", "imagePullPolicy", "livenessProbe", "ports"];
        for (word, expected) in [
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("imgae", Some("image")),
            ("Image", Some("image")),
            ("imagepullpolicy", Some("imagePullPolicy")),
            ("imagePulPolice", Some("imagePullPolicy")),
            ("port", Some("ports")),
            ("liveness", None),
            ("arg", Some("args")),
            ("x", None),
            ("", None),
            ("restart", None),
        ] {
            assert_eq!(nearest(word, FIELDS), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(100), FIELDS), None);
    }
}
