//! Archives of directories, by Debian's tar: it keeps owners, modes, links, holes, attributes and ACLs, and a person
//! can unpack an archive without this program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::told::{Told, told};
use crate::host::tool::package;

/// Bytes that are handed on at once.
const PIECE_BYTES: usize = 128 * 1024;
/// Bytes of tar's messages that are read. A tree of sockets has more.
const SAID_BYTES_MAX: u64 = 256 * 1024;
const KEEPS: [&str; 4] = ["--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*"];

/// A file that was written, and its sum.
pub struct Written {
    pub bytes: u64,
    pub sha256: String,
    pub told: Told,
}

/// Writes the archive of a directory, synced. `without`: paths below the directory that are left out. What is mounted
/// in it is left out as well.
pub async fn create(directory: &Path, without: &[String], file: &Path) -> Result<Written, String> {
    let failed = |error: io::Error| format!("{}: {error}", file.display());
    let mut out = crate::host::private::create_file(file).map_err(failed)?;
    let mut command = tar();
    command.args(["--create", "--file=-", "--sparse", "--one-file-system", "--anchored", "--no-wildcards"]).args(KEEPS);
    command.args(without.iter().map(|path| format!("--exclude=./{path}")));
    command.arg("--directory").arg(directory).arg(".").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(no_tar)?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("tar has no output".to_owned());
    };
    // With its end the pipe is closed, so that tar does not wait for a disk that is full.
    let copied = async move {
        let mut stdout = stdout;
        let (mut sum, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE_BYTES]);
        loop {
            let count = stdout.read(&mut piece).await?;
            if count == 0 {
                out.sync_all()?;
                return Ok::<(u64, String), io::Error>((bytes, hex(&sum.finalize())));
            }
            sum.update(&piece[..count]);
            out.write_all(&piece[..count])?;
            bytes += count as u64;
        }
    };
    let (copied, said) = tokio::join!(copied, said(stderr));
    let (bytes, sha256) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            let _ = child.kill().await;
            return Err(failed(error));
        }
    };
    let told = ended(child, &said).await?;
    Ok(Written { bytes, sha256, told })
}

/// Unpacks an archive into an empty folder. `only`: this member alone, without what is below it.
pub async fn unpack(file: &Path, folder: &Path, only: Option<&str>) -> Result<Told, String> {
    let mut command = tar();
    command.args(["--extract", "--same-owner", "--same-permissions", "--delay-directory-restore"]).args(KEEPS);
    command.arg("--file").arg(file).arg("--directory").arg(folder).stdout(Stdio::null());
    if let Some(member) = only {
        command.args(["--no-recursion", "--occurrence=1", member]);
    }
    let mut child = command.spawn().map_err(no_tar)?;
    let said = match child.stderr.take() {
        Some(stderr) => said(stderr).await,
        None => String::new(),
    };
    ended(child, &said).await
}

fn tar() -> Command {
    let mut command = Command::new("tar");
    command.env("LC_ALL", "C").env_remove("TAR_OPTIONS").stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

fn no_tar(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program tar (Debian has it in {})", package("tar")),
        _ => format!("run tar: {error}"),
    }
}

async fn said(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut said = Vec::new();
    // The rest is read and forgotten, or tar would wait for it.
    let _ = (&mut stderr).take(SAID_BYTES_MAX).read_to_end(&mut said).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&said).into_owned()
}

async fn ended(mut child: Child, said: &str) -> Result<Told, String> {
    let status = child.wait().await.map_err(|error| format!("tar: {error}"))?;
    Ok(told(status.code(), said))
}

/// Bytes and sum of a file.
pub fn sum(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut sum, mut bytes, mut piece) = (File::open(path)?, Sha256::new(), 0, vec![0; PIECE_BYTES]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok((bytes, hex(&sum.finalize())));
        }
        sum.update(&piece[..count]);
        bytes += count as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[tokio::test]
    async fn a_tree_comes_back_as_it_was() {
        let root = std::env::temp_dir().join(format!("coracle-archive-{}", std::process::id()));
        let _ = crate::host::tree::remove(&root);
        let (tree, back, file) = (root.join("tree"), root.join("back"), root.join("a.tar"));
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::create_dir(&back).unwrap();
        fs::write(tree.join("sub/a"), "text").unwrap();
        fs::set_permissions(tree.join("sub/a"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o1777)).unwrap();
        fs::hard_link(tree.join("sub/a"), tree.join("linked")).unwrap();
        symlink("../nowhere", tree.join("link")).unwrap();
        fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        fs::write(tree.join("secret"), "left out").unwrap();
        let _socket = UnixListener::bind(tree.join("socket")).unwrap();
        let written = create(&tree, &["secret".to_owned()], &file).await.unwrap();
        assert_eq!(written.told.notes, ["./socket: socket ignored"]);
        assert_eq!((written.told.changed.len(), &written.told.failed), (0, &None));
        assert!(written.bytes < 1 << 20, "holes take no room");
        assert_eq!(sum(&file).unwrap(), (written.bytes, written.sha256));
        assert_eq!(unpack(&file, &back, None).await.unwrap(), Told::default());
        let about = |name: &str| fs::symlink_metadata(back.join(name)).unwrap();
        assert_eq!((about("sub/a").mode() & 0o7777, about("sub/a").nlink()), (0o4751, 2));
        assert_eq!(
            (about("linked").ino(), fs::read_link(back.join("link")).unwrap().to_str()),
            (about("sub/a").ino(), Some("../nowhere"))
        );
        assert!(about("sparse").len() == 1 << 30 && about("sparse").blocks() < 100);
        assert!(!back.join("secret").exists() && !back.join("socket").exists());
        fs::set_permissions(&back, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(back.join("sub/a"), "kept").unwrap();
        unpack(&file, &back, Some("./")).await.unwrap();
        assert_eq!(
            (about(".").mode() & 0o7777, fs::read_to_string(back.join("sub/a")).unwrap().as_str()),
            (0o1777, "kept")
        );
        crate::host::tree::remove(&root).unwrap();
    }
}
