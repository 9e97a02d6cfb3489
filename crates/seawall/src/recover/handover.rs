//! Hands a recovered or new log to its writer.

use crate::base::env::Machine;
use crate::base::options::Options;
use crate::base::retention::Retained;
use crate::files::directory;
use crate::files::live::LiveFile;
use crate::files::manifest::ManifestFile;
use crate::parity::writer::Tracker;
use crate::write::direct_io::Blocks;
use crate::write::rotation::Rolled;
use crate::write::writer::{Counts, Writer};
use seawall_format::{Lsn, SegmentId};
use seawall_io::Lock;

/// What a writer begins with.
pub(crate) struct Beginning {
    pub(crate) manifest: ManifestFile,
    pub(crate) rolled: Rolled,
    pub(crate) last: Option<Lsn>,
    pub(crate) last_chain: u64,
    pub(crate) max_id: Option<SegmentId>,
}

pub(crate) fn writer(
    options: &Options,
    machine: Machine,
    lock: Box<dyn Lock>,
    begin: Beginning,
) -> Writer {
    let Beginning { manifest, rolled, last, last_chain, max_id } = begin;
    let parity = manifest.content.parity.map(Tracker::new);
    Writer {
        live: LiveFile::new(&*machine.storage),
        machine,
        manifest,
        tail: rolled.tail,
        chain: rolled.passed,
        last,
        last_chain,
        recent: rolled.sent.into(),
        parity,
        unsettled: vec![],
        spare: None,
        buffers: vec![],
        blocks: Blocks::default(),
        max_id,
        segment_min: options.segment_min,
        counts: Counts::default(),
        retained: Retained::by(options.retention),
        failovers: vec![],
        lock,
    }
}

/// Files that were to be segments when somebody died: never part of the log.
pub(crate) fn remove_spares(machine: &Machine, names: &[String]) {
    for name in names.iter().filter(|name| directory::is_spare(name)) {
        // One that stays is tried again at the next open; it only takes room.
        let _ = machine.storage.remove(name);
    }
}
