//! `MariaDB`'s `mysql-test-run`: its list of tests, a run of some of them, and its output.

use super::{Results, create};
use crate::need::Ground;
use crate::process::{Failure, command_line, find, kill_all, processes, start};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The folder where Debian's package mariadb-test installs the suite.
const HOME: &str = "/usr/share/mysql/mysql-test";
const PROGRAM: &str = "mariadb-test-run.pl";
/// The default list of tests, from the folder `collections`.
const DEFAULT: &str = "smoke_test";
/// Output lines that are reported for a failure.
const WHY_LINES: usize = 12;

/// Checks that the suite is installed.
///
/// # Errors
///
/// Names what is missing, and how to get it.
pub(crate) fn look_for_mtr() -> Result<(), String> {
    let program = Path::new(HOME).join(PROGRAM);
    if !program.is_file() {
        let next = "apt-get install mariadb-test mariadb-test-data";
        return Err(format!("{} is not there: {next}", program.display()));
    }
    find("perl").map(drop).ok_or_else(|| "perl is not there: apt-get install perl".to_owned())
}

/// The tests of a run: single tests by name, and suites that run completely.
#[derive(Clone, Debug, Default)]
pub(super) struct Tests {
    names: Vec<String>,
    suites: Vec<String>,
}

impl Tests {
    /// Returns the tests that the option `--tests` names, one item for each call of the suite.
    pub(super) fn of(words: &[String]) -> Result<Vec<Self>, Failure> {
        let mut tests = Self::default();
        let default = [DEFAULT.to_owned()];
        for word in if words.is_empty() { &default } else { words } {
            let list = Path::new(HOME).join("collections").join(word);
            if list.is_file() {
                let text = fs::read_to_string(&list)?;
                let names = text.lines().filter_map(|line| line.split_whitespace().next());
                tests.names.extend(names.filter(|name| !name.starts_with('#')).map(str::to_owned));
            } else if word.contains('.') {
                tests.names.push(word.clone());
            } else {
                tests.suites.push(word.clone());
            }
        }
        // One call takes either suites or names.
        let named = Self { names: std::mem::take(&mut tests.names), suites: Vec::new() };
        Ok([named, tests].into_iter().filter(|tests| !tests.is_empty()).collect())
    }

    /// Returns the tests with these results, without the option combinations that the results name.
    pub(super) fn named(results: &BTreeSet<&String>) -> Self {
        let names = results.iter().filter_map(|name| name.split(' ').next());
        let names: BTreeSet<&str> = names.collect();
        Self { names: names.into_iter().map(str::to_owned).collect(), suites: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.suites.is_empty()
    }
}

/// A running suite; killed when this is dropped.
#[derive(Debug)]
pub(super) struct Mtr {
    child: Child,
    /// The folder of its servers.
    var: PathBuf,
    said: PathBuf,
}

impl Mtr {
    /// Starts the suite. Its servers keep all files in `var`; its output goes to the run's folder.
    pub(super) fn start(
        ground: &Ground,
        (name, var): (&str, &Path),
        tests: &Tests,
    ) -> Result<Self, Failure> {
        let (user, group) = ground.user;
        let said = ground.dir.join(name);
        let mut command = Command::new("perl");
        command.uid(user).gid(group).current_dir(HOME).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", var);
        command.arg(PROGRAM).arg("--vardir").arg(var);
        command.args(["--parallel=2", "--force", "--max-test-fail=0", "--retry=0"]);
        command.args(["--testcase-timeout=10", "--skip-test-list=unstable-tests"]);
        // The suite switches off the syncs of all engines but InnoDB.
        command.arg("--mysqld=--debug-no-sync=0");
        if !tests.suites.is_empty() {
            command.arg(format!("--suite={}", tests.suites.join(",")));
        }
        command.args(&tests.names).stdout(create(&said)?);
        let child = start(&mut command, &said.with_extension("errors"))?;
        Ok(Self { child, var: var.to_owned(), said })
    }

    /// Returns the results so far.
    pub(super) fn results(&self) -> Result<Results, Failure> {
        // Read as bytes, because tests may print invalid UTF-8.
        let mut said = Vec::new();
        fs::OpenOptions::new().read(true).open(&self.said)?.read_to_end(&mut said)?;
        Ok(parse(&String::from_utf8_lossy(&said)))
    }

    /// The last lines of its output.
    pub(super) fn said(&self) -> String {
        crate::disk::tail(&self.said)
    }

    /// Whether all tests have ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Process ids and command lines of the servers that run now.
    pub(super) fn servers(&self) -> BTreeMap<u32, Vec<String>> {
        let lines = self.processes().into_iter().map(|number| (number, words(number)));
        lines.filter(|(_, words)| is_server(words)).collect()
    }

    /// Kills the suite, its servers, and everything else that it started, with SIGKILL.
    pub(super) fn kill(&mut self) {
        kill_all(self.child.id());
        let _ = self.child.wait();
        // Processes that were being started meanwhile.
        for number in self.processes() {
            kill_all(number);
        }
    }

    /// Processes that have a path in the suite's folder on their command line.
    fn processes(&self) -> Vec<u32> {
        let inside = format!("{}/", self.var.display());
        let is_its = |number: &u32| {
            let line = command_line(*number);
            line.windows(inside.len()).any(|part| part == inside.as_bytes())
        };
        let own = std::process::id();
        processes().into_iter().filter(|number| *number != own).filter(is_its).collect()
    }
}

impl Drop for Mtr {
    fn drop(&mut self) {
        self.kill();
    }
}

fn words(number: u32) -> Vec<String> {
    let line = command_line(number);
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a command line belongs to a server for clients, and not to a bootstrap.
fn is_server(words: &[String]) -> bool {
    let is_program = words.first().is_some_and(|word| word.ends_with("/mariadbd"));
    let has = |start: &str| words.iter().any(|word| word.starts_with(start));
    is_program && has("--defaults-group-suffix=") && !has("--bootstrap")
}

/// Results as `mysql-test-run` prints them, such as
/// `innodb.doublewrite '32k,strict_crc32' w2 [ pass ]   7985`.
fn parse(said: &str) -> Results {
    let mut results = Results::default();
    let mut failing: Option<(String, usize)> = None;
    for line in said.lines() {
        let Some((name, result)) = result(line) else {
            if let Some((name, lines)) = failing.as_mut().filter(|(_, lines)| *lines < WHY_LINES) {
                *lines += 1;
                let why = results.failed.entry(name.clone()).or_default();
                why.push_str(line);
                why.push('\n');
            }
            continue;
        };
        failing = None;
        match result {
            "pass" | "retry-pass" => {
                results.passed.insert(name);
            }
            "skipped" | "disabled" => {
                results.refused.insert(name);
            }
            _ => {
                results.failed.insert(name.clone(), String::new());
                failing = Some((name, 0));
            }
        }
    }
    results
}

/// Parses a line into a test's name, including its option combination, and the result.
fn result(line: &str) -> Option<(String, &str)> {
    let (test, after) = line.split_once(" [ ")?;
    let (result, _) = after.split_once(" ]")?;
    let mut words = test.split_whitespace();
    let name = words.next().filter(|name| name.contains('.'))?;
    let combination = words.next().filter(|word| word.starts_with('\''));
    Some((combination.map_or(name.to_owned(), |word| format!("{name} {word}")), result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_has_its_combination_and_a_failure_its_reason() {
        let results = parse(
            "worker[1] Using MTR_BUILD_THREAD 300\n\
             innodb.doublewrite '32k,crc' w2 [ pass ]   7985\n\
             main.xa                                  w1 [ skipped ]  No debug\n\
             main.view                                w1 [ fail ]\n\
             \x20       Test ended\nline 3 differs\n\
             main.win                                 w1 [ pass ]   12\nnot of it\n",
        );
        assert!(results.passed.iter().eq(&["innodb.doublewrite '32k,crc'", "main.win"]));
        assert!(results.refused.iter().eq(&["main.xa"]));
        assert_eq!(results.failed["main.view"], "        Test ended\nline 3 differs\n");
        let passed = results.passed.iter().collect();
        assert_eq!(Tests::named(&passed).names, ["innodb.doublewrite", "main.win"]);
    }

    #[test]
    fn bootstrap_is_not_a_server() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let server = "/usr/sbin/mariadbd --defaults-group-suffix=.1 --defaults-file=/v/my.cnf";
        assert!(is_server(&words(server)));
        assert!(!is_server(&words(&format!("{server} --bootstrap"))));
        assert!(!is_server(&words(&format!("/lib/my_safe_process -- {server}"))));
    }
}
