//! Tests over every variant of the error: what the caller can do, and what it prints.

use super::*;
use std::error::Error as StdError;

const CAUSE: &str = "the cause of the test";

fn cause() -> io::Error {
    io::Error::other(CAUSE)
}

/// Returns the variant's place in the enum. A new variant does not compile until it has one, and
/// [`every_variant`] then misses it.
fn index(error: &Error) -> usize {
    match error {
        Error::Io { .. } => 0,
        Error::Busy { .. } => 1,
        Error::NotALog { .. } => 2,
        Error::Unsupported { .. } => 3,
        Error::Mismatch { .. } => 4,
        Error::InvalidOption { .. } => 5,
        Error::Damaged { .. } => 6,
        Error::Ambiguous { .. } => 7,
        Error::TooLarge { .. } => 8,
        Error::DiskFull { .. } => 9,
        Error::Encode { .. } => 10,
        Error::Decode { .. } => 11,
        Error::Poisoned { .. } => 12,
        Error::Pruned { .. } => 13,
        Error::Rewound { .. } => 14,
        Error::BeyondEnd { .. } => 15,
        Error::Unconfirmed { .. } => 16,
        Error::WouldBlock => 17,
        Error::Closed => 18,
        Error::Reentrant => 19,
        Error::Forked { .. } => 20,
    }
}

const VARIANTS: usize = 21;

/// One error of each variant, with the action that it leaves to the caller.
fn every_variant() -> Vec<(Error, ErrorKind)> {
    use ErrorKind::{Reopen, Repair, Retry, Usage};
    let (lsn, segment, offset) = (Lsn::FIRST, SegmentId::new(3).unwrap(), Offset(4096));
    let place = || "orders.wal".to_owned();
    let codec = || -> CodecError { CAUSE.into() };
    let mut damage = Damage::new(Corruption::Body);
    (damage.segment, damage.lost) = (Some(segment), Some(Lost::new(lsn, None)));
    let refused = Refused::OtherVersion { version: 9, draft: 0 };
    let (has, requested) = ("json".to_owned(), "raw".to_owned());
    let found = "it holds no manifest".to_owned();
    vec![
        (Error::Io { what: "open orders.wal/live".to_owned(), source: cause() }, Retry),
        (Error::Busy { place: place() }, Retry),
        (Error::NotALog { place: place(), found }, Usage),
        (Error::Unsupported { place: place(), refused }, Usage),
        (Error::Mismatch { what: "codec", has, requested }, Usage),
        (Error::InvalidOption { why: "a limit of 0 bytes".to_owned() }, Usage),
        (Error::damaged(damage), Repair),
        (Error::Ambiguous { segment, offset }, Repair),
        (Error::TooLarge { size: 9, max: 8 }, Usage),
        (Error::DiskFull { source: cause() }, Retry),
        (Error::Encode { source: codec() }, Usage),
        (Error::decode(lsn, codec()), Usage),
        (Error::Poisoned { cause: "cannot sync 000000000001.seg".into() }, Reopen),
        (Error::pruned(lsn), Usage),
        (Error::rewound(lsn), Usage),
        (Error::BeyondEnd { from: lsn.next(), next: lsn }, Usage),
        (Error::Unconfirmed { from: lsn, to: None, source: cause() }, Repair),
        (Error::WouldBlock, Retry),
        (Error::Closed, Reopen),
        (Error::Reentrant, Usage),
        (Error::Forked { opened_in: 77 }, Reopen),
    ]
}

#[test]
fn every_variant_leaves_one_action_and_only_retry_is_retryable() {
    let variants = every_variant();
    assert_eq!(variants.len(), VARIANTS);
    for (number, (error, kind)) in variants.iter().enumerate() {
        assert_eq!(index(error), number, "{error:?}");
        assert_eq!(error.kind(), *kind, "{error:?}");
        assert_eq!(error.is_retryable(), *kind == ErrorKind::Retry, "{error:?}");
    }
}

#[test]
fn only_a_wrong_path_makes_an_io_error_permanent() {
    use io::ErrorKind as Io;
    let permanent = [Io::NotFound, Io::PermissionDenied, Io::AlreadyExists, Io::NotADirectory];
    let passing = [
        Io::AddrInUse,
        Io::BrokenPipe,
        Io::Deadlock,
        Io::DirectoryNotEmpty,
        Io::FileTooLarge,
        Io::Interrupted,
        Io::InvalidData,
        Io::InvalidInput,
        Io::NotConnected,
        Io::Other,
        Io::OutOfMemory,
        Io::QuotaExceeded,
        Io::ReadOnlyFilesystem,
        Io::ResourceBusy,
        Io::StaleNetworkFileHandle,
        Io::StorageFull,
        Io::TimedOut,
        Io::UnexpectedEof,
        Io::Unsupported,
        Io::WouldBlock,
        Io::WriteZero,
    ];
    let rows = permanent.map(|kind| (kind, ErrorKind::Usage)).into_iter();
    for (io_kind, kind) in rows.chain(passing.map(|kind| (kind, ErrorKind::Retry))) {
        let error = Error::io("write 000000000001.seg")(io_kind.into());
        assert_eq!(error.kind(), kind, "{io_kind:?}");
        assert_eq!(error.is_retryable(), kind == ErrorKind::Retry, "{io_kind:?}");
    }
}

#[test]
fn display_and_source_never_say_the_same_twice() {
    for (error, _) in every_variant() {
        let (own, whole) = (error.to_string(), format!("{error:#}"));
        let (mut sources, mut next) = (vec![], StdError::source(&error));
        while let Some(source) = next {
            sources.push(source.to_string());
            next = source.source();
        }
        for source in &sources {
            assert!(!own.contains(source.as_str()), "{own:?} repeats {source:?}");
            assert_eq!(whole.matches(source.as_str()).count(), 1, "{whole:?}");
        }
        let parts: Vec<String> = std::iter::once(own).chain(sources).collect();
        assert_eq!(whole, parts.join(": "), "{error:?}");
    }
}

#[test]
fn every_variant_with_a_cause_returns_it_as_its_source() {
    for (error, _) in every_variant() {
        let has_cause = format!("{error:?}").contains(CAUSE);
        let source = StdError::source(&error).map(ToString::to_string);
        assert_eq!(source.as_deref() == Some(CAUSE), has_cause, "{error:?}");
    }
}

#[test]
fn message_starts_in_lower_case_and_ends_without_a_period() {
    for (error, _) in every_variant() {
        let text = error.to_string();
        assert!(text.starts_with(char::is_lowercase), "{text:?}");
        assert!(!text.ends_with('.'), "{text:?}");
    }
}
