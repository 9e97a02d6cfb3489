//! Keeps the memory of the ring in another process, so that a crash of the server loses nothing.
//!
//! The server gives its memory to the keeper before it accepts a write. After SIGKILL or a panic
//! the next server gets it back, and makes a dump of it before anything else.

mod process;
mod saved;

use super::serve::sandbox::Standing;
use super::service::{lock, spawn};
use crate::args::{DiskServe, Sandbox, WaitingDump};
use crate::state::place::{self, KEEPER, Place};
use crate::state::settings::Settings;
use seawall_disk::keeper::Keeper;
use seawall_disk::{Files, Kept, Options, kept_size};
use seawall_host::sandbox::Confined;
use seawall_io::{Clock, Memory, SystemClock};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text::{bytes, to_u64};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) use process::run;
pub(super) use saved::Saved;

/// The maximum size of a server's memory: 4 GiB of buffers, and its other parts.
const MEMORY_MAX: u64 = 5 << 30;
/// How often to check whether the keeper has ended, and the pause before another attempt.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The keeper of this directory and the memory that it holds, if there is any.
fn held(dir: &Path) -> io::Result<Option<(Keeper, OwnedFd)>> {
    let mut keeper = match Keeper::connect(&dir.join(KEEPER)) {
        Ok(keeper) => keeper,
        Err(error) if is_none(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(keeper.get()?.map(|memory| (keeper, memory)))
}

/// Whether this error means that no keeper runs. At a path too long for a socket none can run.
fn is_none(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | InvalidInput)
}

/// Whether it is certain that no keeper holds data of a server in this directory.
pub(super) fn is_surely_empty(dir: &Path) -> bool {
    let look = || -> io::Result<bool> {
        let Some((_, descriptor)) = held(dir)? else { return Ok(true) };
        let kept = Kept::read(Memory::attach(descriptor, MEMORY_MAX)?);
        Ok(kept.is_ok_and(|kept| kept.is_empty()))
    };
    look().unwrap_or_default()
}

/// Makes a dump of the memory of a server that did not end cleanly. If the dump area is broken,
/// `home` writes intact memory to the image: it has all that a dump in the area can have.
pub(super) fn save(
    (args, place): (&DiskServe, &Place),
    files: Result<&Files, &io::Error>,
    settings: Option<&Settings>,
    home: impl Fn(&Kept) -> Result<(), Failure>,
) -> Result<Saved, Failure> {
    let cannot = |error: io::Error| place::failed(&place.path().join(KEEPER), &error);
    let Some((mut keeper, descriptor)) = held(place.path()).map_err(cannot)? else {
        return Ok(Saved::Nothing);
    };
    let attach = || Memory::attach(&descriptor, MEMORY_MAX).map_err(cannot);
    let mut kept = Kept::read(attach()?);
    let last = settings.and_then(|settings| settings.state.map(|state| (state, settings.serve)));
    let is_last = |kept: &Kept| last == Some((kept.identity.state, kept.identity.serve));
    if let Ok(kept) = &mut kept
        && is_last(kept)
        && !settings.is_some_and(|settings| settings.is_armed)
    {
        // Without early flushes, no flushed data was in the memory.
        kept.lost = 0;
    }
    let is_discarded = args.dump == Some(WaitingDump::Discard);
    let mut saved = Saved::Dumped { lost_runs: 0 };
    match &kept {
        Ok(kept) if is_last(kept) => {
            match files.map(|files| files.dump_kept(kept)) {
                Ok(Ok(_)) => saved = Saved::Dumped { lost_runs: kept.lost },
                // The area can have a dump of what the memory has lost.
                Err(_) if kept.lost > 0 => return Ok(Saved::Nothing),
                Ok(Err(error)) if kept.lost > 0 => return Err(cannot(error)),
                _ => {
                    if is_discarded {
                        place.keep_memory(attach()?.bytes()).map_err(cannot)?;
                    } else {
                        home(kept)?;
                    }
                    saved = Saved::Home;
                }
            }
            tell(args, kept);
        }
        // No start can use the memory before the area is restored.
        _ if files.is_err() => return Ok(Saved::Nothing),
        Ok(kept) if kept.is_empty() => {}
        _ if is_discarded => {
            place.keep_memory(attach()?.bytes()).map_err(cannot)?;
        }
        Ok(_) => return Err(refuse(place, "belongs to an earlier start of the server")),
        Err(error) => return Err(refuse(place, &format!("cannot be used: {error}"))),
    }
    keeper.drop_memory().map(|()| saved).map_err(cannot)
}

fn tell(args: &DiskServe, kept: &Kept) {
    if kept.lost > 0 {
        let what = "a part of the memory of the last server has changed, and is LOST";
        let failure = Failure::new(Exit::Contract, what).at(args.image.display());
        failure.next("check the content of the disk").tell();
    }
    if !args.look.quiet && !kept.is_empty() {
        let dirty = bytes(to_u64(kept.dirty()));
        say(&format!("seawall: the last server was killed: its keeper has {dirty} of it"));
    }
}

fn refuse(place: &Place, why: &str) -> Failure {
    let what = format!("a keeper holds memory that {why}");
    let next = "check the content of the image, then add --dump discard; a copy of the memory \
                stays in the directory";
    Failure::new(Exit::Conflict, what).at(place.path().display()).next(next)
}

/// Memory for the ring, and its descriptor if a keeper is wanted.
pub(super) fn make(args: &DiskServe, options: &Options) -> io::Result<(Memory, Option<OwnedFd>)> {
    let size = kept_size(options.buffers, options.buffer_size);
    if args.no_keeper {
        return Ok((Memory::private(size), None));
    }
    let (memory, descriptor) = Memory::shared("seawall-ring", size)?;
    Ok((memory, Some(descriptor)))
}

/// The memory of this server, and its keeper.
#[derive(Debug)]
pub(super) struct Keeping {
    dir: PathBuf,
    descriptor: OwnedFd,
    /// The user and sandbox of the keeper, if it reports them; or why no keeper has the memory.
    pub(super) state: Arc<Mutex<Result<Option<Standing>, String>>>,
    server: Standing,
    sandbox: Sandbox,
    is_released: AtomicBool,
}

impl Keeping {
    /// Hands the memory, which already has its layout, to a keeper. Starts a keeper if none runs.
    pub(super) fn start(
        args: &DiskServe,
        (place, server): (&Place, &Standing),
        descriptor: OwnedFd,
    ) -> io::Result<Arc<Self>> {
        let keeping = Arc::new(Self {
            dir: place.path().to_owned(),
            descriptor,
            state: Arc::new(Mutex::new(Err("not started".to_owned()))),
            server: server.clone(),
            sandbox: args.confined.sandbox,
            is_released: AtomicBool::new(false),
        });
        let (its, mut first) = (keeping.clone(), Some(keeping.hand_over()));
        let found = first.as_ref().map(|first| first.as_ref().map(Holder::standing));
        if let (Some(Err(why)), false) = (&found, args.look.quiet) {
            say(&format!("seawall: no keeper: a crash of this process loses its memory: {why}"));
        }
        if let Some(found) = found {
            keeping.note(found);
        }
        spawn("keeper", move || {
            loop {
                let kept = first.take().unwrap_or_else(|| its.hand_over());
                its.note(kept.as_ref().map(Holder::standing));
                if let Ok(mut kept) = kept {
                    while !kept.keeper.has_ended(LOOK_EVERY) {}
                    its.note(Err(&io::Error::other("the keeper has ended")));
                    kept.reap();
                    if its.is_released.load(Ordering::SeqCst) {
                        return;
                    }
                    say("seawall: the keeper of the memory has ended; another one is started");
                } else {
                    SystemClock::new().sleep(LOOK_EVERY);
                }
            }
        })?;
        Ok(keeping)
    }

    /// Tells the keeper that everything is on the device.
    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        // Without a keeper there is nothing to tell. A keeper that does not listen holds runs that
        // are on the image, and the next start finds that the image was served.
        let _ = Keeper::connect(&self.dir.join(KEEPER)).and_then(Keeper::quit);
    }

    fn note(&self, found: Result<Option<Standing>, &io::Error>) {
        *lock(&self.state) = found.map_err(ToString::to_string);
    }

    fn hand_over(&self) -> io::Result<Holder> {
        let path = self.dir.join(KEEPER);
        let (mut keeper, child) = match Keeper::connect(&path) {
            Err(error) if is_none(&error) => {
                let child = launch(&self.dir, self.sandbox)?;
                (Keeper::connect(&path)?, Some(child))
            }
            other => (other?, None),
        };
        keeper.put(self.descriptor.as_fd())?;
        // A keeper of an earlier version closes this connection.
        let standing = Keeper::connect(&path).and_then(|mut asked| {
            let confined = Confined::decode(asked.confined()?);
            Ok(self.server.other(asked.process()?, confined))
        });
        Ok(Holder { keeper, child, standing: standing.ok() })
    }
}

/// A keeper, and its process if this server has started it.
struct Holder {
    keeper: Keeper,
    child: Option<Child>,
    standing: Option<Standing>,
}

impl Holder {
    fn standing(&self) -> Option<Standing> {
        self.standing.clone()
    }

    fn reap(&mut self) {
        if let Some(child) = &mut self.child {
            // The keeper has closed its socket, so it is ending.
            let _ = child.wait();
        }
    }
}

/// Starts a keeper that outlives this process, and waits until it listens.
fn launch(dir: &Path, sandbox: Sandbox) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("seawall").args(["disk", "keep", "--once", "."]).current_dir(dir);
    if sandbox == Sandbox::Off {
        command.args(["--sandbox", "off"]);
    }
    for name in super::notify::VARIABLES {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Signals from a terminal to the server's group must not reach the keeper.
    let mut child = command.process_group(0).spawn()?;
    let mut ready = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut ready)?;
    }
    if ready.is_empty() {
        let status = child.wait()?;
        return Err(io::Error::other(format!("a keeper did not start: {status}")));
    }
    Ok(child)
}
