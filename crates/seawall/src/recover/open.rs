//! Opens a log for append: inspects it, then creates it, resumes in place, or resumes in a new
//! segment (format.md sections 7 and 8, rules R12 and R15).

pub(crate) mod create;
mod encryption;
mod mended_parity;
pub(crate) mod resume;

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::options::{OpenMode, Options, SEGMENT_DEFAULT};
use crate::base::record_type;
use crate::files::directory;
use crate::files::directory::{LOCK, MANIFEST};
use crate::files::unlock::{LogFiles, Unlocker};
use crate::recover::decision::Decision;
use crate::recover::inspection::{Until, inspect, inspect_repaired};
use crate::recover::open::create::{
    check_blocks, check_compression, check_encryption, check_new, create,
};
use crate::recover::open::resume::resume;
use crate::recover::remaining::RemainingLog;
use crate::recover::report::Recovery;
use crate::write::writer::Writer;
use seawall_format::{Authenticator, Claims, Geometry, Level, Manifest, RecordType};
use seawall_io::Storage;
use std::sync::Arc;

/// Opens or creates the log.
pub(crate) fn open(
    options: &Options,
    storage: Arc<dyn Storage>,
    record_type: RecordType,
    unlocker: &Arc<Unlocker>,
) -> Result<(Writer, Recovery, Level)> {
    let names = directory::refuse_foreign(&*storage)?;
    if !options.create && !holds_log(&names) {
        return Err(directory::not_a_log(&*storage, "no manifest and no segment"));
    }
    if !holds_log(&names) {
        check_new(options, record_type.clone())?;
    }
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let lock = locked.ok_or(Error::Busy { log: None })?;
    let env = Env::new(options, storage);
    // Listed again under the lock: another process may have created a log meanwhile.
    if !holds_log(&directory::list(&*env.storage)?) {
        return create(options, env, (lock, unlocker), record_type);
    }
    let files = LogFiles::new(env.storage.clone(), unlocker.clone());
    let found = match options.mode {
        OpenMode::Strict => inspect(&files, Until::Damage)?,
        OpenMode::Standard => inspect_repaired(&files, Until::Damage)?,
        OpenMode::Salvage => inspect_repaired(&files, Until::End)?,
    };
    match found.decide(options.mode) {
        Decision::Create => return create(options, env, (lock, unlocker), record_type),
        Decision::Refuse(refusal) => return Err(found.error(refusal)),
        Decision::Resume => {}
    }
    let manifest = found.catalog.manifest().expect("the decision has read it");
    let manifest = changed_as_requested(options, manifest, &record_type)?;
    let end = found.end.as_ref().expect("the decision has seen the end");
    env.set_keys(found.unlock(&files)?);
    resume(options, env, (lock, unlocker), &RemainingLog::whole(&found, end, manifest))
}

fn holds_log(names: &[String]) -> bool {
    names.iter().any(|name| name == MANIFEST) || directory::segment_ids(names).next().is_some()
}

/// The manifest with the record type, parity and compression that the options request.
fn changed_as_requested(
    options: &Options,
    manifest: &Manifest,
    requested: &RecordType,
) -> Result<Manifest> {
    record_type::check(&manifest.record_type, requested)?;
    check_options(options, manifest)?;
    let compression = options.compression.unwrap_or(manifest.compression);
    check_compression(compression, manifest.layout)?;
    check_blocks(options, (manifest.layout, manifest.geometry))?;
    check_encryption(options, manifest.layout)?;
    let authenticator = manifest.authenticator.map(|proof| {
        let padding = options.padding.unwrap_or(proof.claims.padding);
        Authenticator::unsigned(Claims { padding, ..proof.claims })
    });
    Ok(Manifest {
        authenticator,
        record_type: record_type::merged_with(&manifest.record_type, requested),
        parity: options.parity.or_keep(manifest.parity),
        compression,
        ..manifest.clone()
    })
}

fn check_options(options: &Options, manifest: &Manifest) -> Result<()> {
    if let Some(requested) = options.layout.filter(|requested| *requested != manifest.layout) {
        let (has, requested) = (manifest.layout.name().to_owned(), requested.name().to_owned());
        return Err(Error::Mismatch { log: None, what: "layout", has, requested });
    }
    match options.segment_max {
        Some(requested) if requested != manifest.segment_max => Err(Error::Mismatch {
            log: None,
            what: "segment size",
            has: manifest.segment_max.to_string(),
            requested: requested.to_string(),
        }),
        _ => Ok(()),
    }
}

const _: () = assert!(SEGMENT_DEFAULT <= Geometry::SEGMENT_MAX);
