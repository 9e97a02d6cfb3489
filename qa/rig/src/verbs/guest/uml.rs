//! A guest: User-mode Linux with PostgreSQL, controlled through its console.

use crate::disk::tail;
use crate::need::Ground;
use crate::process::{Failure, command_line, kill_all, processes, run};
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The kernel, as Debian names it.
pub(crate) const KERNEL: &str = "linux.uml";
/// The program that makes the root file system.
pub(crate) const MAKER: &str = "mmdebstrap";
/// The first process. All other files are on the data disk, which each run creates again.
const FIRST: &str = "#!/bin/sh\nmount -t proc proc /proc && mount -t ext4 /dev/ubdc /data && \
                     exec /bin/sh /data/guest.sh\necho 'RIG failed: no data disk'\nsleep 1\n";
const SCRIPT: &str = include_str!("guest.sh");
/// The kernel's message for a requested panic.
const PANIC: &str = "Kernel panic - not syncing: sysrq triggered crash";
/// How long PostgreSQL may take to answer; the first boot also creates its cluster.
const READY: Duration = Duration::from_secs(240);
/// How long the guest may take to obey an order.
const DONE: Duration = Duration::from_secs(60);

/// A message on the console.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// The number of keys found up to the last acknowledged one, and the highest key.
    Found(u64, u64),
    Acknowledged(u64),
    Panicked,
    Stopped,
    Failed(String),
}

impl Word {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.contains(PANIC) {
            return Some(Self::Panicked);
        }
        let is_failure = line.contains("RIG failed") || line.contains("Kernel panic");
        if is_failure {
            return Some(Self::Failed(line.to_owned()));
        }
        match *line.split(' ').collect::<Vec<_>>() {
            ["RIG", "found", count, max, "."] => {
                Some(Self::Found(count.parse().ok()?, max.parse().ok()?))
            }
            ["RIG", "acknowledged", key, "."] => key.parse().ok().map(Self::Acknowledged),
            ["RIG", "stopped", "."] => Some(Self::Stopped),
            _ => None,
        }
    }
}

/// The disks of a guest, and its boot options.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    folder: PathBuf,
    root: PathBuf,
    log: PathBuf,
    is_synced: bool,
    umid: String,
}

impl Machine {
    /// Creates the data disk; the disk of the log must exist.
    pub(crate) fn make(
        (ground, name): (&Ground, &str),
        (root, log): (&Path, &Path),
        is_synced: bool,
    ) -> Result<Self, Failure> {
        let folder = ground.dir.join(name);
        let files = folder.join("files");
        for folder in [&folder, &files] {
            fs::create_dir(folder)?;
        }
        put(&files, "guest.sh", SCRIPT)?;
        let data = folder.join("data.img").display().to_string();
        run(&["mkfs.ext4", "-q", "-d", &files.display().to_string(), &data, "1G"])?;
        let umid = format!("seawall-rig-{}-{name}", std::process::id());
        let (root, log) = (root.to_owned(), log.to_owned());
        Ok(Self { folder, root, log, is_synced, umid })
    }

    /// Boots the guest. Returns how many of the acknowledged keys are there, and the highest key.
    pub(crate) fn boot(&self, acknowledged: u64) -> Result<(Guest, u64, u64), Failure> {
        let mut kernel = Command::new(KERNEL);
        kernel.args(["mem=256M", "con0=fd:0,fd:1", "con=null", "ssl=null", "root=/dev/ubda", "ro"]);
        kernel.arg(format!("ubd0rd={}", self.root.display()));
        // This kernel's ubd forgets a flush, seen with 6.1: `s` makes each write durable instead.
        kernel.arg(format!("ubd1sd={}", self.log.display())).arg("ubd2d=data.img");
        kernel.arg(format!("umid={}", self.umid)).arg(format!("uml_dir={}", self.folder.display()));
        kernel.args(["init=/rig-init", &format!("rig_acknowledged={acknowledged}")]);
        kernel.arg(format!("rig_fsync={}", if self.is_synced { "on" } else { "off" }));
        kernel.current_dir(&self.folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = |name| {
            let place = self.folder.join(name);
            fs::OpenOptions::new().create(true).append(true).open(place)
        };
        let mut child = kernel.stderr(log("kernel.log")?).spawn()?;
        let (orders, console) =
            child.stdin.take().zip(child.stdout.take()).ok_or("a guest without pipes")?;
        let (speaker, words) = channel();
        let place = self.folder.join("console.log");
        let mut guest =
            Guest { child, orders, words, acknowledged, umid: self.umid.clone(), place };
        let log = log("console.log")?;
        thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || listen(console, log, &speaker))?;
        let found = guest.hear(READY, |word| match word {
            Word::Found(count, max) => Some((*count, *max)),
            _ => None,
        });
        found.map(|(count, max)| (guest, count, max))
    }
}

/// Forwards messages from the console until no process has it open any more.
fn listen(console: impl Read, mut log: fs::File, speaker: &Sender<Word>) {
    for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let word = Word::of(&line);
        if !matches!(word, Some(Word::Acknowledged(_))) {
            // For a person who looks for the reason of a failure.
            let _ = writeln!(log, "{}", line.trim_end());
        }
        if word.is_some_and(|word| speaker.send(word).is_err()) {
            return;
        }
    }
}

/// A running guest; killed when dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    orders: ChildStdin,
    words: Receiver<Word>,
    /// The last key acknowledged on the console.
    acknowledged: u64,
    umid: String,
    place: PathBuf,
}

impl Guest {
    /// Inserts keys until `enough` are acknowledged.
    pub(crate) fn count(&mut self, enough: u64) -> Result<(), Failure> {
        self.order("count")?;
        let mut heard = 0;
        self.hear(DONE, |word| {
            heard += u64::from(matches!(word, Word::Acknowledged(_)));
            (heard >= enough).then_some(())
        })
    }

    /// Makes the kernel panic, kills what is left, and returns the last acknowledged key.
    pub(crate) fn panic(mut self) -> Result<u64, Failure> {
        self.order("panic")?;
        self.hear(DONE, |word| (*word == Word::Panicked).then_some(()))?;
        self.kill();
        // Earlier messages may still be on their way.
        while let Ok(word) = self.words.recv_timeout(DONE) {
            self.note(&word);
        }
        Ok(self.acknowledged)
    }

    /// Shuts PostgreSQL down, and unmounts the disk of the log.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.order("stop")?;
        self.hear(DONE, |word| (*word == Word::Stopped).then_some(()))
    }

    fn order(&mut self, order: &str) -> Result<(), Failure> {
        Ok(writeln!(self.orders, "{order}")?)
    }

    /// Waits for a message for which `is_it` returns a value.
    fn hear<T>(
        &mut self,
        limit: Duration,
        mut is_it: impl FnMut(&Word) -> Option<T>,
    ) -> Result<T, Failure> {
        let clock = SystemClock::new();
        while let Some(left) = limit.checked_sub(clock.now()) {
            let Ok(word) = self.words.recv_timeout(left) else { break };
            self.note(&word);
            if let Some(found) = is_it(&word) {
                return Ok(found);
            }
            if let Word::Failed(why) = word {
                return Err(format!("the guest: {why}\n{}", tail(&self.place)).into());
            }
        }
        Err(format!("the guest does not answer:\n{}", tail(&self.place)).into())
    }

    fn note(&mut self, word: &Word) {
        if let Word::Acknowledged(key) = word {
            self.acknowledged = self.acknowledged.max(*key);
        }
    }

    /// Kills all processes of the guest: those that outlive the first hold its disks and console.
    fn kill(&mut self) {
        kill_all(self.child.id());
        let word = format!("umid={}", self.umid);
        let is_its = |number: &u32| {
            let line = command_line(*number);
            line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
        };
        processes().into_iter().filter(is_its).for_each(kill_all);
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Creates the root file system, Debian with PostgreSQL, unless it exists.
pub(crate) fn make_root(ground: &Ground, root: &Path) -> Result<(), Failure> {
    if root.is_file() {
        return Ok(());
    }
    let folder = ground.dir.join("root");
    let files = folder.display().to_string();
    let with = "--include=postgresql-15,mount,e2fsprogs";
    run(&[MAKER, "--quiet", "--mode=root", "--variant=minbase", with, "bookworm", &files])?;
    for name in ["log", "data"] {
        fs::create_dir(folder.join(name))?;
    }
    let first = folder.join("rig-init");
    put(&folder, "rig-init", FIRST)?;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o755))?;
    let parent = root.parent().ok_or_else(|| format!("{} is no file", root.display()))?;
    fs::create_dir_all(parent)?;
    // Gets its name only when it is complete.
    let draft = root.with_extension("partial");
    let draft_name = draft.display().to_string();
    // Without a journal, since it is mounted read-only.
    run(&["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", &files, &draft_name, "1G"])?;
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let (old, new) = name(&draft).zip(name(root)).ok_or("--root has no plain name")?;
    PosixStorage::open(parent)?.rename(&old, &new)?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// Creates a small file.
fn put(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    Ok(PosixStorage::open(folder)?.create(name)?.write_at(text.as_bytes(), 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_acknowledges_nothing() {
        assert_eq!(Word::of("RIG acknowledged 1234 .\r"), Some(Word::Acknowledged(1234)));
        for line in ["RIG acknowledged 12", "RIG acknowledged 12 ", "RIG acknowledged 1[  1.2] ."] {
            assert_eq!(Word::of(line), None, "{line}");
        }
        assert_eq!(Word::of("RIG found 7 8 ."), Some(Word::Found(7, 8)));
        assert_eq!(Word::of("RIG found 7 ."), None);
    }

    #[test]
    fn only_the_panic_that_was_ordered_is_one() {
        assert_eq!(Word::of(PANIC), Some(Word::Panicked));
        let other = "Kernel panic - not syncing: Attempted to kill init!";
        assert_eq!(Word::of(other), Some(Word::Failed(other.to_owned())));
    }
}
