//! `SQLite`, with the whole database on the disk, because its log is stored beside its data.
//!
//! There is no server to start: the client process is the database.

use super::Database;
use crate::need::Ground;
use crate::process::{Failure, output};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Uses a write-ahead log, as other databases do, synced at each commit. Only one process uses the
/// database, so it needs no shared memory.
const SETTINGS: &str = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;";

/// A database in a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    ground: Ground,
    folder: PathBuf,
    is_async: AtomicBool,
}

impl Sqlite {
    pub(super) fn make(ground: &Ground, log: &Path) -> Result<Self, Failure> {
        let folder = log.join("sqlite");
        std::fs::create_dir(&folder)?;
        ground.give(&folder)?;
        Ok(Self { ground: ground.clone(), folder, is_async: AtomicBool::new(false) })
    }
}

impl Database for Sqlite {
    fn listen(&mut self, _: u16) {}

    fn start(&mut self) -> Result<(), Failure> {
        self.sql("SELECT 1").map(drop)
    }

    fn sql(&self, text: &str) -> Result<String, Failure> {
        output(self.client().arg(text))
    }

    fn client(&self) -> Command {
        let (user, group) = self.ground.user;
        let mut client = Command::new("sqlite3");
        client.uid(user).gid(group).current_dir("/").args(["-batch", "-bail"]);
        // Discards the output of the settings, so that only answers to statements remain.
        let level = if self.is_async.load(Ordering::SeqCst) { "NORMAL" } else { "FULL" };
        let settings = format!("{SETTINGS} PRAGMA synchronous={level};");
        client.args(["-cmd", ".output /dev/null", "-cmd", &settings, "-cmd", ".output stdout"]);
        client.arg(self.folder.join("data.db"));
        client
    }

    fn has_one_client(&self) -> bool {
        true
    }

    fn set_async(&self, is_async: bool) -> Result<(), Failure> {
        self.is_async.store(is_async, Ordering::SeqCst);
        Ok(())
    }

    fn folders(&self) -> [PathBuf; 2] {
        [self.folder.clone(), self.folder.clone()]
    }

    fn check(&self, _: &str) -> Result<(), Failure> {
        let said = self.sql("PRAGMA integrity_check")?;
        if said == "ok" { Ok(()) } else { Err(said.into()) }
    }

    /// Does nothing, since killing the client is enough.
    fn kill(&mut self) {}

    fn stop(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
