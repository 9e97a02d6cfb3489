//! Removes everything that a run made, even if it was killed; only its folder must be known.

use crate::disk::BARE;
use crate::process::{Failure, command_line, kill_all, processes, run, wait_for};
use crate::verbs::guest::uml::KERNEL;
use rustix::mount::{UnmountFlags, unmount};
use seawall_io::{Lock, PosixStorage, Storage};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kills a run's processes in this folder, and removes its mounts, its loop devices and the folder.
///
/// # Errors
///
/// Names what could not be removed, and why.
pub(crate) fn clean(dir: &Path) -> Result<(), Failure> {
    if dir.symlink_metadata().is_err() {
        return Ok(());
    }
    let is_ours = dir.join(MARK).is_file();
    if !is_ours && fs::read_dir(dir)?.next().is_some() {
        return Err(format!("{} is not a folder of the rig: not removed", dir.display()).into());
    }
    if is_ours && PosixStorage::open(dir)?.is_locked(MARK)? {
        return Err(format!("a rig is running in {}: end it first", dir.display()).into());
    }
    let own = std::process::id();
    for number in processes().into_iter().filter(|number| *number != own && runs(*number, dir)) {
        kill_all(number);
    }
    // The file systems first, then the files that they are mounted from.
    let mut mounts = mounts(dir)?;
    mounts.reverse();
    for path in mounts.iter().filter(|path| !path.ends_with(FILE)) {
        let _ = unmount(path, UnmountFlags::DETACH);
    }
    for device in loops(dir) {
        let _ = run(&["losetup", "--detach", &device]);
    }
    for path in mounts.iter().filter(|path| path.ends_with(FILE)) {
        let _ = unmount(path, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
    // A loop device disappears when its last user has closed it.
    let gone = || (loops(dir).is_empty() && self::mounts(dir).ok()?.is_empty()).then_some(());
    wait_for(Duration::from_secs(10), gone)
        .ok_or_else(|| format!("mounts or loop devices below {} stay", dir.display()))?;
    fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()).into())
}

/// The file that marks a folder of the rig; it is locked while the rig runs.
const MARK: &str = "seawall-rig";
/// Maximum length of the folder's path: a socket's path below it can have only about 100 bytes.
const NAME_MAX: usize = 60;
/// The name of the file that the disk appears as.
pub(crate) const FILE: &str = "disk.img";

/// Creates the folder of a run, after removing what an earlier run left there.
///
/// # Errors
///
/// The folder cannot be created, or it has other contents.
pub(crate) fn begin(dir: &Path) -> Result<Kept, Failure> {
    let name = dir.to_str().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    // The path is searched for in tables of mounts and processes, and sockets are created below it.
    if !(1..=NAME_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
        let why = "a folder with a plain name of 60 bytes at most is needed";
        return Err(format!("{}: {why}: say --dir", dir.display()).into());
    }
    clean(dir)?;
    fs::create_dir_all(dir)?;
    let lock = PosixStorage::open(dir)?.lock(MARK)?;
    let lock = lock.ok_or_else(|| format!("a rig works in {}", dir.display()))?;
    Ok(Kept { dir: dir.to_owned(), lock: Some(lock) })
}

/// The folder of a run; cleaned when dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    dir: PathBuf,
    /// Held until the run ends.
    lock: Option<Box<dyn Lock>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.lock = None;
        if let Err(failure) = clean(&self.dir) {
            crate::rig::say(&format!("seawall-rig: {failure}; try: seawall-rig clean"));
        }
    }
}

/// Whether a process of the rig has a path below this folder on its command line, or works there.
fn runs(number: u32, dir: &Path) -> bool {
    let name = dir.as_os_str().as_encoded_bytes();
    let inside = [name, b"/"].concat();
    // Empty if the process has ended meanwhile.
    let line = command_line(number);
    let is_told = line.windows(inside.len()).any(|part| part == inside);
    let place = fs::read_link(format!("/proc/{number}/cwd")).unwrap_or_default();
    let is_known = KNOWN.iter().any(|program| {
        fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.trim() == *program)
    });
    is_known && (is_told || place.starts_with(dir))
}

/// Programs that a rig starts. Others, such as an editor, are never killed.
const KNOWN: &[&str] = &[
    "seawall",
    BARE,
    "postgres",
    "psql",
    "pgbench",
    "initdb",
    "mariadbd",
    "mariadb",
    "pg_regress",
    "perl",
    "my_safe_process",
    "mariadb-test",
    "sqlite3",
    "qemu-system-x86",
    KERNEL,
];

/// Mounts below a folder, oldest first.
fn mounts(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let paths = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    Ok(paths.filter(|path| path.starts_with(dir)).collect())
}

/// Loop devices whose files are below a folder.
fn loops(dir: &Path) -> Vec<String> {
    let said = run(&["losetup", "--list", "--noheadings", "--raw", "-O", "NAME,BACK-FILE"]);
    let said = said.unwrap_or_default();
    let rows = said.lines().filter_map(|line| line.split_once(' '));
    rows.filter(|(_, file)| Path::new(file).starts_with(dir))
        .map(|(name, _)| name.to_owned())
        .collect()
}
