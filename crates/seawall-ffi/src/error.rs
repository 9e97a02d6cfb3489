//! Error objects: what happened, where, and what to do.

use crate::fault::Fault;
use crate::pointer::{Kind, Shows};
use crate::status::{ErrorCode, Status};
use seawall::Lsn;
use seawall::damage::{Damage, Lost};
use seawall::format::SegmentId;
use seawall_io::into_parts;
use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;

/// An error. It never changes, so threads may share it; seawall_error_free releases it. Numbers
/// that do not apply are 0.
#[repr(C)]
#[derive(Debug)]
pub struct Error {
    /// What the caller can do.
    pub status: Status,
    /// Which error.
    pub code: ErrorCode,
    /// What happened, in English: the log, what is wrong, what to do.
    pub message: *const c_char,
    /// The path of the log; null if the error is about no log.
    pub log: *const c_char,
    /// The number of the operating system's error (errno).
    pub os_error: i32,
    /// The damaged segment; 0 for the manifest.
    pub segment: u64,
    /// Where the damage begins in the segment's file.
    pub offset: u64,
    /// The first record concerned.
    pub first_lsn: u64,
    /// The last record concerned; 0 also if it is unknown.
    pub last_lsn: u64,
}

/// An error and its texts.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ErrorObject {
    shown: Error,
    kind: Kind,
    message: CString,
    log: Option<CString>,
}

impl Shows<Error> for ErrorObject {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b01;

    fn kind(&self) -> &Kind {
        &self.kind
    }
}

/// The place that an error names.
#[derive(Default)]
struct Location {
    segment: u64,
    offset: u64,
    first: Option<Lsn>,
    last: Option<Lsn>,
}

impl ErrorObject {
    #[expect(clippy::unnecessary_box_returns, reason = "its pointers point into itself")]
    pub(crate) fn new(fault: Fault) -> Box<Self> {
        let place = location(&fault);
        let message = c_text(text(&fault));
        let log = match &fault {
            Fault::Log(error) => error.log().map(|log| c_text(log.as_os_str().as_bytes())),
            _ => None,
        };
        let shown = Error {
            status: fault.status(),
            code: fault.code(),
            message: std::ptr::null(),
            log: std::ptr::null(),
            os_error: os_error(fault),
            segment: place.segment,
            offset: place.offset,
            first_lsn: number(place.first),
            last_lsn: number(place.last),
        };
        let mut object = Box::new(Self { shown, kind: Kind::new(Self::KIND), message, log });
        // Not before: moving a `CString` ends what its pointers may be used for.
        object.shown.message = object.message.as_ptr();
        object.shown.log = pointer(object.log.as_ref());
        object
    }

    /// The part that a callback may read. If the callback frees it, that has no effect.
    pub(crate) fn lend(&self) -> *const Error {
        self.kind.retire();
        std::ptr::from_ref(self).cast()
    }

    /// Gives the object to C.
    pub(crate) fn into_c(self: Box<Self>) -> *mut Error {
        Box::into_raw(self).cast()
    }
}

fn text(fault: &Fault) -> String {
    match fault {
        Fault::Log(error) => format!("{error:#}"),
        Fault::Argument(why) => format!("invalid argument: {why}"),
        Fault::Closed => "the log is closed".to_owned(),
        Fault::Panic(text) => format!("bug in Seawall: {text}"),
    }
}

fn location(fault: &Fault) -> Location {
    use seawall::Error as E;
    let Fault::Log(error) = fault else { return Location::default() };
    let at = |first| Location { first: Some(first), ..Location::default() };
    match error {
        E::Damaged { damage, .. } => of_damage(damage),
        E::Ambiguous { segment, offset, .. } => {
            Location { segment: segment.get(), offset: offset.0, ..Location::default() }
        }
        E::Decode { lsn, .. } => at(*lsn),
        E::Pruned { oldest, .. } => at(*oldest),
        E::Rewound { next, .. } => at(*next),
        E::BeyondEnd { from, .. } => at(*from),
        E::Unconfirmed { from, to, .. } => Location { last: *to, ..at(*from) },
        _ => Location::default(),
    }
}

/// The number of the operating system's error.
fn os_error(fault: Fault) -> i32 {
    use seawall::Error as E;
    match fault {
        Fault::Log(
            E::Io { source, .. } | E::DiskFull { source, .. } | E::Unconfirmed { source, .. },
        ) => into_parts(source).1.raw_os_error().unwrap_or(0),
        _ => 0,
    }
}

fn of_damage(damage: &Damage) -> Location {
    let Damage { segment, offset, lost, .. } = damage;
    Location {
        segment: segment.map_or(0, SegmentId::get),
        offset: offset.0,
        first: lost.map(|Lost { from, .. }| from),
        last: lost.and_then(|Lost { to, .. }| to),
    }
}

/// The text up to a zero byte, which a C text cannot hold.
pub(crate) fn c_text(text: impl AsRef<[u8]>) -> CString {
    let text = text.as_ref().split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).expect("no zero is left")
}

/// The pointer to a text; null without one.
pub(crate) fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(std::ptr::null(), |text| text.as_ptr())
}

/// The LSN as a number; 0 without one.
pub(crate) fn number(lsn: Option<Lsn>) -> u64 {
    lsn.map_or(0, Lsn::get)
}
