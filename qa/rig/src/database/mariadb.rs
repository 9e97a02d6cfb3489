//! `MariaDB` from Debian's packages, with the redo log of its engine `InnoDB` on a disk.

use super::Database;
use super::server::Server;
use crate::need::Ground;
use crate::process::{Failure, output};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The setting that differs from the defaults: all data fits in memory, as for PostgreSQL.
pub(super) const SETTINGS: &[&str] = &["--innodb-buffer-pool-size=512M"];

/// A server and its data; killed when this is dropped.
#[derive(Debug)]
pub(super) struct MariaDb {
    ground: Ground,
    /// The folder with data and socket.
    folder: PathBuf,
    log: PathBuf,
    port: Option<u16>,
    server: Server,
}

impl MariaDb {
    pub(super) fn make(ground: &Ground, name: &str, log: &Path) -> Result<Self, Failure> {
        let folder = ground.folder_of_user(name)?;
        let log = log.join("redo");
        std::fs::create_dir(&log)?;
        ground.give(&log)?;
        let database =
            Self { ground: ground.clone(), folder, log, port: None, server: Server::default() };
        let mut install = database.command("mariadb-install-db");
        database.place(&mut install);
        output(install.arg("--auth-root-authentication-method=normal"))?;
        Ok(database)
    }

    /// Returns a command for a `MariaDB` program, run by its user without the machine's options.
    fn command(&self, program: &str) -> Command {
        let (user, group) = self.ground.user;
        let mut command = Command::new(program);
        command.uid(user).gid(group).current_dir(&self.folder).arg("--no-defaults");
        command
    }

    /// Sets the locations of data and log. Options that affect durability keep their defaults.
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
        server.arg(self.socket()).args(SETTINGS);
        match self.port {
            Some(port) => server.args(["--bind-address=127.0.0.1", &format!("--port={port}")]),
            None => server.arg("--skip-networking"),
        };
        let mut process = std::mem::take(&mut self.server);
        process.start(&mut server, &log, || self.sql("SELECT 1").is_ok())?;
        self.server = process;
        Ok(())
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
        self.server.kill();
    }

    fn stop(&mut self) -> Result<(), Failure> {
        self.server.stop(Signal::TERM)
    }
}
