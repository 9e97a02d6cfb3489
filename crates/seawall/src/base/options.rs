//! Options for opening a log and for creating one.

#[cfg(feature = "encryption")]
use crate::base::key_source::KeySource;
use crate::base::retention::Retention;
use seawall_format::encoded::EncodeSizes;
use seawall_format::encryption::Padding;
use seawall_format::parity::Scheme;
use seawall_format::{CodecId, Compression, Geometry, IN_FLIGHT_MAX, Layout, Level, SegmentId};
use seawall_io::{Clock, Entropy, SystemClock, SystemEntropy};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Smallest segment size of a log in bytes.
pub const SEGMENT_MIN: u64 = 1 << 20;

/// How tolerant opening for append is of a damaged log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenMode {
    /// Accepts a torn write at the end and nothing else.
    Strict,
    /// Also accepts an ambiguous end, which may be a torn write or damage. The end is removed, kept
    /// in quarantine and reported.
    #[default]
    Standard,
    /// Also accepts damage, provided that the oldest and the newest segment are intact enough to
    /// find both ends. New records go to a new segment. The damage stays in place:
    /// [`Recovery::damage`](crate::Recovery::damage) reports it, and so does every reader that
    /// reaches it.
    Salvage,
}

/// A write or sync failed and the log continued in a new segment. No acknowledged record is lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failover {
    /// The failure.
    pub cause: String,
    /// The new segment.
    pub segment: SegmentId,
}

/// Which parity a log writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// The current scheme; a new log writes none.
    Keep,
    /// This scheme, or none.
    Set(Option<Scheme>),
}

impl Setting {
    /// The scheme after applying this setting to a log with scheme `has`.
    pub(crate) fn or_keep(self, has: Option<Scheme>) -> Option<Scheme> {
        match self {
            Self::Keep => has,
            Self::Set(requested) => requested,
        }
    }
}

/// Callback for failovers.
#[derive(Clone)]
pub(crate) struct FailoverHook(pub(crate) Arc<dyn Fn(&Failover) + Send + Sync>);

impl fmt::Debug for FailoverHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailoverHook")
    }
}

/// Options for opening a log and for creating one.
///
/// # Examples
///
/// ```
/// use seawall::{Level, Log, Options};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-options-{}", std::process::id()));
/// let log: Log<String> = Options::new().level(Level::Confirmed).open(&folder)?;
/// log.append(&"written twice over".to_owned())?;
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) mode: OpenMode,
    pub(crate) level: Option<Level>,
    pub(crate) codec: Option<CodecId>,
    pub(crate) type_name: Option<String>,
    pub(crate) schema: Option<u32>,
    pub(crate) layout: Option<Layout>,
    pub(crate) segment_max: Option<u64>,
    pub(crate) segment_min: u64,
    pub(crate) parity: Setting,
    pub(crate) compression: Option<Compression>,
    #[cfg(feature = "encryption")]
    pub(crate) key: Option<Arc<dyn KeySource>>,
    /// Padding of encrypted batches. If set, a log that is not encrypted yet becomes encrypted.
    pub(crate) padding: Option<Padding>,
    pub(crate) encode_sizes: EncodeSizes,
    pub(crate) geometry: Geometry,
    pub(crate) idle_mark: Option<Duration>,
    pub(crate) buffered_delay: Duration,
    pub(crate) buffered_bytes: usize,
    pub(crate) sync_every: Option<u64>,
    pub(crate) fills_blocks: bool,
    pub(crate) next: NextFiles,
    pub(crate) streaming: Streaming,
    pub(crate) retention: Option<Retention>,
    pub(crate) on_failover: Option<FailoverHook>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Options {
    /// Defaults: creates a missing log, waits for [`Level::Synced`], and starts a new segment at 64
    /// MiB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            create: true,
            mode: OpenMode::Standard,
            level: None,
            codec: None,
            type_name: None,
            schema: None,
            layout: None,
            segment_max: None,
            segment_min: SEGMENT_MIN,
            parity: Setting::Keep,
            compression: None,
            #[cfg(feature = "encryption")]
            key: None,
            padding: None,
            encode_sizes: EncodeSizes::default(),
            geometry: Geometry::DEFAULT,
            idle_mark: Some(Duration::from_millis(100)),
            buffered_delay: Duration::from_millis(10),
            buffered_bytes: 1 << 20,
            sync_every: None,
            fills_blocks: false,
            next: NextFiles { preallocate: true, reuse: true, name_ahead: true },
            streaming: Streaming::default(),
            retention: None,
            on_failover: None,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// Sets whether to create a missing log. If not, opening one fails with `NotFound`, or with
    /// [`Error::NotALog`](crate::Error::NotALog) if the directory exists without a log.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets how tolerant opening is of damage.
    #[must_use]
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what `append` waits for. A new log stores it; for an existing log it applies while this
    /// handle is open.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// Sets the codec of the payloads, for programs that encode records themselves and open the log
    /// as [`Raw`](crate::Raw).
    #[must_use]
    pub fn codec(mut self, codec: CodecId) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Sets the name of the record type, at most 64 bytes, in place of the codec's name. A log with
    /// another name is refused; a log without one adopts it. Empty matches any log.
    #[must_use]
    pub fn type_name(mut self, name: impl Into<String>) -> Self {
        self.type_name = Some(name.into());
        self
    }

    /// Sets the schema number of new records, in place of the codec's number. A log with a higher
    /// number is refused; one with a lower number continues in a new segment.
    #[must_use]
    pub fn schema(mut self, number: u32) -> Self {
        self.schema = Some(number);
        self
    }

    /// Sets how a new log stores records in its files; fixed at creation. [`Layout::Text`], for
    /// people and text tools, requires records that are JSON: see format.md, section 9.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Sets the size in bytes up to which segments double, at least 1 MiB; fixed at creation.
    #[must_use]
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment_max = Some(bytes);
        self
    }

    /// Sets which parity the log writes for its segments from now on; `None` turns it off. The log
    /// stores the setting. Without this call it does not change.
    ///
    /// [`Parity::DEFAULT`](crate::parity::Parity::DEFAULT) can rebuild two lost blocks of 4 KiB out
    /// of sixteen, for an eighth more space. Commits do not wait for parity: the newest records,
    /// about 4 MiB, have none until the log is idle, closed or reopened. For records appended
    /// before parity was turned on, see [`build_parity`](crate::Maintenance::build_parity()).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::parity::Parity;
    /// use seawall::{Log, Options};
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-par-{}", std::process::id()));
    /// let log: Log<u32> = Options::new().parity(Some(Parity::DEFAULT)).open(&folder)?;
    /// log.append(&7)?;
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn parity(mut self, scheme: Option<Scheme>) -> Self {
        self.parity = Setting::Set(scheme);
        self
    }

    /// Sets whether batches are compressed from now on. The log stores the setting; without this
    /// call it does not change, and a new log is not compressed.
    ///
    /// A batch of less than 1 KiB, or one that would shrink by less than an eighth, is stored as it
    /// is: compression pays where many records are committed together. Each batch is compressed
    /// alone, in pieces of 64 KiB, so damage costs no more than such a piece. The thread that
    /// writes a batch compresses it first.
    ///
    /// The size of a compressed batch tells something about its records. Where an attacker chooses
    /// part of them and sees sizes, compression can reveal the rest (as in the attack CRIME): leave
    /// it off there.
    ///
    /// A log that was opened with compression is refused by programs that are older than this
    /// option. [`Layout::Text`] cannot be compressed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "lz4")] {
    /// use seawall::{Compression, Log, Options};
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-lz4-{}", std::process::id()));
    /// let log: Log<String> = Options::new().compression(Compression::Lz4).open(&folder)?;
    /// let lines: Vec<_> = (0..1000).map(|n| format!("line {n} of a log")).collect();
    /// log.append_batch(&lines)?;
    /// let stats = log.stats();
    /// assert!(stats.bytes < stats.plain_bytes / 2);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Gives the key of an encrypted log. A new log that is created with a key is encrypted.
    ///
    /// Each batch is encrypted and authenticated with AES-256-GCM-SIV, and so are the facts that
    /// decide what recovery does. Without the key, or with another, the log cannot be opened and
    /// nothing is changed; it can be verified, repaired and copied. What others can still see is in
    /// guarantees.md. The key only wraps the keys of the log, which are kept in its file `keys`:
    /// [`Log::change_key`](crate::Log::change_key) replaces it.
    ///
    /// A log that was not encrypted is refused with a key, so that no one can put such a log in the
    /// place of an encrypted one: see [`encrypt`](Self::encrypt). A log that was opened with a key
    /// is refused by programs that are older than this option. [`Layout::Text`] cannot be
    /// encrypted.
    ///
    /// # Examples
    ///
    /// See [`KeyFile`](crate::encryption::KeyFile).
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn key(mut self, source: impl KeySource + 'static) -> Self {
        self.key = Some(Arc::new(source));
        self
    }

    /// Encrypts the log from now on, if it is not encrypted yet, and sets the sizes to which
    /// encrypted batches are padded from now on, so that the sizes of records do not show. Requires
    /// a [`key`](Self::key). The log stores the padding; without this call it does not change.
    ///
    /// Records that were appended before stay as they are, until they are truncated.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::encryption::{Key, Padding};
    /// use seawall::{Log, Options};
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-enc-{}", std::process::id()));
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?; // this one stays readable
    /// log.close()?;
    /// let options = Options::new().key(Key::new(&[7; 32])).encrypt(Padding::Padme);
    /// let log: Log<u32> = options.open(&folder)?;
    /// log.append(&8)?;
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn encrypt(mut self, padding: Padding) -> Self {
        self.padding = Some(padding);
        self
    }

    /// Sets the minimum size of a batch to compress, in bytes of frames, and the maximum size of a
    /// chunk, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn encode_sizes(mut self, frames_min: usize, chunk_max: usize) -> Self {
        self.encode_sizes = EncodeSizes { frames_min, chunk_max };
        self
    }

    /// Sets how long the log is idle before it writes a mark: evidence, apart from the data, of
    /// what is durable. `None`: only at [`Log::confirm`](crate::Log::confirm) and
    /// [`Log::close`](crate::Log::close).
    #[must_use]
    pub fn idle_mark(mut self, delay: Option<Duration>) -> Self {
        self.idle_mark = delay;
        self
    }

    /// Bounds for [`Level::Buffered`]: how long records, and how many bytes, may wait in memory.
    ///
    /// While a batch is being written, the next one may take up to `bytes` bytes, or 2 MiB if that
    /// is more. An append beyond that waits for the device.
    #[must_use]
    pub fn buffered(mut self, delay: Duration, bytes: usize) -> Self {
        (self.buffered_delay, self.buffered_bytes) = (delay, bytes);
        self
    }

    /// Sets [`Level::Buffered`], and lets every `records`-th append wait until all records are
    /// durable, while this handle is open. A crash loses fewer than `records` acknowledged records,
    /// and only within the bounds of [`buffered`](Self::buffered).
    ///
    /// 1 makes every append wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # let name = format!("seawall-doc-every-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// use seawall::{Log, Options};
    ///
    /// let log: Log<u32> = Options::new().sync_every(10).open(&folder)?;
    /// for number in 0..10 {
    ///     log.append(&number)?;
    /// }
    /// assert_eq!(log.durable().map(|lsn| lsn.get()), Some(10));
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sync_every(mut self, records: u64) -> Self {
        (self.level, self.sync_every) = (Some(Level::Buffered), Some(records.max(1)));
        self
    }

    /// Sets whether each write of records ends with zeros up to the end of its block of 4 KiB, so
    /// that no block with acknowledged records is written again; the default is false.
    ///
    /// For devices that garble a whole block if the power fails while they write it. Without this
    /// option a commit writes the block at the end of the log again, with the acknowledged records
    /// in it. With it, each commit takes at least 4 KiB on the disk. Blocks of
    /// [parity](Self::parity) are still written again. The log does not store this option: pass it
    /// at each open. Programs without it read such a log.
    ///
    /// Opening a log in [`Layout::Text`] with it fails with
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    ///
    /// # Examples
    ///
    /// ```
    /// # let name = format!("seawall-doc-fill-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// use seawall::{Log, Options};
    ///
    /// let log: Log<u32> = Options::new().fill_blocks(true).open(&folder)?;
    /// log.append(&7)?;
    /// assert_eq!(log.stats().bytes, 4096);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fill_blocks(mut self, fill: bool) -> Self {
        self.fills_blocks = fill;
        self
    }

    /// Calls `hook` each time a write or sync failed and the log continued in a new segment: the
    /// device may need attention.
    ///
    /// The hook runs on the thread that led the commit, which is a thread of the log or one that
    /// appends, after the records are durable and other threads can commit again. Several threads
    /// may call it at once. A call in the hook that would write to this log or wait for it returns
    /// [`Error::Reentrant`](crate::Error::Reentrant), except one that closes it. A panic in the
    /// hook is caught: the records are durable, and the log continues.
    #[must_use]
    pub fn on_failover(mut self, hook: impl Fn(&Failover) + Send + Sync + 'static) -> Self {
        self.on_failover = Some(FailoverHook(Arc::new(hook)));
        self
    }

    /// Sets whether a background thread creates the next segment file ahead of need and frees
    /// removed files in small steps. Without it, commits wait while a rotation creates the file or
    /// a removed file is freed.
    #[must_use]
    pub fn preallocate(mut self, prepare: bool) -> Self {
        self.next.preallocate = prepare;
        self
    }

    /// Sets whether the file of a removed segment may become the file of a new one, which is the
    /// default. Writes to it are faster than to a new file: the file system has no space to find.
    ///
    /// The records of up to two removed segments then stay on the disk until new ones overwrite
    /// them, though no reader of the log shows them. Pass `false` if removed records must not stay;
    /// the file system may keep them in free blocks even then. A log in which files were used again
    /// is refused by programs that are older than this option. It has no effect in
    /// [`Layout::Text`], and on file systems that copy on write.
    #[must_use]
    pub fn reuse(mut self, reuse: bool) -> Self {
        self.next.reuse = reuse;
        self
    }

    /// Sets whether a segment gets its name before it is needed; the default is true.
    ///
    /// The first record of a segment then waits for one sync, not for four in a row. A log that was
    /// opened with it is refused by programs that are older than this option. It has no effect in
    /// [`Layout::Text`].
    #[must_use]
    pub fn name_ahead(mut self, name_ahead: bool) -> Self {
        self.next.name_ahead = name_ahead;
        self
    }

    /// Sets how many writes of a stream may be in flight at the same time, from 1 to 4; the default
    /// is 2.
    ///
    /// Batches of 64 KiB or more make a stream. From the next segment on, the log then writes a
    /// batch while the one before is still on its way, completes one more in memory, and
    /// acknowledges them in order. Each write fills its last block. With `1`, one batch is written
    /// after the other. A log with such a segment is refused by programs that are older than this
    /// option. It has no effect in [`Layout::Text`], and where the file system has no direct
    /// writes.
    #[must_use]
    pub fn writes_in_flight(mut self, max: u8) -> Self {
        self.streaming.in_flight_max = max.clamp(1, IN_FLIGHT_MAX);
        self
    }

    /// Sets two batch sizes in bytes, for tests: from `batch_min` on, batches make a stream; from
    /// `flush_bytes` on, a batch is written before a caller waits.
    #[doc(hidden)]
    #[must_use]
    pub fn stream_batch(mut self, batch_min: u64, flush_bytes: usize) -> Self {
        self.streaming.batch_min = batch_min.max(1);
        self.streaming.flush_bytes = flush_bytes;
        self
    }

    /// Sets how much of the log is kept. Without a retention rule, only
    /// [`Log::truncate_before`](crate::Log::truncate_before) removes records. The rule is not
    /// stored in the log; pass it at each open.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Small sizes, so that tests reach every case within a few kilobytes; fixed at creation.
    #[doc(hidden)]
    #[must_use]
    pub fn geometry(mut self, geometry: Geometry, segment_min: u64) -> Self {
        (self.geometry, self.segment_min) = (geometry, segment_min);
        self
    }

    /// Sets the clock and the source of random bits, for tests and simulation.
    #[doc(hidden)]
    #[must_use]
    pub fn env(mut self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        (self.clock, self.entropy) = (clock, entropy);
        self
    }
}

/// How the file of the next segment is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextFiles {
    /// Whether a thread creates the file in advance.
    pub(crate) preallocate: bool,
    /// Whether the file may be that of a removed segment.
    pub(crate) reuse: bool,
    /// Whether the file may get its name before it is needed.
    pub(crate) name_ahead: bool,
}

/// Limits for several writes in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    /// Maximum number of writes in flight.
    pub(crate) in_flight_max: u8,
    /// The smallest batch that is written while another one is in flight, in bytes.
    pub(crate) batch_min: u64,
    /// Size from which a batch is written although no caller waits for it, in bytes: half of the
    /// bytes in flight in a stream that waits after every 256 KiB.
    pub(crate) flush_bytes: usize,
}

impl Default for Streaming {
    fn default() -> Self {
        Self { in_flight_max: 2, batch_min: 64 << 10, flush_bytes: 144 << 10 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("create", &self.create)
            .field("mode", &self.mode)
            .field("level", &self.level)
            .field("codec", &self.codec)
            .field("type_name", &self.type_name)
            .field("schema", &self.schema)
            .field("layout", &self.layout)
            .field("segment_max", &self.segment_max)
            .field("parity", &self.parity)
            .field("compression", &self.compression)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// Default maximum segment size in bytes.
pub(crate) const SEGMENT_DEFAULT: u64 = 64 << 20;
