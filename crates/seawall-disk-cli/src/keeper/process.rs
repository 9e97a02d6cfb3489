//! `seawall disk keep`: the process that holds the memory of a server, and does nothing else.

use super::super::control::listen;
use super::super::notify::Notifier;
use super::super::serve::sandbox;
use crate::args::DiskKeep;
use crate::state::place::{KEEPER, Place};
use seawall_disk::keeper::keep;
use seawall_io::Storage;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use std::io;

/// Holds memory until the process is killed; with `--once`, until the server has drained.
pub(crate) fn run(args: &DiskKeep) -> Result<Exit, Failure> {
    sandbox::assume_user(&args.confined, &args.dir)?;
    let (storage, _lock) = Place::open_for_keeper(&args.dir)?;
    let path = args.dir.join(KEEPER);
    let cannot = |error: io::Error| {
        let next = "check the directory and its permissions; its path must be short";
        Failure::new(Exit::Failed, format!("cannot listen: {error}")).at(path.display()).next(next)
    };
    let listener = listen(&path).map_err(cannot)?;
    let number = || seawall_host::file_number(&path);
    let own = number().map_err(cannot)?;
    let notifier = Notifier::from_environment();
    let confined = sandbox::of_keeper(&args.confined, &args.dir)?.encode();
    let mut out = Output::lock();
    out.line(&format!("ready keeper {}", path.display()));
    out.finish();
    notifier.ready("it can be given memory");
    loop {
        // Without its socket file, no server can reach this keeper. Only `NotFound` proves that the
        // file is gone.
        let is_reachable = || match number() {
            Ok(number) => number == own,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let Some(client) = keep(&listener, confined, is_reachable).map_err(cannot)? else { break };
        if args.once {
            storage.remove(KEEPER).map_err(cannot)?;
            break;
        }
        drop(client);
    }
    Ok(Exit::Fine)
}
