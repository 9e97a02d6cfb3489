//! A client that inserts 1, 2, 3, ... and notes the acknowledged numbers outside the database.
//! Before each number it can run another transaction.

use super::Database;
use crate::process::{Failure, kill_all};
use seawall_io::{File, PosixStorage, Storage};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// A running client; it works until its server is gone.
#[derive(Debug)]
pub(crate) struct Client {
    process: Child,
    acknowledged: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// A generator: each call returns the statements of another transaction.
pub(crate) type Draw = Box<dyn FnMut() -> String + Send>;

impl Client {
    /// Starts a client that inserts into `table` and notes acknowledged keys in a file in `folder`.
    /// Before each insert, it runs a transaction from `beside`.
    pub(crate) fn start(
        database: &dyn Database,
        (table, folder): (&str, &Path),
        beside: Option<Draw>,
    ) -> Result<Self, Failure> {
        let notes = PosixStorage::open(folder)?.create(&format!("{table}.acknowledged"))?;
        let mut command = database.client();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let (mut input, answers) =
            process.stdin.take().zip(process.stdout.take()).ok_or("a client without pipes")?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (its, table) = (acknowledged.clone(), table.to_owned());
        let count = move || {
            let mut draw = beside.unwrap_or_else(|| Box::new(String::new));
            let mut answers = BufReader::new(answers).lines().map_while(Result::ok);
            for key in 1.. {
                let (before, inserted) = (draw(), format!("inserted {key}"));
                // The client runs the SELECT only after the INSERT was acknowledged.
                let insert = format!("INSERT INTO {table} VALUES ({key}); SELECT '{inserted}';");
                let asked = writeln!(input, "{before}{insert}");
                let answer = asked.ok().and_then(|()| answers.find(|line| *line == inserted));
                if answer.is_none() || note(&*notes, key).is_none() {
                    return;
                }
                its.store(key, Ordering::SeqCst);
            }
        };
        let thread = Some(thread::Builder::new().name("client".to_owned()).spawn(count)?);
        Ok(Self { process, acknowledged, thread })
    }

    /// Returns the last key acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Ends a client whose server is gone, and returns the last acknowledged key.
    pub(crate) fn end(mut self) -> u64 {
        self.hang_up();
        self.acknowledged()
    }

    fn hang_up(&mut self) {
        // The client answers each line before it reads the next.
        kill_all(self.process.id());
        let _ = self.process.wait();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// Appends a key to the notes: eight digits and a newline.
fn note(notes: &dyn File, key: u64) -> Option<()> {
    notes.write_at(format!("{key:08}\n").as_bytes(), (key - 1).checked_mul(9)?).ok()
}
