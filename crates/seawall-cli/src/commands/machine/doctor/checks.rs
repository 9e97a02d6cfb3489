//! Judges what each property of a host means for logs on it. Pure: facts in, text out.

use seawall_format::VERSION;
use seawall_host::{HostInfo, Mount, Writable};
use seawall_output::color::Tone;
use seawall_output::text;
use serde::{Serialize, Serializer};

/// Mount options with which a sync does not reach the device.
const WITHOUT_BARRIERS: &[&str] = &["nobarrier", "barrier=0", "barrier=none", "volatile"];

/// The default maximum segment size; one segment of that size is preallocated.
const SEGMENT: u64 = 64 << 20;
/// The size of the current segment, the preallocated one, and one more during a rotation.
const ROOM: u64 = 3 * SEGMENT;
/// The minimum free space for a log.
const ROOM_MIN: u64 = 2 << 20;
/// The minimum limit of open files. A lower limit leaves a program room for little more than a log.
const FILES_FEW: u64 = 64;
/// The start of 2020 in microseconds since 1970. A clock with an earlier time was never set.
const CLOCK_SET_US: u64 = 1_577_836_800_000_000;

/// The input of all checks.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Machine {
    pub(in crate::commands) around: HostInfo,
    /// Preloaded libraries.
    pub(in crate::commands) preload: Option<String>,
    /// Whether reboots can be detected.
    pub(in crate::commands) boot_id: bool,
    pub(in crate::commands) wall_us: u64,
}

/// The result of a check; the worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum State {
    Ok,
    Warning,
    /// No log can be created or written here.
    Unusable,
    /// Synced data can be lost here.
    Broken,
}

impl State {
    pub(in crate::commands) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Unusable => "unusable",
            Self::Broken => "broken",
        }
    }

    pub(in crate::commands) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warning => Tone::Doubtful,
            Self::Unusable | Self::Broken => Tone::Bad,
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Check {
    #[serde(serialize_with = "in_one_word")]
    pub(in crate::commands) name: &'static str,
    pub(in crate::commands) state: State,
    pub(in crate::commands) says: String,
    /// The advice, if any.
    pub(in crate::commands) next: Option<String>,
}

fn in_one_word<S: Serializer>(name: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&name.replace(' ', "-"))
}

impl Check {
    fn ok(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, state: State::Ok, says: says.into(), next: None }
    }

    fn warning(name: &'static str, says: impl Into<String>, next: &str) -> Self {
        Self { name, state: State::Warning, says: says.into(), next: Some(next.to_owned()) }
    }

    fn unusable(name: &'static str, says: impl Into<String>, next: &str) -> Self {
        Self { state: State::Unusable, ..Self::warning(name, says, next) }
    }

    fn broken(name: &'static str, says: impl Into<String>, next: &str) -> Self {
        Self { state: State::Broken, ..Self::warning(name, says, next) }
    }
}

/// Runs every check, in order from the program to the device.
pub(in crate::commands) fn judge(machine: &Machine) -> Vec<Check> {
    let around = &machine.around;
    let mut checks = vec![versions(around)];
    if let Some(check) = preload(machine) {
        checks.push(check);
    }
    checks.push(file_system(around));
    checks.extend(overwrites(around));
    checks.extend([
        mount_options(around),
        write_cache(around),
        room(around),
        writable(around),
        direct(around),
        open_files(around),
        file_size(around),
        locked(around),
        clock(machine),
    ]);
    checks
}

fn versions(around: &HostInfo) -> Check {
    let kernel = around.kernel.as_deref().unwrap_or("an unknown kernel");
    let version = env!("CARGO_PKG_VERSION");
    Check::ok("versions", format!("seawall {version}, format {VERSION}, {kernel}"))
}

/// Reports a preloaded library that skips syncs, which is only good for tests.
fn preload(machine: &Machine) -> Option<Check> {
    let says = machine.preload.as_ref().filter(|names| names.contains("eatmydata"))?;
    let says = format!("LD_PRELOAD={says} makes every sync do nothing");
    Some(Check::broken("preload", says, "unset LD_PRELOAD"))
}

fn file_system(around: &HostInfo) -> Check {
    const NAME: &str = "file system";
    const MOVE: &str = "keep logs on a local disk";
    let Some(mount) = &around.mount else {
        return Check::warning(NAME, "unknown", "see /proc/self/mountinfo");
    };
    let Mount { kind, source, point, .. } = mount;
    let says = format!("{kind} on {source}, mounted at {}", point.display());
    if mount.is_in_memory() {
        return Check::broken(NAME, format!("{says}: in memory, lost when the power fails"), MOVE);
    }
    let elsewhere = |says| {
        let says = format!(
            "{says}: whether a sync reaches a device is up to another machine or program, and a \
             lock may keep out writers of this machine alone"
        );
        Check::warning(NAME, says, MOVE)
    };
    match kind.as_str() {
        "overlay" => match &around.upper {
            Some(upper) if upper.is_in_memory() => {
                Check::broken(NAME, format!("{says}, over {}: in memory", upper.kind), MOVE)
            }
            Some(upper) => Check::ok(NAME, format!("{says}, over {}", upper.kind)),
            None => {
                let says = format!("{says}: the file system below is not visible from here");
                Check::warning(NAME, says, "in a container, keep logs on a volume")
            }
        },
        // File systems of the kernel itself, which cannot store logs.
        "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs"
        | "securityfs" | "configfs" | "pstore" | "bpf" | "mqueue" | "fusectl" | "binfmt_misc"
        | "autofs" => Check::unusable(NAME, format!("{says}: cannot store logs"), MOVE),
        // Another machine or program decides whether a sync reaches a device.
        "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "ceph" | "afs" | "glusterfs"
        | "lustre" | "beegfs" | "ocfs2" | "gfs2" | "gpfs" | "virtiofs" | "vboxsf" | "prl_fs" => {
            elsewhere(says)
        }
        fuse if fuse.starts_with("fuse") => elsewhere(says),
        _ => Check::ok(NAME, says),
    }
}

/// Warns about a file system on which an overwrite allocates space: there, the log cannot guarantee
/// space for a record that it has accepted.
fn overwrites(around: &HostInfo) -> Option<Check> {
    const NAME: &str = "overwrites";
    let mount = around.upper.as_ref().or(around.mount.as_ref())?;
    let kind = mount.kind.as_str();
    if kind == "btrfs" {
        let says = "btrfs: new segments are overwritten in place (chattr +C), but names, and \
                    blocks that a snapshot shares, take new room: a full disk can poison the log \
                    instead of refusing an append";
        let next = "keep space free, and exclude the log's subvolume from snapshots";
        return Some(Check::warning(NAME, says, next));
    }
    // These write each block to a new place, even if it is overwritten.
    matches!(kind, "zfs" | "bcachefs" | "nilfs2" | "f2fs").then(|| {
        let says = format!(
            "{kind} writes each block to a new place: a full disk can poison the log instead of \
             refusing an append"
        );
        Check::warning(NAME, says, "keep space free: reserve some, or limit other users by quota")
    })
}

fn mount_options(around: &HostInfo) -> Check {
    const NAME: &str = "mount options";
    let mounts = around.mount.iter().chain(&around.upper);
    let options: Vec<&str> = mounts.flat_map(|mount| &mount.options).map(String::as_str).collect();
    if let Some(option) = options.iter().find(|option| WITHOUT_BARRIERS.contains(option)) {
        let says = format!("{option}: a sync does not reach the device");
        return Check::broken(NAME, says, "mount it without this option");
    }
    if options.contains(&"ro") {
        let next = "mount it with rw to write";
        return Check::unusable(NAME, "ro: logs can only be read", next);
    }
    let shown = options.iter().filter(|option| !option.contains("dir=")).copied();
    let shown = shown.collect::<Vec<_>>().join(", ");
    Check::ok(NAME, if shown.is_empty() { "none".to_owned() } else { shown })
}

fn write_cache(around: &HostInfo) -> Check {
    const NAME: &str = "write cache";
    match around.write_cache.as_deref() {
        Some("write through") => {
            Check::ok(NAME, "write through: the device claims that a returned write is durable")
        }
        Some("write back") => Check::ok(
            NAME,
            "write back: syncs flush it; only a power failure can show \
             whether the device is honest",
        ),
        Some(other) => Check::ok(NAME, other),
        None => Check::ok(NAME, "no block device below reports its cache"),
    }
}

fn room(around: &HostInfo) -> Check {
    const NAME: &str = "free space";
    match around.free {
        Some(free) if free < ROOM_MIN => {
            let next = format!("free some space: a log needs at least {}", text::bytes(ROOM_MIN));
            Check::unusable(NAME, text::bytes(free), &next)
        }
        Some(free) if free < ROOM => {
            let next = format!("free some space: a log preallocates up to {}", text::bytes(ROOM));
            Check::warning(NAME, text::bytes(free), &next)
        }
        Some(free) => Check::ok(NAME, text::bytes(free)),
        None => Check::warning(NAME, "unknown", "see df"),
    }
}

fn writable(around: &HostInfo) -> Check {
    const NAME: &str = "new files";
    match &around.writable {
        Writable::Yes => Check::ok(NAME, "can be made"),
        Writable::No(why) => {
            Check::unusable(NAME, format!("cannot be made: {why}"), "check owner and permissions")
        }
        Writable::Unknown => Check::ok(NAME, "not tested: this file system has no unnamed files"),
    }
}

fn direct(around: &HostInfo) -> Check {
    const NAME: &str = "O_DIRECT";
    match around.direct {
        Some(true) => Check::ok(NAME, "possible: batches of 64 KiB and more are written with it"),
        Some(false) => Check::ok(NAME, "not possible: large batches go through the page cache"),
        None => Check::ok(NAME, "not tested; used for batches of 64 KiB and more, where possible"),
    }
}

fn open_files(around: &HostInfo) -> Check {
    const NAME: &str = "open files";
    match around.open_files_max {
        Some(most) if most < FILES_FEW => {
            Check::warning(NAME, format!("{most} at most"), "raise it with ulimit -n")
        }
        Some(most) => Check::ok(NAME, format!("{} at most", text::number(most))),
        None => Check::ok(NAME, "without limit"),
    }
}

fn file_size(around: &HostInfo) -> Check {
    const NAME: &str = "file size";
    match around.file_size_max {
        Some(most) if most < SEGMENT => {
            let next = "raise it with ulimit -f, or give new logs a smaller --segment-size";
            Check::warning(NAME, format!("{} at most", text::bytes(most)), next)
        }
        Some(most) => Check::ok(NAME, format!("{} at most", text::bytes(most))),
        None => Check::ok(NAME, "without limit"),
    }
}

fn locked(around: &HostInfo) -> Check {
    const NAME: &str = "locked memory";
    match around.locked_max {
        None => Check::ok(NAME, "without limit: disk serve locks its memory, logs lock none"),
        Some(most) => {
            let says = format!(
                "{} at most: disk serve does not lock its memory under a limit; logs lock none",
                text::bytes(most)
            );
            let next = "for disk serve: LimitMEMLOCK=infinity in its unit, or ulimit -l unlimited";
            Check::warning(NAME, says, next)
        }
    }
}

fn clock(machine: &Machine) -> Check {
    const NAME: &str = "clock";
    if machine.wall_us < CLOCK_SET_US {
        let says = "is set before 2020: only the timestamps of records will be wrong";
        return Check::warning(NAME, says, "set it, with NTP for example");
    }
    if !machine.boot_id {
        let says = "set; the runs of this machine cannot be told apart, so that a crash of a \
                    program looks like one of the machine";
        return Check::warning(NAME, says, "mount /proc; no record is lost without it");
    }
    Check::ok(NAME, "set; reboots can be detected")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(table: &str) -> Option<Mount> {
        Mount::parse(table)
    }

    /// A machine without faults, with the file system that this line of mountinfo describes.
    fn machine(line: &str) -> Machine {
        let mut around = HostInfo::default();
        around.mount = mount(line);
        around.free = Some(1 << 40);
        around.writable = Writable::Yes;
        Machine { around, preload: None, boot_id: true, wall_us: CLOCK_SET_US + 1 }
    }

    fn worst(machine: &Machine) -> (State, Vec<&'static str>) {
        let checks = judge(machine);
        let worst = checks.iter().map(|check| check.state).max().unwrap();
        for check in &checks {
            assert_eq!(check.next.is_some(), check.state != State::Ok, "{check:?}");
        }
        let named = checks.iter().filter(|check| check.state == worst && worst != State::Ok);
        (worst, named.map(|check| check.name).collect())
    }

    #[test]
    fn local_disk_with_a_cache_is_ok() {
        let mut machine = machine("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,data=ordered");
        assert_eq!(worst(&machine), (State::Ok, vec![]));
        for cache in ["write back", "write through"] {
            machine.around.write_cache = Some(cache.to_owned());
            assert_eq!(worst(&machine).0, State::Ok);
        }
    }

    #[test]
    fn memory_is_broken_even_below_an_overlay() {
        let found = worst(&machine("1 1 0:2 / /x rw - tmpfs tmpfs rw"));
        assert_eq!(found, (State::Broken, vec!["file system"]));
        let mut overlay = machine("1 1 0:2 / / rw - overlay overlay rw,upperdir=/up");
        assert_eq!(worst(&overlay), (State::Warning, vec!["file system"]));
        overlay.around.upper = mount("1 1 0:2 / /up rw - tmpfs tmpfs rw");
        assert_eq!(worst(&overlay), (State::Broken, vec!["file system"]));
        overlay.around.upper = mount("1 1 8:2 / /up rw - ext4 /dev/sda rw");
        assert_eq!(worst(&overlay), (State::Ok, vec![]));
        overlay.around.upper = mount("1 1 8:2 / /up rw - ext4 /dev/sda rw,nobarrier");
        assert_eq!(worst(&overlay), (State::Broken, vec!["mount options"]));
    }

    #[test]
    fn setup_without_device_syncs_is_broken() {
        for option in ["nobarrier", "barrier=0"] {
            let line = format!("1 1 8:2 / / rw,noatime - xfs /dev/sda rw,{option}");
            assert_eq!(worst(&machine(&line)), (State::Broken, vec!["mount options"]), "{option}");
        }
        let line = "1 1 0:2 / / rw - overlay overlay rw,upperdir=/up,volatile";
        assert_eq!(worst(&machine(line)), (State::Broken, vec!["mount options"]));
        let mut preloaded = machine("1 1 8:2 / / rw - ext4 /dev/sda rw");
        preloaded.preload = Some("/usr/lib/libeatmydata.so".to_owned());
        assert_eq!(worst(&preloaded), (State::Broken, vec!["preload"]));
    }

    #[test]
    fn remote_file_systems_and_low_limits_are_warnings() {
        for kind in ["nfs4", "cifs", "9p", "fuse.sshfs", "fuse", "virtiofs"] {
            let found = worst(&machine(&format!("1 1 0:2 / / rw - {kind} there:/x rw")));
            assert_eq!(found, (State::Warning, vec!["file system"]), "{kind}");
        }
        let mut poor = machine("1 1 8:2 / / rw - ext4 /dev/sda rw");
        poor.around.free = Some(100 << 20);
        poor.around.open_files_max = Some(20);
        poor.around.file_size_max = Some(1 << 20);
        poor.around.locked_max = Some(8 << 20);
        poor.wall_us = 0;
        let named = vec!["free space", "open files", "file size", "locked memory", "clock"];
        assert_eq!(worst(&poor), (State::Warning, named));
        assert_eq!(worst(&Machine::default()).0, State::Warning);
    }

    #[test]
    fn place_where_no_log_can_be_created_is_unusable() {
        const EXT4: &str = "1 1 8:2 / / rw - ext4 /dev/sda rw";
        let spoil = |spoil: fn(&mut Machine)| {
            let mut machine = machine(EXT4);
            spoil(&mut machine);
            worst(&machine)
        };
        let unusable = |name| (State::Unusable, vec![name]);
        assert_eq!(
            spoil(|machine| machine.around.writable = Writable::No("no".to_owned())),
            unusable("new files")
        );
        assert_eq!(spoil(|machine| machine.around.free = Some(0)), unusable("free space"));
        let read_only = worst(&machine("1 1 8:2 / / ro - ext4 /dev/sda rw"));
        assert_eq!(read_only, unusable("mount options"));
        let kernel = worst(&machine("1 1 0:2 / /proc rw - proc proc rw"));
        assert_eq!(kernel, unusable("file system"));
        let mut both = machine("1 1 0:2 / /x rw - tmpfs tmpfs rw");
        both.around.writable = Writable::No("no".to_owned());
        assert_eq!(worst(&both).0, State::Broken, "the worse of two");
    }

    #[test]
    fn copy_on_write_file_system_is_a_warning() {
        for kind in ["btrfs", "zfs", "bcachefs", "nilfs2", "f2fs"] {
            let found = worst(&machine(&format!("1 1 0:2 / / rw - {kind} /dev/sda rw")));
            assert_eq!(found, (State::Warning, vec!["overwrites"]), "{kind}");
        }
        for kind in ["ext4", "xfs"] {
            let found = worst(&machine(&format!("1 1 0:2 / / rw - {kind} /dev/sda rw")));
            assert_eq!(found, (State::Ok, vec![]), "{kind}");
        }
        let mut overlay = machine("1 1 0:2 / / rw - overlay overlay rw,upperdir=/up");
        overlay.around.upper = mount("1 1 8:2 / /up rw - btrfs /dev/sda rw");
        assert_eq!(worst(&overlay), (State::Warning, vec!["overwrites"]));
    }
}
