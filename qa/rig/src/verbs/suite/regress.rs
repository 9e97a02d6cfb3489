//! PostgreSQL's `pg_regress`: its schedule, a run of one group, and its output.

use super::{Results, create};
use crate::database::Database;
use crate::need::Ground;
use crate::process::{Failure, kill_all, output, start, wait_for};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// How long a group of tests may take.
const ENDED: Duration = Duration::from_secs(900);
/// Lines of a difference that are reported.
const DIFF_LINES: usize = 40;
/// The database of the tests.
pub(super) const REGRESSION: &str = "regression";

/// Checks that the tests of the server's version are built.
///
/// # Errors
///
/// Names what is missing, and how to get it.
pub(crate) fn look_for_regress(ground: &Ground, regress: &Path) -> Result<(), String> {
    let said = output(Command::new(ground.program("postgres")).arg("--version"));
    let said = said.map_err(|error| error.to_string())?;
    // `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`
    let version = said.split(' ').nth(2).unwrap_or_default();
    let amcheck = ground.program("pg_amcheck");
    if !amcheck.is_file() {
        return Err(format!("{} is not there: apt-get install postgresql-15", amcheck.display()));
    }
    let header = regress.join("../../include/pg_config.h");
    let built = fs::read_to_string(header).unwrap_or_default();
    let is_built = ["pg_regress", "regress.so", "parallel_schedule"]
        .iter()
        .all(|name| regress.join(name).is_file());
    if is_built && built.contains(&format!("#define PG_VERSION \"{version}\"")) {
        return Ok(());
    }
    let deb = said.rsplit("(Debian ").next().unwrap_or_default().trim_end_matches(')');
    Err(format!(
        "{} has no built tests of version {version}. With a deb-src line in sources.list:\n  \
         apt-get source --download-only postgresql-15={deb}\n  \
         tar xf postgresql-15_{version}.orig.tar.bz2 && cd postgresql-{version}\n  \
         ./configure --without-readline --without-zlib && make -C src/test/regress\n\
         Then name its folder src/test/regress by --regress",
        regress.display()
    ))
}

/// Returns the groups of a schedule; the tests of a group run at the same time.
pub(super) fn groups(schedule: &str, only: &[String]) -> Vec<Vec<String>> {
    let is_wanted = |name: &&str| {
        only.is_empty() || *name == "test_setup" || only.contains(&(*name).to_owned())
    };
    let lines = schedule.lines().filter_map(|line| line.strip_prefix("test:"));
    let groups = lines.map(|line| {
        line.split_whitespace().filter(is_wanted).map(str::to_owned).collect::<Vec<_>>()
    });
    groups.filter(|group| !group.is_empty()).collect()
}

/// Runs groups of tests against a cluster.
#[derive(Debug)]
pub(super) struct Regress {
    ground: Ground,
    /// The folder with the tests.
    input: PathBuf,
    /// The folder for their output.
    output: PathBuf,
    /// The folder with the cluster's socket.
    host: PathBuf,
}

impl Regress {
    pub(super) fn make(
        ground: &Ground,
        (input, name): (&Path, &str),
        database: &dyn Database,
    ) -> Result<Self, Failure> {
        let output = ground.folder_of_user(name)?;
        let [data, _] = database.folders();
        let host = data.parent().ok_or("a cluster without a folder")?.to_owned();
        Ok(Self { ground: ground.clone(), input: input.to_owned(), output, host })
    }

    /// Starts a group of tests.
    pub(super) fn start(&self, group: &[String]) -> Result<Child, Failure> {
        let schedule = self.output.join("schedule");
        writeln!(create(&schedule)?, "ignore: random\ntest: {}", group.join(" "))?;
        let mut command = self.command(&self.input.join("pg_regress"));
        command.args(["--use-existing", "--dbname", REGRESSION, "--user=postgres", "--port=5432"]);
        command.arg("--host").arg(&self.host).arg("--schedule").arg(schedule);
        command.arg("--inputdir").arg(&self.input).arg("--dlpath").arg(&self.input);
        command.arg("--outputdir").arg(&self.output).arg("--bindir").arg(&self.ground.programs);
        command.stdout(create(&self.output.join("said"))?);
        start(&mut command, &self.output.join("errors"))
    }

    /// Waits for the end of a group and returns its results.
    pub(super) fn end(&self, mut child: Child) -> Result<Results, Failure> {
        if wait_for(ENDED, || child.try_wait().ok().flatten()).is_none() {
            kill_all(child.id());
            child.wait()?;
            return Err("a group of tests does not end".into());
        }
        let mut results = parse(&fs::read_to_string(self.output.join("said"))?);
        let diffs = fs::read_to_string(self.output.join("regression.diffs")).unwrap_or_default();
        for (name, why) in &mut results.failed {
            *why = difference(&diffs, name);
        }
        Ok(results)
    }

    /// Checks every table and index of the tests with `pg_amcheck`.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut command = self.command(&self.ground.program("pg_amcheck"));
        command.arg("--host").arg(&self.host).args(["--username=postgres", "--install-missing"]);
        output(command.args(["--heapallindexed", "--database", REGRESSION])).map(drop)
    }

    /// Runs a psql script, which has to connect to the test database itself.
    pub(super) fn script(&self, database: &dyn Database, text: &str) -> Result<String, Failure> {
        let file = self.output.join("script.sql");
        create(&file)?.write_all(text.as_bytes())?;
        output(database.client().arg("-f").arg(file))
    }

    fn command(&self, program: &Path) -> Command {
        let (user, group) = self.ground.user;
        let mut command = Command::new(program);
        command.uid(user).gid(group).current_dir(&self.output).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        command
    }
}

/// Results as `pg_regress` prints them, such as `     boolean    ... ok    58 ms`.
fn parse(said: &str) -> Results {
    let mut results = Results::default();
    for line in said.lines() {
        let Some((name, result)) = line.split_once(" ... ") else { continue };
        let Some(name) = name.split_whitespace().next_back() else { continue };
        let result = result.trim_start();
        if result.starts_with("ok") || result.starts_with("failed (ignored)") {
            results.passed.insert(name.to_owned());
        } else {
            results.failed.insert(name.to_owned(), String::new());
        }
    }
    results
}

/// Returns the beginning of one test's part of `regression.diffs`.
fn difference(diffs: &str, name: &str) -> String {
    let file = format!("/results/{name}.out");
    let is_its = |line: &&str| line.starts_with("diff ") && line.ends_with(&file);
    let lines = diffs.lines().skip_while(|line| !is_its(line)).take(DIFF_LINES);
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_pg_regress_is_a_result() {
        let results = parse(
            "test test_setup                   ... ok          123 ms\n\
             parallel group (3 tests):  char boolean random\n\
             \x20    boolean                      ... ok           58 ms\n\
             \x20    char                         ... FAILED       60 ms\n\
             \x20    random                       ... failed (ignored)  9 ms\n",
        );
        assert!(results.passed.iter().eq(&["boolean", "random", "test_setup"]));
        assert!(results.failed.keys().eq(["char"]));
    }

    #[test]
    fn wanted_tests_keep_their_groups_and_the_setup() {
        let schedule = "# text\ntest: test_setup\n\ntest: a b c\nignore: b\ntest: d\n";
        assert_eq!(groups(schedule, &[]).len(), 3);
        let only = ["c".to_owned(), "a".to_owned()];
        assert_eq!(groups(schedule, &only), [vec!["test_setup"], vec!["a", "c"]]);
    }

    #[test]
    fn difference_is_that_of_the_test() {
        let part = |name: &str, line: &str| {
            format!("diff -U3 /x/expected/{name}.out /y/results/{name}.out\n{line}\n")
        };
        let diffs = [part("a", "-1"), part("b", "-2")].concat();
        assert_eq!(difference(&diffs, "b"), part("b", "-2").trim_end());
    }
}
