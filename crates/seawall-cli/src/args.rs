//! The command line, as clap reads it.

mod bench;
mod common;
mod convert;
mod examples;
mod keys;
mod parity;
mod replay;
mod tools;
mod values;

use crate::output::progress::Patience;
use crate::output::verbose::Notes;
use crate::select::Selection;
pub(crate) use bench::{Bench, BenchAppend, BenchVerb};
use clap::{
    ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
pub(crate) use common::{KeyOption, LevelName};
pub(crate) use convert::{Convert, ForeignFormat};
use examples::exit_codes;
pub(crate) use keys::{Keygen, Pad, Rekey};
pub(crate) use parity::{Parity, Protect};
pub(crate) use replay::{Replay, StorePlace, Target, Until};
use seawall::Compression;
use seawall_disk_cli::Disk;
use seawall_foreign::framing::Framing;
use seawall_output::color::ColorWhen;
use seawall_output::report::Exit;
use seawall_output::stdout::Output;
use seawall_output::{Look, help};
use std::path::PathBuf;
pub(crate) use tools::{Completions, Doctor, Man, Probe};
pub(crate) use values::Last;

#[derive(Debug, Parser)]
#[command(
    name = "seawall",
    version,
    about = "A durable log for programs and shells. After a crash it shows exactly what survived.",
    after_help = exit_codes(),
    arg_required_else_help = true,
    propagate_version = true,
    infer_subcommands = false
)]
struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto)]
    #[arg(hide_possible_values = true, display_order = 900)]
    color: ColorWhen,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Append records from standard input
    #[command(after_help = help!("append"))]
    Append(Append),
    /// Print records, verified
    #[command(after_help = help!("cat"))]
    Cat(Cat),
    /// Print the last records, and follow the log
    #[command(after_help = help!("tail"))]
    Tail(Tail),
    /// Check logs for damage and list lost records
    #[command(after_help = help!("verify"))]
    Verify(Verify),
    /// Show a log's size, record count and settings
    #[command(after_help = help!("stat"))]
    Stat(Stat),
    /// Back up a log while it is in use
    #[command(after_help = help!("copy"))]
    Copy(Copy),
    /// Convert logs from and to `CWal`, JSON and `MessagePack`
    #[command(about = "Convert logs from and to CWal, JSON and MessagePack")]
    #[command(after_help = help!("convert"))]
    Convert(Convert),
    /// Remove the oldest or newest records (dry run unless --yes)
    #[command(after_help = help!("truncate"))]
    Truncate(Truncate),
    /// Plan the repair of a damaged log, and apply it with --yes or --salvage-to
    #[command(after_help = help!("repair"))]
    Repair(Repair),
    /// Add parity to existing records so lost blocks can be rebuilt
    #[command(after_help = help!("protect"))]
    Protect(Protect),
    /// Make a key for encrypted logs
    #[command(after_help = help!("keygen"))]
    Keygen(Keygen),
    /// Replace the keys of an encrypted log
    #[command(after_help = help!("rekey"))]
    Rekey(Rekey),
    /// Apply each committed transaction once to a store or a program
    #[command(after_help = help!("replay"))]
    Replay(Replay),
    /// A virtual disk for the log of another program
    #[command(about = seawall_disk_cli::ABOUT)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Disk(Disk),
    /// Explain an exit code, verdict or cause of damage, and what to do
    #[command(after_help = help!("explain"))]
    Explain(Explain),
    /// Measure durable commits in a directory
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Bench(Bench),
    /// Test the guarantees on this machine: write, kill, recover, damage, repair, measure
    #[command(after_help = help!("demo"))]
    Demo(Demo),
    /// Check whether a directory is safe for logs
    #[command(after_help = help!("doctor"))]
    Doctor(Doctor),
    /// Measure the cost of durable writes in a directory
    #[command(after_help = help!("probe"))]
    Probe(Probe),
    /// Print a shell completion script
    #[command(after_help = help!("completions"))]
    Completions(Completions),
    /// Print the manual page, or write the pages of all verbs
    #[command(after_help = help!("man"))]
    Man(Man),
    /// The writer that `demo` kills
    #[command(hide = true)]
    DemoWriter(DemoWriter),
    /// Print the version, as --version does
    #[command(hide = true)]
    Version,
}

/// `seawall append`
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Append {
    /// The log, a directory; created if missing
    pub(crate) log: PathBuf,
    /// Refuse to create a log
    #[arg(long)]
    pub(crate) no_create: bool,
    /// How standard input is split into records
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    pub(crate) format: Format,
    /// Print each record's number once it is durable
    #[arg(long)]
    pub(crate) ack: bool,
    /// Codec of a new log [default: raw; msgpack with --format json; json with
    /// --log-format json]
    #[arg(long, value_enum)]
    pub(crate) codec: Option<Codec>,
    /// Layout of a new log; json implies --codec json [default: binary]
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Maximum segment size of a new log, at least 1MiB [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::parse_size)]
    pub(crate) segment_size: Option<u64>,
    /// When a record is acknowledged; stored in a new log [default: synced]
    #[arg(long, value_enum)]
    pub(crate) level: Option<LevelName>,
    /// Level buffered, with a sync at every N-th record: a crash loses fewer than N that were
    /// acknowledged. A new log stores only the level
    #[arg(long, value_name = "N", conflicts_with = "level")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sync_every: Option<u64>,
    /// End each write with zeros up to the end of its block of 4 KiB, for devices that garble a
    /// block if the power fails while they write it
    #[arg(long)]
    pub(crate) fill_blocks: bool,
    /// Parity for new records, e.g. 16+2 or none; stored in the log. 16+2 can rebuild any two lost
    /// blocks of eighteen [default: the log's own setting; none for a new log]
    #[arg(long, value_name = "16+2|none")]
    pub(crate) parity: Option<Parity>,
    /// Compression of new records that are committed together; stored in the log [default: the
    /// log's own setting; none for a new log]
    #[arg(long, value_enum)]
    pub(crate) compress: Option<Compress>,
    /// Encrypt new records, also of a log that is not encrypted yet
    #[arg(long, requires = "key_file")]
    pub(crate) encrypt: bool,
    /// Sizes that encrypted records grow to, so that less of theirs shows; stored in the log: off,
    /// block (4096), padme (by at most 12 %), or the next multiple of BYTES [default: the log's
    /// own setting; off for a new log]
    #[arg(long, value_name = "off|block|padme|BYTES", requires = "encrypt")]
    pub(crate) pad: Option<Pad>,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compress {
    /// As blocks of LZ4
    Lz4,
    /// As frames of Zstandard: smaller, slower; of programs built with the feature `zstd`
    Zstd,
    /// Not at all
    None,
}

impl From<Compress> for Compression {
    fn from(compress: Compress) -> Self {
        match compress {
            Compress::Lz4 => Self::Lz4,
            Compress::Zstd => Self::Zstd,
            Compress::None => Self::None,
        }
    }
}

/// How a byte stream is split into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Any bytes between newlines; an empty line is an empty record
    Lines,
    /// One JSON value per line
    Json,
    /// A little-endian 32-bit length, then that many bytes
    Len32,
    /// The whole input is one record
    Raw,
}

impl From<Format> for Framing {
    fn from(format: Format) -> Self {
        match format {
            Format::Lines => Self::Lines,
            Format::Json => Self::Json,
            Format::Len32 => Self::Len32,
            Format::Raw => Self::Raw,
        }
    }
}

/// How payloads are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// Bytes
    Raw,
    /// Values, stored as JSON text; numbers and member order are kept
    Json,
    /// Values, stored as `MessagePack` with field names
    #[value(help = "Values, stored as MessagePack with field names")]
    Msgpack,
}

/// How a log is laid out on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Checksummed batches
    Binary,
    /// One line of JSON with a checksum per record: for jq, tail -f and editors
    Json,
}

/// `seawall cat`
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// The log
    pub(crate) log: PathBuf,
    /// The first record to print [default: the oldest in the log]
    #[arg(long, value_name = "LSN", value_parser = values::parse_lsn)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) from: Option<u64>,
    /// The last record to print
    #[arg(long, value_name = "LSN", value_parser = values::parse_lsn)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) to: Option<u64>,
    /// Maximum number of records to print
    #[arg(short = 'n', value_name = "COUNT", value_parser = values::parse_count)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,
    /// How to print a record [default: short]
    #[arg(short = 'o', long = "output", value_enum)]
    pub(crate) shape: Option<Shape>,
    /// Continue after damage; the exit code still reports it
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall tail`
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The log
    pub(crate) log: PathBuf,
    /// Number of last records to print
    #[arg(short = 'n', value_name = "COUNT", default_value_t = 10)]
    #[arg(value_parser = values::parse_count, allow_negative_numbers = true)]
    pub(crate) count: u64,
    /// Print new records as they are appended, until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Continue at the record stored in this file, and update the file
    #[arg(long, value_name = "FILE")]
    pub(crate) cursor_file: Option<PathBuf>,
    /// How to print a record [default: short]
    #[arg(short = 'o', long = "output", value_enum)]
    pub(crate) shape: Option<Shape>,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall copy`
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// The log
    pub(crate) log: PathBuf,
    /// The copy, a directory that does not exist yet
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall truncate`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("end").required(true))]
pub(crate) struct Truncate {
    /// The log
    pub(crate) log: PathBuf,
    /// Remove records before this one, by whole segments
    #[arg(long, value_name = "LSN", group = "end", value_parser = values::parse_lsn)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) before: Option<u64>,
    /// Remove every record after this one; `none` removes all records
    #[arg(long, value_name = "LSN|none", group = "end", value_parser = values::parse_lsn_or_none)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) after: Option<Last>,
    /// Show what would be removed and change nothing; the default without --yes
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Apply the changes
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// An exit code, a verdict, or a cause of damage
    #[arg(value_name = "CODE|NAME", allow_negative_numbers = true)]
    pub(crate) topic: String,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How a record is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Its number, a tab, and its text on one line
    Short,
    /// One object per line
    Json,
    /// Its bytes and a newline
    Raw,
    /// Its number, a tab, and its bytes as hexadecimal digits
    Hex,
    /// A little-endian 32-bit length, then its bytes
    Len32,
}

/// `seawall verify`
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The logs
    #[arg(required = true, value_name = "LOG")]
    pub(crate) logs: Vec<PathBuf>,
    /// Also exit with 3 for a torn tail
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall repair`
#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// The log
    pub(crate) log: PathBuf,
    /// Copy all intact records to a new log, with the same LSNs; LOG is only read and must not be
    /// open for writing
    #[arg(long, value_name = "NEW", conflicts_with = "cut_tail")]
    pub(crate) salvage_to: Option<PathBuf>,
    /// Restore damaged records from another copy of the same log; can be repeated
    #[arg(long, value_name = "LOG2")]
    pub(crate) from_replica: Vec<PathBuf>,
    /// Remove all records from the first damage on (with --yes); they are kept in LOG/quarantine
    #[arg(long)]
    pub(crate) cut_tail: bool,
    /// Apply the changes
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall stat`
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The log
    pub(crate) log: PathBuf,
    /// Print Prometheus metrics
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall demo`
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Skip the speed measurement; 12 seconds at most
    #[arg(long)]
    pub(crate) fast: bool,
    /// Seed for the kill times and the flipped bit [default: random]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Where to create the demo's directory [default: the directory for temporary files, or the
    /// current directory if that is in memory]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the logs afterwards
    #[arg(long)]
    pub(crate) keep: bool,
    /// Write report.html, speed.svg and demo.json to this new directory
    #[arg(long, value_name = "NEW")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The writer that `demo` kills.
#[derive(Debug, Args)]
pub(crate) struct DemoWriter {
    /// The log
    pub(crate) log: PathBuf,
    /// The event to begin with
    pub(crate) start: usize,
}

/// Reads the command line. Usage errors and answers such as `--help` are already printed.
pub(crate) fn parse() -> Result<(Verb, Notes), Exit> {
    let said = |error: clap::Error| {
        if error.use_stderr() {
            let _ = error.print();
            return Exit::Usage;
        }
        let mut out = Output::lock();
        out.write(|_| error.print());
        out.finish()
    };
    // A path need not be UTF-8.
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    color_of(words.skip(1)).take_effect();
    let command = Cli::command();
    let words = seawall_disk_cli::with_config(&command, std::env::args_os().collect());
    let words = words.map_err(|failure| failure.tell())?;
    let matches = command.clone().try_get_matches_from(words).map_err(said)?;
    let verb = Cli::from_arg_matches(&matches).map_err(said)?.verb;
    let notes = Notes::start(&command, &matches);
    logs(&matches).for_each(|log| notes.log(log));
    Ok((verb, notes))
}

/// The logs that a verb works with.
fn logs(matches: &ArgMatches) -> impl Iterator<Item = &PathBuf> {
    let verb = matches.subcommand().map(|(_, verb)| verb);
    let named = move |id| verb?.try_get_many::<PathBuf>(id).ok()?;
    ["log", "logs"].into_iter().filter_map(named).flatten()
}

/// Parses a command line, for tests that cannot run the program.
#[cfg(test)]
pub(crate) fn parse_words(words: &str) -> Verb {
    let words = ["seawall"].into_iter().chain(words.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).verb
}

/// Reads `--color` before everything else, because it also applies to clap's own messages.
fn color_of(arguments: impl Iterator<Item = String>) -> ColorWhen {
    let mut arguments = arguments.take_while(|argument| argument != "--");
    let mut when = ColorWhen::Auto;
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--color") {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        when = value.and_then(|value| ColorWhen::from_str(&value, false).ok()).unwrap_or(when);
    }
    when
}

/// The command line as users see it, without hidden verbs.
pub(crate) fn shown() -> Command {
    let whole = Cli::command();
    let verbs: Vec<Command> =
        whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let bare = Command::new("seawall").version(env!("CARGO_PKG_VERSION"));
    let bare = bare.about(whole.get_about().cloned().unwrap_or_default());
    let bare = bare.after_help(exit_codes()).args(whole.get_arguments().cloned());
    bare.subcommand_required(true).subcommands(verbs)
}

#[cfg(test)]
mod tests;
