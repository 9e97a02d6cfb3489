//! The needs of a process, and the sandbox that confines it.

use std::fmt;
use std::path::PathBuf;

/// One part of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// This part was not requested.
    Off,
    /// This kernel does not have the part, or an outer sandbox hides it.
    Absent,
    /// The part is in force, in this version.
    On(u8),
}

/// The sandbox of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Limits the files that the process can reach; the version is the ABI of Landlock.
    pub landlock: Guard,
    /// Limits the system calls that the process can make.
    pub seccomp: Guard,
}

impl Confined {
    /// No sandbox.
    pub const OFF: Self = Self { landlock: Guard::Off, seccomp: Guard::Off };

    /// Encodes this value in one byte, for another process.
    #[must_use]
    pub fn encode(self) -> u8 {
        self.landlock.encode() << 4 | self.seccomp.encode()
    }

    /// Decodes the byte of [`Confined::encode`].
    #[must_use]
    pub fn decode(byte: u8) -> Self {
        Self { landlock: Guard::decode(byte >> 4), seccomp: Guard::decode(byte & VERSION_MAX) }
    }
}

/// The largest code of a guard: a byte holds the codes of two.
const VERSION_MAX: u8 = 15;

impl Guard {
    fn encode(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Absent => VERSION_MAX,
            Self::On(version) => version.clamp(1, VERSION_MAX - 1),
        }
    }

    fn decode(code: u8) -> Self {
        match code {
            0 => Self::Off,
            VERSION_MAX => Self::Absent,
            version => Self::On(version),
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "landlock {}, seccomp {}", self.landlock, self.seccomp)
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Absent => f.write_str("not available"),
            Self::On(version) => write!(f, "version {version}"),
        }
    }
}

/// The files, ports and rights that a process still needs. All others are refused once it is
/// confined.
///
/// # Examples
///
/// ```
/// use seawall_host::sandbox::Needs;
///
/// let needs = Needs::default().folder("/var/lib/log").tcp(3493);
/// assert_eq!(needs, needs.clone());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) removals: Vec<PathBuf>,
    pub(super) ports: Vec<u16>,
    pub(super) may_start_itself: bool,
    pub(super) may_mount: bool,
}

impl Needs {
    /// Allows reading, writing, creating and removing files and sockets in this directory.
    #[must_use]
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folders.push(path.into());
        self
    }

    /// Allows reading and writing this file.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Allows removing files from this directory.
    #[must_use]
    pub fn removal(mut self, path: impl Into<PathBuf>) -> Self {
        self.removals.push(path.into());
        self
    }

    /// Allows connecting to this TCP port.
    #[must_use]
    pub fn tcp(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// Allows starting the program of this process again. The new process is confined, too.
    #[must_use]
    pub fn itself(mut self) -> Self {
        self.may_start_itself = true;
        self
    }

    /// Allows mounting and unmounting. Landlock would forbid both, so it is left off.
    #[must_use]
    pub fn mounts(mut self) -> Self {
        self.may_mount = true;
        self
    }
}
