//! `helm`, where there is one: Debian has none, and nobody here is asked to install it.

use crate::bed::Bed;
use crate::kubectl::{configure, scripts};
use crate::script::Script;
use crate::{Verdict, run as runner};
use coracle_tests::stock::helms;
use std::path::Path;

/// Its scripts do not tell its versions apart.
const ANY_VERSION: u32 = 0;

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Verdict>, String> {
    let Some(helm) = helms().pop() else {
        println!("test helm ... left out: there is none on this machine");
        return Ok(Vec::new());
    };
    let mut verdicts = Vec::new();
    for script in scripts("helm")?.iter().filter(|script| wanted(&name(script))) {
        let verdict = one(&helm, script);
        println!("test {} ... {}", verdict.name, if verdict.wrong.is_empty() { "ok" } else { "FAILED" });
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn name(script: &Script) -> String {
    format!("helm/{}", script.name)
}

fn one(helm: &Path, script: &Script) -> Verdict {
    let mut verdict = Verdict { name: name(script), wrong: Vec::new(), notes: Vec::new() };
    let prepared = Bed::start(&verdict.name).and_then(|bed| {
        let bin = bed.tool("helm", helm)?;
        configure(&bed)?;
        Ok((bed, bin))
    });
    match prepared {
        Ok((bed, bin)) => runner::run(&bed, &bin, ANY_VERSION, script, &mut verdict),
        Err(why) => verdict.wrong.push(why),
    }
    verdict
}
