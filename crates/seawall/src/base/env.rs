//! The environment of a log: its storage, clock and randomness.

use crate::base::deferred_delete::DeferredDelete;
use crate::base::error::{Error, Result};
use crate::base::keys::LogKeys;
use crate::base::options::{Options, Streaming};
use crate::base::spare_files::SpareFiles;
use crate::base::sync::{AtomicU64, Mutex, Ordering};
use seawall_format::SegmentHeader;
use seawall_format::encoded::EncodeSizes;
use seawall_format::encryption::{KeyError, SegmentKeys};
use seawall_io::{Clock, Entropy, Storage};
use std::io;
use std::sync::{Arc, PoisonError};

/// The environment that a log runs in.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The next number for a preallocated file.
    pub(crate) spares: Arc<AtomicU64>,
    pub(crate) deferred_delete: Arc<DeferredDelete>,
    /// Whether a thread prepares files in advance.
    pub(crate) has_preallocator: bool,
    /// Files of removed segments that may become new ones.
    pub(crate) spare_files: Arc<SpareFiles>,
    /// Whether each write of records fills its last block.
    pub(crate) fills_blocks: bool,
    /// Limits for several writes in flight.
    pub(crate) streaming: Streaming,
    /// Minimum size of a batch to compress, if the log compresses, and maximum size of a chunk.
    pub(crate) encode_sizes: EncodeSizes,
    /// The keys of an encrypted log.
    keys: Arc<Mutex<Option<LogKeys>>>,
    /// Whether segments may get their names before they are needed.
    pub(crate) names_ahead: bool,
    /// Why a sync of the directory has failed.
    dir_sync_failure: Arc<Mutex<Option<String>>>,
}

impl Env {
    pub(crate) fn new(options: &Options, storage: Arc<dyn Storage>) -> Self {
        let (clock, entropy) = (options.clock.clone(), options.entropy.clone());
        let deferred_delete = Arc::new(DeferredDelete::new(options.next.preallocate));
        let spare_files = Arc::new(SpareFiles::new(options.next.reuse));
        if options.retention.is_some() {
            spare_files.expect();
        }
        let spares = Arc::new(AtomicU64::new(1));
        let (has_preallocator, streaming) = (options.next.preallocate, options.streaming);
        Self {
            storage,
            clock,
            entropy,
            spares,
            deferred_delete,
            has_preallocator,
            spare_files,
            fills_blocks: options.fills_blocks,
            streaming,
            encode_sizes: options.encode_sizes,
            keys: Arc::default(),
            names_ahead: options.next.name_ahead,
            dir_sync_failure: Arc::default(),
        }
    }

    /// The keys of an encrypted log.
    pub(crate) fn keys(&self) -> Option<LogKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys for all threads.
    pub(crate) fn set_keys(&self, keys: Option<LogKeys>) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The keys of the segment with this header, if it is encrypted.
    pub(crate) fn keys_of(&self, header: &SegmentHeader) -> Result<Option<Arc<SegmentKeys>>> {
        if header.authenticator.is_none() {
            return Ok(None);
        }
        let keys = self.keys().ok_or(KeyError::NoKey);
        keys.and_then(|keys| keys.of(header)).map(Some).map_err(Error::key(None))
    }

    /// Signs the header of a new segment if the log, and so the segment, is encrypted.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if no reader would accept the header, or if this log is
    /// encrypted and its keys are not known.
    pub(crate) fn sign(
        &self,
        header: SegmentHeader,
        is_encrypted: bool,
    ) -> io::Result<SegmentHeader> {
        let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        match self.keys() {
            _ if !header.is_consistent() => {
                refused(format!("no reader would accept this header: {header:?}"))
            }
            Some(keys) => Ok(keys.sign_header(header)),
            None if is_encrypted => refused(KeyError::NoKey.to_string()),
            None => Ok(header),
        }
    }

    /// Syncs the directory. After a failure every later call fails: the device may have lost a
    /// rename of another thread, and reports the failure to one thread only.
    pub(crate) fn sync_dir(&self) -> io::Result<()> {
        let mut failure = self.dir_sync_failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &*failure {
            return Err(io::Error::other(format!(
                "an earlier sync of the directory failed: {why}"
            )));
        }
        let synced = self.storage.sync_dir();
        *failure = synced.as_ref().err().map(ToString::to_string);
        synced
    }

    /// A new file name, not used before in this process.
    pub(crate) fn spare_name(&self) -> String {
        format!("spare-{}.tmp", self.spares.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs `act`. If the device is full, frees the space that removed segments still occupy and
    /// runs `act` once more.
    pub(crate) fn retry_after_reclaim<R>(
        &self,
        mut act: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match act() {
            Err(error) if is_full(&error) && self.reclaim() => act(),
            done => done,
        }
    }

    /// Frees the space of removed segments. Returns whether there were any.
    fn reclaim(&self) -> bool {
        let had_spares = self.spare_files.discard_all(&*self.storage);
        self.deferred_delete.drain() || had_spares
    }
}

/// Whether `error` says that the device, or the user's quota on it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::spare_files::SpareFile;
    use seawall_format::{
        CodecId, Compression, Epoch, Geometry, Layout, LogId, Lsn, RecordType, SegmentId,
    };
    use seawall_testkit::MemStorage;

    fn header() -> SegmentHeader {
        SegmentHeader {
            geometry: Geometry::DEFAULT,
            log: LogId(3),
            authenticator: None,
            id: SegmentId::FIRST,
            epoch: Epoch(9),
            base: Lsn::FIRST,
            carried: None,
            size: 1 << 20,
            pred: None,
            pred_chain: 0,
            layout: Layout::Binary,
            is_reused: false,
            named_ahead: false,
            in_flight_max: 1,
            compression_max: Compression::None,
            record_type: RecordType::of(CodecId::Raw),
            time_us: 0,
        }
    }

    /// An environment with one removed segment, which is kept for reuse if `is_spare` and waits to
    /// be freed otherwise.
    fn with_removed(is_spare: bool) -> Env {
        let storage = MemStorage::new();
        let env = Env::new(&Options::new(), Arc::new(storage.clone()));
        let (name, file) = ("spare-7.tmp", storage.create("spare-7.tmp").expect("a free name"));
        file.set_len(4 << 20).expect("the device has room");
        if is_spare {
            let name = name.to_owned();
            let spare = SpareFile { name, file, header: header(), sums: None };
            env.spare_files.add(spare, &storage);
        } else {
            env.deferred_delete.add(file);
        }
        env
    }

    #[test]
    fn full_device_frees_removed_segments_and_retries_once() {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, StorageFull};
        for is_spare in [false, true] {
            for (kind, expected) in [(StorageFull, 2), (QuotaExceeded, 2), (PermissionDenied, 1)] {
                let (env, mut tries) = (with_removed(is_spare), 0);
                let done = env.retry_after_reclaim(|| {
                    tries += 1;
                    if tries > 1 { Ok(()) } else { Err(kind.into()) }
                });
                assert_eq!((tries, done.is_ok()), (expected, expected == 2), "{kind} {is_spare}");
                let is_gone = env.storage.open("spare-7.tmp", seawall_io::Access::Read).is_err();
                assert_eq!(is_gone, is_spare && expected == 2);
            }
        }
        let env = Env::new(&Options::new(), Arc::new(MemStorage::new()));
        let mut tries = 0;
        let done: io::Result<()> = env.retry_after_reclaim(|| {
            tries += 1;
            Err(StorageFull.into())
        });
        assert_eq!((tries, done.is_ok()), (1, false), "nothing to free");
    }

    #[test]
    fn header_that_no_reader_accepts_is_refused() {
        let env = Env::new(&Options::new(), Arc::new(MemStorage::new()));
        env.sign(header(), false).expect("a valid header");
        let odd = SegmentHeader { size: header().size + 1, ..header() };
        for (header, is_encrypted) in [(odd, false), (header(), true)] {
            let refused = env.sign(header, is_encrypted).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
        }
    }

    #[test]
    fn failed_sync_of_the_directory_makes_every_later_one_fail() {
        let device = MemStorage::new();
        let env = Env::new(&Options::new(), Arc::new(device.clone()));
        device.fail_sync(0, |_| false);
        let first = env.sync_dir().unwrap_err();
        // The device reports the failure only once.
        device.sync_dir().expect("it failed once");
        for other in [&env, &env.clone()] {
            let later = other.sync_dir().unwrap_err().to_string();
            assert_eq!(later, format!("an earlier sync of the directory failed: {first}"));
        }
    }
}
