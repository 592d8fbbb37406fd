#![no_main]
//! Segments of a journal, parted where the first byte stands again.

use bytes::Bytes;
use coracle_master::store::trial::{Protocol, read_segments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [mark, bytes @ ..] = bytes else { return };
    let segments: Vec<Bytes> = bytes.split(|byte| byte == mark).map(Bytes::copy_from_slice).collect();
    read_segments(&segments, &Protocol { checksums: mark % 2 == 0, own_lines: mark % 4 < 2, ..Protocol::WHOLE });
});
