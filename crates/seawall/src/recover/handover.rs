//! Builds the writer of a recovered or new log.

use crate::base::env::Env;
use crate::base::error::Damage;
use crate::base::options::Options;
use crate::base::retention::RetentionState;
use crate::files::directory;
use crate::files::live::LiveFile;
use crate::files::manifest::ManifestFile;
use crate::parity::writer::ParityWriter;
use crate::write::rotation::Rotated;
use crate::write::writer::Writer;
use crate::write::writer::counts::Counts;
use seawall_format::{Lsn, SegmentId};
use seawall_io::Lock;
use std::collections::{BTreeMap, VecDeque};

/// Initial state of a writer.
pub(crate) struct Beginning {
    pub(crate) manifest: ManifestFile,
    pub(crate) rotated: Rotated,
    /// The missing segments before the tail.
    pub(crate) gaps: Vec<Damage>,
    pub(crate) last: Option<Lsn>,
    pub(crate) last_chain: u64,
    pub(crate) max_id: Option<SegmentId>,
}

pub(crate) fn writer(options: &Options, env: Env, lock: Box<dyn Lock>, begin: Beginning) -> Writer {
    let Beginning { manifest, rotated, gaps, last, last_chain, max_id } = begin;
    let parity = manifest.content.parity.map(ParityWriter::new);
    Writer {
        live: LiveFile::new(&*env.storage),
        env,
        manifest,
        deferred_write: None,
        tail: rotated.tail,
        chain: rotated.skipped_segments,
        gaps,
        last,
        last_chain,
        recent: rotated.sent.into(),
        parity,
        parity_flushes: vec![],
        seal_thread: None,
        spare: None,
        sums: BTreeMap::new(),
        buffers: vec![],
        blocks: vec![],
        in_flight: VecDeque::new(),
        max_id,
        segment_min: options.segment_min,
        counts: Counts::default(),
        retained: RetentionState::new(options.retention),
        removals: vec![],
        failovers: vec![],
        lock,
    }
}

/// Removes preallocated files that a crash left; they are never part of the log.
pub(crate) fn remove_preallocated(env: &Env, names: &[String]) {
    for name in names.iter().filter(|name| directory::is_preallocated(name)) {
        // An error only costs space; the next open tries again.
        let _ = env.storage.remove(name);
    }
}
