//! Two texts line by line, as `diff -u` shows them. PURE.

use std::fmt::Write;

/// Lines around a change.
const CONTEXT: usize = 3;
/// The maximum number of compared pairs of lines: a thousand changed lines. No reader needs a longer diff.
const PAIRS_MAX: usize = 1 << 20;

/// Changed lines with a few unchanged lines around each change. None: too much changed to be shown.
pub fn unified(old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let steps = steps(&old, &new)?;
    let mut text = String::new();
    let mut at = 0;
    while let Some(first) = steps[at..].iter().position(|step| step.mark != ' ').map(|next| at + next) {
        let mut last = first;
        while let Some(next) =
            steps[last + 1..].iter().position(|step| step.mark != ' ').filter(|gap| *gap <= 2 * CONTEXT)
        {
            last += next + 1;
        }
        let hunk = &steps[first.saturating_sub(CONTEXT).max(at)..(last + 1 + CONTEXT).min(steps.len())];
        let count = |without: char| hunk.iter().filter(|step| step.mark != without).count();
        let (was, is) = (range(hunk[0].old, count('+')), range(hunk[0].new, count('-')));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "@@ -{was} +{is} @@");
        for step in hunk {
            let _ = writeln!(text, "{}{}", step.mark, step.line);
        }
        at = last + 1;
    }
    Some(text)
}

struct Step<'a> {
    mark: char,
    line: &'a str,
    /// Where it stands, or would, in both texts.
    old: usize,
    new: usize,
}

fn range(start: usize, count: usize) -> String {
    match count {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        _ => format!("{},{count}", start + 1),
    }
}

/// The shortest way from one text to the other.
fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Step<'a>>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (was, is) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if (was.len() + 1).checked_mul(is.len() + 1).is_none_or(|pairs| pairs > PAIRS_MAX) {
        return None;
    }
    // Lines in common from each pair of places on.
    let width = is.len() + 1;
    let mut common = vec![0u32; (was.len() + 1) * width];
    for a in (0..was.len()).rev() {
        for b in (0..is.len()).rev() {
            common[a * width + b] = match was[a] == is[b] {
                true => common[(a + 1) * width + b + 1] + 1,
                false => common[(a + 1) * width + b].max(common[a * width + b + 1]),
            };
        }
    }
    let mut steps: Vec<Step> = (0..head).map(|at| Step { mark: ' ', line: old[at], old: at, new: at }).collect();
    let (mut a, mut b) = (0, 0);
    while a < was.len() || b < is.len() {
        let both = a < was.len() && b < is.len();
        let (mark, line) = match () {
            () if both && was[a] == is[b] => (' ', was[a]),
            () if b == is.len() || both && common[(a + 1) * width + b] >= common[a * width + b + 1] => ('-', was[a]),
            () => ('+', is[b]),
        };
        steps.push(Step { mark, line, old: head + a, new: head + b });
        a += usize::from(mark != '+');
        b += usize::from(mark != '-');
    }
    let ends = (old.len() - tail, new.len() - tail);
    steps.extend((0..tail).map(|at| Step { mark: ' ', line: old[ends.0 + at], old: ends.0 + at, new: ends.1 + at }));
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks() {
        fn check(old: &[&str], new: &[&str], expected: &str) {
            assert_eq!(unified(&old.join("\n"), &new.join("\n")).as_deref(), Some(expected));
        }
        check(&["a"], &["a"], "");
        check(&["a"], &["b"], "@@ -1 +1 @@\n-a\n+b\n");
        check(&["a", "b", "c", "d", "e"], &["a", "b", "c", "d"], "@@ -2,4 +2,3 @@\n b\n c\n d\n-e\n");
        check(&[], &["x"], "@@ -0,0 +1 @@\n+x\n");
        let lines: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let old: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut new = old.clone();
        (new[1], new[17]) = ("B", "R");
        let far = "@@ -1,5 +1,5 @@\n 1\n-2\n+B\n 3\n 4\n 5\n@@ -15,6 +15,6 @@\n 15\n 16\n 17\n-18\n+R\n 19\n 20\n";
        check(&old, &new, far);
        let mut near = old.clone();
        (near[1], near[8]) = ("B", "I");
        check(&old, &near, "@@ -1,12 +1,12 @@\n 1\n-2\n+B\n 3\n 4\n 5\n 6\n 7\n 8\n-9\n+I\n 10\n 11\n 12\n");
        let many: String = (0..3000).map(|n| format!("{n}\n")).collect();
        let others: String = (0..3000).map(|n| format!("x{n}\n")).collect();
        assert_eq!(unified(&many, &others), None);
    }
}
