//! The seawall command line with the stores of this workspace: `seawall replay LOG --into
//! fjall:DIR`.

#![forbid(unsafe_code)]

use mimalloc::MiMalloc;
use seawall_cli::main_with;
use seawall_with_stores::STORES;
use std::process::ExitCode;

/// Replayed rows are allocated on one thread and freed on another. The system allocator spends a
/// fifth of a replay's processor time on that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    main_with(STORES)
}
