//! Tests of every error variant: what the caller can do, and the message.

use super::kind::ErrorKind;
use super::log_path::NamesLog;
use super::*;
use std::error::Error as StdError;
use std::path::Path;

const CAUSE: &str = "the cause of the test";

fn cause() -> io::Error {
    io::Error::other(CAUSE)
}

/// Returns the variant's position in the enum. A new variant does not compile until it is added
/// here, which is the reminder to add it to [`every_variant`].
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
        Error::WouldBlock { .. } => 17,
        Error::Closed { .. } => 18,
        Error::Reentrant { .. } => 19,
        Error::Forked { .. } => 20,
        Error::Key { .. } => 21,
    }
}

const VARIANTS: usize = 22;

/// One error of each variant, with the action that it leaves to the caller.
fn every_variant() -> Vec<(Error, ErrorKind)> {
    use ErrorKind::{Reopen, Repair, Retry, Usage};
    let (lsn, segment, offset) = (Lsn::FIRST, SegmentId::new(3).unwrap(), Offset(4096));
    let codec = || -> CodecError { CAUSE.into() };
    let mut damage = Damage::new(Corruption::Body);
    (damage.segment, damage.lost) = (Some(segment), Some(Lost::new(lsn, None)));
    let refused = Refused::OtherVersion { version: 9, draft: 0 };
    let (has, requested) = ("json".to_owned(), "raw".to_owned());
    let found = "it holds no manifest".to_owned();
    vec![
        (Error::io("open orders.wal/live")(cause()), Retry),
        (Error::Busy { log: None }, Retry),
        (Error::NotALog { log: None, found }, Usage),
        (Error::Unsupported { log: None, place: "orders.wal/manifest".to_owned(), refused }, Usage),
        (Error::Mismatch { log: None, what: "codec", has, requested }, Usage),
        (Error::InvalidOption { log: None, why: "a limit of 0 bytes".to_owned() }, Usage),
        (Error::damaged(damage), Repair),
        (Error::Ambiguous { log: None, segment, offset }, Repair),
        (Error::TooLarge { log: None, size: 9, max: 8 }, Usage),
        (Error::DiskFull { log: None, source: cause() }, Retry),
        (Error::Encode { log: None, source: codec() }, Usage),
        (Error::decode(lsn, codec()), Usage),
        (Error::Poisoned { log: None, cause: "cannot sync 000000000001.seg".into() }, Reopen),
        (Error::pruned(lsn), Usage),
        (Error::rewound(lsn), Usage),
        (Error::BeyondEnd { log: None, from: lsn.next(), next: lsn }, Usage),
        (Error::Unconfirmed { log: None, from: lsn, to: None, source: cause() }, Repair),
        (Error::WouldBlock { log: None }, Retry),
        (Error::Closed { log: None }, Reopen),
        (Error::Reentrant { log: None }, Usage),
        (Error::Forked { log: None, opened_in: 77 }, Reopen),
        (Error::key("orders.wal/keys".to_owned())(KeyError::Forged), Usage),
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

/// The action after each kind of I/O error that the workspace's code names, and after some others.
const IO_KINDS: [(io::ErrorKind, ErrorKind); 29] = {
    use ErrorKind::{Reopen, Repair, Retry, Usage};
    use io::ErrorKind as Io;
    [
        (Io::AddrInUse, Retry),
        (Io::AlreadyExists, Usage),
        (Io::BrokenPipe, Retry),
        (Io::ConnectionRefused, Retry),
        (Io::ConnectionReset, Retry),
        (Io::Deadlock, Retry),
        (Io::DirectoryNotEmpty, Usage),
        (Io::FileTooLarge, Retry),
        (Io::Interrupted, Retry),
        (Io::InvalidData, Repair),
        (Io::InvalidFilename, Usage),
        (Io::InvalidInput, Usage),
        (Io::IsADirectory, Usage),
        (Io::NotADirectory, Usage),
        (Io::NotConnected, Retry),
        (Io::NotFound, Usage),
        (Io::Other, Retry),
        (Io::OutOfMemory, Retry),
        (Io::PermissionDenied, Usage),
        (Io::QuotaExceeded, Retry),
        (Io::ReadOnlyFilesystem, Usage),
        (Io::ResourceBusy, Retry),
        (Io::StaleNetworkFileHandle, Reopen),
        (Io::StorageFull, Retry),
        (Io::TimedOut, Retry),
        (Io::UnexpectedEof, Repair),
        (Io::Unsupported, Usage),
        (Io::WouldBlock, Retry),
        (Io::WriteZero, Retry),
    ]
};

#[test]
fn each_kind_of_io_error_leaves_the_action_of_its_row() {
    for (io_kind, kind) in IO_KINDS {
        let error = Error::io("write 000000000001.seg")(io_kind.into());
        assert_eq!(error.kind(), kind, "{io_kind:?}");
        assert_eq!(error.is_retryable(), kind == ErrorKind::Retry, "{io_kind:?}");
    }
}

#[test]
fn device_that_fails_without_a_kind_of_its_own_can_be_retried() {
    const EIO: i32 = 5;
    let error = Error::io("read 000000000001.seg")(io::Error::from_raw_os_error(EIO));
    assert_eq!(error.kind(), ErrorKind::Retry);
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
fn every_variant_names_its_log_once_and_without_log_not_at_all() {
    for (error, _) in every_variant() {
        let own = error.to_string();
        assert_eq!((error.log(), error.without_log().to_string()), (None, own.clone()));
        let error = error.of_log_at(Path::new("orders.wal"));
        assert_eq!(error.log(), Some(Path::new("orders.wal")));
        // The messages of these variants name a file of the log already.
        let is_named =
            matches!(error, Error::Io { .. } | Error::Unsupported { .. } | Error::Key { .. });
        let whole = if is_named { own.clone() } else { format!("log orders.wal: {own}") };
        assert_eq!((error.to_string(), error.without_log().to_string()), (whole, own));
        assert_eq!(error.to_string().matches("orders.wal").count(), 1, "{error}");
    }
}

#[test]
fn error_that_names_its_log_keeps_it() {
    for (error, _) in every_variant() {
        let error = error.of_log_at(Path::new("replica")).of_log_at(Path::new("orders.wal"));
        assert_eq!(error.log(), Some(Path::new("replica")));
    }
}

#[test]
fn log_counts_as_named_only_by_its_whole_path() {
    let poisoned = |cause: &str| Error::Poisoned { log: None, cause: cause.into() };
    for (text, is_named) in [
        ("open log", true),
        ("open log/live", true),
        ("create log (open log/manifest)", true),
        ("sync log: the device failed", true),
        ("open /var/log/live", false),
        ("open log2/live", false),
        ("sync the log's directory", false),
        ("close it while the log was open", false),
    ] {
        let error = Error::io(text)(cause()).of_log_at(Path::new("log"));
        assert_eq!(!error.to_string().starts_with("log log: "), is_named, "{error}");
        let error = poisoned(text).of_log_at(Path::new("log"));
        assert_eq!(!error.to_string().starts_with("log log: "), is_named, "{error}");
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
