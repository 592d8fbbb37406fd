//! Of the nodes that take a pod, the best: each measure gives 0 to 100, and has its weight. PURE.

use super::super::view::NodeView;
use super::ask::Ask;
use super::relations;
use super::spread;
use super::world::World;
use coracle_api::placement::{term_holds, untolerated};
use std::collections::BTreeMap;

const TAINTS: i64 = 3;
const AFFINITY: i64 = 2;
const SPREAD: i64 = 2;
const RELATIONS: i64 = 2;
/// Up to the minimum, an image's bytes score nothing; from the maximum for each container on, they score fully.
const IMAGE_BYTES_MIN: i64 = 23 << 20;
const IMAGE_BYTES_MAX: i64 = 1000 << 20;

/// The best of these nodes, which are in the order in which equals are chosen.
pub fn best<'a>(world: &World<'a>, ask: &Ask<'a>, fitting: &[usize]) -> usize {
    if let [only] = fitting {
        return *only;
    }
    let of = |measure: &dyn Fn(usize) -> i64| fitting.iter().map(|at| measure(*at)).collect::<Vec<i64>>();
    let mut total = vec![0; fitting.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        total.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score)
    };
    add(TAINTS, shares(of(&|at| disliked(world.rooms[at].node, ask)), true));
    add(AFFINITY, shares(of(&|at| preferred(world, at, ask)), false));
    if let Some(scores) = spread::scores(world, ask, fitting) {
        add(SPREAD, scores);
    }
    let drawn = relations::drawn(world, ask);
    if !drawn.is_empty() {
        add(RELATIONS, between(of(&|at| pull(world.rooms[at].node, &drawn))));
    }
    add(1, of(&|at| free(world, at, ask)));
    if ask.pod.cpu_milli > 0 || ask.pod.memory_bytes > 0 {
        add(1, of(&|at| balance(world, at, ask)));
    }
    add(1, of(&|at| images(world, at, ask)));
    // The first of the best.
    let most = total.iter().max().copied().unwrap_or_default();
    fitting[total.iter().position(|score| *score == most).unwrap_or_default()]
}

/// Shares of the most, in hundredths.
fn shares(raw: Vec<i64>, reverse: bool) -> Vec<i64> {
    let most = raw.iter().max().copied().unwrap_or_default();
    let share = |raw: i64| if most == 0 { 0 } else { raw * 100 / most };
    raw.into_iter().map(|raw| if reverse { 100 - share(raw) } else { share(raw) }).collect()
}

/// Between the least and the most, in hundredths.
fn between(raw: Vec<i64>) -> Vec<i64> {
    let (least, most) = (raw.iter().min().copied().unwrap_or_default(), raw.iter().max().copied().unwrap_or_default());
    let share =
        |raw: i64| if most > least { (100.0 * ((raw - least) as f64 / (most - least) as f64)) as i64 } else { 0 };
    raw.into_iter().map(share).collect()
}

/// Taints that the pod should rather not stand with.
fn disliked(node: &NodeView, ask: &Ask<'_>) -> i64 {
    let soft = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    let count = soft
        .filter(|taint| untolerated(std::slice::from_ref(taint), &ask.tolerations, &["PreferNoSchedule"]).is_some())
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn preferred(world: &World<'_>, at: usize, ask: &Ask<'_>) -> i64 {
    let room = &world.rooms[at];
    let all =
        super::ask::list(&ask.spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]);
    let holds = all.iter().filter(|one| term_holds(&one["preference"], room.name, &room.node.labels));
    holds.filter_map(|one| one["weight"].as_i64()).sum()
}

fn pull(node: &NodeView, drawn: &BTreeMap<(String, String), i64>) -> i64 {
    drawn.iter().filter(|((label, value), _)| node.labels.get(label) == Some(value)).map(|(_, pull)| pull).sum()
}

/// What share of cpu and memory would be left.
fn free(world: &World<'_>, at: usize, ask: &Ask<'_>) -> i64 {
    let (room, pod) = (&world.rooms[at], ask.pod);
    let left = |used: i64, asked: i64, there: i64| {
        let used = used.saturating_add(asked);
        (there > 0).then(|| if used > there { 0 } else { share(there - used, there) })
    };
    let cpu = left(room.usage.scored_cpu_milli, pod.scored_cpu_milli, room.node.cpu_milli);
    let memory = left(room.usage.scored_memory_bytes, pod.scored_memory_bytes, room.node.memory_bytes);
    let all: Vec<i64> = [cpu, memory].into_iter().flatten().collect();
    if all.is_empty() { 0 } else { all.iter().sum::<i64>() / i64::try_from(all.len()).unwrap_or(1) }
}

fn share(part: i64, whole: i64) -> i64 {
    i64::try_from(i128::from(part) * 100 / i128::from(whole)).unwrap_or(100)
}

/// How much nearer to each other the pod brings the shares of cpu and memory.
fn balance(world: &World<'_>, at: usize, ask: &Ask<'_>) -> i64 {
    let (room, pod) = (&world.rooms[at], ask.pod);
    let even = |cpu: i64, memory: i64| {
        let share = |used: i64, there: i64| (there > 0).then(|| (used as f64 / there as f64).min(1.0));
        let apart = match (share(cpu, room.node.cpu_milli), share(memory, room.node.memory_bytes)) {
            (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - apart) * 100.0) as i64
    };
    let (cpu, memory) = (room.usage.cpu_milli, room.usage.memory_bytes);
    let with = even(cpu.saturating_add(pod.cpu_milli), memory.saturating_add(pod.memory_bytes));
    50 + (50 + with - even(cpu, memory)) / 2
}

/// Scores the bytes of the pod's images that the node already has. An image on few nodes counts less: otherwise all
/// pods of the image would gather there.
fn images(world: &World<'_>, at: usize, ask: &Ask<'_>) -> i64 {
    let size = |at: usize, image: &u64| {
        world.rooms[at].node.images.iter().find(|(mark, _)| mark == image).map(|(_, bytes)| *bytes)
    };
    let one = |image: &u64| {
        let bytes = size(at, image)?;
        let nodes = (0..world.rooms.len()).filter(|other| size(*other, image).is_some()).count();
        Some((bytes as f64 * (nodes as f64 / world.rooms.len() as f64)) as i64)
    };
    let sum: i64 = ask.images.iter().filter_map(one).sum();
    let most = IMAGE_BYTES_MAX * i64::try_from(ask.containers.max(1)).unwrap_or(1);
    100 * (sum.clamp(IMAGE_BYTES_MIN, most) - IMAGE_BYTES_MIN) / (most - IMAGE_BYTES_MIN)
}
