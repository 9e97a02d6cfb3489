//! Reuse of removed segments: a spare is synced, a table of its content is made durable, and only
//! then do its bytes change.

use super::Writer;
use crate::disk::{DirOp, Name, Stop, World, SECTOR};
use crate::format::*;
use crate::table;
use std::collections::BTreeMap;

/// The maximum number of spares.
const SPARES: usize = 2;

#[derive(Clone, Default)]
pub(super) struct Pool {
    spares: Vec<usize>,
    /// The first table of each file, for the planted bug that uses it again.
    first_tables: BTreeMap<usize, Vec<u32>>,
}

impl Writer {
    pub(super) fn reuses(&self) -> bool {
        self.rules.features.reuse && self.layout != Layout::Text
    }

    /// Finds the spares that an earlier process left.
    pub(super) fn find_spares(&mut self, w: &World) {
        if self.reuses() {
            let spares = w.names.iter().filter(|(n, _)| matches!(n, Name::Spare(_)));
            self.reuse.spares = spares.map(|(_, f)| *f).take(SPARES).collect();
        }
    }

    /// Removes a file that is no longer needed, or keeps it as a spare. Does not sync the
    /// directory.
    pub(super) fn retire(&mut self, w: &mut World, name: Name) -> Result<(), Stop> {
        let is_wanted = self.reuses() && self.reuse.spares.len() < SPARES;
        match name {
            Name::Segment(_) if is_wanted => {
                let file = w.names[&name];
                w.dir(DirOp::Rename(name, Name::Spare(file as u16)))?;
                self.reuse.spares.push(file);
                Ok(())
            }
            _ => w.dir(DirOp::Unlink(name)),
        }
    }

    /// Retires the segments that a truncation took out of the chain.
    pub(super) fn retire_dead(&mut self, w: &mut World, after: u16) -> Result<(), Stop> {
        if !self.reuses() {
            return Ok(());
        }
        let counts: Vec<u16> = self.chain.iter().map(|s| s.header.id).collect();
        let is_dead = |id: u16| id > after && !counts.contains(&id);
        let dead = w.names.keys().copied().filter(|n| match n {
            Name::Segment(id) | Name::Before(id) => is_dead(*id),
            _ => false,
        });
        for name in dead.collect::<Vec<_>>() {
            self.retire(w, name)?;
        }
        Ok(())
    }

    /// Returns a spare with space for this number of sectors, on whose content cache and disk
    /// agree.
    pub(super) fn pick_spare(
        &mut self,
        w: &mut World,
        sectors: usize,
    ) -> Result<Option<usize>, Stop> {
        let enough = data_start(self.layout, self.rules.gap) + sectors * SECTOR;
        let fits = |f: &usize| w.files[*f].cache.len() >= enough;
        let fitting: Vec<usize> = self.reuse.spares.iter().copied().filter(fits).collect();
        for file in fitting {
            self.reuse.spares.retain(|f| *f != file);
            if !self.rules.spare_settled {
                return Ok(Some(file));
            }
            let is_settled = match w.sync(file) {
                Ok(()) => w.files[file].cache == w.files[file].disk,
                Err(Stop::Failed) => false,
                Err(stop) => return Err(stop),
            };
            if is_settled {
                return Ok(Some(file));
            }
            w.dir(DirOp::Unlink(Name::Spare(file as u16)))?;
        }
        Ok(None)
    }

    /// Makes the table of a spare's content durable, together with the spare's name. Returns the
    /// file of the table.
    pub(super) fn write_table(
        &mut self,
        w: &mut World,
        h: &Header,
        spare: usize,
    ) -> Result<usize, Stop> {
        let r = self.rules;
        let file = &w.files[spare];
        let content = if r.spare_settled { &file.disk } else { &file.cache };
        let mut sums = table::sums(content, data_start(self.layout, r.gap));
        if !r.fresh_table {
            sums = self.reuse.first_tables.entry(spare).or_insert(sums).clone();
        }
        let file = w.add_file(0);
        w.dir(DirOp::Link(Name::Before(h.id), file))?;
        w.write(file, 0, &table::encode(h.id, h.epoch, &sums))?;
        if r.table_synced {
            w.sync(file)?;
        }
        if r.table_named {
            w.sync_dir()?;
        }
        Ok(file)
    }
}
