//! `seawall disk` as a process: over NBD, by its control socket, by signals, and killed.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test reports failure by panicking"
)]

mod client;
#[cfg(target_os = "linux")]
mod confined;
mod ends;
mod holdup;
mod images;
#[cfg(target_os = "linux")]
mod kept;
mod owed;
mod power;
mod remote;
mod server;
mod stale;
mod status;
mod watched;
use crate::tool;

use client::Client;
use serde_json::{Value, json};
use server::{PATIENCE, Server, error_of};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;
use tool::Folder;

/// A folder with a disk of 64 KiB.
fn made(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("vd", &vec![0; 65536]);
    folder
}

const UNKNOWN: &str = "vd --export nbd:unix:s";
/// With a hold-up time that any device can meet.
const ARMED: &str = "vd --export nbd:unix:s --power ok --hold-up 60000";

/// Runs a server with these arguments and the command `true`, so that it ends at once.
fn serve_once(folder: &Folder, arguments: &str) -> tool::Ran {
    folder.run(&format!("disk serve {arguments} --export nbd:unix:s --run true"), b"")
}
