//! The pause image, carried in the binary and made in memory: no registry, no build, no file.
//!
//!     program (bytes below) -> ELF -> layer.tar -> config.json -> the archive that `docker save` would write
//!
//! The program holds a pod's namespaces open. The program blocks CHLD, TERM and INT and receives each signal with
//! rt_sigtimedwait: on CHLD it reaps until no child is left, on TERM or INT it exits with 0. A blocked signal is not
//! lost to a PID 1 without handlers, so it stops at once when asked. The image's id is the SHA-256 of its configuration
//! and known before it is loaded; equal programs give equal ids on every engine.

use serde_json::json;
use sha2::{Digest, Sha256};

/// The id of the image, and the archive to load if it is absent.
pub struct Pause {
    /// `sha256:` and the digest of the configuration.
    pub id: String,
    /// The one layer's digest: how the image is known on engines whose ids are not configuration digests.
    pub layer: String,
    /// A name for people (`docker images`) and against pruning. The name ends with the first digits of the id.
    pub tag: String,
    pub archive: Vec<u8>,
}

/// The image for the engine's architecture, by Docker's name for it; None where no program is written for that yet.
pub fn image(architecture: &str) -> Option<Pause> {
    let (machine, goarch, program): (u16, &str, &[u8]) = match architecture {
        "x86_64" | "amd64" => (62, "amd64", &X86_64),
        "aarch64" | "arm64" => (183, "arm64", &AARCH64),
        _ => return None,
    };
    let layer_tar = tar(&[("pause", 0o755, &elf(machine, program))]);
    let layer = digest(&layer_tar);
    let config = json!({
        "architecture": goarch,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": { "Entrypoint": ["/pause"], "User": "65535:65535", "Labels": { "dev.coracle.image": "pause" } },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
    })
    .to_string();
    let id = digest(config.as_bytes());
    let tag = format!("coracle/pause:{}", &id[..12]);
    let manifest = json!([{ "Config": format!("{id}.json"), "RepoTags": [tag], "Layers": ["layer.tar"] }]).to_string();
    let config_name = format!("{id}.json");
    let archive = tar(&[
        (&config_name, 0o644, config.as_bytes()),
        ("layer.tar", 0o644, &layer_tar),
        ("manifest.json", 0o644, manifest.as_bytes()),
    ]);
    Some(Pause { id: format!("sha256:{id}"), layer: format!("sha256:{layer}"), tag, archive })
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        hex
    })
}

/// A static executable: file header, one loadable segment that is the whole file, the program.
fn elf(machine: u16, program: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + program.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]; // 64 bits, little endian, System V
    for half in [2, machine] {
        file.extend(half.to_le_bytes()); // an executable; for this machine
    }
    file.extend(1u32.to_le_bytes());
    for word in [BASE + HEADERS, 64, 0] {
        file.extend(u64::to_le_bytes(word)); // entry point, program headers, no section headers
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes()); // sizes and counts of the headers
    }
    for word in [1u32, 5] {
        file.extend(word.to_le_bytes()); // PT_LOAD, readable and executable
    }
    for word in [0, BASE, BASE, size, size, 0x1000] {
        file.extend(u64::to_le_bytes(word)); // offset, addresses, sizes, alignment
    }
    file.extend(program);
    file
}

/// The block size of tar.
const BLOCK: usize = 512;

/// A ustar archive of plain files that belong to root and are as old as Unix.
fn tar(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, content) in files {
        entry(&mut archive, name, *mode, content);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// Appends a file to a ustar archive.
pub fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    let mut header = [0u8; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", content.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend(header);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

/// The program for x86-64, one instruction a line.
#[rustfmt::skip]
const X86_64: [u8; 81] = [
    0x68, 0x02, 0x40, 0x01, 0x00,         // push 0x14002
    0x54,                                 // push rsp
    0x5e,                                 // pop rsi
    0x31, 0xff,                           // xor edi,edi
    0x31, 0xd2,                           // xor edx,edx
    0x6a, 0x08,                           // push 0x8
    0x41, 0x5a,                           // pop r10
    0x6a, 0x0e,                           // push 0xe
    0x58,                                 // pop rax
    0x0f, 0x05,                           // syscall
    // wait:
    0x54,                                 // push rsp
    0x5f,                                 // pop rdi
    0x31, 0xf6,                           // xor esi,esi
    0x31, 0xd2,                           // xor edx,edx
    0x6a, 0x08,                           // push 0x8
    0x41, 0x5a,                           // pop r10
    0xb8, 0x80, 0x00, 0x00, 0x00,         // mov eax,0x80
    0x0f, 0x05,                           // syscall
    0x83, 0xf8, 0x11,                     // cmp eax,0x11
    0x74, 0x11,                           // je reap
    0x83, 0xf8, 0x0f,                     // cmp eax,0xf
    0x74, 0x05,                           // je exit
    0x83, 0xf8, 0x02,                     // cmp eax,0x2
    0x75, 0xe0,                           // jne wait
    // exit:
    0x31, 0xff,                           // xor edi,edi
    0x6a, 0x3c,                           // push 0x3c
    0x58,                                 // pop rax
    0x0f, 0x05,                           // syscall
    // reap:
    0x6a, 0xff,                           // push 0xffffffffffffffff
    0x5f,                                 // pop rdi
    0x31, 0xf6,                           // xor esi,esi
    0x6a, 0x01,                           // push 0x1
    0x5a,                                 // pop rdx
    0x45, 0x31, 0xd2,                     // xor r10d,r10d
    0x6a, 0x3d,                           // push 0x3d
    0x58,                                 // pop rax
    0x0f, 0x05,                           // syscall
    0x85, 0xc0,                           // test eax,eax
    0x7f, 0xec,                           // jg reap
    0xeb, 0xc3,                           // jmp wait
];

/// The program for aarch64, one instruction a line.
#[rustfmt::skip]
const AARCH64: [u8; 132] = [
    0x40, 0x00, 0x88, 0x52,               // mov w0, #0x4002
    0x20, 0x00, 0xa0, 0x72,               // movk w0, #0x1, lsl #16
    0xe0, 0x0f, 0x1f, 0xf8,               // str x0, [sp, #-16]!
    0x00, 0x00, 0x80, 0xd2,               // mov x0, #0x0
    0xe1, 0x03, 0x00, 0x91,               // mov x1, sp
    0x02, 0x00, 0x80, 0xd2,               // mov x2, #0x0
    0x03, 0x01, 0x80, 0xd2,               // mov x3, #0x8
    0xe8, 0x10, 0x80, 0xd2,               // mov x8, #0x87
    0x01, 0x00, 0x00, 0xd4,               // svc #0x0
    // wait:
    0xe0, 0x03, 0x00, 0x91,               // mov x0, sp
    0x01, 0x00, 0x80, 0xd2,               // mov x1, #0x0
    0x02, 0x00, 0x80, 0xd2,               // mov x2, #0x0
    0x03, 0x01, 0x80, 0xd2,               // mov x3, #0x8
    0x28, 0x11, 0x80, 0xd2,               // mov x8, #0x89
    0x01, 0x00, 0x00, 0xd4,               // svc #0x0
    0x1f, 0x44, 0x00, 0x71,               // cmp w0, #0x11
    0x00, 0x01, 0x00, 0x54,               // b.eq reap
    0x1f, 0x3c, 0x00, 0x71,               // cmp w0, #0xf
    0x60, 0x00, 0x00, 0x54,               // b.eq exit
    0x1f, 0x08, 0x00, 0x71,               // cmp w0, #0x2
    0xa1, 0xfe, 0xff, 0x54,               // b.ne wait
    // exit:
    0x00, 0x00, 0x80, 0xd2,               // mov x0, #0x0
    0xa8, 0x0b, 0x80, 0xd2,               // mov x8, #0x5d
    0x01, 0x00, 0x00, 0xd4,               // svc #0x0
    // reap:
    0x00, 0x00, 0x80, 0x92,               // mov x0, #0xffffffffffffffff
    0x01, 0x00, 0x80, 0xd2,               // mov x1, #0x0
    0x22, 0x00, 0x80, 0xd2,               // mov x2, #0x1
    0x03, 0x00, 0x80, 0xd2,               // mov x3, #0x0
    0x88, 0x20, 0x80, 0xd2,               // mov x8, #0x104
    0x01, 0x00, 0x00, 0xd4,               // svc #0x0
    0x1f, 0x00, 0x00, 0x71,               // cmp w0, #0x0
    0x2c, 0xff, 0xff, 0x54,               // b.gt reap
    0xe9, 0xff, 0xff, 0x17,               // b wait
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_digest_of_what_is_in_the_archive() {
        for architecture in ["x86_64", "aarch64"] {
            let pause = image(architecture).expect("a program for it");
            let length = usize::from_str_radix(std::str::from_utf8(&pause.archive[124..135]).unwrap(), 8).unwrap();
            let config = &pause.archive[512..512 + length];
            assert_eq!(pause.id, format!("sha256:{}", digest(config)));
            let value: serde_json::Value = serde_json::from_slice(config).unwrap();
            assert_eq!(value["rootfs"]["diff_ids"][0], pause.layer);
            assert_eq!(pause.archive.len() % 512, 0);
        }
    }

    /// An engine uses the image of an older agent only while the bytes are the same, so changed bytes must be intended.
    #[test]
    fn ids_are_those_of_the_first_release() {
        assert_eq!(
            image("amd64").unwrap().id,
            "sha256:904c5c3820646388bb63a22fdd2f7c7e045fab9a353179dae649e500c587b823"
        );
        assert_eq!(
            image("arm64").unwrap().id,
            "sha256:fa3b6fc7f6f7eb998437ff5dc35071f14599851f33e71297c92550cca96d4772"
        );
        assert!(image("riscv64").is_none());
    }

    #[test]
    fn the_executable_is_as_long_as_it_says() {
        let file = elf(62, &X86_64);
        assert_eq!(file.len(), 120 + X86_64.len());
        assert_eq!(u64::from_le_bytes(file[96..104].try_into().unwrap()), file.len() as u64);
    }
}
