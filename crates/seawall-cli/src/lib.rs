//! The seawall command line: append, read, check and measure write-ahead logs.
//!
//! The crate is a library only so that a program can offer this command line with additional stores
//! to replay into:
//!
//! ```no_run
//! use seawall_cli::{OpenError, StoreKind, main_with};
//! use seawall_replay::{MemoryStore, Store};
//! use std::path::Path;
//!
//! struct Forgetful;
//!
//! impl StoreKind for Forgetful {
//!     fn name(&self) -> &'static str {
//!         "forgetful"
//!     }
//!
//!     fn open(&self, _place: &Path) -> Result<Box<dyn Store>, OpenError> {
//!         Ok(Box::new(MemoryStore::new()))
//!     }
//!
//!     fn exists(&self, _place: &Path) -> Result<bool, OpenError> {
//!         Ok(false)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     main_with(&[&Forgetful]) // seawall replay LOG --into forgetful:anywhere
//! }
//! ```
//!
//! Layers, lowest first: `output`; `select` and `stores`; `args`; `commands`, with one file per
//! verb. `seawall_output` prints, and has the table of exit codes; `seawall_disk_cli` has the verbs
//! of `seawall disk`; `commands::answers` lists the schemas of `--json`.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod output;
mod select;
mod stores;

use signal_hook::consts::SIGXFSZ;
use std::process::ExitCode;
use std::sync::Arc;
pub use stores::{OpenError, StoreKind};

/// Runs the program: parses the command line, runs the verb, and returns its exit code.
///
/// `stores` are the kinds of store for `seawall replay --into NAME:PLACE`; `seawall` itself has
/// none.
pub fn main_with(stores: &'static [&'static dyn StoreKind]) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        seawall_output::report::say(&format!(
            "seawall: this is a bug in seawall: {panic}\n  \
             where: version {}\n  \
             next: please report it with these lines and the command",
            env!("CARGO_PKG_VERSION")
        ));
    }));
    // Otherwise writing beyond `ulimit -f` ends the process without a word. Programs that this one
    // starts do not inherit a handler; an ignored signal would stay ignored in them.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let exit = match args::parse() {
        Ok((verb, notes)) => {
            let exit = seawall_output::report::exit(commands::run(&verb, stores));
            notes.end(exit);
            exit
        }
        Err(exit) => exit,
    };
    if let seawall_output::report::Exit::Signalled(signal) = exit {
        // Shells and supervisors see that the signal ended the process: 128 + signal.
        let _ = signal_hook::low_level::emulate_default_handler(signal.into());
    }
    ExitCode::from(exit.code())
}
