//! Makes a failing plan smaller for as long as it fails in the same way.

use crate::plan::{Act, Beside, End, Keep, Life, Plan};
use crate::run::{IN_CIRCLES, run};

/// Returns a smaller plan with the same kind of finding, after at most `runs` runs.
#[must_use]
pub fn shrink(plan: &Plan, finding: &str, runs: u32) -> (Plan, String) {
    let mut search =
        Search { best: plan.clone(), finding: finding.to_owned(), kind: kind(finding), left: runs };
    loop {
        let before = search.best.clone();
        search.lives();
        search.parts();
        search.steps();
        if search.best == before || search.left == 0 {
            return (search.best, search.finding);
        }
    }
}

/// Returns what distinguishes kinds of findings: their first words, without numbers.
fn kind(finding: &str) -> String {
    let words = finding.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == ' ');
    let words: String = words.collect();
    words.split_whitespace().skip_while(|word| word.len() == 1).take(4).collect()
}

/// A run without an end takes as long as this many other runs.
const ENDLESS_COSTS: u32 = 100;

/// Number of schedules to try for each smaller plan.
const SCHEDULES: u64 = 4;

struct Search {
    best: Plan,
    finding: String,
    kind: String,
    left: u32,
}

impl Search {
    /// Keeps `plan` if it fails in the same way, perhaps under another schedule.
    fn try_plan(&mut self, plan: &Plan) -> bool {
        let is_single = plan.lives.iter().all(|life| life.tasks.len() < 2 && !life.next.ahead);
        for turn in 0..if is_single { 1 } else { SCHEDULES } {
            if self.left == 0 {
                return false;
            }
            let plan = Plan { seed: plan.seed.wrapping_add(turn), ..plan.clone() };
            let found = run(&plan).finding;
            let endless = found.as_ref().is_some_and(|what| what.starts_with(IN_CIRCLES));
            self.left = self.left.saturating_sub(if endless { ENDLESS_COSTS } else { 1 });
            let found = found.filter(|finding| kind(finding) == self.kind);
            if let Some(finding) = found {
                (self.best, self.finding) = (plan, finding);
                return true;
            }
        }
        false
    }

    /// Removes lives.
    fn lives(&mut self) {
        let mut at = 0;
        while at < self.best.lives.len() {
            let mut smaller = self.best.clone();
            smaller.lives.remove(at);
            if !self.try_plan(&smaller) {
                at += 1;
            }
        }
    }

    /// Removes tasks, acts, faults and options of lives.
    fn parts(&mut self) {
        for at in 0..self.best.lives.len() {
            self.each(at, |life, part| (part < life.tasks.len()).then(|| life.tasks.remove(part)));
            for task in 0..self.best.lives.get(at).map_or(0, |life| life.tasks.len()) {
                for size in [8, 4, 2, 1] {
                    self.each(at, |life, part| take_acts(life, task, (part, size)));
                }
                self.each(at, |life, part| smaller_act(life, task, part));
            }
            self.each(at, |life, part| {
                (part < life.faults.len()).then(|| life.faults.remove(part))
            });
            self.simplify(at, |life| life.next.ahead = false);
            self.simplify(at, |life| life.next.reuse = false);
            self.simplify(at, |life| life.next.name_ahead = false);
            self.simplify(at, |life| life.in_flight = 1);
            self.simplify(at, |life| life.fills_blocks = false);
            self.simplify(at, |life| life.compress = None);
            self.simplify(at, |life| life.encrypt = false);
            self.simplify(at, |life| life.idle = false);
            self.simplify(at, |life| life.keep = Keep::All);
            self.simplify(at, |life| life.beside = Beside::AsItIs);
            self.simplify(at, |life| life.protect = None);
            self.simplify(at, |life| {
                life.protect = life.protect.map(|(what, _)| (what, End::Close));
            });
            self.simplify(at, |life| life.harm = None);
            self.each(at, |life, part| {
                let faults = &mut life.faults_beside;
                (part < faults.len()).then(|| faults.remove(part))
            });
            self.simplify(at, |life| life.harm_beside = None);
            self.simplify(at, |life| life.probes = (0, 0));
            self.simplify(at, |life| life.mends = (0, 0));
            self.simplify(at, |life| life.end = End::Close);
        }
    }

    /// Applies `without` to part 0, 1, 2, ... of a life, until it returns `None`. Keeps each change
    /// with which the plan still fails.
    fn each<T>(&mut self, at: usize, without: impl Fn(&mut Life, usize) -> Option<T>) {
        let mut part = 0;
        loop {
            let mut smaller = self.best.clone();
            let Some(life) = smaller.lives.get_mut(at) else { return };
            if without(life, part).is_none() {
                return;
            }
            if !self.try_plan(&smaller) {
                part += 1;
            }
        }
    }

    fn simplify(&mut self, at: usize, change: impl Fn(&mut Life)) {
        let mut simpler = self.best.clone();
        let Some(life) = simpler.lives.get_mut(at) else { return };
        change(life);
        if simpler != self.best {
            self.try_plan(&simpler);
        }
    }

    /// Makes lives end earlier.
    fn steps(&mut self) {
        for at in 0..self.best.lives.len() {
            for share in [2, 4, 16] {
                self.simplify(at, |life| match &mut life.end {
                    End::Kill(step) | End::Power(step, _) | End::Detach(step, _) => {
                        *step -= *step / share;
                    }
                    End::Close | End::Drop => {}
                });
            }
        }
    }
}

fn take_acts(life: &mut Life, task: usize, (part, size): (usize, usize)) -> Option<()> {
    let acts = life.tasks.get_mut(task)?;
    let start = part * size;
    if start >= acts.len() {
        return None;
    }
    acts.drain(start..(start + size).min(acts.len()));
    Some(())
}

fn smaller_act(life: &mut Life, task: usize, part: usize) -> Option<()> {
    let act = life.tasks.get_mut(task)?.get_mut(part)?;
    match act {
        Act::Append(size) | Act::Submit(size) | Act::TrySubmit(size) if *size > 10 => *size = 10,
        Act::Set(sizes) if sizes.len() > 1 => *act = Act::Append(sizes.iter().sum()),
        _ => {}
    }
    Some(())
}
