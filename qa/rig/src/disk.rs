//! A mounted Seawall disk, either a directory or a file with ext4 on it: device, server, loop
//! device and mount. For comparison also ext4 on the bare device.

use crate::args::{Buffers, Transport};
use crate::need::Ground;
use crate::process::{Failure, kill_all, processor_time, run, signal, start, wait_for};
use crate::verbs::clean::FILE;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Size of the disk: room for the log, and for old log files that a checkpoint keeps.
const SIZE: &str = "1GiB";
/// How long a server may take to be ready; it may have to fill the image with zeros.
const READY: Duration = Duration::from_secs(120);
/// How often arming is tried. Each attempt measures the device, and with other load on the machine
/// one flush may take too long for the hold-up time.
const ARM_MAX: u32 = 10;
/// Program that shows an NBD device as a file, from the Debian package of the same name.
pub(crate) const BARE: &str = "nbdfuse";
/// How long a process may take to end; a server drains first.
const ENDED: Duration = Duration::from_secs(30);

/// How a disk is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Time that a flush of the device takes, in milliseconds.
    pub(crate) delay: f64,
    /// Whether the device is a process with a volatile cache even without a delay, so that its
    /// power can be cut.
    pub(crate) is_cut: bool,
    /// The server's option --hold-up: how long the power lasts after a warning, in milliseconds.
    pub(crate) hold_up: u32,
    pub(crate) transport: Transport,
    pub(crate) buffers: Buffers,
}

/// A disk; its processes and mounts end when this is dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    ground: Ground,
    settings: Settings,
    folder: PathBuf,
    device: Option<Child>,
    server: Option<Child>,
    block: Option<String>,
    /// Starts of the device so far; each start has another seed, which decides what survives a cut.
    lives: u32,
}

impl Disk {
    /// Makes a disk for files and mounts it.
    pub(crate) fn make(ground: &Ground, name: &str, settings: Settings) -> Result<Self, Failure> {
        let mut disk = Self::make_file(ground, name, settings)?;
        if settings.transport == Transport::Dir {
            return Ok(disk);
        }
        disk.attach()?;
        // Initialises everything now, so that no background writes disturb a measurement.
        let now = "-Enodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run(&["mkfs.ext4", "-q", now, &disk.block()?])?;
        disk.mount()?;
        Ok(disk)
    }

    /// Makes a disk that is only a file or a directory, without a loop device and a file system.
    pub(crate) fn make_file(
        ground: &Ground,
        name: &str,
        settings: Settings,
    ) -> Result<Self, Failure> {
        let folder = ground.dir.join(name);
        for folder in [folder.clone(), folder.join("mounted")] {
            fs::create_dir(folder)?;
        }
        let ground = ground.clone();
        let (device, server, block) = (None, None, None);
        let mut disk = Self { ground, settings, folder, device, server, block, lives: 0 };
        disk.serve()?;
        Ok(disk)
    }

    /// The file that the disk appears as.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// The mount point of the file system.
    pub(crate) fn mounted(&self) -> PathBuf {
        self.folder.join("mounted")
    }

    /// The folder with the disk's own files, on the machine's file system.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts everything again after a cut.
    pub(crate) fn up(&mut self) -> Result<(), Failure> {
        self.serve()?;
        if self.settings.transport == Transport::Dir {
            return Ok(());
        }
        self.attach()?;
        self.mount()
    }

    fn serve(&mut self) -> Result<(), Failure> {
        let image = self.folder.join("image");
        let mut home = image.display().to_string();
        let mut size = vec!["--size", SIZE];
        let is_bare = self.settings.transport == Transport::Bare;
        if self.settings.is_cut || self.settings.delay > 0.0 || is_bare {
            let socket = self.folder.join("device.sock");
            if self.device.is_none() {
                self.start_device(&image, &socket)?;
            }
            home = format!("nbd+unix:///home?socket={}", socket.display());
            size.clear();
        }
        let export = match self.settings.transport {
            Transport::Dir => format!("fuse-dir:{}", self.mounted().display()),
            Transport::Loop => format!("fuse:{}", self.file().display()),
            Transport::Bare => return self.serve_bare(&home),
        };
        let mut server = Command::new(&self.ground.seawall);
        server.args(["disk", "serve", &home]).args(size).arg("--state").arg(self.state());
        server.arg("--export").arg(export);
        server.args(["--power", "ok", "--hold-up", &self.settings.hold_up.to_string()]);
        let Buffers { count, size } = self.settings.buffers;
        server.args(["--buffers", &count.to_string(), "--buffer-size", &size.to_string()]);
        self.server = Some(self.start(&mut server, "server", is_ready)?);
        Ok(())
    }

    fn start_device(&mut self, image: &Path, socket: &Path) -> Result<(), Failure> {
        let mut device = Command::new(std::env::current_exe()?);
        device.arg("device").arg(image).args(["--size", SIZE, "--unix"]).arg(socket);
        device.arg("--delay").arg(self.settings.delay.to_string());
        self.lives += 1;
        device.arg("--seed").arg(self.lives.to_string());
        self.device = Some(self.start(&mut device, "device", is_ready)?);
        Ok(())
    }

    /// Shows the device as a file, without a Seawall disk in between.
    fn serve_bare(&mut self, device: &str) -> Result<(), Failure> {
        // The mount covers a file, which still exists after the first start.
        fs::OpenOptions::new().write(true).create(true).truncate(false).open(self.file())?;
        let mut server = Command::new(BARE);
        // nbdfuse prints nothing when it is ready, but writes its process id.
        server.args(["--pidfile", "/dev/stdout"]).arg(self.file()).arg(device);
        self.server = Some(self.start(&mut server, "server", |said| !said.is_empty())?);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Failure> {
        let file = self.file().display().to_string();
        let found = run(&["losetup", "--direct-io=on", "--find", "--show", &file])?;
        self.block = Some(found);
        Ok(())
    }

    /// Starts a server and returns once it has reported that it is ready.
    fn start(
        &self,
        command: &mut Command,
        name: &str,
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<Child, Failure> {
        let said = self.folder.join(format!("{name}.out"));
        let log = self.folder.join(format!("{name}.log"));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(&said)?;
        command.stdout(file).current_dir(&self.folder);
        let mut child = start(command, &log)?;
        let state = || {
            if is_ready(&fs::read_to_string(&said).unwrap_or_default()) {
                return Some(true);
            }
            child.try_wait().ok().flatten().map(|_| false)
        };
        if wait_for(READY, state) == Some(true) {
            return Ok(child);
        }
        kill_all(child.id());
        let _ = child.wait();
        Err(format!("{command:?} does not get ready:\n{}", tail(&log)).into())
    }

    fn mount(&self) -> Result<(), Failure> {
        let place = self.mounted().display().to_string();
        run(&["mount", "-t", "ext4", &self.block()?, &place]).map(drop)
    }

    fn block(&self) -> Result<String, Failure> {
        self.block.clone().ok_or_else(|| "the disk has no loop device".into())
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Sends a command to the server's control socket and returns the answer.
    pub(crate) fn ask(&self, what: &str) -> Result<Value, Failure> {
        ask(&self.state(), what, READY)
    }

    /// Arms or disarms the disk: flushes then return early, or wait for the device.
    pub(crate) fn set_armed(&self, is_armed: bool) -> Result<(), Failure> {
        let mut said = String::new();
        for _ in 0..ARM_MAX {
            self.ask(if is_armed { "arm" } else { "disarm" })?;
            let status = self.ask("status")?;
            let text = |name| status.get(name).and_then(Value::as_str).unwrap_or_default();
            if (text("state") == "armed") == is_armed {
                return Ok(());
            }
            said = format!("the disk is {}: {}", text("state"), text("says"));
        }
        Err(format!("{said}, measured {ARM_MAX} times").into())
    }

    /// Flushes so far: those that returned immediately, even if only because nothing was pending,
    /// and those that waited for the device.
    pub(crate) fn flushes(&self) -> Result<[u64; 2], Failure> {
        let status = self.ask("status")?;
        let counted = |name| status.pointer(&format!("/counts/{name}")).and_then(Value::as_u64);
        let at_once = counted("flushes_early").zip(counted("flushes_idle"));
        let found = at_once.map(|(early, idle)| early + idle).zip(counted("flushes_waited"));
        found.map(<[u64; 2]>::from).ok_or_else(|| "a status without counts".into())
    }

    /// The processor time that the server has used.
    pub(crate) fn processor_time(&self) -> Result<Duration, Failure> {
        let server = self.server.as_ref().ok_or("there is no server")?;
        processor_time(server.id()).ok_or_else(|| "the server is gone".into())
    }

    /// Warns the server with SIGPWR that the power fails.
    pub(crate) fn warn(&self) -> Result<(), Failure> {
        signal(self.server.as_ref().ok_or("there is no server")?, Signal::POWER)
    }

    /// Kills the server with SIGKILL; its keeper holds the memory.
    pub(crate) fn kill_server(&mut self) -> Result<(), Failure> {
        let mut server = self.server.take().ok_or("there is no server to kill")?;
        server.kill()?;
        server.wait()?;
        Ok(())
    }

    /// Cuts the power: the device loses everything unflushed, and the server its memory.
    pub(crate) fn cut(&mut self) -> Result<(), Failure> {
        signal(self.device.as_ref().ok_or("there is no device to cut")?, Signal::USR1)?;
        if let Some(mut server) = self.server.take() {
            kill_all(server.id());
            server.wait()?;
        }
        // The device ends by itself once it has drawn which cached writes survive.
        let Some(mut device) = self.device.take() else { return Ok(()) };
        if wait_for(ENDED, || device.try_wait().ok().flatten()).is_none() {
            kill_all(device.id());
            device.wait()?;
            return Err("the device does not lose its power".into());
        }
        Ok(())
    }

    /// Removes the mount and the loop device of a disk that is gone.
    pub(crate) fn forget(&mut self) -> Result<(), Failure> {
        // A running server unmounts its directory itself.
        if self.server.is_none() || self.settings.transport != Transport::Dir {
            let _ = unmount(self.mounted(), UnmountFlags::DETACH);
        }
        if let Some(block) = self.block.take() {
            run(&["losetup", "--detach", &block])?;
            let is_free = || {
                let name = block.trim_start_matches("/dev/");
                let file = format!("/sys/block/{name}/loop/backing_file");
                (!Path::new(&file).exists()).then_some(())
            };
            wait_for(ENDED, is_free).ok_or_else(|| format!("{block} stays in use"))?;
        }
        Ok(())
    }

    /// The last lines of the server's log.
    pub(crate) fn said(&self) -> String {
        tail(&self.folder.join("server.log"))
    }

    fn end(&mut self) -> Result<(), Failure> {
        let place = self.mounted();
        if self.server.is_some() && self.block.is_some() {
            // Nothing is mounted if making the disk failed.
            let _ = unmount(&place, UnmountFlags::empty());
        }
        self.forget()?;
        for mut child in [self.server.take(), self.device.take()].into_iter().flatten() {
            signal(&child, Signal::TERM)?;
            let ended = || child.try_wait().ok().flatten();
            if wait_for(ENDED, ended).is_none() {
                kill_all(child.id());
                child.wait()?;
            }
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Anything left is found by the run's folder and removed together with it.
        let _ = self.end();
    }
}

/// Sends a command to the control socket of the server whose state folder is `state`.
pub(crate) fn ask(state: &Path, what: &str, limit: Duration) -> Result<Value, Failure> {
    let mut stream = UnixStream::connect(state.join("control"))?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(format!("{}\n", json!({ "do": what })).as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let answer: Value = serde_json::from_str(&said)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(format!("the disk's {what}: {error}").into()),
        None => Ok(answer),
    }
}

/// Whether a server has written that it is ready.
fn is_ready(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("ready"))
}

/// The last lines of a file.
pub(crate) fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().rev().take(12).collect();
    lines.reverse();
    lines.join("\n")
}
