//! Gives the next segment its name before it is needed (format.md sections 3.5 and 8, ADR 16), so
//! that the rotation into it costs no more than its first batch.

use crate::base::env::Env;
use crate::write::preallocation::file::PreallocatedSegment;
use seawall_format::{Lsn, Manifest, SegmentHeader, SegmentId, SegmentRef};
use std::io;

/// The content of the next segment's header.
#[derive(Debug)]
pub(crate) struct NextSegment {
    /// The log, whose manifest says that segments are named ahead.
    pub(crate) log: Manifest,
    pub(crate) pred: SegmentRef,
    pub(crate) id: SegmentId,
    /// How many writes may be in flight, unless the file is too small.
    pub(crate) in_flight_max: u8,
}

impl PreallocatedSegment {
    /// Makes the file segment `next`. Its header and its name are durable when this returns.
    ///
    /// # Errors
    ///
    /// The file is removed. If that failed as well, the file is not part of the log, because
    /// nothing was written where records go.
    pub(crate) fn name_ahead(mut self, env: &Env, next: &NextSegment) -> io::Result<Self> {
        match self.try_name_ahead(env, next) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard(env);
                Err(error)
            }
        }
    }

    fn try_name_ahead(&mut self, env: &Env, next: &NextSegment) -> io::Result<()> {
        let NextSegment { log, pred, id, in_flight_max } = next;
        let batch_max = u64::from(log.geometry.batch_max);
        let header = SegmentHeader {
            geometry: log.geometry,
            log: log.log,
            authenticator: None,
            id: *id,
            epoch: self.epoch(env)?,
            base: Lsn::FIRST,
            carried: None,
            size: self.head.size,
            pred: Some(*pred),
            pred_chain: 0,
            layout: log.layout,
            is_reused: self.life.is_some(),
            named_ahead: true,
            in_flight_max: self.in_flight_max(log, *in_flight_max, batch_max),
            compression_max: log.compression,
            record_type: log.record_type.clone(),
            time_us: env.clock.wall_us(),
        };
        let header = env.sign(header, log.authenticator.is_some())?;
        self.head.file.write_at(&header.stored(), 0)?;
        self.head.file.sync()?;
        let name = header.data_name();
        self.named = Some(header);
        self.rename(env, name)
    }

    /// Takes the segment's name from the file, if it has one, so that it can become another
    /// segment.
    ///
    /// # Errors
    ///
    /// It is unknown whether the file still has the name.
    pub(crate) fn take_name(&mut self, env: &Env) -> io::Result<()> {
        match self.named.take() {
            // The old name must be gone before the header changes.
            Some(_) => self.rename(env, env.spare_name()),
            None => Ok(()),
        }
    }

    fn rename(&mut self, env: &Env, name: String) -> io::Result<()> {
        env.storage.rename_new(&self.head.name, &name)?;
        self.head.name = name;
        env.sync_dir()
    }
}
