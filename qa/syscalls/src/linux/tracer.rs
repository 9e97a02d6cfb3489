//! Traces a workload: lets every system call through except one, which fails.
//!
//! The workload is the program as it is shipped, with the library's own raw calls; it is traced
//! (`ptrace`), not shimmed. A filter that the workload installs for itself (`seccomp`) stops it at
//! each call that is not one of the runtime. A call that is to fail is skipped, and its result is
//! replaced by an error. A call that is to be short gets a smaller count.

use super::calls::{Call, Fault, Place, RUNTIME, numbered};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Which call fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Injection {
    pub(super) call: &'static Call,
    /// 1 is the first call of this name that touches the log.
    pub(super) occurrence: u64,
    pub(super) fault: Fault,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Call {}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The process exited.
    Exit(i32),
    /// A signal ended the process.
    Signal(Signal),
    /// The process did not end in time.
    Hung,
}

/// What happened in a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) end: End,
    /// The calls that touched the log, by name.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// Where the fault happened, if it did.
    pub(super) struck: Option<Struck>,
    /// Numbers of calls that are not in the tables.
    pub(super) unknown: Vec<u64>,
}

/// Where and when a fault happened.
#[derive(Clone, Debug)]
pub(super) struct Struck {
    /// The file, if the call names one.
    pub(super) path: PathBuf,
    /// How much the workload had printed by then, in bytes.
    pub(super) said: u64,
}

/// The process to trace, and its files.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) program: &'a Path,
    /// The program name that the process gets (argument 0).
    pub(super) name: &'a str,
    pub(super) arguments: &'a [String],
    /// The standard input, after the byte that the process waits for.
    pub(super) input: &'a str,
    /// Only the log uses files in this directory.
    pub(super) folder: &'a Path,
    /// The file that receives the output of the workload.
    pub(super) said: &'a Path,
    /// The time limit.
    pub(super) patience: Duration,
}

/// The only file outside the directory that the log reads: the id of the current boot.
pub(super) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Runs the workload, with the fault `injection` if there is one.
///
/// # Errors
///
/// Tracing is not permitted ([`io::ErrorKind::PermissionDenied`]), or the process does not start.
pub(super) fn run(subject: &Subject<'_>, injection: Option<Injection>) -> io::Result<Run> {
    let mut child = Command::new(subject.program)
        .arg0(subject.name)
        .args(subject.arguments)
        .stdin(Stdio::piped())
        .stdout(create(subject.said)?)
        .stderr(create(&subject.said.with_extension("err"))?)
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let traced = Trace::begin(subject, pid, injection).and_then(|mut trace| {
        release(&mut child, subject.input)?;
        let watchdog = watch(pid, subject.patience);
        let end = trace.follow();
        let hung = watchdog.send(()).is_err();
        trace.run.end = if hung { End::Hung } else { end? };
        Ok(trace.run)
    });
    if traced.is_err() {
        // The process waits for a byte that will not be sent.
        let _ = child.kill();
        let _ = child.wait();
    }
    traced
}

#[expect(clippy::disallowed_methods, reason = "the workload's output is not part of a log")]
fn create(path: &Path) -> io::Result<fs::File> {
    fs::File::create(path)
}

/// Installs a filter that stops this process at each call except those of the runtime. Most calls
/// are of the runtime, and a stop takes longer than such a call.
pub(super) fn stop_at_calls() -> io::Result<()> {
    let (stop, go_on) = (SeccompAction::Trace(0), SeccompAction::Allow);
    let passed = RUNTIME.iter().map(|number| (*number, vec![]));
    let filter = SeccompFilter::new(passed.collect(), stop, go_on, TargetArch::x86_64);
    let filter: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
    apply_filter(&filter.map_err(io::Error::other)?).map_err(io::Error::other)
}

/// Sends the byte that the workload waits for, so that tracing starts while it has one thread; then
/// sends the input.
fn release(child: &mut Child, input: &str) -> io::Result<()> {
    let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(b"g")?;
    let input = input.to_owned();
    // The process may read slowly, or stop reading.
    std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    Ok(())
}

/// Kills the process unless its end is reported before the time limit.
fn watch(pid: Pid, patience: Duration) -> Sender<()> {
    let (ended, wait) = channel::<()>();
    std::thread::spawn(move || {
        if wait.recv_timeout(patience).is_err() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    ended
}

struct Trace<'a> {
    subject: &'a Subject<'a>,
    main: Pid,
    injection: Option<Injection>,
    /// What to do at the end of a call; at most one is pending.
    pending: Option<Pending>,
    run: Run,
}

/// What to do when a call of a thread ends.
struct Pending {
    thread: Pid,
    fault: Fault,
    /// The index of an argument that was changed, and its original value.
    restore: Option<(usize, u64)>,
}

impl<'a> Trace<'a> {
    fn begin(
        subject: &'a Subject<'a>,
        main: Pid,
        injection: Option<Injection>,
    ) -> io::Result<Self> {
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACESECCOMP
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(main, options)?;
        ptrace::interrupt(main)?;
        let run = Run { end: End::Hung, counts: BTreeMap::new(), struck: None, unknown: vec![] };
        Ok(Self { subject, main, injection, pending: None, run })
    }

    /// Continues until the process has ended.
    fn follow(&mut self) -> io::Result<End> {
        loop {
            // Wait only for what this thread started: other threads trace other processes.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.main => {
                    return Ok(End::Exit(code));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.main => {
                    return Ok(End::Signal(signal));
                }
                Ok(WaitStatus::PtraceEvent(pid, _, AT_A_CALL)) => {
                    gone_is_fine(self.at_entry(pid))?;
                    gone_is_fine(self.go_on(pid, None))?;
                }
                Ok(WaitStatus::PtraceSyscall(pid)) => {
                    gone_is_fine(self.at_exit(pid))?;
                    gone_is_fine(self.go_on(pid, None))?;
                }
                Ok(WaitStatus::Stopped(pid, signal)) => {
                    gone_is_fine(self.go_on(pid, Some(signal)))?;
                }
                Ok(WaitStatus::PtraceEvent(pid, ..)) => gone_is_fine(self.go_on(pid, None))?,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Continues the thread to the next call, or to the end of this one if something is pending
    /// there.
    fn go_on(&self, pid: Pid, signal: Option<Signal>) -> io::Result<()> {
        let is_awaited = self.pending.as_ref().is_some_and(|pending| pending.thread == pid);
        let go = if is_awaited { ptrace::syscall } else { ptrace::cont };
        Ok(go(pid, signal)?)
    }

    fn at_entry(&mut self, pid: Pid) -> io::Result<()> {
        let mut registers = ptrace::getregs(pid)?;
        let r = &registers;
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        let call = match numbered(r.orig_rax) {
            Ok(Some(call)) if call.is_ours(&arguments) => call,
            Ok(_) => return Ok(()),
            Err(number) => {
                self.run.unknown.push(number);
                return Ok(());
            }
        };
        let Some(path) = self.touched(pid, call, &arguments) else { return Ok(()) };
        let count = self.run.counts.entry(call.name).or_default();
        *count += 1;
        let Some(injection) = self.injection.filter(|i| (i.call, i.occurrence) == (call, *count))
        else {
            return Ok(());
        };
        let mut restore = None;
        match injection.fault {
            Fault::Short => {
                let Some((which, asked)) =
                    call.counts_in().and_then(|which| Some((which, *arguments.get(which)?)))
                else {
                    return Ok(());
                };
                if asked < 2 {
                    return Ok(());
                }
                let register = if which == 1 { &mut registers.rsi } else { &mut registers.rdx };
                *register = asked / 2;
                restore = Some((which, asked));
            }
            Fault::LateEio | Fault::KillAfter => {}
            Fault::Eio | Fault::Enospc | Fault::Eintr | Fault::Eagain | Fault::KillBefore => {
                registers.orig_rax = NO_CALL;
            }
        }
        self.pending = Some(Pending { thread: pid, fault: injection.fault, restore });
        ptrace::setregs(pid, registers)?;
        let said = fs::metadata(self.subject.said)?.len();
        self.run.struck = Some(Struck { path, said });
        if injection.fault == Fault::KillBefore {
            kill(self.main, Signal::SIGKILL)?;
        }
        Ok(())
    }

    fn at_exit(&mut self, pid: Pid) -> io::Result<()> {
        let Some(pending) = self.pending.take_if(|pending| pending.thread == pid) else {
            return Ok(());
        };
        let Pending { fault, restore, .. } = pending;
        if fault == Fault::KillAfter {
            kill(self.main, Signal::SIGKILL)?;
        }
        let mut registers = ptrace::getregs(pid)?;
        if let Some(errno) = fault.errno() {
            registers.rax = 0_u64.wrapping_sub(errno);
        }
        // The caller may rely on unchanged argument registers.
        match restore {
            Some((1, asked)) => registers.rsi = asked,
            Some((_, asked)) => registers.rdx = asked,
            None => {}
        }
        Ok(ptrace::setregs(pid, registers)?)
    }

    /// Returns the file that a call is for, if the log uses it.
    fn touched(&self, pid: Pid, call: &Call, arguments: &[u64; 6]) -> Option<PathBuf> {
        let path = match call.place {
            Place::Machine => return Some(PathBuf::new()),
            Place::Descriptor => descriptor(pid, arguments[0])?,
            Place::Path => text(pid, arguments[0])?,
            Place::PathAt => {
                let path = text(pid, arguments[1])?;
                // An absolute path replaces the path of the directory.
                descriptor(pid, arguments[0]).unwrap_or_default().join(path)
            }
        };
        (path.starts_with(self.subject.folder) || path == Path::new(BOOT_ID)).then_some(path)
    }
}

/// `PTRACE_EVENT_SECCOMP`: the filter stopped a call before it began.
const AT_A_CALL: i32 = 7;

/// A number that no call has: the kernel refuses it, whatever the arguments.
const NO_CALL: u64 = u64::MAX;

/// Ignores that a thread no longer exists because it was killed: the next wait reports its end.
fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.raw_os_error().map(Errno::from_raw) == Some(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

fn descriptor(pid: Pid, number: u64) -> Option<PathBuf> {
    let number = i32::try_from(number & u64::from(u32::MAX)).ok()?;
    fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()
}

/// Reads a path from the memory of the process.
#[expect(clippy::disallowed_methods, reason = "this is another process's memory, not a file")]
fn text(pid: Pid, address: u64) -> Option<PathBuf> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = [0; 4096];
    let read = memory.read_at(&mut bytes, address).ok()?;
    let path = bytes.get(..read)?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}
