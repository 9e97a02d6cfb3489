//! Converts a plan to one line of text and back. A failing plan is printed in this form.
//!
//! `seed 2a text 4096 | synced ahead ; a100 s60+70 / r l ; @17 failed-sync:1f ; power@57 sector:9f`

use std::fmt;
use std::str::FromStr;

use seawall::{Layout, Level};
use seawall_testkit::{Fault, Harm};

use crate::plan::{Act, Beside, Cut, End, Keep, Life, Next, Plan, Unit};
use crate::world::BLOCK;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.layout == Layout::Text { "text" } else { "binary" };
        write!(f, "seed {:x} {layout} {}", self.seed, self.segment_max)?;
        if self.reach != BLOCK {
            write!(f, " reach:{}", self.reach)?;
        }
        self.lives.iter().try_for_each(|life| write!(f, " | {life}"))
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        if self.next.ahead {
            f.write_str(" ahead")?;
        }
        if self.next.reuse {
            f.write_str(" reuse")?;
        }
        if self.next.name_ahead {
            f.write_str(" name-ahead")?;
        }
        if self.in_flight > 1 {
            write!(f, " in-flight:{}", self.in_flight)?;
        }
        if self.fills_blocks {
            f.write_str(" fill-blocks")?;
        }
        match self.compress {
            None => {}
            Some(true) => f.write_str(" compress")?,
            Some(false) => f.write_str(" compress:off")?,
        }
        if self.encrypt {
            f.write_str(" encrypt")?;
        }
        if self.idle {
            f.write_str(" idle")?;
        }
        match self.keep {
            Keep::All => {}
            Keep::Bytes(bytes) => write!(f, " keep:{bytes}")?,
            Keep::Ring(bytes) => write!(f, " ring:{bytes}")?,
        }
        match self.beside {
            Beside::AsItIs => {}
            Beside::Off => f.write_str(" parity:off")?,
            Beside::On(scheme) => write!(f, " parity:{scheme}")?,
        }
        f.write_str(" ;")?;
        for (turn, acts) in self.tasks.iter().enumerate() {
            if turn > 0 {
                f.write_str(" /")?;
            }
            acts.iter().try_for_each(|act| write!(f, " {act}"))?;
        }
        f.write_str(" ;")?;
        self.faults.iter().try_for_each(|(step, fault)| write!(f, " @{step} {fault}"))?;
        self.faults_beside.iter().try_for_each(|(step, fault)| write!(f, " @{step}p {fault}"))?;
        write!(f, " ; {}", self.end)?;
        if let Some((scheme, end)) = self.protect {
            write!(f, " protect {scheme} {end}")?;
        }
        if let Some(harm) = self.harm {
            write!(f, " harm {harm}")?;
        }
        if let Some(harm) = self.harm_beside {
            write!(f, " harm-parity {harm}")?;
        }
        for (word, (count, seed)) in [("probe", self.probes), ("mend", self.mends)] {
            if count > 0 {
                write!(f, " {word} {count}:{seed:x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close => f.write_str("close"),
            Self::Drop => f.write_str("drop"),
            Self::Kill(step) => write!(f, "kill@{step}"),
            Self::Power(step, Cut { unit, seed }) => {
                write!(f, "power@{step} {}:{seed:x}", unit.name())
            }
            Self::Detach(step, Cut { unit, seed }) => {
                write!(f, "detach@{step} {}:{seed:x}", unit.name())
            }
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(size) => write!(f, "a{size}"),
            Self::Set(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                write!(f, "s{}", sizes.join("+"))
            }
            Self::Submit(size) => write!(f, "u{size}"),
            Self::TrySubmit(size) => write!(f, "t{size}"),
            Self::Wait => f.write_str("w"),
            Self::Flush => f.write_str("f"),
            Self::Confirm => f.write_str("c"),
            Self::Checkpoint(back) => write!(f, "k{back}"),
            Self::Prune(back) => write!(f, "p{back}"),
            Self::Cut(back) => write!(f, "x{back}"),
            Self::Read => f.write_str("r"),
            Self::Look => f.write_str("l"),
            Self::Get(back) => write!(f, "g{back}"),
            Self::GetElsewhere(back) => write!(f, "h{back}"),
            Self::Follow => f.write_str("o"),
            Self::FollowElsewhere => f.write_str("e"),
            Self::Verify => f.write_str("v"),
            Self::Copy => f.write_str("y"),
            Self::Rest(time) => write!(f, "z{time}"),
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Sector => "sector",
            Self::Byte => "byte",
            Self::Block => "block",
            Self::Chosen => "chosen",
        }
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('|');
        let head: Vec<&str> = parts.next().unwrap_or_default().split_whitespace().collect();
        let (seed, layout, segment_max, reach) = match head.as_slice() {
            [_, seed, layout, segment_max] => (seed, layout, segment_max, None),
            [_, seed, layout, segment_max, reach] => {
                (seed, layout, segment_max, reach.strip_prefix("reach:"))
            }
            _ => return Err(format!("a plan does not begin with {head:?}")),
        };
        let reach = reach.map_or(Ok(u64::from(BLOCK)), number)?;
        Ok(Self {
            seed: hex(seed)?,
            layout: if *layout == "text" { Layout::Text } else { Layout::Binary },
            segment_max: number(segment_max)?,
            reach: u32::try_from(reach).map_err(|why| format!("{reach}: {why}"))?,
            lives: parts.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

impl FromStr for Life {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(';').collect();
        let [options, tasks, faults, end] = parts.as_slice() else {
            return Err(format!("a life has four parts: {text}"));
        };
        let mut life = Self::quiet(Level::Synced);
        for word in options.split_whitespace() {
            life.option(word)?;
        }
        let acts = |task: &str| task.split_whitespace().map(str::parse).collect();
        life.tasks = tasks.split('/').map(acts).collect::<Result<_, _>>()?;
        let mut faults = faults.split_whitespace();
        while let Some(step) = faults.next() {
            let fault: Fault = faults.next().unwrap_or_default().parse()?;
            let step = step.trim_start_matches('@');
            match step.strip_suffix('p') {
                Some(step) => life.faults_beside.push((number(step)?, fault)),
                None => life.faults.push((number(step)?, fault)),
            }
        }
        let mut words = end.split_whitespace();
        while let Some(word) = words.next() {
            life.ending(word, &mut words)?;
        }
        Ok(life)
    }
}

impl Life {
    /// Returns a life in which the log is opened and closed, with no acts or faults.
    #[must_use]
    pub fn quiet(level: Level) -> Self {
        Self {
            level,
            next: Next::default(),
            in_flight: 1,
            fills_blocks: false,
            compress: None,
            encrypt: false,
            idle: false,
            keep: Keep::All,
            beside: Beside::AsItIs,
            tasks: vec![],
            faults: vec![],
            faults_beside: vec![],
            end: End::Close,
            protect: None,
            harm: None,
            harm_beside: None,
            probes: (0, 0),
            mends: (0, 0),
        }
    }

    fn option(&mut self, word: &str) -> Result<(), String> {
        match word.split_once(':').unwrap_or((word, "")) {
            ("buffered", _) => self.level = Level::Buffered,
            ("synced", _) => self.level = Level::Synced,
            ("confirmed", _) => self.level = Level::Confirmed,
            ("ahead", _) => self.next.ahead = true,
            ("reuse", _) => self.next.reuse = true,
            ("name-ahead", _) => self.next.name_ahead = true,
            ("in-flight", count) => {
                self.in_flight =
                    count.parse().map_err(|why| format!("in-flight:{count}: {why}"))?;
            }
            ("fill-blocks", _) => self.fills_blocks = true,
            ("compress", off) => self.compress = Some(off != "off"),
            ("encrypt", _) => self.encrypt = true,
            ("idle", _) => self.idle = true,
            ("keep", bytes) => self.keep = Keep::Bytes(number(bytes)?),
            ("ring", bytes) => self.keep = Keep::Ring(number(bytes)?),
            ("parity", "off") => self.beside = Beside::Off,
            ("parity", said) => {
                let scheme = said.parse().map_err(|why| format!("{why}"))?;
                self.beside = Beside::On(scheme);
            }
            _ => return Err(format!("{word} is not an option of a life")),
        }
        Ok(())
    }

    fn ending<'a>(
        &mut self,
        word: &str,
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        let mut next = || words.next().ok_or_else(|| format!("{word} of what?"));
        match word {
            "protect" => {
                let scheme = next()?.parse().map_err(|why| format!("{why}"))?;
                self.protect = Some((scheme, End::read(next()?, words)?));
            }
            "harm" => self.harm = Some(next()?.parse::<Harm>()?),
            "harm-parity" => self.harm_beside = Some(next()?.parse::<Harm>()?),
            "probe" | "mend" => {
                let (count, seed) = next()?.split_once(':').ok_or("a count and a seed")?;
                let asked = (number(count)?, hex(seed)?);
                *(if word == "mend" { &mut self.mends } else { &mut self.probes }) = asked;
            }
            _ => self.end = End::read(word, words)?,
        }
        Ok(())
    }
}

impl End {
    fn read<'a>(word: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let (word, step) = word.split_once('@').unwrap_or((word, "0"));
        Ok(match word {
            "close" => Self::Close,
            "drop" => Self::Drop,
            "kill" => Self::Kill(number(step)?),
            "power" => Self::Power(number(step)?, Cut::read(words)?),
            "detach" => Self::Detach(number(step)?, Cut::read(words)?),
            _ => return Err(format!("{word} is not an end of a life")),
        })
    }
}

impl Cut {
    fn read<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let cut = words.next().and_then(|cut| cut.split_once(':'));
        let (name, seed) = cut.ok_or("a unit and a seed follow")?;
        let units = [Unit::Page, Unit::Sector, Unit::Byte, Unit::Block, Unit::Chosen];
        let unit = units.into_iter().find(|unit| unit.name() == name);
        let unit = unit.ok_or_else(|| format!("{name} is no unit"))?;
        Ok(Self { unit, seed: hex(seed)? })
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (kind, rest) = word.split_at_checked(1).ok_or("an act has a letter")?;
        Ok(match kind {
            "a" => Self::Append(size(rest)?),
            "s" => Self::Set(rest.split('+').map(size).collect::<Result<_, _>>()?),
            "u" => Self::Submit(size(rest)?),
            "t" => Self::TrySubmit(size(rest)?),
            "w" => Self::Wait,
            "f" => Self::Flush,
            "c" => Self::Confirm,
            "k" => Self::Checkpoint(number(rest)?),
            "p" => Self::Prune(number(rest)?),
            "x" => Self::Cut(number(rest)?),
            "r" => Self::Read,
            "l" => Self::Look,
            "g" => Self::Get(number(rest)?),
            "h" => Self::GetElsewhere(number(rest)?),
            "o" => Self::Follow,
            "e" => Self::FollowElsewhere,
            "v" => Self::Verify,
            "y" => Self::Copy,
            "z" => Self::Rest(number(rest)?),
            _ => return Err(format!("{word} is not an act")),
        })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

fn size(text: &str) -> Result<usize, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

fn hex(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|why| format!("{text}: {why}"))
}
