//! PostgreSQL's regression tests on a disk, group by group, with power cuts during groups.

use super::cut::{Cut, Witness, count_flushes, cut_power, found, keep_armed, power_on};
use super::regress::{REGRESSION, Regress, groups};
use super::{Ran, Results, say_skipped};
use crate::args::{Buffers, Engine, Suite, Transport};
use crate::database::{self, Database};
use crate::disk::{Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, kill_all, pause};
use crate::rig::say;
use seawall_io::{Clock, Entropy, SeededEntropy, SystemClock};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The settings that `pg_regress` gives to a database it creates.
const SETTINGS: &str = "\
ALTER DATABASE regression SET lc_messages TO 'C';
ALTER DATABASE regression SET lc_monetary TO 'C';
ALTER DATABASE regression SET lc_numeric TO 'C';
ALTER DATABASE regression SET lc_time TO 'C';
ALTER DATABASE regression SET bytea_output TO 'hex';
ALTER DATABASE regression SET timezone_abbreviations TO 'Default';
";

/// Copies the test database before a group that a cut will interrupt, and lists roles and
/// tablespaces, which belong to the cluster.
const SAVE: &str = "\
CREATE DATABASE saved TEMPLATE regression;
CREATE TABLE saved_names AS
SELECT 'ROLE' AS kind, rolname AS name FROM pg_roles
UNION ALL SELECT 'TABLESPACE', spcname FROM pg_tablespace;
";

/// Restores the copy. Prepared transactions and subscriptions of the interrupted group would
/// prevent dropping its database; its roles and tablespaces would disturb the next attempt.
const RESTORE: &str = r"
\connect regression
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts
WHERE database = current_database() \gexec
SELECT format('ALTER SUBSCRIPTION %1$I DISABLE; ALTER SUBSCRIPTION %1$I SET (slot_name = NONE); '
  'DROP SUBSCRIPTION %1$I', subname)
FROM pg_subscription JOIN pg_database ON subdbid = pg_database.oid
WHERE datname = current_database() \gexec
\connect postgres
DROP DATABASE regression WITH (FORCE);
ALTER DATABASE saved RENAME TO regression;
SELECT format('DROP TABLESPACE %I', spcname) FROM pg_tablespace
WHERE spcname NOT IN (SELECT name FROM saved_names WHERE kind = 'TABLESPACE') \gexec
SELECT format('DROP OWNED BY %1$I; DROP ROLE %1$I', rolname) FROM pg_roles
WHERE rolname NOT IN (SELECT name FROM saved_names WHERE kind = 'ROLE') \gexec
DROP TABLE saved_names;
";

/// A group of tests, and how long it takes without a disk.
type Timed = (Vec<String>, Duration);

pub(super) fn run(args: &Suite, ground: &Ground) -> Result<Ran, Failure> {
    let schedule = fs::read_to_string(args.regress.join("parallel_schedule"))?;
    let groups = groups(&schedule, &args.tests);
    let mut ran = Ran::default();
    let timed = native(args, ground, groups, &mut ran.native)?;
    say_skipped(&ran.native);
    on_disk(args, ground, (&timed, &mut ran))?;
    Ok(ran)
}

fn native(
    args: &Suite,
    ground: &Ground,
    groups: Vec<Vec<String>>,
    results: &mut Results,
) -> Result<Vec<Timed>, Failure> {
    let log = ground.folder_of_user("native-log")?;
    let mut cluster = Cluster::make(args, ground, ("native", &log))?;
    let mut timed = Vec::new();
    for group in groups {
        let clock = SystemClock::new();
        results.extend(cluster.pass(&group)?);
        say(&format!("native: {} done, {}", results.finished(), group.join(" ")));
        timed.push((group, clock.now()));
    }
    cluster.regress.check().map_err(|error| format!("the native database is bad: {error}"))?;
    cluster.database.stop()?;
    Ok(timed)
}

fn on_disk(
    args: &Suite,
    ground: &Ground,
    (timed, ran): (&[Timed], &mut Ran),
) -> Result<(), Failure> {
    let (delay, hold_up, transport) = (args.delay, args.hold_up, Transport::Dir);
    let settings = Settings { delay, is_cut: true, hold_up, transport, buffers: Buffers::USUAL };
    let mut disk = Disk::make(ground, "disk", settings)?;
    disk.set_armed(true)?;
    let mut cluster = Cluster::make(args, ground, ("database", &disk.mounted()))?;
    let cuts = cuts(args, timed)?;
    for (index, (group, _)) in timed.iter().enumerate() {
        for moment in cuts.get(&index).into_iter().flatten() {
            let number = ran.cuts.len() + 1;
            count_flushes(&mut ran.flushes, &disk)?;
            let cut = cluster.interrupt(args, (&mut disk, number), (group, *moment))?;
            cut.report();
            let is_fine = cut.is_fine();
            ran.cuts.push(cut);
            if !is_fine {
                // The remaining groups would prove nothing.
                return Ok(());
            }
            cluster.restore()?;
        }
        keep_armed(&disk)?;
        ran.disk.extend(cluster.pass(group)?);
        say(&format!("on the disk: {} done, {}", ran.disk.finished(), group.join(" ")));
    }
    count_flushes(&mut ran.flushes, &disk)?;
    cluster.regress.check()?;
    cluster.database.stop()
}

/// Draws the moments of the cuts in each group, by its index, in proportion to its duration.
fn cuts(args: &Suite, timed: &[Timed]) -> Result<BTreeMap<usize, Vec<Duration>>, Failure> {
    let chance = SeededEntropy::new(args.seed);
    let total: Duration = timed.iter().map(|(_, time)| *time).sum();
    let total_us = u64::try_from(total.as_micros()).unwrap_or(u64::MAX).max(1);
    let mut cuts: BTreeMap<usize, Vec<Duration>> = BTreeMap::new();
    for _ in 0..args.cuts {
        let mut at = Duration::from_micros(chance.random()? % total_us);
        for (index, (_, time)) in timed.iter().enumerate() {
            if at < *time {
                cuts.entry(index).or_default().push(at);
                break;
            }
            at -= *time;
        }
    }
    Ok(cuts)
}

/// A cluster with the test database.
#[derive(Debug)]
struct Cluster {
    database: Box<dyn Database>,
    regress: Regress,
}

impl Cluster {
    fn make(args: &Suite, ground: &Ground, (name, log): (&str, &Path)) -> Result<Self, Failure> {
        let mut database = database::make(Engine::Postgres, ground, (name, log))?;
        database.start()?;
        // As in the temporary server of `make check`.
        database.sql("ALTER SYSTEM SET max_prepared_transactions = 2")?;
        database.stop()?;
        database.start()?;
        let tests = (args.regress.as_path(), &*format!("{name}-tests"));
        let regress = Regress::make(ground, tests, &*database)?;
        let make = format!("CREATE DATABASE {REGRESSION} TEMPLATE template0;\n{SETTINGS}");
        regress.script(&*database, &make)?;
        Ok(Self { database, regress })
    }

    fn pass(&self, group: &[String]) -> Result<Results, Failure> {
        let child = self.regress.start(group)?;
        self.regress.end(child)
    }

    /// Starts a group, cuts the power, and lets the database recover.
    fn interrupt(
        &mut self,
        args: &Suite,
        (disk, number): (&mut Disk, usize),
        (group, moment): (&[String], Duration),
    ) -> Result<Cut, Failure> {
        self.regress.script(&*self.database, SAVE)?;
        keep_armed(disk)?;
        let witness = Witness::start(&*self.database, number, disk.folder())?;
        let mut child = self.regress.start(group)?;
        pause(moment);
        cut_power(args, disk)?;
        self.database.kill();
        kill_all(child.id());
        child.wait()?;
        let (table, acknowledged) = witness.end();
        let mut cut = Cut { number, during: group.join(" "), acknowledged, ..Cut::default() };
        match self.recover(disk, &table, &mut cut) {
            Ok(found) => cut.found = Some(found),
            Err(why) => cut.why = Some(format!("{why}\n{}", disk.said())),
        }
        Ok(cut)
    }

    fn recover(&mut self, disk: &mut Disk, table: &str, cut: &mut Cut) -> Result<u64, Failure> {
        power_on(disk)?;
        self.database.start()?;
        cut.recovered = 1;
        let count = "\\connect regression\n\
                     SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'm', 't', 'i')";
        cut.checked = self.regress.script(&*self.database, count)?.parse()?;
        self.regress.check()?;
        found(&*self.database, table, cut.acknowledged)
    }

    fn restore(&self) -> Result<(), Failure> {
        self.regress.script(&*self.database, &format!("{RESTORE}{SETTINGS}")).map(drop)
    }
}
