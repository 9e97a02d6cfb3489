//! Reads and writes the file `manifest`: two slots, of which the newer valid one counts.

use crate::base::error::{Error, Result};
use crate::base::keys::LogKeys;
use crate::files::directory::{MANIFEST, MANIFEST_MAX, file_place, not_a_log, read_small};
use crate::files::segment_reader::read_both_slots;
use seawall_format::encryption::KeyError;
use seawall_format::{Manifest, Offset, Refused, STORED_MAX, SegmentHeader, SegmentId, Stored};
use seawall_io::{File, Storage};
use std::sync::Arc;

pub(crate) fn read_manifest(
    storage: &dyn Storage,
    segments: &[SegmentId],
) -> Result<Vec<Option<Manifest>>> {
    let (bytes, refused) = read_both_slots(storage, MANIFEST, MANIFEST_MAX)?;
    if bytes.is_none() && segments.is_empty() {
        return Err(not_a_log(storage, "there is no manifest and no segment"));
    }
    let bytes = bytes.unwrap_or_default();
    let mut slots = vec![];
    for slot in Manifest::decode_file(&bytes) {
        slots.push(match slot {
            Ok(manifest) => Some(manifest),
            Err(Refused::Invalid) => None,
            Err(refused) => {
                let place = file_place(storage, MANIFEST);
                return Err(Error::refused(place)(refused));
            }
        });
    }
    if let Some(error) = refused.filter(|_| slots.iter().all(Option::is_none)) {
        return Err(error);
    }
    let foreign = !bytes.starts_with(b"SEAWALLM") && slots.iter().all(Option::is_none);
    if foreign && segments.is_empty() {
        return Err(not_a_log(
            storage,
            "the file manifest has another format, and there is no segment",
        ));
    }
    drop_foreign_slots(storage, segments, &mut slots)?;
    Ok(slots)
}

/// Keeps the slots that belong to the log of `segments`, if the two slots belong to different logs.
fn drop_foreign_slots(
    storage: &dyn Storage,
    segments: &[SegmentId],
    slots: &mut [Option<Manifest>],
) -> Result<()> {
    let mut logs: Vec<_> = slots.iter().flatten().map(|slot| slot.log).collect();
    logs.dedup();
    if logs.len() < 2 {
        return Ok(());
    }
    let mut ours = vec![];
    for name in segments.iter().flat_map(|id| [id.file_name(), id.head_name()]) {
        let bytes = read_small(storage, &name, STORED_MAX)?.unwrap_or_default();
        ours.extend(SegmentHeader::decode(&bytes).ok().map(|header| header.log));
    }
    if logs.iter().any(|log| ours.contains(log)) {
        for slot in slots {
            *slot = slot.take().filter(|slot| ours.contains(&slot.log));
        }
    }
    Ok(())
}

/// The highest sequence number of a slot.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 63) - 1;

/// The manifest and its open file.
#[derive(Debug)]
pub(crate) struct ManifestFile {
    pub(crate) content: Manifest,
    pub(crate) file: Arc<dyn File>,
    /// The keys of an encrypted log. Without them, only the manifest of a plain log is written.
    pub(crate) keys: Option<LogKeys>,
}

impl ManifestFile {
    /// Writes and syncs one slot, then the other: a crash leaves one of them valid.
    pub(crate) fn write_both(&mut self, time_us: u64) -> Result<()> {
        self.begin_write(time_us)?.run()
    }

    /// Like [`write_both`](Self::write_both), but leaves the write to the caller.
    pub(crate) fn begin_write(&mut self, time_us: u64) -> Result<ManifestWrite> {
        if self.content.sequence > SEQUENCE_MAX - 2 {
            // No log gets there by itself, so the number was forged. The current slots stay
            // readable.
            let cause = "the manifest's sequence numbers are exhausted".into();
            return Err(Error::Poisoned { log: None, cause });
        }
        if self.content.authenticator.is_some() && self.keys.is_none() {
            // Unsigned, it would look forged, and every later open would refuse the log.
            return Err(Error::key(None)(KeyError::NoKey));
        }
        let slots = [(); 2].map(|()| {
            self.content.sequence += 1;
            self.content.time_us = time_us;
            if let Some(keys) = &self.keys {
                self.content = keys.sign_manifest(&self.content);
            }
            (self.content.stored(), self.content.offset())
        });
        Ok(ManifestWrite { file: self.file.clone(), slots })
    }
}

/// Two slots that are to be written, one after the other.
#[derive(Debug)]
pub(crate) struct ManifestWrite {
    file: Arc<dyn File>,
    slots: [(Stored, Offset); 2],
}

impl ManifestWrite {
    pub(crate) fn run(self) -> Result<()> {
        for (bytes, at) in &self.slots {
            let written = self.file.write_at(bytes, at.0).and_then(|()| self.file.sync());
            written.map_err(Error::io(format!("write {MANIFEST}")))?;
        }
        Ok(())
    }
}
