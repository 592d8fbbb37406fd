//! Foreign text made safe for a terminal and a log: a single line, without control characters and direction marks.

use std::borrow::Cow;
use std::fmt::Write;

/// With a mark for each end of a line, and other controls as escapes.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text.trim_end(), |letter| steers(letter))
}

/// The same for a text of several lines: line ends and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter != '\n' && letter != '\t' && steers(letter))
}

fn escaped(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' if bad(letter) => clean.push_str(" | "),
            '\t' if bad(letter) => clean.push(' '),
            letter if bad(letter) => drop(write!(clean, "{}", letter.escape_default())),
            letter => clean.push(letter),
        }
    }
    Cow::Owned(clean)
}

/// Control characters, line ends, and characters that change the direction of a text.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_printed() {
        let check = |text: &str, as_line: &str, as_lines: &str| {
            assert_eq!((&*line(text), &*lines(text)), (as_line, as_lines), "{text:?}");
        };
        check("plain \u{fc} text", "plain \u{fc} text", "plain \u{fc} text");
        check("a\nb\tc\n", "a | b c", "a\nb\tc\n");
        check("\u{1b}[2J\rroot", "\\u{1b}[2J\\rroot", "\\u{1b}[2J\\rroot");
        check("\u{9b}1m\u{7f}\0", "\\u{9b}1m\\u{7f}\\u{0}", "\\u{9b}1m\\u{7f}\\u{0}");
        check("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}", "a\\u{202e}b\\u{2066}");
    }
}
