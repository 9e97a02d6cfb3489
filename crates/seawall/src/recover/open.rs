//! Opening a log for append: inspect, then create it, go on in place, or go on in a new segment.
//! format.md sections 7 and 8, rules R12 and R15.

pub(crate) mod create;
pub(crate) mod resume;

use crate::base::env::Machine;
use crate::base::error::{Error, Result};
use crate::base::options::{OpenMode, Options, SEGMENT_DEFAULT};
use crate::base::record_type;
use crate::files::directory;
use crate::files::directory::{LOCK, MANIFEST};
use crate::recover::decision::Verdict;
use crate::recover::inspection::{Until, inspect, inspect_mended};
use crate::recover::open::create::create;
use crate::recover::open::resume::recover;
use crate::recover::report::Recovery;
use crate::write::writer::Writer;
use seawall_format::{Geometry, Level, Manifest, RecordType, next_lsn};
use seawall_io::Storage;
use std::sync::Arc;

/// Opens or creates the log.
pub(crate) fn open(
    options: &Options,
    storage: Arc<dyn Storage>,
    record_type: RecordType,
) -> Result<(Writer, Recovery, Level)> {
    let names = directory::refuse_foreign(&*storage)?;
    if !options.create && !holds_log(&names) {
        let found = "there is no manifest and no segment".to_owned();
        return Err(Error::NotALog { place: storage.place(), found });
    }
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let lock = locked.ok_or_else(|| Error::Busy { place: storage.place() })?;
    let machine = Machine::new(options, storage);
    // Looked at anew: before it was locked, somebody may have made a log here.
    if !holds_log(&directory::list(&*machine.storage)?) {
        return create(options, machine, lock, record_type);
    }
    let salvage = options.mode == OpenMode::Salvage;
    let until = if salvage { Until::End } else { Until::Damage };
    let mut found = match options.mode {
        OpenMode::Strict => inspect(&machine.storage, until)?,
        OpenMode::Standard | OpenMode::Salvage => inspect_mended(&machine.storage, until)?,
    };
    match found.row.verdict() {
        Verdict::Create => return create(options, machine, lock, record_type),
        Verdict::Damage if !salvage || !found.has_both_ends() => {
            return Err(Error::Damaged(Box::new(found.damage_or_cut())));
        }
        Verdict::CannotTell if options.mode == OpenMode::Strict => return Err(found.cannot_tell()),
        Verdict::Damage | Verdict::Clean | Verdict::Torn | Verdict::CannotTell => {}
    }
    let end = found.end.as_ref().map(|end| next_lsn(end.last));
    let manifest = found.survey.manifest.as_mut().expect("the verdict has read it");
    // Nothing is given up that is yet to come: who says so is no manifest that we wrote.
    manifest.oldest_base = end.map_or(manifest.oldest_base, |end| manifest.oldest_base.min(end));
    record_type::check(&manifest.record_type, &record_type)?;
    check_options(options, manifest)?;
    manifest.record_type = record_type::from_now_on(&manifest.record_type, &record_type);
    manifest.parity = options.parity.instead_of(manifest.parity);
    recover(options, machine, lock, &found)
}

fn holds_log(names: &[String]) -> bool {
    names.iter().any(|name| name == MANIFEST) || directory::segment_ids(names).next().is_some()
}

fn check_options(options: &Options, manifest: &Manifest) -> Result<()> {
    if let Some(asked) = options.layout.filter(|asked| *asked != manifest.layout) {
        let (has, asked) = (manifest.layout.name().to_owned(), asked.name().to_owned());
        return Err(Error::Mismatch { what: "layout", has, asked });
    }
    match options.segment_max {
        Some(asked) if asked != manifest.segment_max => Err(Error::Mismatch {
            what: "segment size",
            has: manifest.segment_max.to_string(),
            asked: asked.to_string(),
        }),
        _ => Ok(()),
    }
}

const _: () = assert!(SEGMENT_DEFAULT <= Geometry::SEGMENT_MAX);
