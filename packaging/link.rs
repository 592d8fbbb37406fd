//! How both programs are linked: the build script of the master and of the agent.

fn main() {
    println!("cargo::rerun-if-changed=../packaging/link.rs");
    // The static tables of types hold thousands of addresses. The loader reads where they stand: packed that is 10 KB,
    // plain 270, which stay with the process. Wants glibc 2.36, as the packages do.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}
