//! The standard input and output of a program, each with a thread. A program that writes before it
//! has read everything would otherwise wait for this process, which waits for the program.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// The end of each batch, which is held back until the rest is sent. A program cannot know the
/// batch before it has read this.
pub(super) const END: &str = "}\n";
/// The maximum size of an answer in bytes.
const ANSWER_MAX: usize = 4096;
/// The number of events that may wait. With more, the program waits too.
const EVENTS_MAX: usize = 2;

/// What happens at a program's input and output.
pub(super) enum Event {
    /// A batch was sent, except for its end. A line that comes earlier cannot be its answer.
    Sent,
    /// The input cannot be written.
    Unsent(io::Error),
    /// A line, with its newline unless the line is too long or the output ended.
    Line(Vec<u8>),
    /// The output cannot be read.
    Unread(io::Error),
    /// The output has ended.
    End,
}

/// The input and output of a program.
pub(super) struct Pipes {
    /// The batches to send. The input is closed after the last one.
    batches: Option<SyncSender<String>>,
    events: Receiver<Event>,
}

impl Pipes {
    /// Starts the threads, which end with the pipes.
    pub(super) fn of(child: &mut Child) -> io::Result<Self> {
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let input = input.expect("a pipe was asked for");
        let output = output.expect("a pipe was asked for");
        let (batches, to_send) = sync_channel(1);
        let (to_hear, events) = sync_channel(EVENTS_MAX);
        let heard = to_hear.clone();
        Builder::new().spawn(move || write(input, &to_send, &to_hear))?;
        Builder::new().spawn(move || read(output, &heard))?;
        Ok(Self { batches: Some(batches), events })
    }

    /// Sends a batch and its end, unless the input is closed.
    pub(super) fn send(&self, batch: String) {
        if let Some(batches) = &self.batches {
            // If the writer has ended, it has sent `Event::Unsent`.
            let _ = batches.send(batch);
        }
    }

    /// Waits for the next event.
    pub(super) fn next(&self) -> Event {
        self.events.recv().unwrap_or(Event::End)
    }

    /// Closes the input, once the batches are sent.
    pub(super) fn close(&mut self) {
        self.batches = None;
    }

    /// Closes the input and the output: a program that waits until its output is read ends.
    pub(super) fn abandon(&mut self) {
        self.close();
        self.events = sync_channel(0).1;
    }

    /// Reads the rest of the output, up to the first line that is not blank. A program that prints
    /// more may never end.
    pub(super) fn rest(&self) -> io::Result<Vec<u8>> {
        let mut rest = vec![];
        while rest.len() < ANSWER_MAX {
            match self.next() {
                Event::Line(line) if line.trim_ascii().is_empty() => rest.extend(line),
                Event::Line(line) => return Ok(line),
                Event::Unread(error) => return Err(error),
                Event::End => break,
                Event::Sent | Event::Unsent(_) => {}
            }
        }
        Ok(rest)
    }
}

fn write(mut input: ChildStdin, batches: &Receiver<String>, events: &SyncSender<Event>) {
    for batch in batches {
        let sent = input.write_all(batch.as_bytes()).map(|()| events.send(Event::Sent));
        if let Err(error) = sent.and_then(|_| input.write_all(END.as_bytes())) {
            // Without a receiver, the replay has ended.
            let _ = events.send(Event::Unsent(error));
            return;
        }
    }
}

fn read(output: ChildStdout, events: &SyncSender<Event>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = vec![];
        let limit = u64::try_from(ANSWER_MAX).unwrap_or(u64::MAX);
        let event = match (&mut output).take(limit).read_until(b'\n', &mut line) {
            Ok(0) => Event::End,
            Ok(_) => Event::Line(line),
            Err(error) => Event::Unread(error),
        };
        let is_last = !matches!(event, Event::Line(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}
