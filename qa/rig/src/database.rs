//! The databases whose acknowledged inserts are counted: creates, starts, queries and kills them.

mod client;
mod mariadb;
mod postgres;
mod server;
mod sqlite;

use crate::args::Engine;
use crate::need::Ground;
use crate::process::{Failure, output, run};
pub(crate) use client::{Client, Draw};
use mariadb::MariaDb;
use postgres::Cluster;
use sqlite::Sqlite;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A database with its log on a disk.
pub(crate) trait Database: Debug {
    /// Makes the database listen on this local TCP port from the next start on.
    fn listen(&mut self, port: u16);

    /// Starts the database and returns once it has recovered and answers.
    ///
    /// # Errors
    ///
    /// The database does not start; the error has its last messages.
    fn start(&mut self) -> Result<(), Failure>;

    /// Returns the answer to a query.
    fn sql(&self, text: &str) -> Result<String, Failure>;

    /// Creates a table of numbers.
    fn make_table(&self, name: &str) -> Result<(), Failure> {
        self.sql(&format!("CREATE TABLE {name} (k bigint PRIMARY KEY)")).map(drop)
    }

    /// Returns a client that reads statements from its input, prints only rows, and stops at the
    /// first error.
    fn client(&self) -> Command;

    /// Whether only one process can use the database; TPC-C clients then take turns.
    fn has_one_client(&self) -> bool {
        false
    }

    /// The arguments with which go-tpc connects to the database.
    fn driver(&self) -> Result<Vec<String>, Failure> {
        Err("go-tpc has no driver for this database".into())
    }

    /// Runs pgbench and returns its output.
    fn pgbench(&self, _: &[&str]) -> Result<String, Failure> {
        Err("pgbench measures PostgreSQL: try --load tpcc".into())
    }

    /// Sets whether commits return without waiting for the log.
    fn set_async(&self, is_async: bool) -> Result<(), Failure>;

    /// Sets PostgreSQL's option `commit_delay`, in microseconds.
    fn set_commit_delay(&self, _: u32) -> Result<(), Failure> {
        Err("commit_delay is an option of PostgreSQL".into())
    }

    /// Does work now that the database would otherwise do in the background some time after its
    /// tables were filled.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes a checkpoint.
    fn checkpoint(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The folders of data and log.
    fn folders(&self) -> [PathBuf; 2];

    /// Lets the database check a table.
    ///
    /// # Errors
    ///
    /// Describes what the check found.
    fn check(&self, table: &str) -> Result<(), Failure>;

    /// Kills all processes of the database with SIGKILL.
    fn kill(&mut self);

    /// Shuts the database down.
    fn stop(&mut self) -> Result<(), Failure>;
}

/// Creates a database with its log in a folder below `log`.
///
/// # Errors
///
/// The database's setup program failed; the error has its output.
pub(crate) fn make(
    engine: Engine,
    ground: &Ground,
    (name, log): (&str, &Path),
) -> Result<Box<dyn Database>, Failure> {
    Ok(match engine {
        Engine::Postgres => Box::new(Cluster::make(ground, name, log)?),
        Engine::Mariadb => Box::new(MariaDb::make(ground, name, log)?),
        Engine::Sqlite => Box::new(Sqlite::make(ground, log)?),
    })
}

/// The version of a database, and the settings that differ from its defaults.
pub(crate) fn about(engine: Engine, ground: &Ground) -> [String; 2] {
    let (program, settings) = match engine {
        Engine::Postgres => (ground.program("postgres"), postgres::SETTINGS),
        Engine::Mariadb => (PathBuf::from("mariadbd"), mariadb::SETTINGS),
        Engine::Sqlite => (PathBuf::from("sqlite3"), [].as_slice()),
    };
    let version = output(Command::new(program).arg("--version"));
    [version.unwrap_or_default(), settings.join(", ")]
}

/// Saved files of a database that was filled and stopped.
#[derive(Debug)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self(folder.join(name))
    }

    fn folders(&self) -> [PathBuf; 2] {
        [self.0.join("data"), self.0.join("log")]
    }

    fn mark(&self) -> PathBuf {
        self.0.join("whole")
    }

    /// Whether the files were saved completely.
    pub(crate) fn is_whole(&self) -> bool {
        self.mark().is_dir()
    }

    /// Saves the files of a stopped database.
    ///
    /// # Errors
    ///
    /// The files cannot be copied.
    pub(crate) fn take(&self, database: &dyn Database) -> Result<(), Failure> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0)?;
        }
        fs::create_dir_all(&self.0)?;
        let [data, log] = database.folders();
        let [data_to, log_to] = self.folders();
        run(&["cp", "-a", &text(&data), &text(&data_to)])?;
        if log != data {
            run(&["cp", "-a", &text(&log), &text(&log_to)])?;
        }
        run(&["sync", "-f", &text(&self.0)])?;
        Ok(fs::create_dir(self.mark())?)
    }

    /// Replaces the files of a stopped database with the saved ones.
    ///
    /// # Errors
    ///
    /// The files cannot be copied; the database is then unusable.
    pub(crate) fn give(&self, database: &dyn Database) -> Result<(), Failure> {
        let ([data, log], [data_to, log_to]) = (self.folders(), database.folders());
        let empty = |folder: &Path| run(&["find", &text(folder), "-mindepth", "1", "-delete"]);
        for (from, to) in [(data, &data_to), (log, &log_to)] {
            if from.exists() {
                empty(to)?;
                run(&["cp", "-a", &text(&from.join(".")), &text(to)])?;
            }
        }
        let link = data_to.join("pg_wal");
        if link.is_symlink() {
            run(&["ln", "-sfn", &text(&log_to), &text(&link)])?;
        }
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a query that returns a number.
///
/// # Errors
///
/// The query fails, or its answer is not a number.
pub(crate) fn number(database: &dyn Database, query: &str) -> Result<u64, Failure> {
    let answer = database.sql(query)?;
    answer.trim().parse().map_err(|_| format!("`{query}` is answered by `{answer}`").into())
}
