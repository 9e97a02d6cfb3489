//! Confines the processes of a disk, and describes them for `status`.
//!
//! A process is confined before it has a second thread and before it serves a client. A program
//! that it starts later is confined, too, so the server is not confined with `--run` or
//! `--power command:`.

use crate::args::{DiskConfined, DiskServe, Export, Monitor, Power, Sandbox};
use crate::state::image::Device;
use crate::state::place::Place;
use seawall_host::folder_and_name;
use seawall_host::sandbox::{Confined, Guard, Needs, User, effective_user, user_name};
use seawall_output::report::{Exit, Failure};
use serde::Serialize;
use std::io;
use std::path::Path;

/// The OOM score adjustment with which the kernel never kills the process.
const OOM_SCORE: i32 = -1000;

/// The user and sandbox of a process, as `status` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    pub(crate) pid: u32,
    #[serde(skip)]
    user_number: u32,
    pub(crate) user: String,
    pub(crate) landlock: String,
    pub(crate) seccomp: String,
}

impl Standing {
    /// Describes this process before it is confined, while the table of users can be read for the
    /// user's name.
    fn own() -> Self {
        let user_number = effective_user();
        let (pid, user) = (std::process::id(), user_name(user_number));
        Self { pid, user_number, user, landlock: String::new(), seccomp: String::new() }
    }

    fn with(self, confined: Confined, why_not: Option<&str>) -> Self {
        let landlock = shown("ABI ", confined.landlock, why_not);
        let seccomp = shown("on", confined.seccomp, why_not);
        Self { landlock, seccomp, ..self }
    }

    /// Describes another process by the ids and the sandbox that it reports.
    pub(crate) fn other(&self, (pid, user_number): (u32, u32), confined: Confined) -> Self {
        let is_same = user_number == self.user_number;
        let user = if is_same { self.user.clone() } else { user_number.to_string() };
        Self { pid, user_number, user, ..self.clone() }.with(confined, None)
    }
}

fn shown(what: &str, guard: Guard, why_not: Option<&str>) -> String {
    match (guard, why_not) {
        (Guard::On(version), _) if what.ends_with(' ') => format!("{what}{version}"),
        (Guard::On(_), _) => what.to_owned(),
        (Guard::Absent, _) => "not available".to_owned(),
        (Guard::Off, None) => "off".to_owned(),
        (Guard::Off, Some(why)) => format!("off: {why}"),
    }
}

/// Acquires what only root can, and becomes the user of `--user`.
pub(crate) fn assume_user(confined: &DiskConfined, at: &Path) -> Result<(), Failure> {
    // The kernel may refuse this. It then kills the process earlier when memory is short.
    let _ = seawall_host::set_oom_score(None, OOM_SCORE);
    let Some(text) = &confined.user else { return Ok(()) };
    // Locking the memory later reports a limit that could not be lifted.
    let _ = seawall_host::lift_memory_limit();
    let assumed = User::find(text).and_then(|user| user.assume());
    assumed.map_err(|error| {
        let exit = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => Exit::Usage,
            _ => Exit::Failed,
        };
        let next = "start it as root, or as that user; give --user NAME, NAME:GROUP, or numbers";
        let what = format!("cannot become user {text}: {error}");
        Failure::new(exit, what).at(at.display()).next(next)
    })
}

/// Refuses `--user` with an export that needs root until the end.
pub(crate) fn check(args: &DiskServe) -> Result<(), Failure> {
    if args.confined.user.is_none() || !is_mounted(args) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Usage, "only root can mount and unmount");
    Err(failure.at(&args.export).next("omit --user, or give --export nbd:unix:PATH"))
}

fn is_mounted(args: &DiskServe) -> bool {
    matches!(args.export, Export::Fuse(_) | Export::FuseFolder(_))
}

/// Confines the server, unless it starts programs. `ports` are the TCP ports of the power source's
/// monitor.
pub(crate) fn of_server(
    args: &DiskServe,
    (place, device): (&Place, &Device),
    ports: &[u16],
) -> Result<Standing, Failure> {
    let own = Standing::own();
    if let Some(why) = why_not(args) {
        return Ok(own.with(Confined::OFF, Some(why)));
    }
    let mut needs = Needs::default().folder(place.path());
    if device.image.is_some() {
        needs = needs.file(&args.image);
    }
    if let Export::NbdUnix(path) = &args.export
        && let Some((folder, _)) = folder_and_name(path)
    {
        needs = needs.removal(folder);
    }
    if let Export::VhostUser(path) = &args.export
        && let Some((folder, _)) = folder_and_name(path)
    {
        // The server creates its socket there later.
        needs = needs.folder(folder);
    }
    if !args.no_keeper {
        needs = needs.itself();
    }
    if is_mounted(args) {
        needs = needs.mounts();
    }
    needs = ports.iter().fold(needs, |needs, port| needs.tcp(*port));
    let confined = needs.confine().map_err(|error| cannot(&args.image, &error))?;
    Ok(own.with(confined, is_mounted(args).then_some("it would forbid to unmount")))
}

fn why_not(args: &DiskServe) -> Option<&'static str> {
    match (&args.power, &args.run) {
        _ if args.confined.sandbox == Sandbox::Off => Some("--sandbox off"),
        (_, Some(_)) => Some("--run"),
        (Power::Watched(Monitor::Command(_)), _) => Some("--power command"),
        _ => None,
    }
}

/// Confines a keeper, which needs no file access except to remove its socket.
pub(crate) fn of_keeper(confined: &DiskConfined, dir: &Path) -> Result<Confined, Failure> {
    if confined.sandbox == Sandbox::Off {
        return Ok(Confined::OFF);
    }
    Needs::default().removal(dir).confine().map_err(|error| cannot(dir, &error))
}

fn cannot(at: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot confine this process: {error}"));
    failure.at(at.display()).next("start it with --sandbox off, and report this")
}
