//! Creates a log: the first segment, then the manifest that names it (format.md section 8, last
//! paragraph).

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::options::{Options, SEGMENT_DEFAULT};
use crate::files::directory;
use crate::files::directory::{MANIFEST, lone_file, not_a_log, open_or_make};
use crate::files::live::retract_beyond;
use crate::files::manifest::ManifestFile;
use crate::files::unlock::Unlocker;
use crate::recover::handover::{Beginning, remove_preallocated, writer};
use crate::recover::open::encryption::warn_of_older_keys;
use crate::recover::report::{Recovery, TailState};
use crate::write::rotation::{RotationPlan, rotate};
use crate::write::writer::Writer;
use seawall_format::{
    CodecId, Compression, Epoch, Geometry, Layout, Level, LogId, Lsn, Manifest, RecordType,
    SegmentId, SegmentRef,
};
use seawall_io::Lock;

/// Creates a log.
pub(super) fn create(
    options: &Options,
    env: Env,
    (lock, unlocker): (Box<dyn Lock>, &Unlocker),
    record_type: RecordType,
) -> Result<(Writer, Recovery, Level)> {
    let names = directory::list(&*env.storage)?;
    refuse_lone_files(&env, &names)?;
    remove_preallocated(&env, &names);
    retract_beyond(&*env.storage, None)?;
    let mut max_id = names.iter().filter_map(|name| SegmentId::from_any_name(name)).max();
    let log = env.entropy.random().map_err(Error::io("draw a random log id"))?;
    let mut manifest = new_manifest(options, LogId(log), record_type)?;
    let older = create_keys(options, (&env, unlocker), (&mut manifest, max_id))?;
    let older = older.as_deref().map(warn_of_older_keys);
    let size_min = options.segment_min;
    let (base, carry) = (Lsn::FIRST, vec![]);
    let plan = RotationPlan {
        base,
        carry,
        pred: None,
        chain_before: 0,
        size_min,
        reserve: 0,
        spare: None,
        in_flight_max: 1,
    };
    let rotated = rotate(&env, &manifest, plan, &mut max_id)?;
    manifest.oldest = rotated.tail.header.reference();
    let file = open_or_make(&*env.storage, MANIFEST)?;
    let sized = file.set_len(2 * u64::from(manifest.geometry.block));
    sized.map_err(Error::io("size the manifest"))?;
    let mut manifest = ManifestFile { content: manifest, file, keys: env.keys() };
    manifest.write_both(env.clock.wall_us())?;
    env.storage.sync_dir().map_err(Error::io("sync the new log's directory"))?;
    let level = manifest.content.level;
    let (gaps, last) = (vec![], None);
    let begin = Beginning { manifest, rotated, gaps, last, last_chain: 0, max_id };
    let mut writer = writer(options, env, lock, begin);
    writer.tell_readers();
    let recovery = Recovery {
        created: true,
        tail: TailState::Clean,
        first: None,
        last: None,
        confirmed: None,
        cut_bytes: 0,
        quarantine: None,
        damage: vec![],
        mended: vec![],
        given_up: vec![],
        warnings: older.into_iter().collect(),
    };
    Ok((writer, recovery, level))
}

/// Refuses options that no new log can have. Called before anything is created.
pub(crate) fn check_new(options: &Options, record_type: RecordType) -> Result<()> {
    new_manifest(options, LogId(0), record_type).map(drop)
}

fn new_manifest(options: &Options, log: LogId, record_type: RecordType) -> Result<Manifest> {
    let segment_max = options.segment_max.unwrap_or(SEGMENT_DEFAULT.max(options.segment_min));
    let layout = options.layout.unwrap_or_default();
    if !layout.is_built_in() {
        let why = "a readable log requires the cargo feature `json`".to_owned();
        return Err(Error::InvalidOption { log: None, why });
    }
    if layout.takes_json_only() && record_type.codec != CodecId::Json {
        let codec = record_type.codec.name();
        let why = format!("a readable log requires the codec json; {codec} was requested");
        return Err(Error::InvalidOption { log: None, why });
    }
    let geometry = options.geometry.check().map_err(|_| Error::InvalidOption {
        log: None,
        why: format!("invalid geometry: {:?}", options.geometry),
    })?;
    if !(options.segment_min..=Geometry::SEGMENT_MAX).contains(&segment_max) {
        let why = format!(
            "segment size {segment_max} is invalid: it must be from {} to {} bytes",
            options.segment_min,
            Geometry::SEGMENT_MAX
        );
        return Err(Error::InvalidOption { log: None, why });
    }
    let compression = options.compression.unwrap_or_default();
    check_compression(compression, layout)?;
    check_blocks(options, (layout, geometry))?;
    check_encryption(options, layout)?;
    Ok(Manifest {
        geometry,
        log,
        authenticator: None,
        sequence: 0,
        // Set once the first segment exists.
        oldest: SegmentRef { id: SegmentId::FIRST, epoch: Epoch(0) },
        oldest_base: Lsn::FIRST,
        checkpoints: [None; 2],
        closed: None,
        is_closed: false,
        segment_max,
        level: options.level.unwrap_or_default(),
        layout,
        record_type,
        parity: options.parity.or_keep(None),
        reuses: false,
        names_ahead: options.next.name_ahead && layout.has_batch_headers(),
        in_flight_max: 1,
        compression_max: compression,
        compression,
        time_us: 0,
    })
}

/// Refuses compression that this build or the layout does not have.
pub(super) fn check_compression(compression: Compression, layout: Layout) -> Result<()> {
    let why = if !compression.is_built_in() {
        format!("compression requires the cargo feature `{}`", compression.name())
    } else if compression != Compression::None && !layout.has_batch_headers() {
        "a readable log cannot be compressed".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::InvalidOption { log: None, why })
}

/// Refuses to fill blocks in a readable log, or if the largest batch is not a whole number of
/// blocks.
pub(super) fn check_blocks(
    options: &Options,
    (layout, geometry): (Layout, Geometry),
) -> Result<()> {
    let Geometry { block, batch_max, .. } = geometry;
    let why = if !options.fills_blocks {
        return Ok(());
    } else if !layout.has_batch_headers() {
        "a readable log cannot fill blocks: its lines have no padding".to_owned()
    } else if !batch_max.is_multiple_of(block) {
        format!("a log with batches of up to {batch_max} bytes cannot fill blocks of {block}")
    } else {
        return Ok(());
    };
    Err(Error::InvalidOption { log: None, why })
}

/// Refuses a key for a layout that does not support encryption.
#[cfg(feature = "encryption")]
pub(super) fn check_encryption(options: &Options, layout: Layout) -> Result<()> {
    if options.key.is_none() || layout.has_batch_headers() {
        return Ok(());
    }
    let why = "a readable log cannot be encrypted".to_owned();
    Err(Error::InvalidOption { log: None, why })
}

#[cfg(not(feature = "encryption"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn check_encryption(_: &Options, _: Layout) -> Result<()> {
    Ok(())
}

/// Writes the keys of a log that is created with a key, and notes in its manifest that all segments
/// from the first one on are encrypted. Returns where older keys are kept.
#[cfg(feature = "encryption")]
fn create_keys(
    options: &Options,
    (env, unlocker): (&Env, &Unlocker),
    (manifest, max_id): (&mut Manifest, Option<SegmentId>),
) -> Result<Option<String>> {
    use crate::files::keys_file;
    use crate::scan::quarantine::keep_keys;
    use crate::write::rotation::next_id;
    use seawall_format::{Authenticator, Claims};

    let Some(key) = unlocker.key() else { return Ok(None) };
    let older = keep_keys(env)?;
    let ring = keys_file::first_keys(env, manifest.log)?;
    let keys = keys_file::create_keys(env, ring, &key)?;
    let (number, _) = keys.ring().newest();
    let padding = options.padding.unwrap_or_default();
    let (from, sequence) = (Some(next_id(max_id)?), keys.sequence_min());
    let claims = Claims { padding, from, keys: sequence, ..Claims::of(number) };
    manifest.authenticator = Some(Authenticator::unsigned(claims));
    unlocker.set_known(Some(keys.clone()));
    env.set_keys(Some(keys));
    Ok(older)
}

#[cfg(not(feature = "encryption"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it writes a file")]
fn create_keys(
    _: &Options,
    _: (&Env, &Unlocker),
    _: (&mut Manifest, Option<SegmentId>),
) -> Result<Option<String>> {
    Ok(None)
}

/// Refuses a directory with files that may be the rest of a log.
fn refuse_lone_files(env: &Env, names: &[String]) -> Result<()> {
    match lone_file(&*env.storage, names)? {
        Some(name) => {
            let found = format!("{name} has neither a head nor a manifest");
            Err(not_a_log(&*env.storage, found))
        }
        None => Ok(()),
    }
}
