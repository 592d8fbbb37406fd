//! Comments that a reader has to decode: sentences in which a third of the words and more stand for other words.

use super::{sources, top};
use std::fs;

/// Words that stand for a noun of another place.
const POINTERS: &[&str] = &[
    "what", "who", "whoever", "whatever", "that", "which", "it", "its", "those", "one", "of", "nobody", "somebody",
    "other", "others", "another", "them", "they", "there", "so", "else",
];
/// Shorter sentences have too few words for a share, longer ones are tables.
const WORDS: std::ops::RangeInclusive<usize> = 6..=45;
/// Of a hundred words of a sentence.
const POINTERS_MAX: usize = 35;
/// Of a thousand sentences of a crate.
const DECODED_MAX: usize = 5;

#[test]
fn comments_name_their_nouns() {
    let sources = sources();
    for package in ["http", "program", "schema", "api", "keeper", "master", "agent"] {
        let (mut all, mut hard) = (0, Vec::new());
        for source in sources.iter().filter(|source| source.path.starts_with(&format!("{package}/src/"))) {
            let text = fs::read_to_string(top().join(&source.path)).expect("a source file");
            for (line, sentence) in sentences(&text) {
                all += 1;
                if is_riddle(&sentence) {
                    hard.push(format!("{}:{line}: {}", source.path, sentence.join(" ")));
                }
            }
        }
        assert!(all > 20, "{package} has comments");
        let rule = "too many sentences have to be decoded: name the noun again, subject before verb";
        assert!(hard.len() * 1000 <= DECODED_MAX * all, "{package}: {rule}:\n{}", hard.join("\n"));
    }
}

/// The sentences of all comments of a file, each as its words, with the line on which the paragraph begins.
fn sentences(text: &str) -> Vec<(usize, Vec<&str>)> {
    let (mut found, mut words, mut begun, mut marker) = (Vec::new(), Vec::new(), 0, "");
    let mut close = |begun: usize, words: &mut Vec<_>| {
        let mut sentence = Vec::new();
        for word in words.drain(..) {
            sentence.push(word);
            let ends = |word: &str| word.ends_with(['.', ':', ';']);
            if ends(word) {
                found.push((begun, std::mem::take(&mut sentence)));
            }
        }
        found.push((begun, sentence));
    };
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = ["/// ", "//! ", "// "].into_iter().find_map(|start| Some((start, line.strip_prefix(start)?)));
        let Some((start, said)) = comment else {
            close(begun, &mut words);
            marker = "";
            continue;
        };
        if start != marker {
            close(begun, &mut words);
            (begun, marker) = (number + 1, start);
        }
        words.extend(said.split_whitespace());
    }
    close(begun, &mut words);
    found.retain(|(_, sentence): &(usize, Vec<&str>)| WORDS.contains(&sentence.len()));
    found
}

fn is_riddle(sentence: &[&str]) -> bool {
    let points = |word: &&&str| {
        let word = word.trim_matches([',', '.', ';', ':', '(', ')', '`']).to_lowercase();
        POINTERS.contains(&word.as_str())
    };
    sentence.iter().filter(points).count() * 100 >= POINTERS_MAX * sentence.len()
}

#[test]
fn a_riddle_is_told_from_a_sentence() {
    let text = [
        "//! Those of one who has none of those: it is so.",
        "/// The controller of a pod makes the next pod",
        "/// of the set.",
        "fn f() {} // of what it is",
        "    // One of those that another one has of it.",
    ];
    let text = text.join("\n");
    let found = sentences(&text);
    let lines: Vec<(usize, bool)> = found.iter().map(|(line, sentence)| (*line, is_riddle(sentence))).collect();
    assert_eq!(lines, [(1, true), (2, false), (5, true)]);
}
