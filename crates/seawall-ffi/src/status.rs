//! Numbers that functions return: what the caller can do, and what happened.

use seawall::ErrorKind;

/// The outcome of a call: what the caller can do next.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is nothing: no further record, no such record, or not yet. Not an error.
    None = 1,
    /// The log is unchanged. The same call can succeed later: when the device works again, has
    /// space, or the other writer has exited.
    Retry = 2,
    /// This handle cannot write any more. Free it and open the log again, to see which records
    /// survived.
    Reopen = 3,
    /// Stored bytes are damaged, or a crash may have left them unfinished. See `seawall verify` and
    /// `seawall repair`.
    Repair = 4,
    /// Fix the call: it does not fit the log, its state or its environment, or an argument is
    /// invalid.
    Usage = 5,
    /// A bug in Seawall. The message has details; free the handle and open the log again.
    Bug = 6,
}

impl Status {
    pub(crate) fn of(error: &seawall::Error) -> Self {
        match error.kind() {
            ErrorKind::Retry => Self::Retry,
            ErrorKind::Reopen => Self::Reopen,
            ErrorKind::Repair => Self::Repair,
            _ => Self::Usage,
        }
    }
}

/// Which error happened, finer than its status.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// An error that this version of the interface has no number for; see status and message.
    Other = 0,
    /// The device or the operating system refused the operation: see `os_error`.
    Io = 1,
    /// Another writer has the log open.
    Busy = 2,
    /// The path exists and is not a log.
    NotALog = 3,
    /// The log needs a newer version of Seawall.
    Unsupported = 4,
    /// The options differ from those that the log was created with.
    Mismatch = 5,
    /// An option has an invalid value.
    InvalidOption = 6,
    /// Stored bytes differ from what was written: see `segment`, `offset`, `first_lsn`, `last_lsn`.
    Damaged = 7,
    /// With SEAWALL_OPEN_MODE_STRICT: the end is a torn write or damage.
    Ambiguous = 8,
    /// The record or atomic set is too large.
    TooLarge = 9,
    /// The device has no space for another segment. The log is unchanged.
    DiskFull = 10,
    /// The codec refused the record.
    Encode = 11,
    /// The record at `first_lsn` has another encoding.
    Decode = 12,
    /// A write or sync failed, and this handle writes no more.
    Poisoned = 13,
    /// The records were truncated at the start; the log begins at `first_lsn`.
    Pruned = 14,
    /// Records that were read have been truncated; the next record is `first_lsn`.
    Rewound = 15,
    /// The log ends before the position `first_lsn`.
    BeyondEnd = 16,
    /// A crash could still remove the records `first_lsn` to `last_lsn`.
    Unconfirmed = 17,
    /// The call would have to wait.
    WouldBlock = 18,
    /// The handle was closed.
    Closed = 19,
    /// A failover callback tried to write to its log or to wait for it.
    Reentrant = 20,
    /// The process was forked after it opened the log.
    Forked = 21,
    /// An argument is invalid: a null or misaligned pointer, a length that no memory has, an
    /// unknown number.
    Argument = 22,
    /// A panic inside Seawall.
    Panic = 23,
    /// No key or a wrong one, or bytes that no holder of the key wrote. Nothing was changed.
    Key = 24,
}

impl ErrorCode {
    pub(crate) fn of(error: &seawall::Error) -> Self {
        use seawall::Error;
        match error {
            Error::Io { .. } => Self::Io,
            Error::Busy { .. } => Self::Busy,
            Error::NotALog { .. } => Self::NotALog,
            Error::Unsupported { .. } => Self::Unsupported,
            Error::Mismatch { .. } => Self::Mismatch,
            Error::InvalidOption { .. } => Self::InvalidOption,
            Error::Damaged { .. } => Self::Damaged,
            Error::Ambiguous { .. } => Self::Ambiguous,
            Error::TooLarge { .. } => Self::TooLarge,
            Error::DiskFull { .. } => Self::DiskFull,
            Error::Encode { .. } => Self::Encode,
            Error::Decode { .. } => Self::Decode,
            Error::Poisoned { .. } => Self::Poisoned,
            Error::Pruned { .. } => Self::Pruned,
            Error::Rewound { .. } => Self::Rewound,
            Error::BeyondEnd { .. } => Self::BeyondEnd,
            Error::Unconfirmed { .. } => Self::Unconfirmed,
            Error::WouldBlock { .. } => Self::WouldBlock,
            Error::Closed { .. } => Self::Closed,
            Error::Reentrant { .. } => Self::Reentrant,
            Error::Forked { .. } => Self::Forked,
            Error::Key { .. } => Self::Key,
            _ => Self::Other,
        }
    }
}
