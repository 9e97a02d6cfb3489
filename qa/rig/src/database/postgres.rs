//! A PostgreSQL cluster from Debian's packages: creates, starts, measures and kills it.

use super::Database;
use super::server::Server;
use crate::need::Ground;
use crate::process::{Failure, output};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PostgreSQL's default TCP port; the socket's name contains it, too.
const PORT: u16 = 5432;

/// Settings that differ from the defaults, so that no checkpoint and no vacuum runs during a
/// measurement. Options that affect durability keep their defaults.
pub(super) const SETTINGS: &[&str] = &[
    "checkpoint_timeout=1d",
    "max_wal_size=700MB",
    "min_wal_size=512MB",
    "shared_buffers=256MB",
    "autovacuum=off",
    "logging_collector=off",
];

/// A cluster; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    ground: Ground,
    /// The folder with data and socket.
    folder: PathBuf,
    log: PathBuf,
    port: Option<u16>,
    server: Server,
}

impl Cluster {
    /// Creates a cluster with its log below `log`, a folder that PostgreSQL's user need not own.
    pub(crate) fn make(ground: &Ground, name: &str, log: &Path) -> Result<Self, Failure> {
        let folder = ground.folder_of_user(name)?;
        let log = log.join("wal");
        std::fs::create_dir(&log)?;
        ground.give(&log)?;
        let cluster =
            Self { ground: ground.clone(), folder, log, port: None, server: Server::default() };
        let mut initdb = cluster.command("initdb");
        initdb.arg("-D").arg(cluster.data()).arg("--waldir").arg(&cluster.log);
        output(initdb.args(["-A", "trust", "-E", "UTF8", "--locale", "C"]))?;
        Ok(cluster)
    }

    /// Returns a command for a program of PostgreSQL, run by its user.
    fn command(&self, program: &str) -> Command {
        let (user, group) = self.ground.user;
        let mut command = Command::new(self.ground.program(program));
        command.uid(user).gid(group).current_dir(&self.folder).env_clear();
        command.env("PGHOST", &self.folder).env("PGUSER", "postgres").env("LC_ALL", "C");
        command.env("PGPORT", self.port.unwrap_or(PORT).to_string());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Database for Cluster {
    fn listen(&mut self, port: u16) {
        self.port = Some(port);
    }

    fn start(&mut self) -> Result<(), Failure> {
        let log = self.folder.join("postgres.log");
        let mut postgres = self.command("postgres");
        postgres.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        let (port, host) = self.port.map_or((PORT, ""), |port| (port, "127.0.0.1"));
        let own = [format!("port={port}"), format!("listen_addresses={host}")];
        for setting in SETTINGS.iter().copied().chain(own.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        let mut process = std::mem::take(&mut self.server);
        process.start(&mut postgres, &log, || self.sql("SELECT 1").is_ok())?;
        self.server = process;
        Ok(())
    }

    fn sql(&self, text: &str) -> Result<String, Failure> {
        output(self.client().args(["-c", text]))
    }

    fn make_table(&self, name: &str) -> Result<(), Failure> {
        self.sql(&format!("CREATE TABLE {name} (k bigint PRIMARY KEY)"))?;
        self.checkpoint()
    }

    fn client(&self) -> Command {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "postgres"]);
        psql
    }

    fn driver(&self) -> Result<Vec<String>, Failure> {
        let port = self.port.ok_or("the cluster does not listen")?.to_string();
        let words = ["-d", "postgres", "-U", "postgres", "-D", "postgres", "-P", &port];
        Ok([words.as_slice(), &["--conn-params", "sslmode=disable"]]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect())
    }

    fn pgbench(&self, arguments: &[&str]) -> Result<String, Failure> {
        output(self.command("pgbench").args(arguments).arg("postgres"))
    }

    fn set_async(&self, is_async: bool) -> Result<(), Failure> {
        let value = if is_async { "off" } else { "on" };
        self.sql(&format!("ALTER SYSTEM SET synchronous_commit = {value}"))?;
        self.sql("SELECT pg_reload_conf()").map(drop)
    }

    fn set_commit_delay(&self, us: u32) -> Result<(), Failure> {
        self.sql(&format!("ALTER SYSTEM SET commit_delay = {us}"))?;
        self.sql("SELECT pg_reload_conf()").map(drop)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.sql("VACUUM ANALYZE").map(drop)
    }

    fn checkpoint(&self) -> Result<(), Failure> {
        self.sql("CHECKPOINT").map(drop)
    }

    fn folders(&self) -> [PathBuf; 2] {
        [self.data(), self.log.clone()]
    }

    fn check(&self, table: &str) -> Result<(), Failure> {
        self.sql("CREATE EXTENSION IF NOT EXISTS amcheck")?;
        self.sql(&format!("SELECT bt_index_check('{table}_pkey', true)"))?;
        let said = self.sql(&format!("SELECT * FROM verify_heapam('{table}')"))?;
        if said.is_empty() { Ok(()) } else { Err(said.into()) }
    }

    fn kill(&mut self) {
        self.server.kill();
    }

    fn stop(&mut self) -> Result<(), Failure> {
        self.server.stop(Signal::INT)
    }
}
