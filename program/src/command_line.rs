//! The command line of a program: words, options with a value, and the format of the output.

use crate::options::{Given, Options};

/// Bytes of a configuration file, which has some ten keys: a larger file is another one, and it is not read.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// The format of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OutputFormat {
    /// Long lines are cut, with "..." at their end.
    #[default]
    Text,
    /// Nothing is cut.
    Wide,
    Json,
}

impl OutputFormat {
    /// The value of `-o`.
    pub fn parse(text: &str) -> Result<OutputFormat, String> {
        match text {
            "json" => Ok(OutputFormat::Json),
            "text" => Ok(OutputFormat::Text),
            "wide" => Ok(OutputFormat::Wide),
            other => Err(format!("-o {other}: it is json, text or wide")),
        }
    }
}

/// The part of a command line that has been read.
#[derive(Default)]
pub struct CommandLine {
    pub words: Vec<String>,
    pub given: Vec<Given>,
    pub format: Option<OutputFormat>,
}

impl CommandLine {
    /// Reads one argument, and its value where that is the next argument.
    pub fn read(
        &mut self,
        options: Options,
        argument: String,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        let Some(option) = argument.strip_prefix("--") else {
            self.words.push(argument);
            return Ok(());
        };
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (option, None),
        };
        let row = options.row(key).ok_or_else(|| options.unknown_option.replace("{}", key))?;
        let value = value.or_else(|| rest.next()).ok_or_else(|| format!("--{key} needs a value"))?;
        self.given.push(Given { key: row.key(), value, at: format!("--{key}") });
        Ok(())
    }
}

/// A path of the command line begins in the folder of whoever writes it. A configuration file is read from anywhere, so
/// its paths are absolute.
pub fn from_here(value: &str) -> Result<String, String> {
    let path = std::path::absolute(value).map_err(|error| error.to_string())?;
    path.into_os_string().into_string().map_err(|path| format!("{}: it is not UTF-8", path.display()))
}
