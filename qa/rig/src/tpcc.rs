//! TPC-C for a database that only one process can use, such as SQLite: clients take turns.
//!
//! Tables, transactions and their mix are those of the specification, revision 5.11; amounts are in
//! cents, and texts that no transaction reads are shorter.

mod fill;
mod transaction;

use crate::database::{Database, Draw, number};
use crate::process::Failure;
use crate::workload::Measured;
use seawall_io::{Clock, SystemClock};
use seawall_testkit::Dice;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use transaction::Transaction;

/// The answer of the session after each transaction.
const DONE: &str = "done";

/// Creates and fills the tables.
pub(crate) fn fill(database: &dyn Database, warehouses: u32) -> Result<(), Failure> {
    database.sql(&fill::tables(warehouses)).map(drop)
}

/// Lets clients work for some seconds, and returns their rate and latency.
pub(crate) fn run(
    database: &dyn Database,
    warehouses: u32,
    (clients, seconds): (u32, u32),
) -> Result<Measured, Failure> {
    let session = Mutex::new(Session::start(database)?);
    let clock = SystemClock::new();
    let end = clock.now() + Duration::from_secs(u64::from(seconds));
    let counts = thread::scope(|scope| {
        let client = |seed| {
            let (session, clock) = (&session, &clock);
            move || work(session, (clock, end), (seed, warehouses))
        };
        let threads: Vec<_> = (1..=clients).map(|seed| scope.spawn(client(seed))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client fell"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let counts = counts.into_iter().collect::<Result<Vec<Count>, String>>()?;
    let minutes = clock.now().as_secs_f64() / 60.0;
    let orders: u32 = counts.iter().map(|count| count.orders).sum();
    let took: Duration = counts.iter().map(|count| count.took).sum();
    let tries: u32 = counts.iter().map(|count| count.tries).sum();
    if tries == 0 {
        return Err("no order was tried".into());
    }
    let latency_ms = took.as_secs_f64() * 1000.0 / f64::from(tries);
    Ok(Measured { rate: f64::from(orders) / minutes, latency_ms })
}

/// Generates transactions, each as its statements.
pub(crate) fn transactions(warehouses: u32, seed: u64) -> Draw {
    let mut dice = Dice::new(seed);
    Box::new(move || Transaction::draw(&mut dice, warehouses).sql)
}

/// Checks the conditions of consistency 1 to 4 of the specification, 3.3.2.
///
/// # Errors
///
/// Names the first condition that does not hold.
pub(crate) fn check(database: &dyn Database) -> Result<(), Failure> {
    for (condition, query) in fill::CONDITIONS {
        let broken = number(database, query)?;
        if broken > 0 {
            return Err(format!("TPC-C: condition {condition} is broken {broken} times").into());
        }
    }
    Ok(())
}

/// The work of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// New orders that were committed.
    orders: u32,
    /// New orders, including those that are rolled back as the specification requires.
    tries: u32,
    /// The time of all new orders, including the time spent waiting for a turn.
    took: Duration,
}

fn work(
    session: &Mutex<Session>,
    (clock, end): (&SystemClock, Duration),
    (seed, warehouses): (u32, u32),
) -> Result<Count, String> {
    let mut dice = Dice::new(u64::from(seed) ^ clock.wall_us());
    let mut count = Count::default();
    while clock.now() < end {
        let transaction = Transaction::draw(&mut dice, warehouses);
        let began = clock.now();
        let turn = || -> MutexGuard<'_, Session> {
            session.lock().unwrap_or_else(PoisonError::into_inner)
        };
        turn().run(&transaction.sql)?;
        if transaction.is_order {
            count.tries += 1;
            count.orders += u32::from(transaction.is_committed);
            count.took += clock.now().saturating_sub(began);
        }
    }
    Ok(count)
}

/// The only process that uses the database.
#[derive(Debug)]
struct Session {
    process: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn start(database: &dyn Database) -> Result<Self, Failure> {
        let mut command = database.client();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, answers) = pipes.ok_or("a client without pipes")?;
        Ok(Self { process, input, answers: BufReader::new(answers).lines() })
    }

    /// Runs a transaction and returns when it has ended.
    fn run(&mut self, sql: &str) -> Result<(), String> {
        let sent = writeln!(self.input, "{sql}SELECT '{DONE}';");
        sent.map_err(|error| format!("the database took no statement: {error}"))?;
        loop {
            match self.answers.next() {
                Some(Ok(line)) if line == DONE => return Ok(()),
                Some(Ok(_)) => {}
                _ => return Err(format!("the database ended within: {sql}")),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Every transaction has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
