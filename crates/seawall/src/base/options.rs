//! How a log is opened, and what a new one is like.

use crate::base::retention::Retention;
use seawall_format::parity::Scheme;
use seawall_format::{CodecId, Geometry, Layout, Level, SegmentId};
use seawall_io::{Clock, Entropy, SystemClock, SystemEntropy};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The smallest segment of a log, in bytes.
pub const SEGMENT_MIN: u64 = 1 << 20;

/// What opening a log for append puts up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// A torn write at the end, nothing else.
    Strict,
    /// An end that could be a torn write or damage, too: it is cut off, kept and reported.
    #[default]
    Standard,
    /// Damage, too, if both ends of the log are there. New records go to a new segment; what is
    /// damaged stays as it is, is named in [`Recovery::damage`](crate::Recovery::damage) and by
    /// every reader that comes to it.
    Salvage,
}

/// A write or sync failed, and the log went on in a new segment: nothing acknowledged is lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failover {
    /// What failed.
    pub cause: String,
    /// The segment that it went on in.
    pub segment: SegmentId,
}

/// What parity a log is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// What it has; a new one none.
    Keep,
    /// This, or none.
    Now(Option<Scheme>),
}

impl Setting {
    /// What a log has from now on that has this.
    pub(crate) fn or_keep(self, has: Option<Scheme>) -> Option<Scheme> {
        match self {
            Self::Keep => has,
            Self::Now(wanted) => wanted,
        }
    }
}

/// Who is told of failovers.
#[derive(Clone)]
pub(crate) struct FailoverHook(pub(crate) Arc<dyn Fn(&Failover) + Send + Sync>);

impl fmt::Debug for FailoverHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailoverHook")
    }
}

/// How a log is opened, and what a new one is like.
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
    pub(crate) geometry: Geometry,
    pub(crate) idle_mark: Option<Duration>,
    pub(crate) buffered_delay: Duration,
    pub(crate) buffered_bytes: usize,
    pub(crate) preallocate: bool,
    pub(crate) retention: Option<Retention>,
    pub(crate) on_failover: Option<FailoverHook>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Options {
    /// A log that is created where there is none, waits for [`Level::Synced`], and rolls to a new
    /// segment at 64 MiB.
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
            geometry: Geometry::DEFAULT,
            idle_mark: Some(Duration::from_millis(100)),
            buffered_delay: Duration::from_millis(10),
            buffered_bytes: 1 << 20,
            preallocate: true,
            retention: None,
            on_failover: None,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// Whether a missing log is created; otherwise opening fails with `NotFound`.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What an open puts up with.
    #[must_use]
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// What `append` waits for. A new log remembers it; an existing one is given it for as long
    /// as it is open.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// What the payloads are, for programs that encode records themselves and open the log as
    /// [`Raw`](crate::Raw).
    #[must_use]
    pub fn codec(mut self, codec: CodecId) -> Self {
        self.codec = Some(codec);
        self
    }

    /// What the records are called, 64 bytes at most, instead of what the codec says: a log that
    /// has another name is refused, one that has none takes it. Empty: any.
    #[must_use]
    pub fn type_name(mut self, name: impl Into<String>) -> Self {
        self.type_name = Some(name.into());
        self
    }

    /// The schema number of the records to come, instead of what the codec says: a log with a
    /// higher one is refused, one with a lower one goes on in a new segment.
    #[must_use]
    pub fn schema(mut self, number: u32) -> Self {
        self.schema = Some(number);
        self
    }

    /// How the records of a new log stand in its files; fixed at creation. [`Layout::Text`], for
    /// people and their tools, is for records that are JSON: see format.md, section 9.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// The size in bytes that segments double up to, 1 MiB at least; fixed at creation.
    #[must_use]
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment_max = Some(bytes);
        self
    }

    /// What parity the log keeps beside its segments, from now on: an existing one is given it, or
    /// with `None` freed of it, and remembers. Without this call it stays as it is.
    ///
    /// With [`Parity::DEFAULT`](crate::parity::Parity::DEFAULT) two blocks of 4 KiB out of sixteen
    /// can be lost and computed again, for an eighth more room. It is written beside the commits,
    /// not in their way: what was appended last, some 4 MiB, has none before the log idles, closes,
    /// or is opened again. For what was appended before, see
    /// [`protect`](crate::Maintenance::build_parity()).
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
        self.parity = Setting::Now(scheme);
        self
    }

    /// How long the log is idle before it writes a mark: evidence, away from the data, of what is
    /// durable. `None`: only at [`Log::confirm`](crate::Log::confirm) and
    /// [`Log::close`](crate::Log::close).
    #[must_use]
    pub fn idle_mark(mut self, delay: Option<Duration>) -> Self {
        self.idle_mark = delay;
        self
    }

    /// The bounds of [`Level::Buffered`]: how long, and how many bytes, may wait in memory.
    ///
    /// While the device is busy with a batch, as many bytes are taken for the next one, and 2 MiB
    /// at least; whoever brings more waits for the device.
    #[must_use]
    pub fn buffered(mut self, delay: Duration, bytes: usize) -> Self {
        (self.buffered_delay, self.buffered_bytes) = (delay, bytes);
        self
    }

    /// Calls `hook` each time a write or sync failed and the log went on in a new segment: the
    /// device is worth a look.
    ///
    /// The thread that led the commit calls it, a thread of the log or one that appends, once the
    /// records are durable and other threads can commit again. Several threads may call it at once.
    /// A call there that would write to this log or wait for it is
    /// [`Error::Reentrant`](crate::Error::Reentrant). If the hook panics, the panic ends there: the
    /// records are durable, and the log goes on.
    #[must_use]
    pub fn on_failover(mut self, hook: impl Fn(&Failover) + Send + Sync + 'static) -> Self {
        self.on_failover = Some(FailoverHook(Arc::new(hook)));
        self
    }

    /// Whether a thread of the log makes the next segment's file ahead of need, and gives back
    /// those that were removed a little at a time; without it a roll makes it on the way, and a
    /// file that is removed is given back at once, which commits wait for.
    #[must_use]
    pub fn preallocate(mut self, prepare: bool) -> Self {
        self.preallocate = prepare;
        self
    }

    /// How much of the log is kept; without this, all that is not given up by
    /// [`Log::truncate_before`](crate::Log::truncate_before). Not remembered by the log: each open
    /// says it anew.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sizes for tests that want to see every case within a few kilobytes; fixed at creation.
    #[doc(hidden)]
    #[must_use]
    pub fn geometry(mut self, geometry: Geometry, segment_min: u64) -> Self {
        (self.geometry, self.segment_min) = (geometry, segment_min);
        self
    }

    /// Another clock and another source of random bits, for tests and simulation.
    #[doc(hidden)]
    #[must_use]
    pub fn env(mut self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        (self.clock, self.entropy) = (clock, entropy);
        self
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
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// A log's largest segment unless told otherwise, in bytes.
pub(crate) const SEGMENT_DEFAULT: u64 = 64 << 20;
