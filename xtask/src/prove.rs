//! `cargo xtask prove`: plants each bug of proof/ in a copy of the tree and checks that its command
//! fails.

mod bug;
mod carry;
mod copy;
mod trial;

use crate::json::{object, quote};
use crate::tree;
use bug::{Bug, CargoCommand};
use copy::Copy;
use seawall_io::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use trial::{Outcome, Trial};

/// The arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    list: bool,
    check: bool,
    trial: Trial,
    /// The commit from which patches are carried to `HEAD`.
    carry: Option<String>,
    /// The program that makes the moves and renames of `HEAD` in a checkout.
    renames: Option<PathBuf>,
    json: bool,
    jobs: Option<usize>,
    names: Vec<String>,
}

/// A bug, the outcome of its trial, and the time it took.
type Done = (Bug, Outcome, Duration);

/// Tries the bugs named in `arguments`, or all; false if a bug was missed or is stale, `None` if
/// the arguments are wrong.
///
/// # Errors
///
/// A patch cannot be read, or a copy of the tree or the result cannot be written.
pub(crate) fn run(arguments: &[&str]) -> Option<io::Result<bool>> {
    parse(arguments).map(|options| prove(&options))
}

fn parse(arguments: &[&str]) -> Option<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--list" => options.list = true,
            "--check" => options.check = true,
            "--compile" => options.trial = Trial::Compile,
            "--carry" => options.carry = Some((*arguments.next()?).to_owned()),
            "--renames" => options.renames = Some(PathBuf::from(arguments.next()?)),
            "--json" => options.json = true,
            "--jobs" => {
                let number: usize = arguments.next()?.parse().ok()?;
                options.jobs = Some(number).filter(|jobs| *jobs > 0);
                options.jobs?;
            }
            option if option.starts_with('-') => return None,
            name => options.names.push(name.to_owned()),
        }
    }
    let is_complete = options.renames.is_none() || options.carry.is_some();
    is_complete.then_some(options)
}

fn prove(options: &Options) -> io::Result<bool> {
    let root = tree::root()?;
    let mut bugs = bug::read_all(&root)?;
    let is_unknown = |name: &&String| !bugs.iter().any(|bug| bug.name == **name);
    if let Some(name) = options.names.iter().find(is_unknown) {
        return Err(io::Error::other(format!("there is no proof/{name}.patch")));
    }
    bugs.retain(|bug| options.names.is_empty() || options.names.contains(&bug.name));
    if options.list {
        return list(&bugs, options.json);
    }
    if options.check {
        return check(&root, &bugs);
    }
    if let Some(base) = &options.carry {
        let carrier = carry::Carrier::new(&root, base, options.renames.as_deref())?;
        return carrier.carry(&bugs);
    }
    sort(&root, &mut bugs)?;
    let jobs = options.jobs.unwrap_or_else(cores).min(bugs.len());
    let commands = match options.trial {
        Trial::Run => together(&bugs),
        Trial::Compile => vec![],
    };
    let bench = Bench {
        trial: options.trial,
        commands: Mutex::new(commands),
        all: bugs.len(),
        bugs: Mutex::new(bugs.into()),
        unfit: Mutex::default(),
        done: Mutex::default(),
        clock: SystemClock::new(),
    };
    bench.work(&root, jobs)?;
    bench.report(options.json)
}

/// Prints a table of the bugs.
fn list(bugs: &[Bug], json: bool) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    if !json {
        writeln!(out, "| planted bug | breaks | caught by |\n|---|---|---|")?;
    }
    for Bug { name, breaks, caught_by, .. } in bugs {
        if json {
            let caught_by = quote(&caught_by.to_string());
            let fields =
                [("patch", quote(name)), ("breaks", quote(breaks)), ("caught_by", caught_by)];
            writeln!(out, "{}", object(&fields))?;
        } else {
            writeln!(out, "| `{name}` | {breaks} | `{caught_by}` |")?;
        }
    }
    Ok(true)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Checks only whether each patch applies and its test exists.
fn check(root: &Path, bugs: &[Bug]) -> io::Result<bool> {
    let functions = functions(root)?;
    let mut err = io::stderr().lock();
    let (mut stale, mut nameless) = (0, 0);
    for Bug { name, caught_by, .. } in bugs {
        if let Err(error) = Copy::check(root, name) {
            writeln!(err, "proof/{name}.patch does not apply: {error}")?;
            stale += 1;
        }
        let Some(test) = caught_by.test_name() else { continue };
        let package = caught_by.package().unwrap_or_default();
        let is_there = functions.get(package).is_some_and(|all| all.contains(test));
        if !is_there {
            writeln!(err, "proof/{name}.patch: no test of {package} has `{test}` in its name")?;
            nameless += 1;
        }
    }
    let all = bugs.len();
    writeln!(err, "prove: {all} patches, {stale} do not apply, {nameless} name no test")?;
    Ok(stale + nameless == 0)
}

/// The names of the functions of each package, one per line.
fn functions(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for path in tree::tracked(root).unwrap_or_default() {
        let file = root.join(&path);
        if Path::new(&path).extension().is_none_or(|ending| ending != "rs") || !file.is_file() {
            continue;
        }
        let Some(package) = package(root, &file)? else { continue };
        let text = tree::read(&file)?;
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
        let all = found.entry(package).or_default();
        all.extend(names.flat_map(|name| [name, "\n"]));
    }
    Ok(found)
}

/// The name of the package that `file` belongs to.
fn package(root: &Path, file: &Path) -> io::Result<Option<String>> {
    for folder in file.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
        let manifest = folder.join("Cargo.toml");
        if manifest.is_file() {
            let text = tree::read(&manifest)?;
            let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
            return Ok(name.and_then(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    Ok(None)
}

/// The commands of all bugs, grouped by the test program that they run.
fn together(bugs: &[Bug]) -> Vec<Vec<CargoCommand>> {
    let commands: BTreeSet<&CargoCommand> = bugs.iter().map(|bug| &bug.caught_by).collect();
    let mut groups: BTreeMap<CargoCommand, Vec<CargoCommand>> = BTreeMap::new();
    for command in commands {
        let program = command.split_test().map_or_else(|| command.clone(), |(program, _)| program);
        groups.entry(program).or_default().push(command.clone());
    }
    groups.into_values().collect()
}

/// Whether all tests of a group pass in one process.
fn passes_at_once(copy: &Copy, group: &[CargoCommand]) -> io::Result<bool> {
    let split: Vec<(CargoCommand, &str)> =
        group.iter().filter_map(CargoCommand::split_test).collect();
    let names: Vec<&str> = split.iter().map(|(_, name)| *name).collect();
    match split.first() {
        Some((program, _)) if split.len() == group.len() => trial::all_pass(copy, program, &names),
        _ => Ok(false),
    }
}

/// Sorts the bugs by the crate that they change and the program that they run, so that cargo
/// rebuilds little.
fn sort(root: &Path, bugs: &mut [Bug]) -> io::Result<()> {
    let mut places = BTreeMap::new();
    for bug in bugs.iter() {
        let patch = tree::read(&root.join(format!("proof/{}.patch", bug.name)))?;
        let changed = patch.lines().find_map(|line| line.strip_prefix("+++ b/"));
        let part: Vec<&str> = changed.unwrap_or_default().split('/').take(2).collect();
        places.insert(bug.name.clone(), part.join("/"));
    }
    bugs.sort_by_cached_key(|bug| (places.get(&bug.name).cloned(), bug.caught_by.clone()));
    Ok(())
}

/// The work to do, and the results so far.
#[derive(Debug)]
struct Bench {
    trial: Trial,
    /// Commands that must first pass in the sound tree, grouped by the program that they run.
    commands: Mutex<Vec<Vec<CargoCommand>>>,
    bugs: Mutex<VecDeque<Bug>>,
    /// Commands that prove nothing, each with the reason.
    unfit: Mutex<BTreeMap<CargoCommand, String>>,
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
        say(&format!(
            "{} programs in the sound tree, {jobs} at a time",
            lock(&self.commands).len()
        ));
        in_parallel(&copies, |copy| self.look_at_sound_trees(copy))?;
        say(&format!("{} bugs", self.all));
        in_parallel(&copies, |copy| self.plant(copy))
    }

    /// Runs the commands in the sound tree: a test that fails there proves nothing.
    fn look_at_sound_trees(&self, copy: &Copy) -> io::Result<()> {
        loop {
            let Some(group) = lock(&self.commands).pop() else { return Ok(()) };
            if let [first, others @ ..] = group.as_slice() {
                say(&format!("sound tree: {first} and {} more", others.len()));
            }
            if !passes_at_once(copy, &group)? {
                self.look_at_each(copy, group)?;
            }
        }
    }

    fn look_at_each(&self, copy: &Copy, group: Vec<CargoCommand>) -> io::Result<()> {
        for command in group {
            if let Some(why) = trial::unplanted(copy, &command)? {
                say(&format!("{command}: {why}"));
                lock(&self.unfit).insert(command, why);
            }
        }
        Ok(())
    }

    fn plant(&self, copy: &Copy) -> io::Result<()> {
        loop {
            let Some(bug) = lock(&self.bugs).pop_front() else { return Ok(()) };
            let began = self.clock.now();
            let unfit = lock(&self.unfit).get(&bug.caught_by).cloned();
            let outcome = match unfit {
                Some(why) => Outcome::Stale(why),
                None => trial::planted(copy, &bug, self.trial)?,
            };
            let took = self.clock.now().saturating_sub(began);
            let mut done = lock(&self.done);
            done.push((bug, outcome, took));
            if let Some(last) = done.last() {
                say(&format!("{:>3}/{} {}", done.len(), self.all, line(last)));
            }
        }
    }

    fn report(&self, json: bool) -> io::Result<bool> {
        let mut done = lock(&self.done);
        done.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let mut out = io::stdout().lock();
        for bug in done.iter() {
            writeln!(out, "{}", if json { json_line(bug) } else { line(bug) })?;
        }
        let count = |name: &str| done.iter().filter(|bug| bug.1.name() == name).count();
        let (caught, compile) = (count("caught"), count("compiles"));
        let (missed, other, stale) = (count("MISSED"), count("OTHER"), count("STALE"));
        let sum = match self.trial {
            Trial::Run => {
                format!("{caught} caught, {missed} missed, {other} otherwise, {stale} stale")
            }
            Trial::Compile => format!("{compile} compile, {stale} stale"),
        };
        let minutes = self.clock.now().as_secs().div_ceil(60);
        if json {
            say(&sum);
        } else {
            writeln!(out, "{sum}")?;
        }
        say(&format!("{minutes} min"));
        Ok(caught + compile == self.all)
    }
}

fn in_parallel(copies: &[Copy], work: impl Fn(&Copy) -> io::Result<()> + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = copies.iter().map(|copy| scope.spawn(move || work(copy))).collect();
        let ended = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the run died")))
        });
        // Collect first, so that all threads are joined even if one fails.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn line((bug, outcome, took): &Done) -> String {
    format!("{:<6} {:>4} s  {:<42} {}", outcome.name(), took.as_secs(), bug.name, outcome.text())
}

fn json_line((bug, outcome, took): &Done) -> String {
    object(&[
        ("patch", quote(&bug.name)),
        ("outcome", quote(&outcome.name().to_lowercase())),
        ("seconds", took.as_secs().to_string()),
        ("command", quote(&bug.caught_by.to_string())),
        ("said", quote(outcome.text())),
    ])
}

fn say(text: &str) {
    // The reader of the output may be gone.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_refused() {
        assert_eq!(parse(&[]), Some(Options::default()));
        let expected = Options {
            list: true,
            check: true,
            trial: Trial::Compile,
            carry: Some("base".to_owned()),
            renames: Some(PathBuf::from("script")),
            json: true,
            jobs: Some(3),
            names: vec!["a".to_owned(), "b".to_owned()],
        };
        let given = "a --jobs 3 --check --compile --list --carry base --renames script --json b";
        let given: Vec<&str> = given.split(' ').collect();
        assert_eq!(parse(&given), Some(expected));
        for wrong in ["--carry", "--job", "--jobs", "--jobs 0", "--jobs a", "--renames script"] {
            let given: Vec<&str> = wrong.split(' ').collect();
            assert_eq!(parse(&given), None, "{wrong}");
        }
    }

    #[test]
    fn every_patch_has_a_head() {
        let bugs = bug::read_all(&tree::root().unwrap()).unwrap();
        assert!(bugs.len() > 60, "{}", bugs.len());
    }
}
