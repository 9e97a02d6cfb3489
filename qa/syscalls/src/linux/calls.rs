//! The system calls that a log makes, by their numbers on x86-64 Linux: which file each is for, and
//! how it can fail.

/// One system call.
#[derive(Debug)]
pub(super) struct Call {
    /// The name in the Linux manual.
    pub(super) name: &'static str,
    number: u64,
    /// Which argument names the file.
    pub(super) place: Place,
    kind: Kind,
}

/// Which arguments of a call name the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The first argument, a descriptor.
    Descriptor,
    /// The first argument, a path.
    Path,
    /// The first two arguments: a directory's descriptor and a path.
    PathAt,
    /// None: every call counts that has the arguments a log uses.
    Machine,
}

/// What a call does, which determines how it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Transfers bytes, at most as many as the third argument says; `writes`: to the file.
    Transfer { writes: bool },
    /// Fills a buffer with random bits; its size is the second argument.
    Entropy,
    /// Changes the file, and may be interrupted.
    Change,
    /// Changes a directory. Local file systems do not interrupt it.
    Name,
    /// Opens or locks: may be interrupted, and changes nothing permanently.
    Ask,
    /// Queries the file, and is never interrupted.
    Look,
    /// Closes a descriptor: that happens even if the call returns an error.
    Close,
    /// Starts a thread.
    Thread,
}

const fn call(name: &'static str, number: u64, place: Place, kind: Kind) -> Call {
    Call { name, number, place, kind }
}

const READ: Kind = Kind::Transfer { writes: false };
const WRITE: Kind = Kind::Transfer { writes: true };

/// All calls that may touch a log.
const CALLS: &[Call] = &[
    call("read", 0, Place::Descriptor, READ),
    call("write", 1, Place::Descriptor, WRITE),
    call("open", 2, Place::Path, Kind::Ask),
    call("close", 3, Place::Descriptor, Kind::Close),
    call("stat", 4, Place::Path, Kind::Look),
    call("fstat", 5, Place::Descriptor, Kind::Look),
    call("lstat", 6, Place::Path, Kind::Look),
    call("lseek", 8, Place::Descriptor, Kind::Look),
    call("ioctl", 16, Place::Descriptor, Kind::Look),
    call("pread64", 17, Place::Descriptor, READ),
    call("pwrite64", 18, Place::Descriptor, WRITE),
    call("access", 21, Place::Path, Kind::Look),
    call("fcntl", 72, Place::Descriptor, Kind::Look),
    call("flock", 73, Place::Descriptor, Kind::Ask),
    call("fsync", 74, Place::Descriptor, Kind::Change),
    call("fdatasync", 75, Place::Descriptor, Kind::Change),
    call("ftruncate", 77, Place::Descriptor, Kind::Change),
    call("rename", 82, Place::Path, Kind::Name),
    call("mkdir", 83, Place::Path, Kind::Name),
    call("rmdir", 84, Place::Path, Kind::Name),
    call("unlink", 87, Place::Path, Kind::Name),
    call("readlink", 89, Place::Path, Kind::Look),
    call("fchmod", 91, Place::Descriptor, Kind::Name),
    call("fstatfs", 138, Place::Descriptor, Kind::Look),
    call("getdents64", 217, Place::Descriptor, Kind::Look),
    call("fadvise64", 221, Place::Descriptor, Kind::Look),
    call("openat", 257, Place::PathAt, Kind::Ask),
    call("mkdirat", 258, Place::PathAt, Kind::Name),
    call("newfstatat", 262, Place::PathAt, Kind::Look),
    call("unlinkat", 263, Place::PathAt, Kind::Name),
    call("renameat", 264, Place::PathAt, Kind::Name),
    call("readlinkat", 267, Place::PathAt, Kind::Look),
    call("faccessat", 269, Place::PathAt, Kind::Look),
    call("sync_file_range", 277, Place::Descriptor, Kind::Change),
    call("fallocate", 285, Place::Descriptor, Kind::Change),
    call("renameat2", 316, Place::PathAt, Kind::Name),
    call("getrandom", 318, Place::Machine, Kind::Entropy),
    call("statx", 332, Place::PathAt, Kind::Look),
    call("clone", 56, Place::Machine, Kind::Thread),
    call("clone3", 435, Place::Machine, Kind::Thread),
];

/// Calls of the runtime that touch no file: memory, threads, signals, clocks, sockets, process
/// exit.
pub(super) const RUNTIME: &[i64] = &[
    9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 63, 131, 157, 158, 186, 202, 203, 204, 218,
    219, 228, 229, 230, 231, 234, 273, 302, 334, 7, 271, 44, 45, 53,
];

/// Returns the call with this number. `Err`: the table does not say whether the call can touch a
/// log.
pub(super) fn numbered(number: u64) -> Result<Option<&'static Call>, u64> {
    match CALLS.iter().find(|call| call.number == number) {
        None if !i64::try_from(number).is_ok_and(|number| RUNTIME.contains(&number)) => Err(number),
        known => Ok(known),
    }
}

/// Returns the call with this name.
pub(super) fn named(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The call does nothing and reports a device error.
    Eio,
    /// The call does nothing and reports that no space is left.
    Enospc,
    /// The call does nothing and reports an interruption by a signal.
    Eintr,
    /// The call does nothing and reports that no thread is available.
    Eagain,
    /// The call completes, but reports a device error.
    LateEio,
    /// The call transfers half of the bytes.
    Short,
    /// The process is killed before the call does anything.
    KillBefore,
    /// The process is killed after the call completes.
    KillAfter,
}

impl Fault {
    /// Returns the name in the table of results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Eio => "EIO",
            Self::Enospc => "ENOSPC",
            Self::Eintr => "EINTR",
            Self::Eagain => "EAGAIN",
            Self::LateEio => "late EIO",
            Self::Short => "short",
            Self::KillBefore => "kill",
            Self::KillAfter => "late kill",
        }
    }

    /// Returns the error code that replaces the result of the call.
    pub(super) fn errno(self) -> Option<u64> {
        match self {
            Self::Eio | Self::LateEio => Some(5),
            Self::Enospc => Some(28),
            Self::Eintr => Some(4),
            Self::Eagain => Some(11),
            Self::Short | Self::KillBefore | Self::KillAfter => None,
        }
    }
}

impl Call {
    /// Returns the faults that this call can have.
    pub(super) fn faults(&self) -> &'static [Fault] {
        use Fault::{Eagain, Eintr, Eio, Enospc, KillAfter, KillBefore, LateEio, Short};
        match self.kind {
            Kind::Transfer { writes: true } => {
                &[Eio, Enospc, Eintr, LateEio, Short, KillBefore, KillAfter]
            }
            Kind::Transfer { writes: false } | Kind::Entropy => {
                &[Eio, Enospc, Eintr, Short, KillBefore]
            }
            Kind::Change | Kind::Name => &[Eio, Enospc, Eintr, LateEio, KillBefore, KillAfter],
            Kind::Ask => &[Eio, Enospc, Eintr, KillBefore, KillAfter],
            Kind::Look => &[Eio, Enospc, Eintr, KillBefore],
            Kind::Close => &[LateEio, KillBefore, KillAfter],
            Kind::Thread => &[Eagain, KillBefore, KillAfter],
        }
    }

    /// Whether the workload must not notice this fault of this call.
    pub(super) fn hides(&self, fault: Fault) -> bool {
        match fault {
            // If the log cannot start a thread, it works in the threads of the program.
            Fault::Short | Fault::Eagain => true,
            Fault::Eintr => !matches!(self.kind, Kind::Name | Kind::Look),
            Fault::LateEio => self.kind == Kind::Close,
            _ => false,
        }
    }

    /// Returns the index of the argument that holds the count of bytes, which can be reduced.
    pub(super) fn counts_in(&self) -> Option<usize> {
        match self.kind {
            Kind::Transfer { .. } => Some(2),
            Kind::Entropy => Some(1),
            _ => None,
        }
    }

    /// Whether the log makes the call, not the runtime: both use the same call.
    pub(super) fn is_ours(&self, arguments: &[u64; 6]) -> bool {
        // The runtime requests random bits with flags, without waiting for entropy; the log uses
        // none.
        self.kind != Kind::Entropy || arguments[2] == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_system_call_number_is_listed_twice() {
        for (at, call) in CALLS.iter().enumerate() {
            assert!(!RUNTIME.contains(&i64::try_from(call.number).unwrap()), "{}", call.name);
            assert!(CALLS[at + 1..].iter().all(|other| other.number != call.number));
        }
    }

    #[test]
    fn an_unknown_system_call_is_an_error() {
        assert_eq!(numbered(18).unwrap().unwrap().name, "pwrite64");
        assert!(numbered(202).unwrap().is_none());
        assert_eq!(numbered(326).unwrap_err(), 326); // copy_file_range
    }
}
