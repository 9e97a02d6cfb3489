//! A PostgreSQL cluster of Debian's packages: created, started, measured, killed.

use super::Database;
use crate::disk::tail;
use crate::need::Ground;
use crate::process::{Failure, kill_all, output, signal, start, wait_for};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Until a cluster answers: it may have to recover.
const READY: Duration = Duration::from_secs(60);
/// Until it has shut down.
const ENDED: Duration = Duration::from_secs(60);

/// What differs from PostgreSQL's defaults, so that no checkpoint and no vacuum falls into a
/// measurement; what decides about durability is as it comes.
const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "checkpoint_timeout=1d",
    "max_wal_size=700MB",
    "min_wal_size=512MB",
    "shared_buffers=256MB",
    "autovacuum=off",
    "logging_collector=off",
];

/// Those settings, to be told of.
pub(crate) fn settings() -> String {
    SETTINGS.join(", ")
}

/// A cluster; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    ground: Ground,
    /// With data and socket.
    folder: PathBuf,
    child: Option<Child>,
}

/// What pgbench has measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Transactions a second.
    pub(crate) tps: f64,
    /// Milliseconds of one, on average.
    pub(crate) latency_ms: f64,
}

impl Cluster {
    /// Makes a cluster with its log below this folder, which PostgreSQL's user need not have.
    pub(crate) fn make(ground: &Ground, name: &str, log: &Path) -> Result<Self, Failure> {
        let folder = ground.folder_of_user(name)?;
        let log = log.join("wal");
        std::fs::create_dir(&log)?;
        ground.give(&log)?;
        let cluster = Self { ground: ground.clone(), folder, child: None };
        let mut initdb = cluster.command("initdb");
        initdb.arg("-D").arg(cluster.data()).arg("--waldir").arg(log);
        output(initdb.args(["-A", "trust", "-E", "UTF8", "--locale", "C"]))?;
        Ok(cluster)
    }

    /// A program of PostgreSQL, run by its user.
    fn command(&self, program: &str) -> Command {
        let (user, group) = self.ground.user;
        let mut command = Command::new(self.ground.program(program));
        command.uid(user).gid(group).current_dir(&self.folder).env_clear();
        command.env("PGHOST", &self.folder).env("PGUSER", "postgres").env("LC_ALL", "C");
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Makes the tables of pgbench.
    pub(crate) fn fill(&self, scale: u32) -> Result<(), Failure> {
        let scale = scale.to_string();
        let mut pgbench = self.command("pgbench");
        output(pgbench.args(["-i", "-q", "-s", &scale, "postgres"])).map(drop)
    }

    /// Runs pgbench's TPC-B for `seconds`.
    pub(crate) fn load(
        &self,
        clients: u32,
        seconds: u32,
        is_async: bool,
    ) -> Result<Measured, Failure> {
        let mut pgbench = self.command("pgbench");
        if is_async {
            pgbench.env("PGOPTIONS", "-c synchronous_commit=off");
        }
        let threads = clients.min(2).to_string();
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        pgbench.args(["-c", &clients, "-j", &threads, "-T", &seconds, "postgres"]);
        let said = output(&mut pgbench)?;
        let number = |name| number_behind(&said, name);
        let found = number("tps = ").zip(number("latency average = "));
        let (tps, latency_ms) = found.ok_or_else(|| format!("pgbench says no rate: {said}"))?;
        Ok(Measured { tps, latency_ms })
    }
}

impl Database for Cluster {
    fn start(&mut self) -> Result<(), Failure> {
        let log = self.folder.join("postgres.log");
        let mut postgres = self.command("postgres");
        postgres.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        for setting in SETTINGS {
            postgres.args(["-c", setting]);
        }
        let mut child = start(postgres.stdout(std::process::Stdio::null()), &log)?;
        let is_up = || match child.try_wait() {
            Ok(None) => self.sql("SELECT 1").ok().map(|_| true),
            Ok(Some(_)) | Err(_) => Some(false),
        };
        let is_up = wait_for(READY, is_up) == Some(true);
        self.child = Some(child);
        if is_up {
            return Ok(());
        }
        self.kill();
        Err(format!("PostgreSQL does not start:\n{}", tail(&log)).into())
    }

    fn sql(&self, text: &str) -> Result<String, Failure> {
        output(self.client().args(["-c", text]))
    }

    fn make_table(&self, name: &str) -> Result<(), Failure> {
        self.sql(&format!("CREATE TABLE {name} (k bigint PRIMARY KEY)"))?;
        self.sql("CHECKPOINT").map(drop)
    }

    fn client(&self) -> Command {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "postgres"]);
        psql
    }

    fn check(&self, table: &str) -> Result<(), Failure> {
        self.sql("CREATE EXTENSION IF NOT EXISTS amcheck")?;
        self.sql(&format!("SELECT bt_index_check('{table}_pkey', true)"))?;
        let said = self.sql(&format!("SELECT * FROM verify_heapam('{table}')"))?;
        if said.is_empty() { Ok(()) } else { Err(said.into()) }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_all(child.id());
            let _ = child.wait();
        }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        signal(child, Signal::INT)?;
        let ended = wait_for(ENDED, || child.try_wait().ok().flatten());
        self.kill();
        ended.map(drop).ok_or_else(|| "PostgreSQL does not shut down".into())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The number that follows a name.
fn number_behind(text: &str, name: &str) -> Option<f64> {
    let (_, behind) = text.split_once(name)?;
    behind.split([' ', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_read() {
        let said = "latency average = 1.234 ms\ninitial connection time = 3 ms\n\
                    tps = 810.5 (without initial connection time)\n";
        assert_eq!(number_behind(said, "tps = "), Some(810.5));
        assert_eq!(number_behind(said, "latency average = "), Some(1.234));
        assert_eq!(number_behind(said, "rate"), None);
        assert_eq!(number_behind("tps = many", "tps = "), None);
    }
}
