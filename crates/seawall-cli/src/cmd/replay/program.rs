//! Batches into a program, by lines of JSON on its standard input and output.
//!
//! The program keeps two numbers together with its state, says them when it starts, and answers
//! each batch when it has that durably, numbers included. Killed where it may be, it says on its
//! next start how far it is, and nothing comes twice. This process cannot end it when it is killed
//! itself, so the program sees to it that there is one of it at a time.

use super::Job;
use super::answer::{Answer, Done, Fed};
use super::lines::line;
use crate::output::one_line;
use crate::report::{Exit, Failure};
use seawall::Lsn;
use seawall_measure::machine::Stopwatch;
use seawall_replay::{BatchSize, Transaction, Watermark};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// More than any answer has.
const ANSWER_MAX: u64 = 4096;
/// So much of a wrong one is shown.
const SHOWN_MAX: usize = 60;

/// Starts the program, and gives it what it does not have.
pub(super) fn run(job: &mut Job<'_>, command: &str) -> Result<Answer, Failure> {
    let mut program = Program::start(command)?;
    let mark = program.standing()?;
    let replay = job.replay();
    let walk = replay.transactions(&job.source, mark).map_err(|error| job.failure(&error))?;
    let plan = walk.plan().clone();
    let mut answer = Answer::of_plan(&plan);
    if job.args.dry_run {
        program.end(mark.and_then(|mark| mark.applied))?;
        return Ok(answer);
    }
    let watch = Stopwatch::start();
    let mut feed = Feed {
        program,
        size: BatchSize::new(job.bounds()),
        batch: Batch::default(),
        applied: mark.and_then(|mark| mark.applied),
        fed: Fed {
            writes: 0,
            batches: 0,
            lanes: 1,
            needed_from: mark.map_or(plan.from, |mark| mark.restart),
        },
    };
    let total = plan.last.map(|last| last.get().saturating_sub(plan.from.get()) + 1);
    for transaction in walk {
        let transaction = transaction.map_err(|error| super::failure::of(&error, job.args))?;
        feed.take(&transaction)?;
        let read = (transaction.lsn.get() + 1).saturating_sub(plan.from.get());
        job.progress.tell(read, total);
    }
    feed.send()?;
    let Feed { program, applied, fed, .. } = feed;
    program.end(applied)?;
    answer.changes = fed.writes;
    answer.done = Some(Done { fed: Some(fed), time: watch.elapsed(), applied_lsn: applied });
    Ok(answer)
}

/// Whole transactions that are sent at once.
#[derive(Default)]
struct Batch {
    /// The commits of the first and the last one, and where reading goes on behind that.
    range: Option<(Lsn, Lsn, Lsn)>,
    /// The transactions, with commas between them.
    text: String,
    changes: usize,
}

/// Makes batches and sends them.
struct Feed {
    program: Program,
    size: BatchSize,
    batch: Batch,
    /// What the program has.
    applied: Option<Lsn>,
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
        let first = range.map_or(transaction.lsn, |(first, ..)| first);
        *range = Some((first, transaction.lsn, transaction.restart));
        if self.size.is_full(*changes, text.len()) { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Failure> {
        let Batch { range, text, changes } = std::mem::take(&mut self.batch);
        let Some((first, last, restart)) = range else { return Ok(()) };
        self.fed.batches += 1;
        let batch = self.fed.batches;
        let head = format!(r#"{{"batch":{batch},"applied":{last},"restart":{restart}"#);
        let watch = Stopwatch::start();
        self.program.apply(&format!("{head},\"transactions\":[{text}]}}\n"), (first, last))?;
        self.size.took(changes, watch.elapsed());
        self.fed.writes += u64::try_from(changes).unwrap_or(u64::MAX);
        (self.applied, self.fed.needed_from) = (Some(last), restart);
        Ok(())
    }
}

/// The program under way.
struct Program {
    command: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(command: &str) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().map_err(|error| {
            let failure = Failure::new(Exit::Failed, format!("cannot start a shell: {error}"));
            failure.at(format!("cmd:{command}")).next("see that there is a `sh` on the path")
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("a pipe was asked for"));
        Ok(Self { command: command.to_owned(), child, input, output })
    }

    /// How far it says it is; nothing if it is new.
    fn standing(&mut self) -> Result<Option<Watermark>, Failure> {
        let expected = r#"{"applied":null,"restart":null}, or with two numbers"#;
        let first = self.hear().map_err(|why| self.failure(&why, "before any transaction"))?;
        read_standing(&first).map_err(|why| {
            let shown = short(&first);
            let what = format!("began with {shown}, which does not say how far it is: {why}");
            let failure = self.failure(&what, "before any transaction");
            failure.next(format!("let it begin with {expected}: seawall replay --help"))
        })
    }

    /// Sends a batch, and waits until the program has it.
    fn apply(&mut self, batch: &str, (first, last): (Lsn, Lsn)) -> Result<(), Failure> {
        let range = format!("transactions committed at LSN {first} .. {last}");
        // Who does not read may have said why, or ends: the answer tells.
        let sent = match &mut self.input {
            Some(input) => input.write_all(batch.as_bytes()).and_then(|()| input.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let heard = match sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
            Err(_) => Err(self.ended()),
            Ok(()) => self.hear(),
        };
        let answer = heard.map_err(|why| self.failure(&why, &range))?;
        let expected = json!({ "applied": last.get() });
        if serde_json::from_str::<Value>(&answer).ok().as_ref() == Some(&expected) {
            return Ok(());
        }
        let what = format!("answered {}, and {expected} was due", short(&answer));
        Err(self.failure(&what, &range))
    }

    /// Nothing more comes: it ends, well.
    fn end(mut self, applied: Option<Lsn>) -> Result<(), Failure> {
        self.input = None;
        let has = match applied {
            Some(applied) => format!("behind LSN {applied}, which it has"),
            None => "before any transaction".to_owned(),
        };
        let mut rest = vec![];
        let heard = (&mut self.output).take(ANSWER_MAX).read_to_end(&mut rest);
        heard.map_err(|error| self.failure(&error.to_string(), &has))?;
        if !rest.trim_ascii().is_empty() {
            let what = format!("said more than it was asked: {}", short(&lossy(&rest)));
            return Err(self.failure(&what, &has));
        }
        let status = self.child.wait().map_err(|error| self.failure(&error.to_string(), &has))?;
        if status.success() {
            return Ok(());
        }
        Err(self.failure(&format!("ended with {status}"), &has))
    }

    /// Its next line.
    fn hear(&mut self) -> Result<String, String> {
        let mut bytes = vec![];
        let read = (&mut self.output).take(ANSWER_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|error| format!("cannot be heard: {error}"))?;
        match bytes.pop() {
            Some(b'\n') => Ok(lossy(&bytes)),
            None => Err(self.ended()),
            Some(last) => {
                bytes.push(last);
                Err(format!("said {} without an end of line", short(&lossy(&bytes))))
            }
        }
    }

    /// It closed its end; how it ended.
    fn ended(&mut self) -> String {
        self.input = None;
        match self.child.wait() {
            Ok(status) => format!("ended without an answer, with {status}"),
            Err(error) => format!("ended without an answer: {error}"),
        }
    }

    fn failure(&self, what: &str, about: &str) -> Failure {
        let what = format!("the program {what}");
        let failure = Failure::new(Exit::Failed, what);
        let failure = failure.at(format!("{about}, cmd:{}", self.command));
        failure.next("mend it, then replay again: it is given what it does not say it has")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be killed at any time; one that has ended is not there any more.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_standing(text: &str) -> Result<Option<Watermark>, String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "it is no JSON".to_owned())?;
    let number = |name: &str| match value.get(name) {
        None => Err(format!("`{name}` is missing")),
        Some(Value::Null) => Ok(None),
        Some(number) => {
            let lsn = number.as_u64().and_then(Lsn::new);
            lsn.map(Some).ok_or_else(|| format!("`{name}` is no record's number"))
        }
    };
    match (number("applied")?, number("restart")?) {
        (None, None) => Ok(None),
        (Some(applied), Some(restart)) if restart <= applied.next() => {
            Ok(Some(mark_of(applied, restart)))
        }
        (Some(_), Some(_)) => Err("`restart` is behind `applied`".to_owned()),
        _ => Err("both are numbers, or both are null".to_owned()),
    }
}

fn mark_of(applied: Lsn, restart: Lsn) -> Watermark {
    Watermark { applied: Some(applied), restart, lanes: 1 }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The beginning of what it said.
fn short(text: &str) -> String {
    let shown = one_line(text.trim());
    let cut: String = shown.chars().take(SHOWN_MAX).collect();
    if cut.len() < shown.len() { format!("`{cut}...`") } else { format!("`{cut}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_how_far_it_is_or_is_refused() {
        let new = r#"{"applied":null,"restart":null}"#;
        assert_eq!(read_standing(new), Ok(None));
        let lsn = |number| Lsn::new(number).unwrap();
        let mark = mark_of(lsn(9), lsn(4));
        assert_eq!(read_standing(r#"{"applied":9,"restart":4}"#), Ok(Some(mark)));
        assert_eq!(
            read_standing(r#"{"restart":10,"applied":9}"#).unwrap().unwrap().restart,
            lsn(10)
        );
        for wrong in [
            "",
            "{}",
            "9",
            r#"{"applied":9}"#,
            r#"{"applied":9,"restart":null}"#,
            r#"{"applied":null,"restart":1}"#,
            r#"{"applied":0,"restart":1}"#,
            r#"{"applied":9,"restart":11}"#,
            r#"{"applied":"9","restart":1}"#,
            r#"{"applied":9.5,"restart":1}"#,
        ] {
            read_standing(wrong).expect_err(wrong);
        }
    }
}
