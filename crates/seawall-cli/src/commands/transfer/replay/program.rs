//! Sends batches to a program as lines of JSON on its standard input and output.
//!
//! The program stores its place together with its state, sends it when it starts, and confirms each
//! batch once the batch and the place are durable. If it is killed at any point, its next start
//! reports its place, so nothing is applied twice. If this process is killed, it cannot stop the
//! program, so the program must ensure that only one instance runs at a time.

mod pipes;

use super::answer::{Answer, Done, Fed};
use super::job::Job;
use super::lines::line;
use super::place;
use super::tables::Tables;
use pipes::{Event, Pipes};
use seawall::Lsn;
use seawall_io::{Clock, SystemClock};
use seawall_measure::machine::Stopwatch;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::one_line;
use seawall_replay::{BatchSize, Transaction, Watermark};
use serde_json::{Value, json};
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// After this time the user learns what a silent program has to print first.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The time for a program to end after it has closed its output without an answer.
const END_MAX: Duration = Duration::from_secs(2);
/// The interval of checks whether the program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The first line that a program has to print, as text for messages.
const FIRST_LINE: &str = r#"{"place":null}, or with the place that it was sent last"#;
/// The maximum number of characters of a wrong answer to show.
const SHOWN_MAX: usize = 60;

/// Starts the program and sends everything that it has not applied.
pub(super) fn run(job: &mut Job<'_>, command: &str) -> Result<Answer, Failure> {
    let mut program = Program::start(command)?;
    let mark = program.standing()?;
    let replay = job.replay();
    let walk = replay.transactions(&job.source, mark).map_err(|error| job.failure(&error))?;
    let plan = walk.plan().clone();
    let mut answer = Answer::of_plan(&plan);
    if job.args.dry_run {
        program.end(mark.and_then(|mark| mark.applied_lsn()))?;
        return Ok(answer);
    }
    let watch = Stopwatch::start();
    let began = walk.began();
    let mut feed = Feed {
        program,
        size: BatchSize::new(job.bounds()),
        batch: Batch::default(),
        reached: began,
        fed: Fed { writes: 0, batches: 0, partitions: 1, needed_from: plan.from },
    };
    let mut tables = Tables::new(job, began.and_then(|mark| mark.applied_lsn()))?;
    let place = |mark: Option<Watermark>| mark.as_ref().map_or(Value::Null, place::of);
    if place(began) != place(mark) {
        // The operator vouched for the old place, or gave the first one with `--from`: let the
        // program store one that can be checked.
        feed.adopt()?;
    }
    let total = plan.last.map(|last| last.get().saturating_sub(plan.from.get()) + 1);
    for transaction in walk {
        let transaction = transaction.map_err(|error| super::failure::of(&error, job.args))?;
        tables.check(job, &transaction)?;
        feed.take(&transaction)?;
        let read = (transaction.lsn.get() + 1).saturating_sub(plan.from.get());
        job.progress.tell(read, total);
    }
    feed.send()?;
    let Feed { program, reached, mut fed, .. } = feed;
    fed.needed_from = reached.map_or(plan.from, |mark| mark.needed_from());
    let applied = reached.and_then(|mark| mark.applied_lsn());
    program.end(applied)?;
    answer.changes = fed.writes;
    answer.done = Some(Done { fed: Some(fed), time: watch.elapsed(), applied_lsn: applied });
    Ok(answer)
}

/// Whole transactions to send together.
#[derive(Default)]
struct Batch {
    /// The commit of the first transaction, and the watermark after the last one.
    range: Option<(Lsn, Watermark)>,
    /// The transactions, separated by commas.
    text: String,
    changes: usize,
}

/// Builds and sends batches.
struct Feed {
    program: Program,
    size: BatchSize,
    batch: Batch,
    /// The program's watermark.
    reached: Option<Watermark>,
    fed: Fed,
}

impl Feed {
    fn take(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        let Batch { range, text, changes } = &mut self.batch;
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&line(transaction)?);
        *changes += transaction.changes.len();
        let first = range.map_or(transaction.lsn, |(first, _)| first);
        *range = Some((first, transaction.watermark));
        if self.size.is_full(*changes, text.len()) { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Failure> {
        let Batch { range, text, changes } = std::mem::take(&mut self.batch);
        let Some((first, reached)) = range else { return Ok(()) };
        let watch = Stopwatch::start();
        let last = reached.applied_lsn().unwrap_or(first);
        self.give(&text, &reached, &format!("transactions committed at LSN {first} .. {last}"))?;
        self.size.took(changes, watch.elapsed());
        self.fed.writes += u64::try_from(changes).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Sends an empty batch, so that the program stores its place in the current form.
    fn adopt(&mut self) -> Result<(), Failure> {
        match self.reached {
            Some(reached) => self.give("", &reached, "its place, and no transaction"),
            None => Ok(()),
        }
    }

    fn give(&mut self, text: &str, reached: &Watermark, about: &str) -> Result<(), Failure> {
        self.fed.batches += 1;
        let (batch, place) = (self.fed.batches, place::of(reached));
        let start = format!("{{\"batch\":{batch},\"place\":{place},\"transactions\":[{text}]");
        self.program.apply(start, &place, about)?;
        self.reached = Some(*reached);
        Ok(())
    }
}

/// The running program.
struct Program {
    command: String,
    child: Child,
    pipes: Pipes,
}

impl Program {
    fn start(command: &str) -> Result<Self, Failure> {
        let failed = |what: &str, error: io::Error| {
            let failure = Failure::new(Exit::Failed, format!("cannot start {what}: {error}"));
            failure.at(format!("cmd:{command}"))
        };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell
            .spawn()
            .map_err(|error| failed("a shell", error).next("check that `sh` is on the PATH"))?;
        let pipes = Pipes::of(&mut child).map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed("a thread", error).next("replay again when fewer threads run")
        })?;
        Ok(Self { command: command.to_owned(), child, pipes })
    }

    /// Reads the place that the program reports; `None` if it is new.
    fn standing(&mut self) -> Result<Option<Watermark>, Failure> {
        let hint = self.explain_silence();
        let first = self.hear().map_err(|why| self.failure(&why, "before any transaction"))?;
        drop(hint);
        if place::is_old(&first) {
            let what = "stores two numbers, as in an earlier version, instead of its place";
            return Err(self.failure(what, "before any transaction").next(place::CHANGE));
        }
        place::read(&first).map_err(|why| {
            let shown = short(&first);
            let what = format!("began with {shown}, which is not a place: {why}");
            let failure = self.failure(&what, "before any transaction");
            failure.next(format!("let it begin with {FIRST_LINE}: seawall replay --help"))
        })
    }

    /// Tells the user which line the program has to print first, unless the caller drops the
    /// returned sender within `SILENCE_MAX`.
    fn explain_silence(&self) -> Sender<()> {
        let silent = format!("cmd:{}, which has printed nothing", self.command);
        let text = format!("seawall: waiting for {silent}; it has to begin with {FIRST_LINE}");
        let (begun, silence) = channel();
        // Without a thread there is no hint.
        let _ = thread::Builder::new().spawn(move || {
            if silence.recv_timeout(SILENCE_MAX) == Err(RecvTimeoutError::Timeout) {
                say(&text);
            }
        });
        begun
    }

    /// Sends a batch without its [end](pipes::END), which follows, and waits until the program
    /// confirms it.
    fn apply(&mut self, start: String, place: &Value, about: &str) -> Result<(), Failure> {
        let expected = json!({ "place": place });
        let is_right =
            |answer: &str| serde_json::from_str::<Value>(answer).ok().as_ref() == Some(&expected);
        self.pipes.send(start);
        let (heard, when) = match self.pipes.next() {
            Event::Sent => (self.hear(), ""),
            // The program does not wait for the batch, and may wait until its output is read.
            early => (self.heard(early), " before the whole batch was sent"),
        };
        let answer = heard.map_err(|why| self.failure(&why, about))?;
        let what = match is_right(&answer) {
            true if when.is_empty() => return Ok(()),
            true => format!("answered {}{when}", short(&answer)),
            false => format!("answered {}, expected {expected}", short(&answer)),
        };
        let failure = self.failure(&what, about);
        Err(if place::is_old(&answer) { failure.next(place::CHANGE) } else { failure })
    }

    /// Closes the input, and waits for a successful exit.
    fn end(mut self, applied: Option<Lsn>) -> Result<(), Failure> {
        self.pipes.close();
        let has = match applied {
            Some(applied) => format!("after LSN {applied}, which it has applied"),
            None => "before any transaction".to_owned(),
        };
        let rest = self.pipes.rest().map_err(|error| self.failure(&error.to_string(), &has))?;
        if !rest.trim_ascii().is_empty() {
            let what = format!("printed more than the protocol allows: {}", short(&lossy(&rest)));
            return Err(self.failure(&what, &has));
        }
        let status = self.child.wait().map_err(|error| self.failure(&error.to_string(), &has))?;
        if status.success() {
            return Ok(());
        }
        Err(self.failure(&format!("ended with {status}"), &has))
    }

    /// Reads the next line.
    fn hear(&mut self) -> Result<String, String> {
        let event = self.pipes.next();
        self.heard(event)
    }

    fn heard(&mut self, event: Event) -> Result<String, String> {
        match event {
            Event::Line(mut bytes) => {
                if bytes.pop_if(|last| *last == b'\n').is_some() {
                    return Ok(lossy(&bytes));
                }
                Err(format!("printed {} without a newline", short(&lossy(&bytes))))
            }
            Event::Unread(error) => Err(format!("cannot be read: {error}")),
            // A broken pipe means that the program has ended: report its exit status.
            Event::Unsent(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error.to_string())
            }
            Event::Sent | Event::Unsent(_) | Event::End => Err(self.ended()),
        }
    }

    /// Waits a moment until the program has ended without an answer. Returns how it ended as text.
    fn ended(&mut self) -> String {
        self.pipes.abandon();
        match self.wait_for_end() {
            Ok(Some(status)) => format!("ended without an answer, with {status}"),
            Ok(None) => "closed its output without an answer".to_owned(),
            Err(error) => format!("ended without an answer: {error}"),
        }
    }

    /// Returns the exit status, or `None` if the program still runs after `END_MAX`; then it is
    /// killed on drop.
    fn wait_for_end(&mut self) -> io::Result<Option<ExitStatus>> {
        let watch = Stopwatch::start();
        loop {
            let ended = self.child.try_wait()?;
            if ended.is_some() || watch.elapsed() >= END_MAX {
                return Ok(ended);
            }
            SystemClock::new().sleep(LOOK_EVERY);
        }
    }

    fn failure(&self, what: &str, about: &str) -> Failure {
        let what = format!("the program {what}");
        let failure = Failure::new(Exit::Failed, what);
        let failure = failure.at(format!("{about}, cmd:{}", self.command));
        failure.next("fix it, then replay again: it continues after the place that it reports")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may be killed at any time; if it has ended, this does nothing.
        self.pipes.abandon();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Shortens a line for a message.
fn short(text: &str) -> String {
    let shown = one_line(text.trim());
    let cut: String = shown.chars().take(SHOWN_MAX).collect();
    if cut.len() < shown.len() { format!("`{cut}...`") } else { format!("`{cut}`") }
}
