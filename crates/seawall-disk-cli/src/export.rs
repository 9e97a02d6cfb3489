//! Where clients find a virtual disk: NBD, FUSE or vhost-user.

use crate::args::{DiskServe, Export};
use seawall_disk::Disk;
#[cfg(all(feature = "fuse", target_os = "linux"))]
use seawall_disk::fuse;
use seawall_disk::nbd::{Address, Bound, Limits, Listen, Server};
#[cfg(all(feature = "vhost-user", target_os = "linux"))]
use seawall_disk::vhost_user;
#[cfg(all(feature = "fuse", target_os = "linux"))]
use seawall_output::report::say;
use seawall_output::report::{Exit, Failure};
use std::fmt::{self, Write};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The running server of a disk.
#[derive(Debug)]
pub(super) enum Transport {
    Nbd(Server),
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    Fuse(Box<fuse::Server>),
    #[cfg(all(feature = "vhost-user", target_os = "linux"))]
    VhostUser(vhost_user::Server),
}

/// The address at which clients find the disk.
#[derive(Debug)]
pub(super) struct Place {
    /// As printed after `ready`.
    pub(super) ready: String,
    /// The URI for clients.
    pub(super) uri: String,
}

/// Listens for clients if the disk is exported by NBD. Connections are accepted later.
pub(super) fn bind(args: &DiskServe) -> Result<Option<Bound>, Failure> {
    let listen = match &args.export {
        Export::NbdUnix(path) => Listen::Unix(path.clone()),
        Export::NbdTcp(port) => Listen::Loopback(*port),
        Export::Fuse(_) | Export::FuseFolder(_) | Export::VhostUser(_) => return Ok(None),
    };
    Bound::new(&listen).map(Some).map_err(|error| cannot_listen(args, &error))
}

fn cannot_listen(args: &DiskServe, error: &io::Error) -> Failure {
    let next = "give a free path or port, or stop the program that listens there";
    let failure = Failure::new(Exit::Failed, format!("cannot listen: {error}"));
    failure.at(&args.export).next(next)
}

impl Transport {
    /// Starts serving.
    pub(super) fn start(
        args: &DiskServe,
        bound: Option<Bound>,
        disk: Arc<Disk>,
    ) -> Result<(Self, Place), Failure> {
        let bound = match (&args.export, bound) {
            (Export::Fuse(path) | Export::FuseFolder(path), _) => return mounted(args, path, disk),
            (Export::VhostUser(path), _) => return for_guests(args, path, disk),
            (_, bound) => bound.ok_or(io::ErrorKind::NotConnected.into()),
        };
        let server = bound
            .and_then(|bound| Server::start_at(bound, disk, &args.name, Limits::default()))
            .map_err(|error| cannot_listen(args, &error))?;
        let ready = match server.address() {
            Address::Unix(path) => format!("nbd unix:{}", path.display()),
            Address::Tcp(address) => format!("nbd tcp:{}", address.port()),
        };
        let uri = uri(server.address(), &args.name);
        Ok((Self::Nbd(server), Place { ready, uri }))
    }

    /// The number of connected clients.
    pub(super) fn connections(&self) -> usize {
        match self {
            Self::Nbd(server) => server.connections(),
            #[cfg(all(feature = "fuse", target_os = "linux"))]
            Self::Fuse(server) => server.connections(),
            #[cfg(all(feature = "vhost-user", target_os = "linux"))]
            Self::VhostUser(server) => server.connections(),
        }
    }

    /// Disconnects all clients and drains the disk.
    pub(super) fn stop(self) -> io::Result<()> {
        match self {
            Self::Nbd(server) => server.stop(),
            #[cfg(all(feature = "fuse", target_os = "linux"))]
            Self::Fuse(server) => {
                if server.stop()? == fuse::Parting::HungUp {
                    say("seawall: it was in use: programs that have files open now get errors");
                }
                Ok(())
            }
            #[cfg(all(feature = "vhost-user", target_os = "linux"))]
            Self::VhostUser(server) => server.stop(),
        }
    }
}

#[cfg(all(feature = "vhost-user", target_os = "linux"))]
fn for_guests(
    args: &DiskServe,
    path: &Path,
    disk: Arc<Disk>,
) -> Result<(Transport, Place), Failure> {
    let server = vhost_user::Server::start(disk, path, &args.name);
    let server = server.map_err(|error| cannot_listen(args, &error))?;
    let ready = format!("vhost-user {}", path.display());
    // The virtual machine may be started in another directory.
    let uri = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    Ok((Transport::VhostUser(server), Place { ready, uri }))
}

#[cfg(not(all(feature = "vhost-user", target_os = "linux")))]
fn for_guests(_: &DiskServe, path: &Path, _: Arc<Disk>) -> Result<(Transport, Place), Failure> {
    Err(no_vhost_user(path))
}

#[cfg(all(feature = "fuse", target_os = "linux"))]
fn mounted(args: &DiskServe, path: &Path, disk: Arc<Disk>) -> Result<(Transport, Place), Failure> {
    let (server, kind) = match &args.export {
        Export::FuseFolder(_) => (fuse::Server::start_folder(disk, path), "fuse-dir"),
        _ => (fuse::Server::start(disk, path), "fuse"),
    };
    let server = server.map_err(|error| no_mount(args, &error))?;
    let ready = format!("{kind} {}", path.display());
    let uri = server.path().display().to_string();
    Ok((Transport::Fuse(Box::new(server)), Place { ready, uri }))
}

#[cfg(not(all(feature = "fuse", target_os = "linux")))]
fn mounted(_: &DiskServe, path: &Path, _: Arc<Disk>) -> Result<(Transport, Place), Failure> {
    Err(no_fuse(path))
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NbdUnix(path) => write!(f, "nbd:unix:{}", path.display()),
            Self::NbdTcp(port) => write!(f, "nbd:tcp:{port}"),
            Self::Fuse(file) => write!(f, "fuse:{}", file.display()),
            Self::FuseFolder(folder) => write!(f, "fuse-dir:{}", folder.display()),
            Self::VhostUser(path) => write!(f, "vhost-user:{}", path.display()),
        }
    }
}

#[cfg(all(feature = "fuse", target_os = "linux"))]
fn no_mount(args: &DiskServe, error: &io::Error) -> Failure {
    let next = match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists => {
            "give a path that does not exist, or an empty file or directory as the export needs it"
        }
        io::ErrorKind::InvalidData => "give another image for this export",
        _ => "run this as root where /dev/fuse exists; or give --export nbd:unix:PATH",
    };
    let failure = Failure::new(Exit::Failed, format!("cannot mount the disk: {error}"));
    failure.at(&args.export).next(next)
}

/// Refuses an unsupported export before anything is created.
pub(super) fn check(args: &DiskServe) -> Result<(), Failure> {
    match &args.export {
        #[cfg(all(feature = "fuse", target_os = "linux"))]
        Export::Fuse(_) | Export::FuseFolder(_) => {
            fuse::Server::check().map_err(|error| no_mount(args, &error))
        }
        #[cfg(not(all(feature = "fuse", target_os = "linux")))]
        Export::Fuse(path) | Export::FuseFolder(path) => Err(no_fuse(path)),
        #[cfg(not(all(feature = "vhost-user", target_os = "linux")))]
        Export::VhostUser(path) => Err(no_vhost_user(path)),
        _ => Ok(()),
    }
}

#[cfg(not(all(feature = "fuse", target_os = "linux")))]
fn no_fuse(path: &Path) -> Failure {
    let failure = Failure::new(Exit::Usage, "this program has no FUSE built in");
    failure
        .at(path.display())
        .next("give --export nbd:unix:PATH or nbd:tcp:PORT; or build it with --features fuse")
}

#[cfg(not(all(feature = "vhost-user", target_os = "linux")))]
fn no_vhost_user(path: &Path) -> Failure {
    let failure = Failure::new(Exit::Usage, "this program has no vhost-user built in");
    failure.at(path.display()).next(
        "give --export nbd:unix:PATH, which QEMU reads, too; or build it with cargo build \
         --release -p seawall-cli --features vhost-user, on Linux",
    )
}

/// The URI of the disk.
fn uri(address: &Address, export: &str) -> String {
    let export = escaped(export.as_bytes());
    match address {
        Address::Unix(path) => {
            // A client may run in another directory.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("nbd+unix:///{export}?socket={}", escaped(path.as_os_str().as_bytes()))
        }
        Address::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}

/// Percent-encodes what a URI cannot contain.
fn escaped(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                shown.push(char::from(*byte));
            }
            other => write!(shown, "%{other:02X}").expect("a string takes all"),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_is_percent_encoded() {
        let unix = Address::Unix("/a b/c&d.sock".into());
        assert_eq!(uri(&unix, "my?log"), "nbd+unix:///my%3Flog?socket=/a%20b/c%26d.sock");
        let tcp = Address::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(uri(&tcp, "log"), "nbd://127.0.0.1:10809/log");
    }
}
