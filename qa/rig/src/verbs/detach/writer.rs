//! A running `seawall append`: sends it lines, and counts those it acknowledges.

use crate::process::{Failure, kill_all, wait_for};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a writer may take to make a record durable.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Writer {
    child: Child,
    /// The last record that the writer reported as durable.
    acknowledged: Arc<AtomicU64>,
    reader: JoinHandle<()>,
    /// Returns the input once everything was written to it; `None` if the process stopped reading.
    sender: Option<JoinHandle<Option<ChildStdin>>>,
}

impl Writer {
    /// Starts the command and sends it these lines.
    pub(crate) fn start(command: &mut Command, lines: Vec<String>) -> Result<Self, Failure> {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = pipes.spawn()?;
        let (input, answers) =
            child.stdin.take().zip(child.stdout.take()).ok_or("a writer without pipes")?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let its = acknowledged.clone();
        let count = move || {
            let lines = BufReader::new(answers).lines().map_while(Result::ok);
            for lsn in lines.filter_map(|line| line.trim().parse().ok()) {
                its.store(lsn, Ordering::SeqCst);
            }
        };
        let reader = thread::Builder::new().name("answers".to_owned()).spawn(count)?;
        let sender = Some(thread::spawn(move || write(input, &lines)));
        Ok(Self { child, acknowledged, reader, sender })
    }

    /// Sends more lines, after those sent before.
    pub(crate) fn send(&mut self, lines: Vec<String>) {
        let before = self.sender.take();
        let more = move || write(before?.join().ok()??, &lines);
        self.sender = Some(thread::spawn(more));
    }

    /// Waits until record `lsn` is acknowledged.
    pub(crate) fn wait_for(&self, lsn: u64) -> Result<(), Failure> {
        let is_there = || (self.acknowledged.load(Ordering::SeqCst) >= lsn).then_some(());
        wait_for(PATIENCE, is_there).ok_or_else(|| format!("record {lsn} gets not durable").into())
    }

    /// Closes the input and waits until the writer has ended successfully.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        drop(self.sender.take().map(JoinHandle::join));
        let status = self.child.wait()?;
        let _ = self.reader.join();
        if status.success() { Ok(()) } else { Err(format!("append: {status}").into()) }
    }

    /// Kills the writer and returns the last acknowledged record.
    pub(crate) fn kill(mut self) -> u64 {
        kill_all(self.child.id());
        let _ = self.child.wait();
        // The thread ends once the pipe is read to its end.
        let _ = self.reader.join();
        drop(self.sender.take().map(JoinHandle::join));
        self.acknowledged.load(Ordering::SeqCst)
    }
}

fn write(input: ChildStdin, lines: &[String]) -> Option<ChildStdin> {
    let mut buffered = BufWriter::new(input);
    for line in lines {
        writeln!(buffered, "{line}").ok()?;
    }
    buffered.into_inner().ok()
}
