//! How both programs are linked: the build script of the master and of the agent.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=../packaging/link.rs");
    // The static tables of types hold thousands of addresses. The loader reads where they stand: packed that is 10 KB, plain 270, which
    // stay with the process. Wants glibc 2.36, as the packages do.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // What runs at rest lies together: 2 MB less stay with the process. Only the linker that comes with the compiler for this target
    // takes a thousand names in a second.
    println!("cargo::rerun-if-changed=start.ld");
    let is_target = var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    if is_target && var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/start.ld", var("CARGO_MANIFEST_DIR").unwrap_or_default());
    }
}
