//! The images of the tests, made on the spot: Debian's static busybox, and the stand-in for the guestbook's.

use crate::bed::{Engine, place, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

pub const BUSYBOX: &str = "coracle/busybox:1";
/// The same, which serves a page at port 80 where nobody says otherwise.
pub const WEB: &str = "coracle/web:1";

/// Says its name over TCP and UDP at port 7: `say NAME`; and asks: `/standin ask udp ADDRESS`.
pub const SAY: &str = "coracle/say:1";

/// Image, and the role of the stand-in that it runs.
const GUESTBOOK: &[(&str, &str)] = &[
    ("brendanburns/php-redis:latest", "frontend"),
    ("dockerfile/redis:latest", "redis-master"),
    ("brendanburns/redis-slave:latest", "redis-slave"),
];

pub fn load(engine: &Engine) -> Result<(), String> {
    let folder = place().join("images");
    let base = folder.join("busybox");
    busybox(&base).map_err(|e| format!("busybox image: {e}; apt-get install busybox-static"))?;
    import(engine, &base, BUSYBOX, &["CMD [\"sh\"]", "ENV PATH=/bin"])?;
    import(
        engine,
        &base,
        WEB,
        &["CMD [\"sh\", \"-c\", \"echo hello > /tmp/index.html; exec httpd -f -p 80 -h /tmp\"]", "ENV PATH=/bin"],
    )?;
    let standin = env!("CARGO_BIN_EXE_guestbook-standin");
    with_libraries(Path::new(standin), &base)?;
    import(engine, &base, SAY, &["ENTRYPOINT [\"/standin\"]", "ENV PATH=/bin"])?;
    for (image, role) in GUESTBOOK {
        import(engine, &base, image, &[&format!("ENTRYPOINT [\"/standin\", \"{role}\"]")])?;
    }
    Ok(())
}

/// The image of busybox, changed.
pub fn busybox_with(engine: &Engine, image: &str, changes: &[String]) -> Result<(), String> {
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    import(engine, &place().join("images/busybox"), image, &changes)
}

/// An image of busybox under another's name, which serves a page at a port.
pub fn stand_in(engine: &Engine, image: &str, port: u16) -> Result<(), String> {
    let root = place().join("images/standin");
    if !root.exists() {
        busybox(&root).map_err(|error| error.to_string())?;
        fs::create_dir(root.join("www"))
            .and_then(|()| fs::write(root.join("www/index.html"), "hello\n"))
            .map_err(|error| error.to_string())?;
    }
    let command = format!("CMD [\"httpd\", \"-f\", \"-p\", \"{port}\", \"-h\", \"/www\"]");
    import(engine, &root, image, &[&command, "ENV PATH=/bin"])
}

/// An image of busybox and this kubectl, which needs no library.
pub fn kubectl(engine: &Engine, image: &str, program: &Path) -> Result<(), String> {
    let root = place().join("images/kubectl");
    busybox(&root).map_err(|error| error.to_string())?;
    fs::copy(program, root.join("bin/kubectl")).map_err(|error| format!("{}: {error}", program.display()))?;
    import(engine, &root, image, &["ENV PATH=/bin"])
}

fn busybox(root: &Path) -> std::io::Result<()> {
    for part in ["bin", "etc", "tmp"] {
        fs::create_dir_all(root.join(part))?;
    }
    fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    let applets = String::from_utf8_lossy(&Command::new("/bin/busybox").arg("--list").output()?.stdout).into_owned();
    for applet in applets.lines().filter(|a| *a != "busybox") {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")
}

/// A program of this machine and the libraries that it was linked with.
fn with_libraries(program: &Path, root: &Path) -> Result<(), String> {
    fs::copy(program, root.join("standin")).map_err(|e| format!("{}: {e}", program.display()))?;
    let listed = run(Command::new("ldd").arg(program))?;
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(&library[1..]);
        fs::create_dir_all(to.parent().expect("a library lies in a folder")).map_err(|e| e.to_string())?;
        fs::copy(library, &to).map_err(|e| format!("{library}: {e}"))?;
    }
    Ok(())
}

fn import(engine: &Engine, root: &Path, image: &str, changes: &[&str]) -> Result<(), String> {
    let archive = root.with_extension("tar");
    run(Command::new("tar").args(["-C", &root.to_string_lossy(), "-cf", &archive.to_string_lossy(), "."]))?;
    let mut arguments = vec!["import".to_owned()];
    for change in changes {
        arguments.extend(["--change".to_owned(), change.to_string()]);
    }
    arguments.extend([archive.to_string_lossy().into_owned(), image.to_owned()]);
    engine.docker(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
}
