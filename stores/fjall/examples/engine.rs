//! The example engine of seawall-replay over a fjall database, which keeps its content between
//! runs.

#![forbid(unsafe_code)]

#[allow(dead_code, unreachable_pub, reason = "a program with more items than this one uses")]
#[path = "../../../crates/seawall-replay/examples/engine.rs"]
pub mod engine;

use engine::{Any, demonstrate};
use seawall_fjall::FjallStore;
use std::io::Write;
use std::path::Path;

/// Runs the engine's demonstration with the log and the store in this folder.
///
/// # Errors
///
/// Errors of the log, the store or the output.
pub fn run(folder: &Path, out: &mut impl Write) -> Result<(), Any> {
    std::fs::create_dir_all(folder)?;
    let open_store = || Ok(FjallStore::open(folder.join("store"))?);
    demonstrate(&folder.join("log"), open_store, out)
}

fn main() -> Result<(), Any> {
    let name = format!("seawall-fjall-engine-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let mut out = std::io::stdout().lock();
    run(&folder, &mut out)?;
    Ok(writeln!(out, "log and store stay in {}", folder.display())?)
}
