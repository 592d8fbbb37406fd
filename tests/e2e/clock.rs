//! A CronJob of a master whose clock is put forward and back. libfaketime shows the master another time of day than the
//! kernel's, so no other program of this machine sees the jumps. What it cannot show is that the kernel tells of them:
//! a change of the CronJob makes the master look. `packaging/test-vm.sh` sets a real clock.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use crate::kubectl::newest;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

pub const TESTS: &[Test] = &[("clock_cron_job_over_jumps", cron_job_over_jumps)];

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Debian's package `faketime`: the one for programs with threads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// What may pass between a jump and the look that follows it, and a ticks' distance.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn library() -> Option<String> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut paths = folders.map(|folder| folder.path().join(LIBRARY)).filter(|path| path.exists());
    paths.next().map(|path| path.display().to_string())
}

/// A master whose clock is this machine's and so much more.
struct Clock<'a, 'b> {
    bed: &'a mut Bed<'b>,
    ahead: SignedDuration,
}

impl Clock<'_, '_> {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.ahead
    }

    /// Written beside and renamed: the library reads the file at each look at the clock.
    fn set(&self) {
        let (beside, file) = (self.bed.path("ahead.new"), self.bed.path("ahead"));
        fs::write(&beside, format!("{:+}\n", self.ahead.as_secs_f64())).expect("the clock's file");
        fs::rename(beside, file).expect("the clock's file");
    }

    /// To a moment three seconds before a full minute that is about so much away; then somebody changes the CronJob.
    fn jump(&mut self, by: SignedDuration) {
        let about = self.now() + by;
        let second = about.as_second().rem_euclid(60);
        self.ahead += by + SignedDuration::from_secs(57 - second);
        self.set();
        newest().must(&["annotate", "cronjob/tick", "--overwrite", &format!("looked={}", self.now())]);
    }

    /// When each Job was due.
    fn due(&self) -> Vec<Timestamp> {
        let jobs = self.bed.get(JOBS)["items"].as_array().cloned().unwrap_or_default();
        let due = |job: &Value| {
            job["metadata"]["annotations"][SCHEDULED].as_str().expect("it is of a CronJob").parse().expect("a time")
        };
        jobs.iter().map(due).collect()
    }

    fn last(&self) -> Option<Timestamp> {
        self.bed.get(&format!("{CRON_JOBS}/tick"))["status"]["lastScheduleTime"]
            .as_str()
            .and_then(|text| text.parse().ok())
    }

    /// Until one is due within two minutes of now; all are of different minutes, the last is told, and how many there
    /// are is said.
    fn until_caught_up(&self, what: &str) -> usize {
        self.bed.until(what, |_| {
            self.due().into_iter().any(|due| self.now().duration_since(due).abs() < 2 * MINUTE).then_some(())
        });
        let due = self.due();
        let different: BTreeSet<Timestamp> = due.iter().copied().collect();
        assert_eq!(different.len(), due.len(), "one ran twice: {due:?}");
        // It is told right after its Job is made.
        self.bed.until("the last is told", |_| (self.last() >= due.iter().max().copied()).then_some(()));
        due.len()
    }
}

fn cron_job_over_jumps(bed: &mut Bed) {
    let Some(library) = library() else { return println!("left out: the package faketime is not on this machine") };
    let file = bed.path("ahead").display().to_string();
    let mut clock = Clock { bed, ahead: SignedDuration::ZERO };
    clock.set();
    // Read at each look; waits go by the kernel's own, as they do when a real clock is set.
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", &file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME_DISABLE_SHM", "1"),
    ];
    clock.bed.spawn_master_in(&[], &environment);
    clock.bed.until_master_answers();
    clock.bed.start_agent();
    let container = json!({"name": "c", "image": BUSYBOX, "command": ["true"]});
    let job = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
    let spec = json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": job});
    clock.bed.post(CRON_JOBS, &json!({"metadata": {"name": "tick"}, "spec": spec}).to_string());
    clock.jump(SignedDuration::ZERO);
    let mut jobs = clock.until_caught_up("the first is due");
    // A minute that passes in between may bring one more.
    for (what, by) in [("put forward by an hour", 60), ("put forward by a day", 24 * 60)] {
        clock.jump(by * MINUTE);
        let now = clock.until_caught_up(what);
        assert!((jobs + 1..=jobs + 3).contains(&now), "{what}: {jobs} jobs before, {now} after");
        jobs = now;
    }
    let last = clock.last();
    clock.jump(-60 * MINUTE);
    // What is due by a clock that was put back has run: it comes again only where the clock is further on than it was.
    clock.jump(2 * MINUTE);
    assert_eq!((clock.due().len(), clock.last()), (jobs, last), "put back by an hour");
    clock.jump(61 * MINUTE);
    let now = clock.until_caught_up("where it was");
    let later = clock.due().into_iter().filter(|due| Some(*due) > last).count();
    assert_eq!(later, now - jobs, "put back by an hour: what had run ran again");
    let ended = |bed: &Bed| {
        bed.get(JOBS)["items"].as_array().into_iter().flatten().filter(|job| job["status"]["succeeded"] == 1).count()
    };
    clock.bed.until("all have run", |bed| (ended(bed) >= now).then_some(()));
}
