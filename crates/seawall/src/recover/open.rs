//! Opens a log for append: inspects it, then creates it, resumes in place, or resumes in a new
//! segment (format.md sections 7 and 8, rules R12 and R15).

pub(crate) mod create;
pub(crate) mod resume;

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::options::{OpenMode, Options, SEGMENT_DEFAULT};
use crate::base::record_type;
use crate::files::directory;
use crate::files::directory::{LOCK, MANIFEST};
use crate::recover::decision::Action;
use crate::recover::inspection::{Until, inspect, inspect_repaired};
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
        let found = "no manifest and no segment".to_owned();
        return Err(Error::NotALog { place: storage.place(), found });
    }
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let lock = locked.ok_or_else(|| Error::Busy { place: storage.place() })?;
    let env = Env::new(options, storage);
    // Listed again under the lock: another process may have created a log meanwhile.
    if !holds_log(&directory::list(&*env.storage)?) {
        return create(options, env, lock, record_type);
    }
    let salvage = options.mode == OpenMode::Salvage;
    let until = if salvage { Until::End } else { Until::Damage };
    let mut found = match options.mode {
        OpenMode::Strict => inspect(&env.storage, until)?,
        OpenMode::Standard | OpenMode::Salvage => inspect_repaired(&env.storage, until)?,
    };
    match found.row.action() {
        Action::Create => return create(options, env, lock, record_type),
        Action::Damage if !salvage || !found.has_both_ends() => {
            return Err(Error::Damaged(Box::new(found.first_damage())));
        }
        Action::Ambiguous if options.mode == OpenMode::Strict => {
            return Err(found.ambiguous_error());
        }
        Action::Damage | Action::Clean | Action::Torn | Action::Ambiguous => {}
    }
    let end = found.end.as_ref().map(|end| next_lsn(end.last));
    let manifest = found.catalog.manifest.as_mut().expect("the action has read it");
    // A valid manifest never starts the log after its end.
    manifest.oldest_base = end.map_or(manifest.oldest_base, |end| manifest.oldest_base.min(end));
    record_type::check(&manifest.record_type, &record_type)?;
    check_options(options, manifest)?;
    manifest.record_type = record_type::merged_with(&manifest.record_type, &record_type);
    manifest.parity = options.parity.or_keep(manifest.parity);
    recover(options, env, lock, &found)
}

fn holds_log(names: &[String]) -> bool {
    names.iter().any(|name| name == MANIFEST) || directory::segment_ids(names).next().is_some()
}

fn check_options(options: &Options, manifest: &Manifest) -> Result<()> {
    if let Some(requested) = options.layout.filter(|requested| *requested != manifest.layout) {
        let (has, requested) = (manifest.layout.name().to_owned(), requested.name().to_owned());
        return Err(Error::Mismatch { what: "layout", has, requested });
    }
    match options.segment_max {
        Some(requested) if requested != manifest.segment_max => Err(Error::Mismatch {
            what: "segment size",
            has: manifest.segment_max.to_string(),
            requested: requested.to_string(),
        }),
        _ => Ok(()),
    }
}

const _: () = assert!(SEGMENT_DEFAULT <= Geometry::SEGMENT_MAX);
