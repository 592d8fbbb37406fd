//! Both clocks at one moment, and how long a failure waits for its next try: arithmetic, no sleeping task. PURE.

/// Both clocks at one moment. Timers use the monotonic one; the wall clock is for what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub wall_ms: i64,
    /// Since the agent started; earlier times are negative.
    pub mono_ms: i64,
}

/// The first restart is immediate, the second waits this long, each later one twice as long as the one before.
pub const RESTART_WAIT_MS: i64 = 10_000;
pub const RESTART_WAIT_MS_MAX: i64 = 300_000;
/// After a run of this length, earlier failures are forgotten.
pub const RAN_FINE_MS: i64 = 600_000;
/// After a failed pull, doubling.
pub const PULL_WAIT_MS: i64 = 10_000;
pub const PULL_WAIT_MS_MAX: i64 = 300_000;
/// After an action that failed, doubling: the engine is asked again soon, but not at full speed.
pub const SETBACK_WAIT_MS: i64 = 500;
pub const SETBACK_WAIT_MS_MAX: i64 = 30_000;

/// How long a container of this step stays down once it has ended.
pub fn restart_wait_ms(step: u32) -> i64 {
    if step == 0 { 0 } else { doubled(RESTART_WAIT_MS, step - 1, RESTART_WAIT_MS_MAX) }
}

/// `failures` counts from 1.
pub fn pull_wait_ms(failures: u32) -> i64 {
    doubled(PULL_WAIT_MS, failures.saturating_sub(1), PULL_WAIT_MS_MAX)
}

pub fn setback_wait_ms(failures: u32) -> i64 {
    doubled(SETBACK_WAIT_MS, failures.saturating_sub(1), SETBACK_WAIT_MS_MAX)
}

/// `64ms`, `1.5s`, `10s`, `1m20s`: as the kubelet prints it.
pub fn words(time_ms: i64) -> String {
    let (seconds, rest_ms) = (time_ms / 1000, time_ms % 1000);
    let fraction = if rest_ms == 0 { String::new() } else { format!(".{rest_ms:03}").trim_end_matches('0').to_owned() };
    match seconds {
        0 if rest_ms > 0 => format!("{rest_ms}ms"),
        0..60 => format!("{seconds}{fraction}s"),
        _ => format!("{}m{}{fraction}s", seconds / 60, seconds % 60),
    }
}

fn doubled(first_ms: i64, times: u32, max_ms: i64) -> i64 {
    first_ms.saturating_mul(1_i64.checked_shl(times.min(30)).unwrap_or(i64::MAX)).min(max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_five_minutes() {
        let waits: Vec<String> = (0..8).map(|step| words(restart_wait_ms(step))).collect();
        assert_eq!(waits, ["0s", "10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
        assert_eq!([0, 64, 1_500, 62_005].map(words), ["0s", "64ms", "1.5s", "1m2.005s"]);
        assert_eq!(restart_wait_ms(u32::MAX), RESTART_WAIT_MS_MAX);
        assert_eq!(setback_wait_ms(1), SETBACK_WAIT_MS);
    }
}
