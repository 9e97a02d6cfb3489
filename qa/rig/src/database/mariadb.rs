//! `MariaDB` of Debian's packages, with the redo log of its engine `InnoDB` on a disk.

use super::Database;
use crate::disk::tail;
use crate::need::Ground;
use crate::process::{Failure, kill_all, output, signal, start, wait_for};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Until it answers: it may have to recover.
const READY: Duration = Duration::from_secs(60);
/// Until it has shut down.
const ENDED: Duration = Duration::from_secs(60);

/// Its data is in memory, as that of PostgreSQL.
pub(super) const SETTINGS: &[&str] = &["--innodb-buffer-pool-size=512M"];

/// A server and its data; killed when this is dropped.
#[derive(Debug)]
pub(super) struct MariaDb {
    ground: Ground,
    /// With data and socket.
    folder: PathBuf,
    log: PathBuf,
    port: Option<u16>,
    child: Option<Child>,
}

impl MariaDb {
    pub(super) fn make(ground: &Ground, name: &str, log: &Path) -> Result<Self, Failure> {
        let folder = ground.folder_of_user(name)?;
        let log = log.join("redo");
        std::fs::create_dir(&log)?;
        ground.give(&log)?;
        let database = Self { ground: ground.clone(), folder, log, port: None, child: None };
        let mut install = database.command("mariadb-install-db");
        database.place(&mut install);
        output(install.arg("--auth-root-authentication-method=normal"))?;
        Ok(database)
    }

    /// One of its programs, run by its user, without the options of the machine.
    fn command(&self, program: &str) -> Command {
        let (user, group) = self.ground.user;
        let mut command = Command::new(program);
        command.uid(user).gid(group).current_dir(&self.folder).arg("--no-defaults");
        command
    }

    /// Says where data and log are. What decides about durability is as it comes.
    fn place(&self, command: &mut Command) {
        command.arg(format!("--datadir={}", self.data().display()));
        command.arg(format!("--innodb-log-group-home-dir={}", self.log.display()));
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn socket(&self) -> String {
        format!("--socket={}", self.folder.join("socket").display())
    }
}

impl Database for MariaDb {
    fn listen(&mut self, port: u16) {
        self.port = Some(port);
    }

    fn start(&mut self) -> Result<(), Failure> {
        let log = self.folder.join("mariadb.log");
        let mut server = self.command("mariadbd");
        self.place(&mut server);
        server.arg(self.socket()).args(SETTINGS).stdout(Stdio::null());
        match self.port {
            Some(port) => server.args(["--bind-address=127.0.0.1", &format!("--port={port}")]),
            None => server.arg("--skip-networking"),
        };
        let mut child = start(&mut server, &log)?;
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
        Err(format!("MariaDB does not start:\n{}", tail(&log)).into())
    }

    fn sql(&self, text: &str) -> Result<String, Failure> {
        output(self.client().args(["-e", text]))
    }

    fn client(&self) -> Command {
        let mut client = self.command("mariadb");
        client.arg(self.socket());
        client.args(["--user=root", "--batch", "--skip-column-names", "--unbuffered", "test"]);
        client
    }

    fn driver(&self) -> Result<Vec<String>, Failure> {
        let port = self.port.ok_or("the server does not listen")?.to_string();
        let words = ["-d", "mysql", "-U", "root", "-D", "test", "-P", &port];
        Ok(words.map(str::to_owned).to_vec())
    }

    fn set_async(&self, is_async: bool) -> Result<(), Failure> {
        let value = u8::from(!is_async);
        self.sql(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {value}")).map(drop)
    }

    fn folders(&self) -> [PathBuf; 2] {
        [self.data(), self.log.clone()]
    }

    fn check(&self, table: &str) -> Result<(), Failure> {
        let said = self.sql(&format!("CHECK TABLE {table} EXTENDED"))?;
        if said.ends_with("\tOK") { Ok(()) } else { Err(said.into()) }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_all(child.id());
            let _ = child.wait();
        }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        signal(child, Signal::TERM)?;
        let ended = wait_for(ENDED, || child.try_wait().ok().flatten());
        self.kill();
        ended.map(drop).ok_or_else(|| "MariaDB does not shut down".into())
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.kill();
    }
}
