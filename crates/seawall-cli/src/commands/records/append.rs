//! `seawall append`: appends records from standard input, committing each as soon as it is read.

mod session;

use crate::args::{Append, Codec, Compress, Format, LogFormat};
use crate::commands::opener::Opener;
use crate::commands::outside;
use crate::commands::records::signals::Waiter;
use seawall::encryption::{KeyError, Padding};
use seawall::format::CodecId;
use seawall::recovery::{Failover, TailState};
use seawall::{Compression, Error, Layout, Log, LogReader, Options, Raw};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text;
use session::Session;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Appends all of standard input.
pub(crate) fn run(args: &Append) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "append", &args.log);
    let options = keyed(args)?;
    let (stored, unread) = match options.open_any_reader(&args.log) {
        Ok(stored) => (Some(stored), None),
        Err(error) => (None, Some(error).filter(is_failure)),
    };
    if !args.no_create {
        outside::check_new_log(&args.log)?;
    }
    let codec = choose_codec(args, stored.as_ref().map(LogReader::codec))?;
    let mut options = options.create(!args.no_create).codec(codec);
    if let Some(stored) = stored {
        options = options.schema(stored.schema());
    }
    if let Some(format) = args.log_format {
        options = options.layout(match format {
            LogFormat::Binary => Layout::Binary,
            LogFormat::Json => Layout::Text,
        });
    }
    if let Some(level) = args.level {
        options = options.level(level.into());
    }
    if let Some(records) = args.sync_every {
        options = options.sync_every(records);
    }
    options = options.fill_blocks(args.fill_blocks);
    if let Some(size) = args.segment_size {
        options = options.segment_size(size);
    }
    if let Some(parity) = args.parity {
        options = options.parity(parity.0);
    }
    if let Some(compress) = args.compress {
        options = options.compression(compress.into());
    }
    let failovers = Arc::new(AtomicU64::new(0));
    let options = options.on_failover(told_of_failovers(args, &failovers));
    let open = || {
        let opened = options.open(&args.log);
        // An earlier read error may be why the options do not fit: report that one.
        let log: Log<[u8], Raw> = opened
            .map_err(|error| Failure::of(unread.as_ref().unwrap_or(&error), "append", &args.log))?;
        if !args.look.quiet {
            tell_recovery(&args.log, &log);
        }
        if args.look.verbose {
            let (level, codec) = (log.level().name(), codec.name());
            say(&format!("seawall: opened for writing: level {level}, codec {codec}"));
        }
        Ok(log)
    };
    let mut session = Session::new(args, codec, &open);
    if !waits_for_a_value(args) {
        session.open()?;
    }
    if io::stdin().is_terminal() && !args.look.quiet {
        say("seawall: reading from the terminal; end with Ctrl-D on an empty line");
    }
    let fed = feed(args, &mut session);
    let Session { mut tally, mut out, log, .. } = session;
    let closed = log.map_or(Ok(()), |log| log.close().map_err(fail));
    // Last, because closing can cause a failover, too.
    tally.failovers = failovers.load(Ordering::Relaxed);
    tally.tell(args);
    if fed.is_ok() && closed.is_ok() && args.look.json {
        out.json(&tally);
    }
    let out = out.finish();
    let ended = fed.and_then(|ended| closed.map(|()| ended))?;
    Ok(ended.worse(out).worse(if tally.refused > 0 { Exit::Failed } else { Exit::Fine }))
}

/// Whether the error is an I/O error other than a missing log.
fn is_failure(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() != io::ErrorKind::NotFound)
}

/// Returns options with the key, and with the encryption of new records.
fn keyed(args: &Append) -> Result<Options, Failure> {
    let options = Opener::of(&args.key)?.options();
    if let Some(pad) = args.pad {
        return Ok(options.encrypt(pad.0));
    }
    // A log that is encrypted already keeps its padding.
    let is_plain = || match options.open_any_reader(&args.log) {
        Err(Error::Key { source, .. }) => source == KeyError::NotEncrypted,
        _ => false,
    };
    let begins = args.encrypt && is_plain();
    Ok(if begins { options.encrypt(Padding::Off) } else { options })
}

/// Whether the log is created only when the first valid value arrives, so that a wrong file given
/// to `--format json` creates nothing.
fn waits_for_a_value(args: &Append) -> bool {
    args.format == Format::Json && !args.no_create && args.log.symlink_metadata().is_err()
}

/// Appends until the input ends, a signal arrives, or the reader of `--ack` closes the pipe.
fn feed(args: &Append, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let waiter = Waiter::new(args.ack).map_err(|error| session.unreadable(&error))?;
    let ended = session.feed(&waiter, &mut io::stdin().lock())?;
    if ended == Exit::Fine && session.tally.refused == 0 {
        // Open the log even if the input was empty.
        session.open()?;
    }
    Ok(ended)
}

/// Returns a callback that counts failovers and prints each.
fn told_of_failovers(args: &Append, count: &Arc<AtomicU64>) -> impl Fn(&Failover) + use<> {
    let (count, quiet) = (count.clone(), args.look.quiet);
    move |failover| {
        count.fetch_add(1, Ordering::Relaxed);
        if !quiet {
            let Failover { cause, segment, .. } = failover;
            say(&format!(
                "seawall: warning: the device failed: {cause}; continued in segment {segment}, \
                 nothing is lost"
            ));
        }
    }
}

/// Returns the given codec, else the codec of the log, else the one that fits the input.
fn choose_codec(args: &Append, stored: Option<CodecId>) -> Result<CodecId, Failure> {
    let asked = args.codec.map(|codec| match codec {
        Codec::Raw => CodecId::Raw,
        Codec::Json => CodecId::Json,
        Codec::Msgpack => CodecId::MessagePack,
    });
    let refuse =
        |what: String, next| Err(Failure::new(Exit::Usage, what).at(args.log.display()).next(next));
    let is_readable = args.log_format == Some(LogFormat::Json);
    if let Some(codec) = asked.filter(|codec| is_readable && *codec != CodecId::Json) {
        let what = format!("--log-format json needs --codec json, not {}", codec.name());
        return refuse(what, "omit --codec");
    }
    if let Some(codec) = stored.filter(|codec| is_readable && *codec != CodecId::Json) {
        let what = format!("--log-format json: the log is binary and has codec {}", codec.name());
        return refuse(what, "omit --log-format, or give another log");
    }
    if let Some(compress) = args.compress.filter(|one| is_readable && *one != Compress::None) {
        let method = Compression::from(compress).name();
        let what = format!(
            "--log-format json and --compress {method}: a readable log cannot be compressed"
        );
        return refuse(what, "omit one of them");
    }
    let method = args.compress.map_or(Compression::None, Compression::from);
    if !method.is_built_in() {
        let what = format!("--compress {}: this seawall was built without it", method.name());
        return refuse(what, "use a seawall that was built with --features zstd");
    }
    if is_readable && args.key.key_file.is_some() {
        let what = "--log-format json and --key-file: a readable log cannot be encrypted";
        return refuse(what.to_owned(), "omit one of them");
    }
    if is_readable && args.fill_blocks {
        let what = "--log-format json and --fill-blocks: a readable log cannot fill blocks";
        return refuse(what.to_owned(), "omit one of them");
    }
    let asked = asked.or(is_readable.then_some(CodecId::Json));
    let holds_values = |codec: &CodecId| [CodecId::MessagePack, CodecId::Json].contains(codec);
    if args.format == Format::Json && asked.is_some_and(|codec| !holds_values(&codec)) {
        let what = "--format json needs --codec msgpack or json, not raw".to_owned();
        return refuse(what, "omit --codec, or use --format lines to store text as it is");
    }
    if let (Format::Json, Some(stored)) = (args.format, stored.filter(|codec| !holds_values(codec)))
    {
        let name = stored.name();
        let what = format!("the log has codec {name}, but --format json needs msgpack or json");
        return refuse(what, "use --format lines to store the text as it is, or give another log");
    }
    let fitting = if args.format == Format::Json { CodecId::MessagePack } else { CodecId::Raw };
    Ok(asked.or(stored).unwrap_or(fitting))
}

/// Reports what an open for writing found at the end of the log at `path`.
pub(crate) fn tell_recovery(path: &Path, log: &Log<[u8], Raw>) {
    let found = log.recovery();
    let kept = found
        .quarantine
        .as_ref()
        .map_or_else(String::new, |file| format!(", kept in {}", path.join(file).display()));
    let cut = text::count(found.cut_bytes, "byte");
    match found.tail {
        TailState::Clean => {}
        TailState::Torn => say(&format!(
            "seawall: torn tail, normal after a crash: removed {cut} of an unfinished write{kept}"
        )),
        TailState::Ambiguous => {
            say(&format!("seawall: ambiguous tail, a torn write or damage: removed {cut}{kept}"));
        }
    }
    for warning in &found.warnings {
        say(&format!("seawall: warning: {warning}"));
    }
}
