//! The server of a guest's disk, on a file or on a simulated device.

use super::super::process::{PATIENCE, Process, start, start_device, words};
use super::super::work::SIZE;
use crate::disk::ask;
use crate::process::{Failure, wait_for};
use crate::verbs::device::HOME;
use seawall_disk::nbd::{Client, Uri};
use seawall_host::Notice;
use seawall_io::{Access, Clock, File, PosixStorage, Storage, SystemClock};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take to be armed, as it measures the device, and a guest to reconnect.
const ARMED: Duration = Duration::from_secs(120);
/// How long to wait for bytes in the server's memory.
const BYTES: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How a server is started.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The program `seawall` that serves the disk.
    pub(super) program: PathBuf,
    pub(super) delay: Duration,
    pub(super) hold_up: Duration,
    /// Whether the image is on a simulated device, which is slow and whose power can be cut.
    pub(super) is_simulated: bool,
    /// Whether the server is armed.
    pub(super) is_armed: bool,
    /// Whether a keeper holds the server's memory; in a power cut it would lose that memory, too.
    pub(super) is_kept: bool,
}

/// A server, and its device if that is simulated.
#[derive(Debug)]
pub(super) struct Served {
    setup: Setup,
    folder: PathBuf,
    server: Process,
    device: Option<Process>,
}

impl Served {
    /// Starts the device and the server in a new folder.
    pub(super) fn start(setup: Setup, folder: PathBuf, seed: u64) -> Result<Self, Failure> {
        std::fs::create_dir(&folder)?;
        let device = setup.device(&folder, seed)?;
        let server = setup.serve(&folder)?;
        Ok(Self { setup, folder, server, device })
    }

    /// Starts again what was killed; a device that is started again gets this seed.
    pub(super) fn start_again(&mut self, seed: u64) -> Result<(), Failure> {
        if self.device.is_none() {
            self.device = self.setup.device(&self.folder, seed)?;
        }
        self.server = self.setup.serve(&self.folder)?;
        Ok(())
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    pub(super) fn ask(&self, what: &str) -> Result<Value, Failure> {
        ask(&self.folder.join("state"), what, PATIENCE)
    }

    /// Waits until the server is armed, since only flushes that return early can lose data. Returns
    /// the number of bytes only in memory.
    pub(super) fn wait_until_armed(&mut self) -> Result<u64, Failure> {
        if !self.setup.is_armed {
            return Ok(0);
        }
        let mut says = String::new();
        let armed = wait_for(ARMED, || {
            let status = match self.ask("status") {
                Ok(status) => status,
                Err(failure) => {
                    says = failure.to_string();
                    return None;
                }
            };
            if status.get("state") == Some(&json!("armed")) {
                return status.get("dirty").and_then(Value::as_u64);
            }
            says = status.get("says").map(ToString::to_string).unwrap_or_default();
            // A device that was slow for a while disarmed the server: measure it again.
            let _ = self.ask("arm");
            None
        });
        armed.ok_or_else(|| {
            let ending = self.server.ending();
            let what = format!("the server is not armed: {says}; increase --hold-up; {ending}");
            self.server.failure(&what)
        })
    }

    /// Waits until the guest has written through this server. QEMU tries to connect every second;
    /// before version 9.1 it gives up for good if the server dies right after it connected.
    pub(super) fn wait_until_used(&mut self) -> Result<(), Failure> {
        let has_written = || {
            let writes = self.ask("status").ok()?.pointer("/counts/writes")?.as_u64()?;
            (writes > 0).then_some(())
        };
        if wait_for(ARMED, has_written).is_some() {
            return Ok(());
        }
        let ending = self.server.ending();
        Err(self.server.failure(&format!("the guest does not come back to the server; {ending}")))
    }

    /// Waits up to a second for bytes that are only in memory, and returns their number.
    pub(super) fn wait_for_bytes(&self) -> Result<u64, Failure> {
        let mut failure = None;
        let found = wait_for(BYTES, || match self.ask("status") {
            Ok(status) => status.get("dirty").and_then(Value::as_u64).filter(|dirty| *dirty > 0),
            Err(why) => {
                failure = Some(why);
                Some(0)
            }
        });
        failure.map_or(Ok(found.unwrap_or_default()), Err)
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        if !self.server.is_running() {
            return Err(self.server.failure("the server ended by itself"));
        }
        self.server.kill()
    }

    /// Cuts the power. An announced cut starts with SIGPWR and happens when the hold-up time is
    /// over. Returns whether the dump was written in time.
    pub(super) fn cut(&mut self, is_announced: bool) -> Result<bool, Failure> {
        let mut is_dumped = false;
        if is_announced {
            let clock = SystemClock::new();
            self.server.signal(Notice::Power)?;
            while clock.now() < self.setup.hold_up && !is_dumped {
                let status = self.ask("status")?;
                is_dumped = status.pointer("/emergency/ms").is_some_and(Value::is_number);
                clock.sleep(LOOK_EVERY);
            }
            clock.sleep(self.setup.hold_up.saturating_sub(clock.now()));
        }
        self.kill()?;
        if let Some(mut device) = self.device.take() {
            // Each unflushed sector survives or not.
            device.signal(Notice::User)?;
            device.wait()?;
        }
        Ok(is_dumped)
    }

    /// Stops the server once it has written everything to the device.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        self.ask("stop")?;
        self.server.wait()
    }

    /// Opens the image without the server.
    pub(super) fn image(&self) -> Result<Arc<dyn File>, Failure> {
        if self.device.is_some() {
            return Ok(Arc::new(Client::connect(&home(&self.folder))?));
        }
        Ok(PosixStorage::open(&self.folder)?.open("img", Access::Read)?)
    }
}

impl Setup {
    fn device(&self, folder: &Path, seed: u64) -> Result<Option<Process>, Failure> {
        let device = self.is_simulated.then(|| start_device(folder, SIZE, (self.delay, seed)));
        device.transpose()
    }

    fn serve(&self, folder: &Path) -> Result<Process, Failure> {
        let mut arguments = words("disk serve --json --quiet --power");
        arguments
            .extend([if self.is_armed { "ok" } else { "unknown" }, "--hold-up"].map(Into::into));
        arguments.push(self.hold_up.as_millis().to_string().into());
        arguments.push("--export".into());
        arguments.push(format!("vhost-user:{}", folder.join("s").display()).into());
        arguments.extend(["--state".into(), folder.join("state").into_os_string()]);
        arguments.extend((!self.is_kept).then(|| "--no-keeper".into()));
        if self.is_simulated {
            arguments.push(home(folder).to_string().into());
        } else {
            arguments.extend(["--size".into(), SIZE.to_string().into()]);
            arguments.push(folder.join("img").into_os_string());
        }
        start("the server", &self.program, &arguments)
    }
}

/// The address of the simulated device's export.
fn home(folder: &Path) -> Uri {
    Uri::new(HOME, &folder.join("d"))
}
