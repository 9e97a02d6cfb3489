//! `MariaDB`'s test suite with all files of its servers on a disk, and power cuts during tests.
//!
//! mysql-test-run creates the data directories of its servers itself, so its whole folder is on the
//! disk's ext4. An additional server, with only its redo log on the disk, takes the counted rows.

use super::cut::{Cut, Witness, count_flushes, cut_power, found, keep_armed, power_on};
use super::mtr::{Mtr, Tests};
use super::{Ran, Results, say_skipped};
use crate::args::{Buffers, Engine, Suite, Transport};
use crate::database::{self, Database};
use crate::disk::{Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, kill_all, output, pause, start, wait_for};
use crate::rig::say;
use rustix::fs::{Mode, OFlags, open, syncfs};
use seawall_io::{Entropy, SeededEntropy};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time between two checks of the results.
const LOOK: Duration = Duration::from_millis(200);
/// Number of new results after which progress is printed.
const PROGRESS: usize = 20;
/// Longest time between a test's result and the cut that follows it.
const DELAY_MS_MAX: u64 = 1500;
/// How long a server may take to recover.
const READY: Duration = Duration::from_secs(120);

/// Prints statements that check all `InnoDB` tables, or none on servers of tests without `InnoDB`.
const CHECKS: &str = r"SELECT CONCAT('CHECK TABLE `', REPLACE(table_schema, '`', '``'), '`.`',
REPLACE(table_name, '`', '``'), '` EXTENDED;') FROM information_schema.tables
WHERE engine = 'InnoDB' AND table_type = 'BASE TABLE' AND EXISTS (SELECT 1
FROM information_schema.engines WHERE engine = 'InnoDB' AND support IN ('YES', 'DEFAULT'))";

pub(super) fn run(args: &Suite, ground: &Ground) -> Result<Ran, Failure> {
    let mut ran = Ran::default();
    let var = ground.folder_of_user("native")?;
    for (index, tests) in Tests::of(&args.tests)?.iter().enumerate() {
        let mut mtr = Mtr::start(ground, (&format!("native-{index}.said"), &var), tests)?;
        let before = ran.native.finished();
        let results = wait_until(&mut mtr, "native", |count| (before + count, false))?;
        ran.native.extend(results);
    }
    fs::remove_dir_all(&var)?;
    say_skipped(&ran.native);
    if ran.native.passed.is_empty() {
        return Err("no test passes without a disk: look at --tests".into());
    }
    let rig = Rig::make(args, ground, &ran.native)?;
    rig.run(&mut ran)?;
    Ok(ran)
}

/// Waits until the suite ends or a cut is due. `is_due` takes the number of results in this run,
/// and returns the number in all runs, and whether a cut is due.
fn wait_until(
    mtr: &mut Mtr,
    name: &str,
    is_due: impl Fn(usize) -> (usize, bool),
) -> Result<Results, Failure> {
    let mut printed = 0;
    loop {
        let has_ended = mtr.has_ended()?;
        let results = mtr.results()?;
        let (count, is_due) = is_due(results.finished());
        if count >= printed + PROGRESS || (has_ended && count > printed) {
            say(&format!("{name}: {count} done"));
            printed = count;
        }
        if has_ended || is_due {
            return Ok(results);
        }
        pause(LOOK);
    }
}

/// The suite on a disk.
#[derive(Debug)]
struct Rig<'a> {
    args: &'a Suite,
    ground: &'a Ground,
    /// Dropped before the disk, because it has files open there.
    witness: Box<dyn Database>,
    disk: Disk,
    /// Numbers of results after which cuts come, each with a further delay; the last cut first.
    moments: Vec<(usize, Duration)>,
}

impl<'a> Rig<'a> {
    fn make(args: &'a Suite, ground: &'a Ground, native: &Results) -> Result<Self, Failure> {
        let (delay, hold_up, transport) = (args.delay, args.hold_up, Transport::Loop);
        let settings =
            Settings { delay, is_cut: true, hold_up, transport, buffers: Buffers::USUAL };
        let disk = Disk::make(ground, "disk", settings)?;
        disk.set_armed(true)?;
        let mut witness = database::make(Engine::Mariadb, ground, ("witness", &disk.mounted()))?;
        witness.start()?;
        let moments = moments(args, native.passed.len())?;
        Ok(Self { args, ground, witness, disk, moments })
    }

    /// Runs the tests that have no result yet, and continues after each cut.
    fn run(mut self, ran: &mut Ran) -> Result<(), Failure> {
        for leg in 1.. {
            let missing: BTreeSet<&String> = ran.missing().into_iter().collect();
            let tests = Tests::named(&missing);
            if tests.is_empty() {
                break;
            }
            let before = ran.disk.finished();
            let var = self.make_folder()?;
            let name = format!("disk-{leg}.said");
            let mut mtr = Mtr::start(self.ground, (&name, &var), &tests)?;
            let next = self.moments.last().copied();
            // In each leg, a test ends before the cut, so that every leg makes progress.
            let is_due = |count: usize| {
                let all = before + count;
                (all, count > 0 && next.is_some_and(|(at, _)| all >= at))
            };
            let mut results = wait_until(&mut mtr, "on the disk", is_due)?;
            count_flushes(&mut ran.flushes, &self.disk)?;
            let is_over = mtr.has_ended()?;
            if is_over {
                results = mtr.results()?;
            } else if let Some((_, delay)) = self.moments.pop() {
                let cut = self.cut((&mut mtr, &mut results), ran.cuts.len() + 1, delay)?;
                cut.report();
                ran.cuts.push(cut);
            }
            if is_over && results.finished() == 0 {
                return Err(format!("the suite runs no test:\n{}", mtr.said()).into());
            }
            ran.disk.extend(results);
            if !ran.cuts.iter().all(Cut::is_fine) {
                // The remaining tests would prove nothing.
                return Ok(());
            }
        }
        if !self.moments.is_empty() {
            return Err("the suite ended before the last cut: try another --seed".into());
        }
        self.witness.stop()
    }

    /// Creates the suite's folder, in place of an earlier one.
    fn make_folder(&self) -> Result<PathBuf, Failure> {
        let var = self.disk.mounted().join("var");
        if var.exists() {
            fs::remove_dir_all(&var)?;
        }
        fs::create_dir(&var)?;
        self.ground.give(&var)?;
        Ok(var)
    }

    /// Cuts the power under the suite, and lets its servers recover. Sets the results to those
    /// before the cut, because tests fail from then on.
    fn cut(
        &mut self,
        (mtr, results): (&mut Mtr, &mut Results),
        number: usize,
        delay: Duration,
    ) -> Result<Cut, Failure> {
        keep_armed(&self.disk)?;
        // The suite copies data directories without a sync, so a server whose copy is newer than
        // this sync is not required to recover.
        let mut servers = mtr.servers();
        sync(&self.disk.mounted())?;
        let witness = Witness::start(&*self.witness, number, self.disk.folder())?;
        pause(delay);
        *results = mtr.results()?;
        let running = mtr.servers();
        servers.retain(|number, _| running.contains_key(number));
        cut_power(self.args, &mut self.disk)?;
        mtr.kill();
        self.witness.kill();
        let (table, acknowledged) = witness.end();
        let during = format!("start {number}, after {} results", results.finished());
        let mut cut = Cut { number, during, acknowledged, ..Cut::default() };
        match self.recover(&table, &servers, &mut cut) {
            Ok(found) => cut.found = Some(found),
            Err(why) => cut.why = Some(format!("{why}\n{}", self.disk.said())),
        }
        Ok(cut)
    }

    fn recover(
        &mut self,
        table: &str,
        servers: &BTreeMap<u32, Vec<String>>,
        cut: &mut Cut,
    ) -> Result<u64, Failure> {
        power_on(&mut self.disk)?;
        self.witness.start()?;
        let found = found(&*self.witness, table, cut.acknowledged)?;
        cut.recovered = 1;
        for words in servers.values() {
            cut.checked += Recovered::start(self.ground, words)?.check()?;
            cut.recovered += 1;
        }
        Ok(found)
    }
}

/// Draws the moments of the cuts, sorted with the last cut first.
fn moments(args: &Suite, tests: usize) -> Result<Vec<(usize, Duration)>, Failure> {
    let chance = SeededEntropy::new(args.seed);
    // Not among the last results, since two tests run at the same time.
    let tests = u64::try_from(tests)?.saturating_sub(3).max(1);
    let mut moments = Vec::new();
    for _ in 0..args.cuts {
        let at = usize::try_from(chance.random()? % tests)?;
        moments.push((at, Duration::from_millis(chance.random()? % DELAY_MS_MAX)));
    }
    moments.sort_by(|one, other| other.cmp(one));
    Ok(moments)
}

/// Writes a whole file system to its device.
fn sync(mounted: &Path) -> Result<(), Failure> {
    Ok(syncfs(open(mounted, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)?)
}

/// A server of the suite that was started again after a cut; killed when this is dropped.
#[derive(Debug)]
struct Recovered {
    child: Child,
    socket: String,
    log: PathBuf,
}

impl Recovered {
    /// Starts the server with its own options and returns once it has recovered.
    fn start(ground: &Ground, words: &[String]) -> Result<Self, Failure> {
        let [program, options @ ..] = words else { return Err("a server without a name".into()) };
        let folder = ground.dir.join("witness");
        let (socket, log) = (folder.join("recovered.socket"), folder.join("recovered.log"));
        let (user, group) = ground.user;
        let mut command = Command::new(program);
        command.uid(user).gid(group).current_dir(&folder).args(options);
        // A test may have changed the users' privileges.
        command.args(["--skip-networking", "--skip-grant-tables"]);
        command.arg(format!("--log-error={}", log.display()));
        let socket = format!("--socket={}", socket.display());
        command.arg(&socket).stdout(Stdio::null());
        let child = start(&mut command, &log)?;
        let mut server = Self { child, socket, log };
        let is_up = || match server.child.try_wait() {
            Ok(None) => server.sql("SELECT 1").is_ok().then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        };
        if wait_for(READY, is_up) == Some(true) {
            return Ok(server);
        }
        let said = fs::read_to_string(&server.log).unwrap_or_default();
        let errors: Vec<_> = said.lines().filter(|line| line.contains("[ERROR]")).collect();
        Err(format!("a server does not recover: {words:?}\n{}", errors.join("\n")).into())
    }

    fn sql(&self, text: &str) -> Result<String, Failure> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", &self.socket, "--user=root", "--batch", "--raw"]);
        output(client.args(["--skip-column-names", "-e", text]))
    }

    /// Checks all tables and returns their number.
    fn check(&self) -> Result<usize, Failure> {
        let checks = self.sql(CHECKS)?;
        let said = if checks.is_empty() { checks.clone() } else { self.sql(&checks)? };
        let is_bad = |line: &&str| !line.ends_with("\tOK") && !line.contains("\tnote\t");
        match said.lines().find(is_bad) {
            Some(bad) => Err(format!("a table of the tests is bad: {bad}\n{said}").into()),
            None => Ok(checks.lines().count()),
        }
    }
}

impl Drop for Recovered {
    fn drop(&mut self) {
        kill_all(self.child.id());
        let _ = self.child.wait();
    }
}
