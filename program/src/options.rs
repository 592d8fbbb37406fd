//! PURE. The table of a program's options. `--help` prints the table, the configuration file has its keys, and the
//! packaged configuration file, the man page and the shell completion are made of it or checked against it
//! (`tests/it/options.rs`).
//!
//! The table is a text. A row begins with a line of `--help`:
//!
//!       --data-dir DIR         the agent's own files        printed as it stands, also when it goes on, indented
//!     relative                                              the command line may give a path below its own folder
//!     default /var/lib/coracle/agent                        the value of a program that is told none
//!     example /srv                                          in the packaged file, where there is no default
//!     packaged /var/lib/coracle/agent                       in the packaged file, where it is set there
//!     # The agent's own files.                              the comment of the packaged file and of the man page

/// The option that names the configuration file, and the only one that is no key of that file.
pub const FILE: &str = "config";

/// A program's table, and its words for mistakes: `{}` is what is wrong, `{keys}` are the keys of the file.
#[derive(Clone, Copy)]
pub struct Options {
    pub table: &'static str,
    pub unknown_option: &'static str,
    /// Of a line that is not `key = value`.
    pub no_key: &'static str,
    pub unknown_key: &'static str,
    pub second_time: &'static str,
}

/// A value that is given to a program.
#[derive(Debug, PartialEq)]
pub struct Given {
    pub key: &'static str,
    pub value: String,
    /// Where it stands, for messages: `--key`, or `FILE line 3: key`.
    pub at: String,
}

/// One option.
#[derive(Clone, Copy)]
pub struct Row(&'static str);

impl Row {
    pub fn key(self) -> &'static str {
        self.word(0)
    }

    /// The word of `--help` for the value, such as `DIR` or `yes|no`.
    pub fn placeholder(self) -> &'static str {
        self.word(1)
    }

    fn word(self, index: usize) -> &'static str {
        self.0.split([' ', '\n']).nth(index).unwrap_or_default()
    }

    pub fn is_relative(self) -> bool {
        self.0.lines().any(|line| line == "relative")
    }

    /// The value behind `default`, `example` or `packaged`.
    pub fn fact(self, name: &str) -> Option<&'static str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }

    /// The comment, as one line.
    pub fn comment(self) -> String {
        self.0.lines().filter_map(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ")
    }
}

impl Options {
    pub fn rows(self) -> impl Iterator<Item = Row> {
        self.table.split("\n  --").skip(1).map(Row)
    }

    pub fn row(self, key: &str) -> Option<Row> {
        self.rows().find(|row| row.key() == key)
    }

    /// The keys of the configuration file.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        self.rows().map(Row::key).filter(|key| *key != FILE)
    }

    /// The lines of `--help`.
    pub fn help(self) -> String {
        self.table.lines().filter(|line| line.starts_with("  ")).flat_map(|line| [line, "\n"]).collect()
    }

    /// The lines of a configuration file, up to the first mistake.
    pub fn file_lines(self, path: &str, text: &str) -> impl Iterator<Item = Result<Given, String>> {
        let mut seen = Vec::new();
        let lines = text.lines().map(str::trim).enumerate();
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(move |(index, line)| {
            let place = format!("{path} line {}", index + 1);
            self.file_line(line, &mut seen, &place).map_err(|why| format!("{place}: {why}"))
        })
    }

    fn file_line<'a>(self, line: &'a str, seen: &mut Vec<&'a str>, place: &str) -> Result<Given, String> {
        let (key, value) = line.split_once('=').ok_or_else(|| self.no_key.replace("{}", &format!("{line:?}")))?;
        let (key, value) = (key.trim(), value.trim().to_owned());
        let Some(known) = self.keys().find(|known| *known == key) else {
            let keys = self.keys().collect::<Vec<_>>().join(", ");
            return Err(self.unknown_key.replace("{keys}", &keys).replace("{}", &format!("{key:?}")));
        };
        if seen.contains(&key) {
            return Err(self.second_time.replace("{}", key));
        }
        seen.push(key);
        Ok(Given { key: known, value, at: format!("{place}: {key}") })
    }
}
