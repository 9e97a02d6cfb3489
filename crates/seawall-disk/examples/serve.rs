//! Serves a disk over NBD. A development tool; `seawall disk serve` is for use.
//!
//! ```text
//! cargo run --release -p seawall-disk --example serve -- FOLDER SOCKET [BYTES] [armed]
//! ```
//!
//! FOLDER holds the disk, and is made where it is missing; BYTES are its size then, 64 MiB if it is
//! not said. SOCKET is a path, or a port of 127.0.0.1, or with the feature `fuse` and as root
//! `fuse:FILE`, where the disk is to appear as a file. `armed` claims that the power source is
//! well and holds for a second, so that flushes return early: then a `kill -9` of this program
//! loses what it acknowledged. It says `ready` and where when it listens, and ends when its
//! standard input does.

#![allow(clippy::print_stdout, reason = "it prints when it is ready")]

use seawall_disk::nbd::{Limits, Listen, Server};
use seawall_disk::{Disk, Files, Options};
use seawall_io::{Access, Entropy, PosixStorage, Storage, SystemClock, SystemEntropy};
use std::error::Error;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, socket, rest @ ..] = &arguments[..] else {
        return Err("usage: serve FOLDER SOCKET [BYTES] [armed]".into());
    };
    let mut options = Options::default();
    let mut size = 64 << 20;
    for argument in rest {
        match argument.as_str() {
            "armed" => {
                options.supply.is_healthy = true;
                options.supply.hold_up = Duration::from_secs(1);
            }
            bytes => size = bytes.parse()?,
        }
    }
    let folder = Path::new(folder);
    let storage = PosixStorage::open(folder).or_else(|_| PosixStorage::create(folder))?;
    let _lock = storage.lock("lock")?.ok_or("the disk is in use")?;
    let files = files(&storage, size, &options)?;

    let (disk, recovered) = Disk::open(files, &options, Arc::new(SystemClock::new()))?;
    if let Some(recovered) = recovered {
        println!("an emergency dumped, and is home now: {recovered:?}");
    }
    println!("{:?}", disk.calibrate()?);
    println!("armed: {:?}", disk.status().armed);
    let disk = Arc::new(disk);
    if let Some(file) = socket.strip_prefix("fuse:") {
        return as_a_file(&disk, Path::new(file));
    }
    let listen = socket.parse().map_or_else(|_| Listen::Unix(socket.into()), Listen::Loopback);
    let server = Server::start(disk.clone(), &listen, "log", Limits::default())?;
    println!("ready: {}", server.address());

    io::stdin().read_to_end(&mut Vec::new())?;
    server.stop()?;
    println!("{:?}", disk.status().counts);
    Ok(())
}

/// Shows the disk as a file until standard input ends.
#[cfg(all(feature = "fuse", target_os = "linux"))]
fn as_a_file(disk: &Arc<Disk>, file: &Path) -> Result<(), Box<dyn Error>> {
    let server = seawall_disk::fuse::Server::start(disk.clone(), file)?;
    println!("ready: {}", server.path().display());
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", server.stop()?);
    println!("{:?}", disk.status().counts);
    Ok(())
}

#[cfg(not(all(feature = "fuse", target_os = "linux")))]
fn as_a_file(_: &Arc<Disk>, _: &Path) -> Result<(), Box<dyn Error>> {
    Err("build this with --features fuse, on Linux".into())
}

/// The files of a disk, made where they are missing: the one with all its bytes last, so that
/// nothing is taken for a disk that is not one.
fn files(storage: &PosixStorage, size: u64, options: &Options) -> io::Result<Files> {
    let found = storage.open("home", Access::ReadWrite);
    if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let create = |name| {
            // What an attempt before this one left.
            let _ = storage.remove(name);
            storage.create(name)
        };
        let files = Files { home: create("home.new")?, area: create("area")? };
        files.home.fill_with_zeros(size)?;
        files.home.sync()?;
        files.prepare(SystemEntropy.random()?, options)?;
        storage.rename("home.new", "home")?;
        storage.sync_dir()?;
    }
    let open = |name| storage.open(name, Access::ReadWrite);
    Ok(Files { home: open("home")?, area: open("area")? })
}
