//! Draws a plan from a seed. Each seed has its own mixture of acts and faults. Most mixtures have
//! few kinds, so that rare events coincide in some of them.

use seawall::parity::Parity;
use seawall::{Layout, Level};
use seawall_testkit::{Decay, Dice, Fault, Harm, Kind};

use crate::plan::{Act, Beside, Cut, End, Keep, Life, Plan, Unit};
use crate::world::{BLOCK, reaches_others};

/// The mixture of acts and faults of a seed.
struct Mixture {
    dice: Dice,
    letters: Vec<char>,
    faults: Vec<Kind>,
    /// One life in this many is damaged at its end; 0 for no damage.
    harm_one_in: u64,
    tasks_max: u64,
    acts_max: u64,
    levels: Vec<Level>,
    probes: bool,
}

/// Draws the plan of a seed.
#[must_use]
pub fn draw(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let layout = if dice.one_in(4) { Layout::Text } else { Layout::Binary };
    let segment_max = 512 * (10 + dice.below(3) * 6);
    let mut mixture = Mixture::draw(&mut dice);
    let count = 2 + dice.below(6);
    let mut lives: Vec<Life> = (0..count).map(|_| mixture.life()).collect();
    draw_parity(seed, &mut lives);
    draw_beside(seed, &mut lives);
    draw_protect(seed, &mut lives);
    draw_detach(seed, &mut lives);
    draw_tries(seed, &mut lives);
    draw_reuse(seed, layout, &mut lives);
    draw_name_ahead(seed, layout, &mut lives);
    let segment_max = draw_in_flight(seed, layout, &mut lives).unwrap_or(segment_max);
    let segment_max = segment_max + draw_odd_size(seed);
    draw_filled_blocks(seed, layout, &mut lives);
    draw_compression(seed, layout, &mut lives);
    draw_encryption(seed, layout, &mut lives);
    let reach = draw_reach(seed, &mut lives);
    // The reach takes its space from the batches.
    let segment_max = segment_max + u64::from(reach - BLOCK);
    Plan { seed, layout, segment_max, reach, lives }
}

/// Draws a reach of more than a block for half of the logs; damage at rest is as large. Uses
/// separate dice.
fn draw_reach(seed: u64, lives: &mut [Life]) -> u32 {
    let mut dice = Dice::new(seed ^ 0x4EAC_4000);
    let reach = [BLOCK, BLOCK, 2 * BLOCK, 4 * BLOCK];
    let reach = dice.pick(&reach).copied().unwrap_or(BLOCK);
    let harms = lives.iter_mut().flat_map(|life| [&mut life.harm, &mut life.harm_beside]);
    for harm in harms.flatten() {
        harm.reach = usize::try_from(reach).expect("a small number");
    }
    reach
}

/// Draws the parity options: a third of the logs have parity for at least some lives. Uses separate
/// dice, so that the rest of the plan does not change.
fn draw_parity(seed: u64, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x7A91_717E);
    if !dice.one_in(3) {
        return;
    }
    let schemes = schemes();
    for (turn, life) in lives.iter_mut().enumerate() {
        let told = if turn == 0 { dice.below(2) } else { dice.below(8) };
        life.beside = match told {
            0 => dice.pick(&schemes).map_or(Beside::AsItIs, |scheme| Beside::On(*scheme)),
            1 if turn > 0 => Beside::Off,
            _ => Beside::AsItIs,
        };
    }
    if lives.iter().all(|life| !matches!(life.beside, Beside::On(_)))
        && let (Some(life), Some(scheme)) = (lives.first_mut(), dice.pick(&schemes))
    {
        life.beside = Beside::On(*scheme);
    }
}

/// Adds faults of parity files only, in half of the logs with parity, and damage that parity must
/// restore. Uses separate dice.
fn draw_beside(seed: u64, lives: &mut [Life]) {
    if lives.iter().all(|life| !matches!(life.beside, Beside::On(_))) {
        return;
    }
    let mut dice = Dice::new(seed ^ 0xBE51_DE00);
    let goes_wrong = dice.one_in(2);
    // These faults must not reach files other than parity.
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !reaches_others(*kind)).collect();
    for life in lives {
        let acts: usize = life.tasks.iter().map(Vec::len).sum();
        let steps = 60 + 25 * u64::try_from(acts).expect("a small number");
        if goes_wrong && dice.one_in(2) {
            for _ in 0..=dice.below(3) {
                let (step, seed) = (1 + dice.below(steps), dice.any() & 0xFFFF);
                let kind = dice.pick(&kinds).copied();
                life.faults_beside.extend(kind.map(|kind| (step, Fault { kind, seed })));
            }
        }
        if goes_wrong && dice.one_in(4) {
            let decay = dice.pick(&Decay::ALL).copied().unwrap_or(Decay::Bit);
            life.harm_beside = Some(Harm { decay, reach: 512, seed: dice.any() & 0xFFFF });
        }
        if dice.one_in(2) {
            life.mends = (1 + dice.below(3), dice.any() & 0xFFFF);
        }
    }
}

/// Builds parity between two lives, in a quarter of the logs, whether or not they have the parity
/// option. Uses separate dice.
fn draw_protect(seed: u64, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x9207_EC70);
    if !dice.one_in(4) {
        return;
    }
    for life in lives {
        if dice.one_in(2)
            && let Some(scheme) = dice.pick(&schemes())
        {
            let step = 1 + dice.below(60);
            let end = match dice.below(4) {
                0 => End::Close,
                1 => End::Kill(step),
                2 => End::Power(step, Cut { unit: unit(&mut dice), seed: dice.any() & 0xFFFF }),
                // The power cut comes after the parity is complete.
                _ => End::Power(100_000, Cut { unit: unit(&mut dice), seed: dice.any() & 0xFFFF }),
            };
            life.protect = Some((*scheme, end));
        }
    }
}

/// Replaces some power cuts by a device that goes away and comes back while the machine keeps
/// running, in half of the logs. Uses separate dice.
fn draw_detach(seed: u64, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0xDE7A_C4ED);
    if !dice.one_in(2) {
        return;
    }
    for life in lives {
        if let End::Power(step, cut) = life.end
            && dice.one_in(2)
        {
            life.end = End::Detach(step, cut);
        }
    }
}

/// Replaces most submits by ones that never block, in half of the logs. Uses separate dice.
fn draw_tries(seed: u64, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x7217_5AB3);
    if !dice.one_in(2) {
        return;
    }
    for act in lives.iter_mut().flat_map(|life| life.tasks.iter_mut().flatten()) {
        if let Act::Submit(size) = *act
            && !dice.one_in(4)
        {
            *act = Act::TrySubmit(size);
        }
    }
}

/// Allows several writes in flight in half of the binary logs and most of their lives, and adds
/// tasks that append at the same time. Returns a segment size with space for more than one rotation
/// of these writes. Uses separate dice.
fn draw_in_flight(seed: u64, layout: Layout, lives: &mut [Life]) -> Option<u64> {
    let mut dice = Dice::new(seed ^ 0x0F11_6875);
    if layout == Layout::Text || !dice.one_in(2) {
        return None;
    }
    for life in lives {
        life.in_flight = u8::try_from(1 + dice.below(4)).expect("a small number");
        for _ in 0..dice.below(4) {
            let count = 1 + dice.below(6);
            let size =
                |dice: &mut Dice| size(if dice.one_in(2) { 400 } else { 60 } + dice.below(500));
            life.tasks.push((0..count).map(|_| Act::Append(size(&mut dice))).collect());
        }
    }
    Some(512 * (14 + dice.below(3) * 6))
}

/// The bytes by which the segment size of a third of the logs differs from a number of blocks. Uses
/// separate dice.
fn draw_odd_size(seed: u64) -> u64 {
    let mut dice = Dice::new(seed ^ 0x0DD5_12E0);
    if dice.one_in(3) { 1 + dice.below(511) } else { 0 }
}

/// Fills blocks in a quarter of the binary logs and most of their lives. In logs without parity,
/// power cuts may then garble the blocks that were written; parity blocks are not filled. Uses
/// separate dice.
fn draw_filled_blocks(seed: u64, layout: Layout, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0xF111_B10C);
    if layout == Layout::Text || !dice.one_in(4) {
        return;
    }
    let is_parity = |life: &Life| matches!(life.beside, Beside::On(_)) || life.protect.is_some();
    let has_parity = lives.iter().any(is_parity);
    // Whether all pending writes filled their blocks. A killed life may leave some that did not.
    let mut is_filled = true;
    for life in lives {
        life.fills_blocks = !dice.one_in(4);
        is_filled &= life.fills_blocks;
        if let End::Power(_, cut) | End::Detach(_, cut) = &mut life.end {
            if life.fills_blocks && !has_parity && dice.one_in(2) && is_filled {
                cut.unit = Unit::Block;
            }
            is_filled = true;
        }
    }
}

/// Encrypts a third of the binary logs, and limits record sizes: their largest batches have less
/// space. Uses separate dice.
fn draw_encryption(seed: u64, layout: Layout, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x5EC2_E7ED);
    if layout == Layout::Text || !dice.one_in(3) {
        return;
    }
    for (turn, life) in lives.iter_mut().enumerate() {
        life.encrypt = turn == 0;
        for act in life.tasks.iter_mut().flatten() {
            match act {
                Act::Append(size) | Act::Submit(size) | Act::TrySubmit(size) => {
                    *size = (*size).min(790);
                }
                Act::Set(sizes) => {
                    let each = (780 / sizes.len().max(1)).saturating_sub(16);
                    for size in sizes {
                        *size = (*size).min(each);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Compresses a third of the binary logs: most lives turn compression on, some turn it off, some
/// keep the setting. Records are larger and more come in sets, so that segments still fill. Uses
/// separate dice.
fn draw_compression(seed: u64, layout: Layout, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0xC093_8E55);
    if layout == Layout::Text || !dice.one_in(3) {
        return;
    }
    for life in lives {
        life.compress = match dice.below(5) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        for act in life.tasks.iter_mut().flatten() {
            match dice.below(6) {
                0 => {
                    let count = 1 + dice.below(4);
                    let each = 900 / count - 24;
                    *act = Act::Set((0..count).map(|_| size(dice.below(each))).collect());
                }
                1..3 => *act = Act::Append(500 + size(dice.below(460))),
                _ => {}
            }
        }
    }
}

/// Names segments ahead in three quarters of the binary logs and most of their lives, with records
/// large enough to fill several segments. Uses separate dice.
fn draw_name_ahead(seed: u64, layout: Layout, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x0A8E_AD00);
    if layout == Layout::Text || dice.one_in(4) {
        return;
    }
    for life in lives {
        life.next.name_ahead = !dice.one_in(4);
        for act in life.tasks.iter_mut().flatten() {
            if dice.one_in(4) {
                *act = Act::Append(500 + size(dice.below(460)));
            }
        }
    }
}

/// Reuses files in half of the binary logs, in most of their lives. Most lives remove enough
/// segments and append records large enough for that. Uses separate dice.
fn draw_reuse(seed: u64, layout: Layout, lives: &mut [Life]) {
    let mut dice = Dice::new(seed ^ 0x5BA2_EF11);
    if layout == Layout::Text || !dice.one_in(2) {
        return;
    }
    for life in lives {
        life.next.reuse = !dice.one_in(4);
        if dice.one_in(3) {
            life.keep = Keep::Ring(dice.below(4) * 3072);
        }
        for act in life.tasks.iter_mut().flatten() {
            match dice.below(8) {
                0 => *act = Act::Prune(dice.below(4)),
                1..4 => *act = Act::Append(700 + size(dice.below(260))),
                _ => {}
            }
        }
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}

/// The parity ratios to try.
fn schemes() -> Vec<Parity> {
    ["2+1", "4+1", "4+2"].iter().flat_map(|said| said.parse()).collect()
}

fn unit(dice: &mut Dice) -> Unit {
    let units = [Unit::Sector, Unit::Sector, Unit::Page, Unit::Byte];
    dice.pick(&units).copied().unwrap_or(Unit::Sector)
}

impl Mixture {
    fn draw(dice: &mut Dice) -> Self {
        let mut letters = vec!['a', 'a', 'a', 's'];
        for letter in "uwfckpxrlghoevyz".chars() {
            if dice.one_in(3) {
                letters.push(letter);
            }
        }
        // Half of the seeds have no faults other than crashes.
        let harmless: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !kind.is_damage()).collect();
        let mut faults = vec![];
        let (mut harm_one_in, mut damages) = (0, false);
        match dice.below(8) {
            0..4 => {}
            4..7 => {
                let count = 1 + dice.below(2);
                faults.extend((0..count).filter_map(|_| dice.pick(&harmless).copied()));
            }
            _ => {
                damages = true;
                faults.extend(dice.pick(&Kind::ALL).copied());
                harm_one_in = dice.below(4);
            }
        }
        let all = [Level::Synced, Level::Synced, Level::Confirmed, Level::Buffered];
        let levels = if dice.one_in(3) {
            all.to_vec()
        } else {
            vec![dice.pick(&all).copied().unwrap_or_default()]
        };
        let tasks_max = if dice.one_in(2) { 1 } else { 1 + dice.below(16) };
        let probes = !damages && dice.one_in(2);
        let acts_max = 2 + dice.below(14);
        let dice = Dice::new(dice.any());
        Self { dice, letters, faults, harm_one_in, tasks_max, acts_max, levels, probes }
    }

    fn life(&mut self) -> Life {
        let level = self.dice.pick(&self.levels).copied().unwrap_or_default();
        let mut life = Life::quiet(level);
        life.next.ahead = self.dice.one_in(3);
        life.idle = self.dice.one_in(3);
        life.keep = match self.dice.below(12) {
            0 => Keep::Bytes(self.dice.below(12) * 1024),
            1 => Keep::Ring(self.dice.below(12) * 1024),
            _ => Keep::All,
        };
        let tasks = 1 + self.dice.below(self.tasks_max);
        life.tasks = (0..tasks).map(|_| self.acts()).collect();
        let acts: usize = life.tasks.iter().map(Vec::len).sum();
        let steps = 40 + 25 * u64::try_from(acts).expect("a small number");
        life.end = self.end(steps);
        for _ in 0..if self.faults.is_empty() { 0 } else { 1 + self.dice.below(3) } {
            let kind = self.dice.pick(&self.faults).copied();
            let seed = self.dice.any() & 0xFFFF;
            life.faults.extend(kind.map(|kind| (1 + self.dice.below(steps), Fault { kind, seed })));
        }
        if self.harm_one_in > 0 && self.dice.one_in(self.harm_one_in) {
            let decay = self.dice.pick(&Decay::ALL).copied().unwrap_or(Decay::Bit);
            life.harm = Some(Harm { decay, reach: 512, seed: self.dice.any() & 0xFFFF });
        }
        if self.probes {
            life.probes = (8, self.dice.any() & 0xFFFF);
        }
        life
    }

    fn acts(&mut self) -> Vec<Act> {
        let count = self.dice.below(self.acts_max + 1);
        (0..count).map(|_| self.act()).collect()
    }

    fn act(&mut self) -> Act {
        let letter = self.dice.pick(&self.letters).copied().unwrap_or('a');
        let back = if self.dice.one_in(3) { 0 } else { self.dice.below(12) };
        match letter {
            's' => Act::Set((0..=self.dice.below(4)).map(|_| self.size() / 5).collect()),
            'u' => Act::Submit(self.size()),
            'w' => Act::Wait,
            'f' => Act::Flush,
            'c' => Act::Confirm,
            'k' => Act::Checkpoint(back),
            'p' => Act::Prune(back),
            'x' => Act::Cut(back),
            'r' => Act::Read,
            'l' => Act::Look,
            'g' => Act::Get(back),
            'h' => Act::GetElsewhere(back),
            'o' => Act::Follow,
            'e' => Act::FollowElsewhere,
            'v' => Act::Verify,
            'y' => Act::Copy,
            'z' => Act::Rest(self.dice.below(300)),
            _ => Act::Append(self.size()),
        }
    }

    fn size(&mut self) -> usize {
        let size = match self.dice.below(4) {
            0 => self.dice.below(24),
            1 => 900 + self.dice.below(60),
            _ => self.dice.below(500),
        };
        usize::try_from(size).expect("a small number")
    }

    fn end(&mut self, steps: u64) -> End {
        // Some lives end while they open the log.
        let step =
            if self.dice.one_in(3) { self.dice.below(120) } else { self.dice.below(steps * 2) };
        let unit = unit(&mut self.dice);
        match self.dice.below(8) {
            0 => End::Close,
            1 => End::Drop,
            2..4 => End::Kill(step),
            _ => End::Power(step, Cut { unit, seed: self.dice.any() & 0xFFFF }),
        }
    }
}
