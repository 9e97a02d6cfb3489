//! The one way a log goes on in a new segment: FORMAT.md section 8, rule R6.
//!
//! Content durable under a temporary name, rename, directory sync, then the predecessor's seal. The
//! caller tells readers and acknowledges. Creation and recovery use the same steps as an
//! ordinary roll.

use crate::{Error, Lsn, Offset, Result, SegmentId};
use seawall_format::batch::{self, Life, Spec};
use seawall_format::{Epoch, Manifest, Seal, SegmentHeader, SegmentRef, lsn_or_zero};
use seawall_io::{Clock, Entropy, File, Storage};
use std::sync::Arc;

/// What a log stands on.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// The segment that is open for append.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) life: Life,
    pub(crate) file: Arc<dyn File>,
    /// Where the next batch goes.
    pub(crate) at: Offset,
    /// The chain value that it names.
    pub(crate) chain: u64,
    /// The sequence number of the last mark.
    pub(crate) marks: u64,
}

/// Records that a new segment starts with: room for a header, then unbound frames.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    pub(crate) time_us: u64,
}

/// The segment to be made.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) id: SegmentId,
    /// Its first record; the one before is durable.
    pub(crate) base: Lsn,
    pub(crate) carry: Vec<Carried>,
    pub(crate) pred: Option<Pred<'a>>,
    /// The least size of its file, in bytes.
    pub(crate) least: u64,
}

/// The segment that it follows.
#[derive(Debug)]
pub(crate) struct Pred<'a> {
    pub(crate) header: &'a SegmentHeader,
    pub(crate) file: &'a dyn File,
    /// The chain value of the batch that holds the last record, or 0.
    pub(crate) chain: u64,
}

/// Makes the segment, durable and named, and seals its predecessor.
pub(crate) fn roll(machine: &Machine, log: &Manifest, plan: Plan<'_>) -> Result<TailSegment> {
    let header = header(machine, log, &plan)?;
    let temporary = plan.id.temporary_name();
    let Plan { mut carry, pred, .. } = plan;
    let made = make(machine, header, &mut carry);
    if made.is_err() {
        // Whatever went wrong, half a segment helps nobody and may fill the disk.
        let _ = machine.storage.remove(&temporary);
    }
    let tail = made?;
    if let Some(pred) = pred {
        let last = tail.header.base.previous();
        seal(&pred, last, tail.header.reference(), machine.clock.wall_us())?;
    }
    Ok(tail)
}

fn header(machine: &Machine, log: &Manifest, plan: &Plan<'_>) -> Result<SegmentHeader> {
    let epoch = machine.entropy.random().map_err(Error::io("draw an epoch"))?;
    let data: usize = plan.carry.iter().map(|batch| batch.bytes.len()).sum();
    let data = u64::try_from(data).expect("fits in 64 bits");
    let count: u64 = plan.carry.iter().map(|batch| u64::from(batch.count)).sum();
    Ok(SegmentHeader {
        geometry: log.geometry,
        log: log.log,
        id: plan.id,
        epoch: Epoch(epoch),
        base: plan.base,
        carried: Lsn::new(lsn_or_zero(plan.base.previous()) + count),
        size: log.geometry.segment_size(data, plan.least),
        pred: plan.pred.as_ref().map(|pred| pred.header.reference()),
        pred_chain: plan.pred.as_ref().map_or(0, |pred| pred.chain),
        record_type: log.record_type.clone(),
        time_us: machine.clock.wall_us(),
    })
}

/// Steps (a) to (c).
fn make(machine: &Machine, header: SegmentHeader, carry: &mut [Carried]) -> Result<TailSegment> {
    let (temporary, name) = (header.id.temporary_name(), header.id.file_name());
    let failed = |what: &str| format!("{what} {temporary}");
    let storage = &machine.storage;
    let file = storage.create(&temporary).map_err(Error::io(failed("create")))?;
    file.fill_with_zeros(header.size).map_err(Error::io(failed("fill")))?;
    let mut tail = TailSegment {
        life: Life::of(&header),
        at: Offset(header.geometry.data_start()),
        chain: header.chain(),
        marks: 0,
        file,
        header,
    };
    for batch in carry {
        let spec = Spec {
            first: batch.first,
            count: batch.count,
            confirmed: tail.header.base.previous(),
            chain: tail.chain,
            time_us: batch.time_us,
        };
        tail.chain = batch::finish(&mut batch.bytes, spec, tail.at, &tail.life);
        let write = tail.file.write_at(&batch.bytes, tail.at.0);
        write.map_err(Error::io(failed("write")))?;
        tail.at = tail.at.plus(u64::try_from(batch.bytes.len()).expect("fits in 64 bits"));
    }
    tail.file.write_at(&tail.header.encode(), 0).map_err(Error::io(failed("write")))?;
    tail.file.sync().map_err(Error::io(failed("sync")))?;
    storage.rename(&temporary, &name).map_err(Error::io(failed("rename")))?;
    storage.sync_dir().map_err(Error::io(format!("sync the directory of {name}")))?;
    Ok(tail)
}

/// Step (d).
fn seal(pred: &Pred<'_>, last: Option<Lsn>, next: SegmentRef, time_us: u64) -> Result<()> {
    let bytes = Seal { last, next, time_us }.encode(pred.header);
    let offset = Seal::offset(pred.header.geometry);
    let written = pred.file.write_at(&bytes, offset.0).and_then(|()| pred.file.sync());
    written.map_err(Error::io(format!("seal {}", pred.header.id.file_name())))
}
