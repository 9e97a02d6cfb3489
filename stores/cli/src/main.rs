//! The seawall command line with the stores of this workspace: `seawall replay LOG --into
//! fjall:DIR`.

#![forbid(unsafe_code)]

use mimalloc::MiMalloc;
use seawall_cli::{StoreKind, main_with};
use seawall_fjall::FjallStore;
use seawall_replay::{Store, StoreError};
use std::path::Path;
use std::process::ExitCode;

/// Replayed rows are allocated on one thread and freed on another. The system allocator spends a
/// fifth of a replay's processor time on that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The store `fjall:DIR`.
#[derive(Debug)]
struct Fjall;

impl StoreKind for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn open(&self, place: &Path) -> Result<Box<dyn Store>, StoreError> {
        let store = FjallStore::open(place).map_err(StoreError::failed)?;
        Ok(Box::new(store))
    }
}

fn main() -> ExitCode {
    main_with(&[&Fjall])
}
