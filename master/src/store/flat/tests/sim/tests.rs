//! The disk itself: what it must keep, it always keeps; what it may lose, some seed loses.

use super::*;

/// Over many seeds, what lies in `path` after a cut: every state that was seen.
fn seen(nature: Nature, path: &str, work: impl Fn(&SimDisk)) -> Vec<Option<Vec<u8>>> {
    let mut seen = Vec::new();
    for seed in 0..400 {
        let disk = SimDisk::new(seed).of_nature(nature);
        work(&disk);
        disk.power_loss();
        seen.push(disk.peek(path));
    }
    seen.sort();
    seen.dedup();
    seen
}

fn nature(promise: Promise) -> Nature {
    Nature { promise, shears: false, reverts: false, syncs_all: true }
}

const PROMISES: [Promise; 3] = [Promise::Ordered, Promise::Loose, Promise::Torn];

#[test]
fn what_was_made_durable_stays() {
    for promise in PROMISES {
        let seen = seen(nature(promise), "b/x", |disk| {
            disk.make_dir("a").unwrap();
            disk.make_dir("b").unwrap();
            disk.sync_dir("").unwrap();
            disk.create("a/x", b"whole").unwrap();
            disk.rename("a/x", "b/x").unwrap();
            disk.sync_dir("b").unwrap();
            disk.put("b/y", b"other", None).unwrap();
        });
        assert_eq!(seen, [Some(b"whole".to_vec())], "{promise:?}");
    }
    let all = seen(nature(Promise::Torn), "b/x", |disk| {
        disk.make_dir("b").unwrap();
        disk.put("y", b"whole", None).unwrap();
        disk.rename("y", "b/x").unwrap();
        disk.sync_all().unwrap();
    });
    assert_eq!(all, [Some(b"whole".to_vec())]);
}

#[test]
fn what_was_not_may_be_there_whole_or_in_part_or_not() {
    let text = vec![b'x'; 1500];
    for promise in PROMISES {
        let seen = seen(nature(promise), "x", |disk| {
            disk.place("x", b"old");
            disk.put("tmp", &text, None).unwrap();
            disk.rename("tmp", "x").unwrap();
        });
        assert!(seen.contains(&Some(b"old".to_vec())), "{promise:?}: the rename may be lost");
        assert!(seen.contains(&Some(text.clone())), "{promise:?}: or all may be there");
        assert!(seen.contains(&Some(Vec::new())), "{promise:?}: or the name without the content");
        assert!(seen.contains(&Some(vec![0; 1500])), "{promise:?}: or zeros of its length");
        assert!(
            seen.iter().flatten().any(|bytes| bytes.len() == 1500 && bytes.starts_with(&text[..512]) && *bytes != text),
            "or torn"
        );
        assert!(!seen.contains(&None), "{promise:?}: the rename replaces in one step");
    }
}

#[test]
fn a_rename_between_folders_is_torn_where_nobody_promises_more() {
    for promise in PROMISES {
        let mut both = Vec::new();
        for seed in 0..200 {
            let disk = SimDisk::new(seed).of_nature(nature(promise));
            disk.place("a/x", b"x");
            disk.place("b/other", b"");
            disk.rename("a/x", "b/x").unwrap();
            disk.power_loss();
            both.push((disk.peek("a/x").is_some(), disk.peek("b/x").is_some()));
        }
        both.sort();
        both.dedup();
        let torn = vec![(false, false), (false, true), (true, false), (true, true)];
        assert_eq!(both, if promise == Promise::Torn { torn } else { torn[1..3].to_vec() }, "{promise:?}");
    }
}

#[test]
fn a_failed_fsync_leaves_clean_pages() {
    let (mut lost, mut shown) = (0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed).of_nature(Nature { reverts: seed % 2 == 0, ..nature(Promise::Loose) });
        disk.place("x", &[b'.'; 2048]);
        let file = disk.open("x").unwrap();
        file.write_at(0, &[b'x'; 2048]).unwrap();
        disk.fail_sync_in(1);
        file.sync().expect_err("it fails");
        shown += u32::from(disk.peek("x").unwrap() == [b'x'; 2048]);
        file.sync().expect("and says it is well");
        disk.power_loss();
        lost += u32::from(disk.peek("x").unwrap() != [b'x'; 2048]);
    }
    assert!(lost > 100 && shown > 90, "{lost} {shown}");
}

#[test]
fn a_bad_medium_spoils_the_page_and_no_other() {
    let nature = Nature { shears: true, ..nature(Promise::Loose) };
    let mut spoiled = 0;
    for seed in 0..200 {
        let disk = SimDisk::new(seed).of_nature(nature);
        disk.place("x", &[b'.'; 3 * 4096]);
        let file = disk.open("x").unwrap();
        file.write_at(4096, b"x").unwrap();
        disk.power_loss();
        let bytes = disk.peek("x").unwrap();
        assert!(bytes[..4096] == [b'.'; 4096] && bytes[8192..] == [b'.'; 4096]);
        spoiled += u32::from(bytes[4097..8192] != [b'.'; 4095]);
    }
    assert!(spoiled > 5, "{spoiled}");
}

#[test]
fn a_full_disk_lets_nothing_grow_until_something_goes() {
    let disk = SimDisk::new(1);
    disk.place("x", &[b'.'; 4096]);
    disk.place("y", b"");
    disk.fill(0);
    let full = |done: io::Result<()>| assert_eq!(done.expect_err("full").raw_os_error(), Some(ENOSPC));
    full(disk.put("z", b"z", None));
    full(disk.make_dir("folder"));
    let file = disk.open("x").unwrap();
    full(file.write_at(4096, b"more"));
    file.write_at(100, b"over").expect("it is there already");
    disk.unlink("x").unwrap();
    disk.create("z", b"z").expect("there is room again");
}

#[test]
fn a_stamp_says_who_wrote_last() {
    let disk = SimDisk::new(1);
    disk.put("x", b"x", Some(7)).unwrap();
    assert_eq!(disk.stamp("x").unwrap(), Stamp::Intact(7));
    disk.flip("x", 0, 1);
    assert_eq!(disk.stamp("x").unwrap(), Stamp::Intact(7));
    disk.overwrite("x", b"y");
    assert_eq!(disk.stamp("x").unwrap(), Stamp::Touched(7));
    disk.place("x", b"y");
    assert_eq!(disk.stamp("x").unwrap(), Stamp::None);
}

#[test]
fn a_kill_keeps_what_the_kernel_shows() {
    let disk = SimDisk::new(1);
    disk.put("x", b"x", None).unwrap();
    disk.cut_in(1);
    disk.unlink("y").expect_err("the power goes off");
    disk.put("z", b"z", None).expect_err("it is off");
    disk.kill();
    assert_eq!((disk.peek("x"), disk.peek("z")), (Some(b"x".to_vec()), None));
    disk.put("z", b"z", None).expect("it is on again");
}
