//! Without shared memory there is no keeper: a crash of the server loses what was in its memory.

mod saved;

use super::serve::sandbox::Standing;
use crate::args::{DiskKeep, DiskServe};
use crate::state::place::Place;
use crate::state::settings::Settings;
use seawall_disk::{Files, Kept, Options, kept_size};
use seawall_io::Memory;
use seawall_output::report::{Exit, Failure};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(super) use saved::Saved;

pub(super) fn is_surely_empty(_: &Path) -> bool {
    true
}

pub(super) fn save(
    _: (&DiskServe, &Place),
    _: Result<&Files, &io::Error>,
    _: Option<&Settings>,
    _: impl Fn(&Kept) -> Result<(), Failure>,
) -> Result<Saved, Failure> {
    Ok(Saved::Nothing)
}

pub(super) fn run(args: &DiskKeep) -> Result<Exit, Failure> {
    let failure = Failure::new(Exit::Usage, "memory can be kept on Linux only");
    Err(failure.at(args.dir.display()).next("serve the disk without a keeper"))
}

pub(super) fn make(_: &DiskServe, options: &Options) -> io::Result<(Memory, Option<OwnedFd>)> {
    Ok((Memory::private(kept_size(options.buffers, options.buffer_size)), None))
}

#[derive(Debug)]
pub(super) struct Keeping {
    pub(super) state: Arc<Mutex<Result<Option<Standing>, String>>>,
}

impl Keeping {
    pub(super) fn start(
        _: &DiskServe,
        _: (&Place, &Standing),
        _: OwnedFd,
    ) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn release(&self) {}
}
