//! A guest in QEMU: its kernel, its first process, and its console output.

use super::super::hear;
use super::super::process::Process;
use super::super::work::Promised;
use crate::process::{Failure, find, output, run, wait_for};
use seawall_io::{PosixStorage, Storage};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");
const MODULES: [&str; 6] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];
/// How long the guest may take to write first, and to write again after the server was killed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The files that a guest is booted from.
#[derive(Debug)]
pub(super) struct Machine {
    kernel: PathBuf,
    initial: PathBuf,
}

impl Machine {
    /// Builds the initial RAM disk, which has all files of the guest, in this folder.
    pub(super) fn make(package: &Path, dir: &Path) -> Result<Self, Failure> {
        let root = dir.join("root");
        for folder in ["", "bin", "dev", "proc", "modules"] {
            fs::create_dir_all(root.join(folder))?;
        }
        for name in MODULES {
            let wanted = format!("{name}.ko");
            let module = run(&["find", &package.display().to_string(), "-name", &wanted])?;
            let module = module.lines().next().ok_or_else(|| format!("no {wanted}"))?.to_owned();
            fs::copy(module, root.join("modules").join(wanted))?;
        }
        fs::copy(BUSYBOX, root.join("bin/busybox"))?;
        let own = std::env::current_exe()?;
        fs::copy(&own, root.join("rig"))?;
        for library in libraries(&own)? {
            let target = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(target.parent().unwrap_or(&root))?;
            fs::copy(library, target)?;
        }
        PosixStorage::open(&root)?.create("init")?.write_at(INIT.as_bytes(), 0)?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        let archive = format!("find . | {BUSYBOX} cpio -o -H newc >../initial");
        output(Command::new("sh").args(["-ec", &archive]).current_dir(&root))?;
        fs::remove_dir_all(&root)?;
        let kernel = kernel(package).ok_or("the package has no kernel")?;
        Ok(Self { kernel, initial: dir.join("initial") })
    }

    /// Boots a guest with the disk at this socket. Its clients write versions above `above`.
    pub(super) fn boot(
        &self,
        socket: &Path,
        (clients, above, seed): (u16, u64, u64),
    ) -> Result<Guest, Failure> {
        let mut qemu = Command::new(QEMU);
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        qemu.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "384M"]);
        qemu.args(["-object", "memory-backend-memfd,id=m,size=384M,share=on"]);
        qemu.args(["-machine", "q35,memory-backend=m", "-serial", "stdio"]);
        qemu.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initial);
        let told = format!("rig_clients={clients} rig_above={above} rig_seed={seed}");
        qemu.args(["-append", &format!("console=ttyS0 quiet loglevel=0 panic=-1 {told}")]);
        let socket = format!("socket,id=log,path={},reconnect=1", socket.display());
        qemu.args(["-chardev", &socket]);
        qemu.args(["-device", "vhost-user-blk-pci,chardev=log,num-queues=2"]);
        let process = Process::of(qemu).map_err(|error| format!("cannot start {QEMU}: {error}"))?;
        Ok(Guest { process, said: String::new() })
    }
}

/// The shared libraries of a program, and its loader.
fn libraries(program: &Path) -> Result<Vec<String>, Failure> {
    let said = run(&["ldd", &program.display().to_string()])?;
    let paths =
        said.lines().filter_map(|line| line.split_whitespace().find(|w| w.starts_with('/')));
    Ok(paths.map(str::to_owned).collect())
}

/// Finds the kernel in an unpacked package.
fn kernel(package: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(package.join("boot")).ok()?;
    let is_kernel = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b"vmlinuz")
    };
    entries.flatten().find(is_kernel).map(|entry| entry.path())
}

/// Checks that everything needed to boot a guest is installed.
///
/// # Errors
///
/// Names everything that is missing, and how to get it.
pub(crate) fn look_for_machine(package: &Path) -> Result<(), String> {
    let mut missing = Vec::new();
    if find(QEMU).is_none() {
        missing.push(format!("{QEMU}: apt-get install qemu-system-x86"));
    }
    if !Path::new(BUSYBOX).is_file() {
        missing.push(format!("{BUSYBOX}: apt-get install busybox-static"));
    }
    if kernel(package).is_none() {
        let next = "apt-get download linux-image-6.1.0-56-cloud-amd64, and dpkg-deb -x it there";
        missing.push(format!("a kernel in {}: {next}", package.display()));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("not there: {}", missing.join("; "))) }
}

/// A running guest; killed when dropped.
#[derive(Debug)]
pub(super) struct Guest {
    process: Process,
    /// Console output, without the acknowledgements.
    said: String,
}

impl Guest {
    /// Adds newly acknowledged blocks to `promised`, and returns their number.
    pub(super) fn listen(&mut self, promised: &mut Promised) -> Result<usize, Failure> {
        let (told, others): (Vec<String>, Vec<String>) =
            self.process.lines.try_iter().partition(|line| line.starts_with("[["));
        for line in others {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        if self.said.contains("RIG failed") || self.said.contains("RIG ended") {
            return Err(self.failure("the guest fails"));
        }
        let mut new = Promised::new();
        hear(told.into_iter(), &mut new);
        let count = new.len();
        promised.extend(new);
        Ok(count)
    }

    /// Waits until the guest acknowledges more blocks.
    pub(super) fn wait_for_more(&mut self, promised: &mut Promised) -> Result<(), Failure> {
        let found = wait_for(PATIENCE, || match self.listen(promised) {
            Ok(0) if self.process.is_running() => None,
            Ok(0) => Some(Err(self.failure("QEMU has ended"))),
            Ok(_) => Some(Ok(())),
            Err(failure) => Some(Err(failure)),
        });
        found.unwrap_or_else(|| Err(self.failure("the guest does not go on")))
    }

    fn failure(&mut self, what: &str) -> Failure {
        let ending = self.process.ending();
        self.process.failure(&format!("{what}; of QEMU, {ending}:\n{}", self.said))
    }

    /// Kills QEMU with SIGKILL, and adds the blocks acknowledged until then to `promised`.
    pub(super) fn kill(mut self, promised: &mut Promised) -> Result<(), Failure> {
        self.process.kill()?;
        // Reads until the console is closed.
        hear(self.process.lines.iter(), promised);
        Ok(())
    }
}
