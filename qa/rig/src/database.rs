//! The databases whose acknowledged inserts are counted: made, started, asked, killed.

mod client;
mod mariadb;
mod postgres;
mod sqlite;

use crate::args::Engine;
use crate::need::Ground;
use crate::process::Failure;
pub(crate) use client::Client;
use mariadb::MariaDb;
pub(crate) use postgres::{Cluster, Measured, settings};
use sqlite::Sqlite;
use std::path::Path;
use std::process::Command;

/// A database with its log on a disk.
pub(crate) trait Database {
    /// Starts it, and returns when it has recovered and answers.
    ///
    /// # Errors
    ///
    /// It does not start: its last messages.
    fn start(&mut self) -> Result<(), Failure>;

    /// Returns the answer to a query.
    fn sql(&self, text: &str) -> Result<String, Failure>;

    /// Makes a table of numbers.
    fn make_table(&self, name: &str) -> Result<(), Failure> {
        self.sql(&format!("CREATE TABLE {name} (k bigint PRIMARY KEY)")).map(drop)
    }

    /// A client that reads statements from its input, prints only rows, and stops at the first
    /// error.
    fn client(&self) -> Command;

    /// Lets the database check a table.
    ///
    /// # Errors
    ///
    /// What it found.
    fn check(&self, table: &str) -> Result<(), Failure>;

    /// SIGKILL for all of its processes.
    fn kill(&mut self);

    /// Shuts it down.
    fn stop(&mut self) -> Result<(), Failure>;
}

/// Makes a database with its log in a folder below `log`.
///
/// # Errors
///
/// Its own program fails: what it said.
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

/// The number that a query answers.
///
/// # Errors
///
/// The query fails, or its answer is not a number.
pub(crate) fn number(database: &dyn Database, query: &str) -> Result<u64, Failure> {
    let answer = database.sql(query)?;
    answer.trim().parse().map_err(|_| format!("`{query}` is answered by `{answer}`").into())
}
