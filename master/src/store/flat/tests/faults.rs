//! Every call of the disk fails once, with EIO and with ENOSPC: the write that met it is refused and not visible,
//! everything else goes on, the store heals by itself, and nothing that was acknowledged is lost.

use super::lives::{Asked, Host, Life, Setting, ask_create, ask_delete, ask_status, ask_update};
use super::sim::{EIO, ENOSPC};
use super::*;

/// A life that touches every kind of call: starts over files and a journal, writes, checkpoints, a close.
fn script(host: &mut Host, life: &mut Life) -> Result<(), String> {
    let round = |host: &mut Host, life: &mut Life, asks: &[fn(&mut Host, &Life) -> Asked]| {
        for ask in asks {
            let asked = ask(host, life);
            host.write_these(life, vec![asked])?;
            life.store.tend();
        }
        Ok::<_, String>(())
    };
    let create: [fn(&mut Host, &Life) -> Asked; 4] = [
        |host, life| ask_create(host, life, "a"),
        |host, life| ask_create(host, life, "Whole"),
        |host, life| ask_status(host, life, "a"),
        |host, life| ask_create(host, life, "Whole_2"),
    ];
    let change: [fn(&mut Host, &Life) -> Asked; 4] = [
        |host, life| ask_update(host, life, "Whole"),
        |host, life| ask_delete(host, life, "a"),
        |host, life| ask_status(host, life, "Whole"),
        |host, life| ask_create(host, life, "b"),
    ];
    round(host, life, &create)?;
    life.store.checkpoint().ok();
    round(host, life, &change)?;
    life.store.checkpoint().ok();
    round(host, life, &change[..1])
}

/// The script in two lives; the call `step` of the second fails. Says how many calls there were.
fn one_failure(step: u64, errno: i32, closes: bool) -> Result<u64, String> {
    let mut host = Host::new(step, Setting::WHOLE, true);
    let mut life = host.start(false)?;
    script(&mut host, &mut life)?;
    host.die(life, false)?;
    let before = host.disk.steps();
    host.disk.fail(step..step + 1, errno);
    let mut life = host.start_again()?;
    script(&mut host, &mut life)?;
    // What had been refused is taken now.
    life.store.tend();
    if host.disk.failures() == 0 {
        return Ok(0);
    }
    let asked = ask_update(&mut host, &life, "Whole");
    let healthy = host.write_these(&mut life, vec![asked])?;
    if !healthy || life.store.health().degraded.is_some() {
        return Err(format!("it does not heal: {:?}", life.store.health()));
    }
    let used = host.disk.steps() - before;
    // It may not have come to it.
    host.disk.heal();
    host.die(life, closes)?;
    drop(host.start(false)?);
    Ok(used)
}

#[test]
fn a_failure_of_any_one_call_refuses_one_write_and_nothing_else() {
    let mut failures = 0;
    for errno in [EIO, ENOSPC] {
        for closes in [false, true] {
            for step in 1.. {
                let used = one_failure(step, errno, closes)
                    .unwrap_or_else(|broken| panic!("call {step} fails with {errno}: {broken}"));
                if used == 0 {
                    break;
                }
                failures += 1;
            }
        }
    }
    eprintln!("{failures} failures");
    assert!(failures > 400, "{failures}");
}
