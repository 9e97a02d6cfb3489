//! Options for opening a log, set one by one.

use crate::error::c_text;
use crate::fault::Fault;
use crate::guard;
use crate::pointer::{Freed, Handle, In, InMut, give};
use crate::status::Status;
use seawall::encryption::{KeyFile, Padding};
use seawall::format::CodecId;
use seawall::parity::Parity;
use seawall::recovery::Failover;
use seawall::{Level as LogLevel, OpenMode as LogMode};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What an append waits for.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Nothing: a crash can lose the newest records, but never leaves a gap.
    Buffered = 0,
    /// A device sync. The default.
    Synced = 1,
    /// Also evidence at a second place, so that damage at one place cannot hide the record.
    Confirmed = 2,
}

/// How the bytes of the records are encoded; the program encodes them itself.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Codec {
    /// Any bytes. The default.
    Raw = 0,
    /// MessagePack with field names.
    Msgpack = 1,
    /// JSON.
    Json = 2,
    /// MessagePack without field names.
    Positional = 3,
}

/// How a new log stores records in its files.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// In batches. The default.
    Binary = 0,
    /// As lines that people can read. The records must be JSON, with SEAWALL_CODEC_JSON.
    Text = 1,
}

/// How batches of records are compressed.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Compression {
    /// Not at all. The default of a new log.
    None = 0,
    /// As blocks of LZ4.
    Lz4 = 1,
    /// As frames of Zstandard, if the library was built with the feature zstd.
    Zstd = 2,
}

/// How much damage opening for append tolerates.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum OpenMode {
    /// A torn write at the end and nothing else.
    Strict = 0,
    /// Also an end that may be a torn write or damage: it is moved to quarantine and reported. The
    /// default.
    Standard = 1,
    /// Also damage, which stays in place and is reported.
    Salvage = 2,
}

/// Options for opening a log. One thread at a time may use them; opening copies them.
#[derive(Debug)]
pub struct Options {
    settings: Mutex<Settings>,
}

/// The values of the options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) log: seawall::Options,
    /// Readers continue after damage.
    pub(crate) skip_damaged: bool,
    /// Readers accept any codec, type name and schema.
    pub(crate) is_typed: bool,
}

/// Called after a write or sync failed and the log continued in the new segment `segment`; `cause`
/// is valid during the call. It runs on a thread that appends or on one of the log, and several
/// threads may call it at once. A call in it that would write to this log or wait for it gets
/// SEAWALL_ERROR_CODE_REENTRANT, except seawall_log_close, which closes it. It must not free the
/// log, throw or longjmp.
pub type FailoverCallback =
    Option<extern "C" fn(context: *mut c_void, cause: *const c_char, segment: u64)>;

impl Handle for Options {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b02;
}

impl Options {
    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The settings that `options` holds; the defaults for null.
pub(crate) fn settings(options: &In<Options>) -> Result<Settings, Fault> {
    Ok(options.optional("options")?.map(Options::settings).unwrap_or_default())
}

/// Changes the settings.
fn change(
    options: &InMut<Options>,
    apply: impl FnOnce(&mut Settings) -> Result<(), Fault>,
) -> Status {
    guard::bare(|| {
        let options = options.handle("options")?;
        let mut settings = options.settings();
        apply(&mut settings)?;
        *options.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    })
}

/// Changes the options of the log.
fn set(
    options: &InMut<Options>,
    apply: impl FnOnce(seawall::Options) -> Result<seawall::Options, Fault>,
) -> Status {
    change(options, |settings| {
        settings.log = apply(settings.log.clone())?;
        Ok(())
    })
}

fn unknown(what: &str, number: i32) -> Fault {
    Fault::argument(format!("{number} is no {what}"))
}

/// Makes options with the defaults: creates a missing log, waits for SEAWALL_LEVEL_SYNCED, segments
/// of up to 64 MiB. Null if that fails. Free them with seawall_options_free.
///
/// Each setter returns SEAWALL_STATUS_USAGE for an invalid value, and then changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_new() -> *mut Options {
    guard::value(std::ptr::null_mut(), || {
        let settings = Mutex::default();
        Ok(give(Options { settings }))
    })
}

/// Releases options; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_free(options: Freed<Options>) {
    guard::bare(|| options.take().map(drop));
}

/// Sets whether to create a missing log; 0: no.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_create(options: InMut<Options>, create: i32) -> Status {
    set(&options, |options| Ok(options.create(create != 0)))
}

/// Sets what an append waits for: a seawall_level. A new log stores it; for an existing log it
/// applies while this handle is open.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_level(options: InMut<Options>, level: i32) -> Status {
    set(&options, |options| {
        Ok(options.level(match level {
            0 => LogLevel::Buffered,
            1 => LogLevel::Synced,
            2 => LogLevel::Confirmed,
            other => return Err(unknown("level", other)),
        }))
    })
}

/// Sets how long records, in milliseconds, and how many bytes may wait in memory at level buffered.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_buffered(
    options: InMut<Options>,
    delay_ms: u64,
    size_max: usize,
) -> Status {
    set(&options, |options| Ok(options.buffered(Duration::from_millis(delay_ms), size_max)))
}

/// Sets level buffered, and that the append which makes `records` records wait in memory waits for
/// a sync of all of them. A crash of the process loses up to `records` - 1. 0 counts as 1.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_sync_every(options: InMut<Options>, records: u64) -> Status {
    set(&options, |options| Ok(options.sync_every(records)))
}

/// Sets the size in bytes up to which segments double, at least 1 MiB; fixed at creation.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_segment_size(options: InMut<Options>, size: u64) -> Status {
    set(&options, |options| Ok(options.segment_size(size)))
}

/// Sets the parity that the log writes from now on: `parity` blocks for each `data` blocks, such as
/// 2 for 16; 0 and 0 turn it off. The log stores it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_parity(
    options: InMut<Options>,
    data: u16,
    parity: u16,
) -> Status {
    set(&options, |options| match (data, parity) {
        (0, 0) => Ok(options.parity(None)),
        (data, parity) => {
            let scheme = Parity::new(data, parity);
            let wrong = || Fault::argument(format!("{data}+{parity} is not a valid parity scheme"));
            scheme.map(|scheme| options.parity(Some(scheme))).ok_or_else(wrong)
        }
    })
}

/// Sets whether the file of a removed segment may become that of a new one, which is faster and the
/// default; 0: no, so that removed records do not stay on the disk.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_reuse(options: InMut<Options>, reuse: i32) -> Status {
    set(&options, |options| Ok(options.reuse(reuse != 0)))
}

/// Sets whether each write of records ends with zeros up to the end of its block of 4 KiB, for
/// devices that garble a block if the power fails while they write it; 0, the default: no. The log
/// does not store it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_fill_blocks(options: InMut<Options>, fill: i32) -> Status {
    set(&options, |options| Ok(options.fill_blocks(fill != 0)))
}

/// Sets how a new log stores records: a seawall_layout; fixed at creation.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_layout(options: InMut<Options>, layout: i32) -> Status {
    set(&options, |options| {
        Ok(options.layout(match layout {
            0 => seawall::Layout::Binary,
            1 => seawall::Layout::Text,
            other => return Err(unknown("layout", other)),
        }))
    })
}

/// Sets how the log compresses batches from now on: a seawall_compression. The log stores it. Where
/// an attacker chooses part of the records and sees sizes, compression can reveal the rest.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_compression(
    options: InMut<Options>,
    compression: i32,
) -> Status {
    set(&options, |options| {
        Ok(options.compression(match compression {
            0 => seawall::Compression::None,
            1 => seawall::Compression::Lz4,
            2 => seawall::Compression::Zstd,
            other => return Err(unknown("compression", other)),
        }))
    })
}

/// Sets the file with the key of an encrypted log: 32 bytes, as `seawall keygen` makes it. The file
/// is read at each open. A new log is encrypted with it; an existing one that is not encrypted is
/// refused, unless seawall_options_set_encryption is called, too.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_key_file(
    options: InMut<Options>,
    path: In<c_char>,
) -> Status {
    change(&options, |settings| {
        settings.log = settings.log.clone().key(KeyFile::new(path.path("path")?));
        Ok(())
    })
}

/// Encrypts the log from now on, with the key of seawall_options_set_key_file. `padding` sets the
/// sizes that encrypted batches grow to, so that the sizes of records show less. 0: none; 1: up to
/// 12 % more; else multiples of this number of bytes, itself a multiple of 8 up to 1 MiB. The log
/// stores it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_encryption(options: InMut<Options>, padding: u32) -> Status {
    set(&options, |options| {
        let padding = match padding {
            0 => Some(Padding::Off),
            1 => Some(Padding::Padme),
            size => Padding::multiple_of(size),
        };
        let wrong = || Fault::argument("the padding is not 0, 1 or a multiple of 8 up to 1 MiB");
        padding.map(|padding| options.encrypt(padding)).ok_or_else(wrong)
    })
}

/// Sets how the records are encoded: a seawall_codec. Opening a log with another one fails.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_codec(options: InMut<Options>, codec: i32) -> Status {
    change(&options, |settings| {
        let codec = match codec {
            0 => CodecId::Raw,
            1 => CodecId::MessagePack,
            2 => CodecId::Json,
            3 => CodecId::Positional,
            other => return Err(unknown("codec", other)),
        };
        (settings.log, settings.is_typed) = (settings.log.clone().codec(codec), true);
        Ok(())
    })
}

/// Sets the name of the record type, at most 64 bytes of UTF-8. A log with another name is refused;
/// a log without one takes it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_type_name(
    options: InMut<Options>,
    name: In<c_char>,
) -> Status {
    change(&options, |settings| {
        let name = name.text("name")?.to_str();
        let name = name.map_err(|_| Fault::argument("the name is not UTF-8"))?;
        (settings.log, settings.is_typed) = (settings.log.clone().type_name(name), true);
        Ok(())
    })
}

/// Sets the schema number of new records. A log with a higher number is refused.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_schema(options: InMut<Options>, schema: u32) -> Status {
    change(&options, |settings| {
        (settings.log, settings.is_typed) = (settings.log.clone().schema(schema), true);
        Ok(())
    })
}

/// Sets how much damage opening for append tolerates: a seawall_open_mode.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_mode(options: InMut<Options>, mode: i32) -> Status {
    set(&options, |options| {
        Ok(options.mode(match mode {
            0 => LogMode::Strict,
            1 => LogMode::Standard,
            2 => LogMode::Salvage,
            other => return Err(unknown("open mode", other)),
        }))
    })
}

/// Sets whether readers continue after damage; 0: no. Each damaged place is still an error, and
/// records after it are intact, but some are missing.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_skip_damaged(options: InMut<Options>, skip: i32) -> Status {
    change(&options, |settings| {
        settings.skip_damaged = skip != 0;
        Ok(())
    })
}

/// Sets a function to call when a write or sync failed and the log continued; null: none. `context`
/// is passed to it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_options_set_on_failover(
    options: InMut<Options>,
    callback: FailoverCallback,
    context: *mut c_void,
) -> Status {
    // The caller has promised that callback and context may be used by any thread.
    let context = AtomicPtr::new(context);
    set(&options, |options| {
        Ok(options.on_failover(move |Failover { cause, segment, .. }: &Failover| {
            if let Some(callback) = callback {
                let cause = c_text(cause);
                callback(context.load(Ordering::Relaxed), cause.as_ptr(), segment.get());
            }
        }))
    })
}
