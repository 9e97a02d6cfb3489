//! A client that inserts 1, 2, 3, ... and notes the acknowledged numbers outside PostgreSQL's data.

use crate::cluster::Cluster;
use crate::process::{Failure, kill_all};
use seawall_io::{File, PosixStorage, Storage};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// What psql says to an insert that is durable, as PostgreSQL has it.
const ACKNOWLEDGED: &str = "INSERT 0 1";

/// A client at work, until its server is gone.
#[derive(Debug)]
pub(crate) struct Client {
    psql: Child,
    acknowledged: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Begins to count in this table; the acknowledged keys go to a file in that folder.
    pub(crate) fn start(cluster: &Cluster, table: &str, folder: &Path) -> Result<Self, Failure> {
        let notes = PosixStorage::open(folder)?.create(&format!("{table}.acknowledged"))?;
        let mut command = cluster.psql();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = command.spawn()?;
        let (mut input, answers) =
            psql.stdin.take().zip(psql.stdout.take()).ok_or("psql without pipes")?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (its, table) = (acknowledged.clone(), table.to_owned());
        let count = move || {
            let mut answers = BufReader::new(answers).lines();
            for key in 1.. {
                let asked = writeln!(input, "INSERT INTO {table} VALUES ({key});");
                let answer = asked.ok().and_then(|()| answers.next()?.ok());
                if answer.as_deref() != Some(ACKNOWLEDGED) || note(&*notes, key).is_none() {
                    return;
                }
                its.store(key, Ordering::SeqCst);
            }
        };
        let thread = Some(thread::Builder::new().name("client".to_owned()).spawn(count)?);
        Ok(Self { psql, acknowledged, thread })
    }

    /// The last key that was acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until it has noticed that its server is gone; the last key that was acknowledged.
    pub(crate) fn end(mut self) -> u64 {
        self.hang_up();
        self.acknowledged()
    }

    fn hang_up(&mut self) {
        // What psql has read it has said: it reads a line and answers before the next.
        kill_all(self.psql.id());
        let _ = self.psql.wait();
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

/// Writes a key down, in eight digits and a newline.
fn note(notes: &dyn File, key: u64) -> Option<()> {
    notes.write_at(format!("{key:08}\n").as_bytes(), (key - 1).checked_mul(9)?).ok()
}
