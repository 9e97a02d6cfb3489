//! Visits every state within an extent once, in the order of the number of steps.

use super::actions::{actions, apply, Action};
use super::words::words;
use super::world::{Config, World};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

pub struct Outcome {
    pub states: usize,
    pub broken: Option<Broken>,
}

/// A broken promise, and the shortest path to it, in words.
pub struct Broken {
    pub promise: String,
    pub trace: Vec<String>,
}

/// How a state was reached.
struct Reached {
    from: u32,
    action: Action,
}

pub fn search(c: &Config) -> Outcome {
    let start = World::new();
    let mut seen: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    seen.insert(hash(&start));
    // State n was reached by entry n - 1.
    let mut reached: Vec<Reached> = vec![];
    let mut level = vec![(0u32, start)];
    while !level.is_empty() {
        let mut next = vec![];
        for (from, world) in &level {
            for action in actions(world, c) {
                match apply(world, action, c) {
                    Err(promise) => {
                        let trace = trace(&reached, *from, action, c);
                        let states = seen.len();
                        return Outcome { states, broken: Some(Broken { promise, trace }) };
                    }
                    Ok(after) if seen.insert(hash(&after)) => {
                        reached.push(Reached { from: *from, action });
                        next.push((reached.len() as u32, after));
                    }
                    Ok(_) => {}
                }
            }
        }
        level = next;
    }
    Outcome { states: seen.len(), broken: None }
}

fn trace(reached: &[Reached], last: u32, action: Action, c: &Config) -> Vec<String> {
    let (mut actions, mut state) = (vec![action], last);
    while state > 0 {
        let step = &reached[state as usize - 1];
        actions.push(step.action);
        state = step.from;
    }
    let mut world = World::new();
    let mut out = vec![];
    for action in actions.into_iter().rev() {
        out.push(words(&world, action));
        if let Ok(after) = apply(&world, action, c) {
            world = after;
        }
    }
    out
}

fn hash(world: &World) -> u64 {
    let mut mixer = Mixer(0x9e37_79b9_7f4a_7c15);
    world.hash(&mut mixer);
    mixer.finish()
}

/// A hasher that multiplies and folds each word.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93_a076_1d64_78bd_642f;
        self.0 = (product >> 64) as u64 ^ product as u64 ^ self.0.rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n) + 1);
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
