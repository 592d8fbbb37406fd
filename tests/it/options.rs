//! The packaged configuration files and the options of the man pages are made of each program's table of options, so
//! an option is one row of that table.
//!
//!     CORACLE_OPTIONS=write     writes them anew

use crate::support::made;
use coracle_program::options::{FILE, Options, Row};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [(&str, Options); 2] =
    [("agent", coracle_agent::usage::OPTIONS), ("master", coracle_master::usage::OPTIONS)];
const COMMENT_COLUMNS: usize = 120;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

/// Lines of whole words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn configuration(program: &str, options: Options) -> String {
    let head = format!(
        "# Configuration of coracle-{program}. Every line is `key = value`, with the names of the flags \
         (coracle-{program} --help);\n# a flag on the command line wins. A line that is commented out shows the \
         default or, where it says so, an example.\n"
    );
    options.rows().filter(|row| row.key() != FILE).fold(head, |file, row| {
        let line = match (row.fact("packaged"), row.fact("default"), row.fact("example")) {
            (Some(value), ..) => format!("{} = {value}", row.key()),
            (_, Some(value), _) | (.., Some(value)) => format!("#{} = {value}", row.key()),
            _ => format!("#{} =", row.key()),
        };
        let is_example = !line.ends_with('=') && row.fact("packaged").or(row.fact("default")).is_none();
        let comment = row.comment() + if is_example { " An example:" } else { "" };
        let comment = wrapped(&comment, COMMENT_COLUMNS - 2).join("\n# ");
        format!("{file}\n# {comment}\n{line}\n")
    })
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn paragraph(row: Row) -> String {
    let default = row.fact("default").filter(|_| !row.comment().contains("Default"));
    let comment = row.comment() + &default.map(|value| format!(" Default: {value}.")).unwrap_or_default();
    // A line that begins with a point or an apostrophe would be a command.
    let lines = wrapped(&roff(&comment), COMMENT_COLUMNS).into_iter();
    let lines: Vec<String> =
        lines.map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }).collect();
    let (key, placeholder) = (roff(row.key()), roff(row.placeholder()));
    format!(".TP\n.BI \\-\\-{key} \" {placeholder}\"\n{}\n", lines.join("\n"))
}

/// The page with its list of options made anew.
fn manual(page: &str, options: Options) -> String {
    let (before, rest) = page.split_once(".SH OPTIONS\n").expect("a section of options");
    let (_, behind) = rest.split_once(".TP\n.BR \\-\\-help").expect("the list ends with --help");
    let list: String = options.rows().map(paragraph).collect();
    format!("{before}.SH OPTIONS\n{list}.TP\n.BR \\-\\-help{behind}")
}

#[test]
fn packaged_configuration_files_are_made_of_the_table() {
    for (program, options) in PROGRAMS {
        let path = packaging().join(format!("{program}.conf"));
        made("CORACLE_OPTIONS", &path, &configuration(program, options));
    }
}

#[test]
fn man_pages_are_made_of_the_table() {
    for (program, options) in PROGRAMS {
        let path = packaging().join(format!("man/coracle-{program}.8"));
        made("CORACLE_OPTIONS", &path, &manual(&fs::read_to_string(&path).unwrap(), options));
    }
}

#[test]
fn every_row_is_whole() {
    for (program, options) in PROGRAMS {
        let mut keys: Vec<&str> = options.rows().map(Row::key).collect();
        assert!(keys.len() > 5, "{program} has options: {keys:?}");
        for row in options.rows() {
            let is_key = row.key().chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(is_key && !row.placeholder().is_empty(), "{program}: --{}", row.key());
            assert!(row.comment().ends_with(['.', '*']), "{program}: --{} has a comment", row.key());
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), options.rows().count(), "{program}: a key stands once");
    }
}

/// The packaged files are read by the programs that they are for.
#[test]
fn packaged_configuration_files_are_read() {
    for (program, options) in PROGRAMS {
        let path = packaging().join(format!("{program}.conf"));
        // Every line that is commented out, too.
        let text = fs::read_to_string(path).unwrap();
        let text: String = text
            .lines()
            .map(|line| line.strip_prefix('#').unwrap_or(line))
            .fold(String::new(), |all, line| if line.starts_with(' ') { all } else { all + line + "\n" });
        let given: Vec<_> = options.file_lines(program, &text).map(Result::unwrap).collect();
        assert!(given.iter().map(|given| given.key).eq(options.keys()), "{program}: {given:?}");
    }
}

/// What bash offers for the word behind `before`, in the folder of the packages.
fn offered(program: &str, before: &str, word: &str) -> Vec<String> {
    let help = match program {
        "agent" => coracle_agent::usage::of(coracle_agent::usage::Called::Agent, None),
        _ => coracle_master::usage::of(&[]),
    };
    let script = format!(
        "source completion/coracle-{program}.bash\ncoracle-{program}() {{ printf %s \"$HELP\"; }}\n\
         COMP_WORDS=(coracle-{program} \"$1\" \"$2\") COMP_CWORD=2\n_coracle_{program}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let mut bash = Command::new("bash");
    let bash = bash.args(["-c", &script, "bash", before, word]).env("HELP", help).current_dir(packaging());
    let output = bash.output().expect("bash is there");
    assert!(output.status.success() && output.stderr.is_empty(), "{before} {word}: {output:?}");
    let mut offered: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    offered.sort();
    offered
}

#[test]
fn completion_follows_the_table() {
    for (program, options) in PROGRAMS {
        let flags = offered(program, "plan", "--");
        for row in options.rows() {
            let (flag, placeholder) = (format!("--{}", row.key()), row.placeholder());
            assert!(flags.contains(&flag), "{program}: {flag}: {flags:?}");
            let found = offered(program, &flag, "ma");
            let expected: &[&str] = match placeholder {
                "FILE" | "PATH" => &["man", "master.conf"],
                directory if directory.starts_with("DIR") => &["man"],
                _ => continue,
            };
            assert_eq!(found, expected, "{program}: {flag}");
        }
        for row in options.rows().filter(|row| row.placeholder().contains('|')) {
            let found = offered(program, &format!("--{}", row.key()), "");
            let mut expected: Vec<&str> = row.placeholder().split('|').collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "{program}: --{}", row.key());
        }
    }
    assert_eq!(offered("agent", "-o", ""), ["json", "text", "wide"]);
    assert_eq!(offered("master", "store", "f"), ["flush", "fsck"]);
}

/// What bash offers behind these words of `coracle`.
fn offered_by_coracle(words: &[&str]) -> Vec<String> {
    use coracle_agent::usage::{COMMANDS, Called, of};
    let script = "source completion/coracle.bash\n\
                  coracle() { [ \"$1\" = --help ] && printf %s \"$HELP\" || eval \"printf %s \\\"\\$HELP_$1\\\"\"; }\n\
                  COMP_WORDS=(coracle \"$@\") COMP_CWORD=$#\n_coracle\nprintf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).args(words).env("HELP", of(Called::Coracle, None)).current_dir(packaging());
    for row in COMMANDS {
        bash.env(format!("HELP_{}", row.name), of(Called::Coracle, Some(row.name)));
    }
    let output = bash.output().expect("bash is there");
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn completion_of_coracle_follows_its_help() {
    let commands: Vec<&str> = coracle_agent::usage::COMMANDS.iter().map(|row| row.name).collect();
    assert_eq!(offered_by_coracle(&[""]), commands);
    assert_eq!(offered_by_coracle(&["res"]), ["restart", "restore"]);
    assert_eq!(offered_by_coracle(&["top", "--sort-by", ""]), ["cpu", "memory"]);
    assert_eq!(offered_by_coracle(&["restart", "--no"]), ["--no-wait", "--node-name"]);
    assert_eq!(offered_by_coracle(&["check", "ma"]), ["man", "master.conf"]);
    let page = fs::read_to_string(packaging().join("man/coracle.8")).unwrap();
    for command in commands {
        assert!(page.contains(&format!(".B coracle {command}\n")), "coracle.8 has {command}");
    }
}
