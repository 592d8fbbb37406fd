//! Variables with values from files in a pod's volumes. An init container writes these files.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::connection::Docker;
use super::subpath::open_file;
use crate::facts::engine::{ContainerConfig, Failure, FileVariable};
use crate::host::disks;
use crate::spec::env_file::EnvFile;
use crate::spec::environment::{TEXT_BYTES_MAX, TEXTS_BYTES_MAX, too_long, too_much};

/// Of a text that is named in a message.
const NAME_CHARS_MAX: usize = 100;

/// A file of variables has some lines. A bigger file holds something else.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// All files of one container: its variables have a megabyte together.
const FILES_BYTES_MAX: u64 = 4 << 20;

impl Docker {
    /// The same with every mark filled in.
    pub(super) async fn with_file_variables<'a>(
        &self,
        config: &'a ContainerConfig,
    ) -> Result<Cow<'a, ContainerConfig>, Failure> {
        if config.file_variables.is_empty() {
            return Ok(Cow::Borrowed(config));
        }
        let mut roots = HashMap::new();
        for FileVariable { volume, .. } in &config.file_variables {
            if !roots.contains_key(volume) {
                roots.insert(volume.clone(), PathBuf::from(self.root_of(volume).await?));
            }
        }
        let mut filled = config.clone();
        // All volumes belong to the same pod, and Kubernetes allows only emptyDir volumes here.
        let place = roots.values().next().cloned().unwrap_or_default();
        let done = disks::work(&place, move || {
            let mut files = Files { left: FILES_BYTES_MAX, read: HashMap::new() };
            let variables = std::mem::take(&mut filled.file_variables);
            let values = variables.iter().map(|variable| files.value(&roots[&variable.volume], variable));
            let values: Vec<Option<String>> = values.collect::<Result<_, _>>()?;
            fill(&mut filled, &variables, &values)?;
            Ok(Cow::Owned(filled))
        });
        done.await.unwrap_or_else(|why| Err(Failure::Refused(format!("read variables of files: {why}"))))
    }
}

/// A container's files, each read once.
struct Files {
    /// Bytes that may still be read.
    left: u64,
    read: HashMap<PathBuf, Result<EnvFile, String>>,
}

impl Files {
    /// None: the variable is optional, and missing.
    fn value(&mut self, root: &Path, variable: &FileVariable) -> Result<Option<String>, Failure> {
        let place = root.join(&variable.path);
        if !self.read.contains_key(&place) {
            let file = self.open(root, Path::new(&variable.path));
            self.read.insert(place.clone(), file);
        }
        let file = self.read.get(&place).map(Result::as_ref);
        let value = match file {
            Some(Ok(file)) => file.value(&variable.key),
            Some(Err(why)) => Err(why.as_str()),
            None => Ok(None),
        };
        match value {
            Ok(None) if !variable.optional => Err(Failure::Config(format!(
                "environment variable key {:?} not found in file {:?}",
                variable.key,
                place.display().to_string()
            ))),
            Ok(value) => Ok(value.map(str::to_owned)),
            Err(why) => {
                // What is on this host is not for the pod's eyes: the log alone says what went wrong.
                log::warn!("variable {} of {}: {why}", variable.name, place.display());
                Err(Failure::Config("couldn't parse env file".to_owned()))
            }
        }
    }

    fn open(&mut self, root: &Path, path: &Path) -> Result<EnvFile, String> {
        let file = open_file(root, path).map_err(|error| error.to_string())?;
        let most = FILE_BYTES_MAX.min(self.left);
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let length = bytes.len() as u64;
        if length > most {
            return Err(format!(
                "it has more than {FILE_BYTES_MAX} bytes, or all such files of the container more than \
                 {FILES_BYTES_MAX}"
            ));
        }
        self.left -= length;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        Ok(EnvFile::read(&text.ok_or("it is no text that a variable can hold")?))
    }
}

/// A missing optional variable is left out, and texts that refer to it keep `$(NAME)`. The size limit of a container's
/// texts applies to the result.
fn fill(config: &mut ContainerConfig, variables: &[FileVariable], values: &[Option<String>]) -> Result<(), Failure> {
    let known: HashMap<&str, (&FileVariable, &Option<String>)> = variables
        .iter()
        .zip(values)
        .map(|(variable, value)| (variable.mark.trim_matches('\0'), (variable, value)))
        .collect();
    let absent: HashSet<String> = known
        .values()
        .filter(|(_, value)| value.is_none())
        .map(|(variable, _)| format!("{}={}", variable.name, variable.mark))
        .collect();
    config.environment.retain(|line| !absent.contains(line));
    let words = [&mut config.entrypoint, &mut config.command].into_iter().flatten().flatten();
    let parts = config.mounts.iter_mut().filter_map(|mount| Some(&mut mount.sub_path.as_mut()?.path));
    let mut left = TEXTS_BYTES_MAX;
    for text in words.chain(&mut config.environment).chain(parts) {
        if text.contains('\0') {
            *text = filled(text, &known)?;
        }
        let what = || text.split('=').next().unwrap_or_default().chars().take(NAME_CHARS_MAX).collect::<String>();
        left = left.checked_sub(text.len()).ok_or_else(|| Failure::Config(too_much(&what())))?;
    }
    Ok(())
}

/// A mark stands between two NULs, and no value has one.
fn filled(text: &str, known: &HashMap<&str, (&FileVariable, &Option<String>)>) -> Result<String, Failure> {
    let mut out = String::with_capacity(text.len());
    for (at, piece) in text.split('\0').enumerate() {
        match known.get(piece).filter(|_| at % 2 == 1) {
            Some((_, Some(value))) => out.push_str(value),
            Some((variable, None)) => out.extend(["$(", variable.name.as_str(), ")"]),
            None => out.push_str(piece),
        }
        if out.len() > TEXT_BYTES_MAX {
            let named =
                known.get(piece).map_or("a text with a variable of a file", |(variable, _)| variable.name.as_str());
            return Err(Failure::Config(too_long(named)));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::engine::MountSource;
    use std::fs;

    #[test]
    fn marks_are_filled_in() {
        let root = std::env::temp_dir().join(format!("coracle-variables-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("v")).unwrap();
        fs::write(root.join("v/env"), "A='one'\n").unwrap();
        fs::write(root.join("out"), "A='out'\n").unwrap();
        std::os::unix::fs::symlink("../out", root.join("v/link")).unwrap();
        let variable = |index: usize, path: &str, key: &str, optional: bool| {
            let (mark, volume) = (format!("\0{index}\0"), MountSource::Path(String::new()));
            FileVariable { mark, name: format!("N{index}"), volume, path: path.into(), key: key.into(), optional }
        };
        let find = |variable: &FileVariable| {
            let mut files = Files { left: FILES_BYTES_MAX, read: HashMap::new() };
            files.value(&root.join("v"), variable)
        };
        let (there, absent) = (variable(0, "env", "A", false), variable(1, "env", "B", true));
        let values = [find(&there), find(&absent)].map(Result::unwrap);
        assert_eq!(values, [Some("one".to_owned()), None]);
        let text = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
        let mut config = ContainerConfig {
            environment: text(&["N0=\u{0}0\u{0}", "N1=\u{0}1\u{0}", "X=<\u{0}0\u{0}\u{0}1\u{0}>"]),
            command: Some(text(&["echo", "\u{0}0\u{0}"])),
            ..ContainerConfig::default()
        };
        fill(&mut config, &[there, absent], &values).unwrap();
        assert_eq!(config.environment, ["N0=one", "X=<one$(N1)>"]);
        assert_eq!(config.command, Some(text(&["echo", "one"])));
        let refused = |variable: FileVariable| find(&variable).unwrap_err().to_string();
        assert!(refused(variable(0, "env", "B", false)).contains("environment variable key \"B\" not found in file"));
        for bad in ["link", "nowhere", ".", "../out"] {
            assert!(refused(variable(0, bad, "A", true)).contains("couldn't parse env file"), "{bad}");
        }
        // All files of a container come to so many bytes.
        let large = format!("A='{}'\n#{}", "x".repeat(50_000), "x".repeat(900_000));
        for at in 0..5 {
            fs::write(root.join(format!("v/large{at}")), &large).unwrap();
        }
        let mut files = Files { left: FILES_BYTES_MAX, read: HashMap::new() };
        let mut read = |at: usize| files.value(&root.join("v"), &variable(at, &format!("large{at}"), "A", false));
        let found: Vec<bool> = [0, 0, 0, 0, 0, 0, 1, 2, 3, 4].map(|at| read(at).is_ok()).into();
        assert_eq!(found, [true, true, true, true, true, true, true, true, true, false]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_is_filled_in_stays_within_the_budget() {
        let volume = MountSource::Path(String::new());
        let variable = FileVariable {
            mark: crate::spec::env_file::mark(0),
            name: "V".into(),
            volume,
            path: "f".into(),
            key: "K".into(),
            optional: false,
        };
        let check = |environment: &[&str], value: usize, expected: &str| {
            let environment =
                environment.iter().map(|line| line.replace('*', &crate::spec::env_file::mark(0))).collect();
            let mut config = ContainerConfig { environment, ..ContainerConfig::default() };
            let done = fill(&mut config, &[variable.clone()], &[Some("x".repeat(value))]);
            let text = done.map_or_else(|failure| failure.text().to_owned(), |()| String::new());
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        };
        check(&["A=*"], 100_000, "");
        check(&["A=*"], 200_000, "V: it comes to more than");
        check(&["A=**"], 100_000, "V: it comes to more than");
        check(&["A=1", "B=*"].repeat(11), 100_000, "B: with it");
    }
}
