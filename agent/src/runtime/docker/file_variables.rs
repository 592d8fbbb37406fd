//! Variables whose values stand in files of a pod's volumes: an init container wrote them there.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::super::{ContainerConfig, Failure, FileVariable};
use super::connection::Docker;
use super::subpath::open_file;
use crate::disks;
use crate::env_file;

/// A file of variables has some lines; what is bigger is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Docker {
    /// The same with every mark filled in.
    pub(super) async fn with_file_variables<'a>(
        &self,
        config: &'a ContainerConfig,
    ) -> Result<Cow<'a, ContainerConfig>, Failure> {
        if config.file_variables.is_empty() {
            return Ok(Cow::Borrowed(config));
        }
        let mut values = Vec::new();
        for variable in &config.file_variables {
            let root = self.root_of(&variable.volume).await?;
            let (of, variable) = (root.clone(), variable.clone());
            let read = disks::work(Path::new(&of), move || value(Path::new(&root), &variable)).await;
            values.push(read.unwrap_or_else(|why| Err(Failure::Refused(format!("read a file of variables: {why}"))))?);
        }
        let mut filled = config.clone();
        fill(&mut filled, &values);
        Ok(Cow::Owned(filled))
    }
}

/// None: it is optional, and not there.
fn value(root: &Path, variable: &FileVariable) -> Result<Option<String>, Failure> {
    let place = root.join(&variable.path);
    let read = || {
        let (mut bytes, file) =
            (Vec::new(), open_file(root, Path::new(&variable.path)).map_err(|error| error.to_string())?);
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
        }
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        env_file::value(&text.ok_or("it is no text that a variable can hold")?, &variable.key)
    };
    match read() {
        Ok(None) if !variable.optional => Err(Failure::Config(format!(
            "environment variable key {:?} not found in file {:?}",
            variable.key,
            place.display().to_string()
        ))),
        Ok(value) => Ok(value),
        Err(why) => {
            // What is on this host is not for the pod's eyes: the log alone says what went wrong.
            log::warn!("variable {} of {}: {why}", variable.name, place.display());
            Err(Failure::Config("couldn't parse env file".to_owned()))
        }
    }
}

/// One that is not there is no variable, and where others name it its name stays.
fn fill(config: &mut ContainerConfig, values: &[Option<String>]) {
    let variables = std::mem::take(&mut config.file_variables);
    let known: Vec<(&FileVariable, &Option<String>)> = variables.iter().zip(values).collect();
    let absent = |line: &String| {
        known.iter().any(|(variable, value)| value.is_none() && *line == format!("{}={}", variable.name, variable.mark))
    };
    config.environment.retain(|line| !absent(line));
    let words = [&mut config.entrypoint, &mut config.command].into_iter().flatten().flatten();
    let parts = config.mounts.iter_mut().filter_map(|mount| Some(&mut mount.sub_path.as_mut()?.path));
    for text in words.chain(&mut config.environment).chain(parts).filter(|text| text.contains('\0')) {
        for (variable, value) in &known {
            let value = Option::clone(value).unwrap_or_else(|| format!("$({})", variable.name));
            *text = text.replace(&variable.mark, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::MountSource;
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
        let find = |variable: &FileVariable| value(&root.join("v"), variable);
        let (there, absent) = (variable(0, "env", "A", false), variable(1, "env", "B", true));
        let values = [find(&there), find(&absent)].map(Result::unwrap);
        assert_eq!(values, [Some("one".to_owned()), None]);
        let text = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
        let mut config = ContainerConfig {
            environment: text(&["N0=\u{0}0\u{0}", "N1=\u{0}1\u{0}", "X=<\u{0}0\u{0}\u{0}1\u{0}>"]),
            command: Some(text(&["echo", "\u{0}0\u{0}"])),
            file_variables: vec![there, absent],
            ..ContainerConfig::default()
        };
        fill(&mut config, &values);
        assert_eq!(config.environment, ["N0=one", "X=<one$(N1)>"]);
        assert_eq!(config.command, Some(text(&["echo", "one"])));
        let refused = |variable: FileVariable| find(&variable).unwrap_err().to_string();
        assert!(refused(variable(0, "env", "B", false)).contains("environment variable key \"B\" not found in file"));
        for bad in ["link", "nowhere", ".", "../out"] {
            assert!(refused(variable(0, bad, "A", true)).contains("couldn't parse env file"), "{bad}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
