//! `cargo xtask prove`: plants each bug of the table in proof/README.md in a copy of the tree, and
//! sees the command beside it fail.

mod carry;
mod copy;
mod row;
mod trial;

use crate::json::{object, quote};
use crate::tree;
use copy::Copy;
use row::{Act, Row};
use seawall_io::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use trial::Outcome;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    check: bool,
    /// The commit that patches are carried from.
    carry: Option<String>,
    json: bool,
    jobs: Option<usize>,
    names: Vec<String>,
}

/// What came of a row, and how long it took.
type Done = (Row, Outcome, Duration);

/// Runs the rows that `arguments` name, all if none; false if a bug was missed or a row is stale,
/// `None` if the arguments are not understood.
///
/// # Errors
///
/// The table cannot be read, a copy of the tree not made, or the answer not written.
pub(crate) fn run(arguments: &[&str]) -> Option<io::Result<bool>> {
    asked(arguments).map(|asked| prove(&asked))
}

fn asked(arguments: &[&str]) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--check" => asked.check = true,
            "--carry" => asked.carry = Some((*arguments.next()?).to_owned()),
            "--json" => asked.json = true,
            "--jobs" => {
                let number: usize = arguments.next()?.parse().ok()?;
                asked.jobs = Some(number).filter(|jobs| *jobs > 0);
                asked.jobs?;
            }
            option if option.starts_with('-') => return None,
            name => asked.names.push(name.to_owned()),
        }
    }
    Some(asked)
}

fn prove(asked: &Asked) -> io::Result<bool> {
    let root = tree::root()?;
    let table = tree::read(&root.join("proof/README.md"))?;
    let mut rows = row::rows(&table).map_err(io::Error::other)?;
    if let Some(name) = asked.names.iter().find(|name| !rows.iter().any(|row| row.name == **name)) {
        return Err(io::Error::other(format!("proof/README.md has no row `{name}`")));
    }
    rows.retain(|row| asked.names.is_empty() || asked.names.contains(&row.name));
    if asked.check {
        return check(&root, &rows);
    }
    if let Some(base) = &asked.carry {
        return carry::carry(&root, base, &rows);
    }
    sort(&root, &mut rows)?;
    let jobs = asked.jobs.unwrap_or_else(cores).min(rows.len());
    let bench = Bench {
        acts: Mutex::new(rows.iter().map(|row| row.run.clone()).collect()),
        all: rows.len(),
        rows: Mutex::new(rows.into()),
        unfit: Mutex::default(),
        done: Mutex::default(),
        clock: SystemClock::new(),
    };
    bench.work(&root, jobs)?;
    bench.report(asked.json)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Only whether each patch applies.
fn check(root: &Path, rows: &[Row]) -> io::Result<bool> {
    let mut err = io::stderr().lock();
    let mut stale = 0;
    for row in rows {
        if let Err(error) = Copy::check(root, &row.name) {
            writeln!(err, "proof/{}.patch does not apply: {error}", row.name)?;
            stale += 1;
        }
    }
    writeln!(err, "prove: {} patches, {stale} do not apply", rows.len())?;
    Ok(stale == 0)
}

/// Neighbours change the same crate and run the same program, so that little is built anew.
fn sort(root: &Path, rows: &mut [Row]) -> io::Result<()> {
    let mut places = BTreeMap::new();
    for row in rows.iter() {
        let patch = tree::read(&root.join(format!("proof/{}.patch", row.name)))?;
        let changed = patch.lines().find_map(|line| line.strip_prefix("+++ b/"));
        let part: Vec<&str> = changed.unwrap_or_default().split('/').take(2).collect();
        places.insert(row.name.clone(), part.join("/"));
    }
    rows.sort_by_cached_key(|row| (places.get(&row.name).cloned(), row.run.clone()));
    Ok(())
}

/// The work, and what is done of it.
#[derive(Debug)]
struct Bench {
    /// Commands to be seen passing in the sound tree.
    acts: Mutex<BTreeSet<Act>>,
    rows: Mutex<VecDeque<Row>>,
    /// Commands that prove nothing, and why.
    unfit: Mutex<BTreeMap<Act, String>>,
    done: Mutex<Vec<Done>>,
    all: usize,
    clock: SystemClock,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bench {
    fn work(&self, root: &Path, jobs: usize) -> io::Result<()> {
        let copies: Vec<Copy> =
            (0..jobs).map(|number| Copy::new(root, number)).collect::<io::Result<_>>()?;
        say(&format!("{} commands in the sound tree, {jobs} at a time", lock(&self.acts).len()));
        in_parallel(&copies, |copy| self.look_at_sound_trees(copy))?;
        say(&format!("{} bugs", self.all));
        in_parallel(&copies, |copy| self.plant(copy))
    }

    /// A test that fails before anything is planted proves nothing.
    fn look_at_sound_trees(&self, copy: &Copy) -> io::Result<()> {
        loop {
            let (act, left) = {
                let mut acts = lock(&self.acts);
                let Some(act) = acts.pop_first() else { return Ok(()) };
                (act, acts.len())
            };
            say(&format!("{left:>3} behind {act}"));
            if let Some(why) = trial::unplanted(copy, &act)? {
                say(&format!("{act}: {why}"));
                lock(&self.unfit).insert(act, why);
            }
        }
    }

    fn plant(&self, copy: &Copy) -> io::Result<()> {
        loop {
            let Some(row) = lock(&self.rows).pop_front() else { return Ok(()) };
            let began = self.clock.now();
            let unfit = lock(&self.unfit).get(&row.run).cloned();
            let outcome = match unfit {
                Some(why) => Outcome::Stale(why),
                None => trial::planted(copy, &row)?,
            };
            let took = self.clock.now().saturating_sub(began);
            let mut done = lock(&self.done);
            done.push((row, outcome, took));
            if let Some(last) = done.last() {
                say(&format!("{:>3}/{} {}", done.len(), self.all, line(last)));
            }
        }
    }

    fn report(&self, json: bool) -> io::Result<bool> {
        let mut done = lock(&self.done);
        done.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let mut out = io::stdout().lock();
        for row in done.iter() {
            writeln!(out, "{}", if json { json_line(row) } else { line(row) })?;
        }
        let count = |name: &str| done.iter().filter(|row| row.1.name() == name).count();
        let (caught, missed, stale) = (count("caught"), count("MISSED"), count("STALE"));
        let sum = format!("{caught} caught, {missed} missed, {stale} stale");
        let minutes = self.clock.now().as_secs().div_ceil(60);
        if json {
            say(&sum);
        } else {
            writeln!(out, "{sum}")?;
        }
        say(&format!("{minutes} min"));
        Ok(caught == self.all)
    }
}

fn in_parallel(copies: &[Copy], work: impl Fn(&Copy) -> io::Result<()> + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = copies.iter().map(|copy| scope.spawn(move || work(copy))).collect();
        let ended = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the bench died")))
        });
        // All of them are waited for, whatever the first says.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn line((row, outcome, took): &Done) -> String {
    format!("{:<6} {:>4} s  {:<42} {}", outcome.name(), took.as_secs(), row.name, outcome.text())
}

fn json_line((row, outcome, took): &Done) -> String {
    object(&[
        ("patch", quote(&row.name)),
        ("outcome", quote(&outcome.name().to_lowercase())),
        ("seconds", took.as_secs().to_string()),
        ("command", quote(&row.run.to_string())),
        ("said", quote(outcome.text())),
    ])
}

fn say(text: &str) {
    // Nobody may be left to read it.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        assert_eq!(asked(&[]), Some(Asked::default()));
        let names = vec!["a".to_owned(), "b".to_owned()];
        let carry = Some("base".to_owned());
        let expected = Asked { check: true, carry, json: true, jobs: Some(3), names };
        let given = ["a", "--jobs", "3", "--check", "--carry", "base", "--json", "b"];
        assert_eq!(asked(&given), Some(expected));
        for wrong in [&["--carry"][..], &["--job"], &["--jobs"], &["--jobs", "0"], &["--jobs", "a"]]
        {
            assert_eq!(asked(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn every_row_of_the_table_is_understood_and_has_a_patch() {
        let root = tree::root().unwrap();
        let rows = row::rows(&tree::read(&root.join("proof/README.md")).unwrap()).unwrap();
        assert!(rows.len() > 100, "{}", rows.len());
        for row in rows {
            assert!(root.join(format!("proof/{}.patch", row.name)).is_file(), "{}", row.name);
        }
    }
}
