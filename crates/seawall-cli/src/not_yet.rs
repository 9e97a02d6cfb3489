//! What is promised and not built yet: refused by name, with what to use until then.

use crate::report::{Exit, say};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Verbs, and what to use instead.
const VERBS: &[(&str, &str)] = &[
    ("export", "seawall copy LOG TARGET"),
    ("fetch", "seawall copy LOG TARGET"),
    ("keygen", "file permissions: logs are not encrypted in this version"),
    ("top", "seawall stat LOG"),
];

/// Benches, and what to use instead.
const BENCHES: &[(&str, &str)] = &[("compare", "seawall bench append")];

/// Options: the verb, the option, and what to use instead.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("append", "compress", "no option: records are stored as they are"),
    ("append", "key-file", "file permissions: logs are not encrypted in this version"),
    ("append", "key-fd", "file permissions: logs are not encrypted in this version"),
    ("append", "mirror", "a copy of the log elsewhere"),
    ("cat", "decode", "seawall cat LOG -o len32, piped to the decoder"),
    ("cat", "reverse", "seawall cat LOG | tac"),
    ("cat", "key-file", "file permissions: logs are not encrypted in this version"),
    ("cat", "key-fd", "file permissions: logs are not encrypted in this version"),
    ("verify", "key-file", "file permissions: logs are not encrypted in this version"),
    ("verify", "key-fd", "file permissions: logs are not encrypted in this version"),
    ("repair", "report", "seawall repair LOG --json"),
    ("verify", "deep", "seawall cat LOG --json, which decodes every record"),
];

/// Lets clap know the names, so that it does not take them for typing errors.
pub(crate) fn add(command: Command) -> Command {
    let stub = |name: &'static str| {
        let rest = Arg::new("rest").num_args(0..).allow_hyphen_values(true);
        let stub = Command::new(name).hide(true).disable_help_flag(true);
        stub.arg(rest.trailing_var_arg(true).action(ArgAction::Append))
    };
    let command = command.subcommands(VERBS.iter().map(|verb| stub(verb.0)));
    let command = command.mut_subcommand("bench", |bench| {
        bench.subcommands(BENCHES.iter().map(|verb| stub(verb.0)))
    });
    OPTIONS.iter().fold(command, |command, (verb, option, _)| {
        let hidden = Arg::new(*option).long(*option).hide(true).num_args(0..=1);
        command.mut_subcommand(*verb, |verb| verb.arg(hidden))
    })
}

/// Refuses what the table names.
pub(crate) fn refuse(matches: &ArgMatches) -> Result<(), Exit> {
    let Some((verb, below)) = matches.subcommand() else { return Ok(()) };
    if let Some((_, instead)) = VERBS.iter().find(|entry| entry.0 == verb) {
        return Err(does_not_exist(verb, instead));
    }
    if let Some((bench, _)) = below.subcommand()
        && let Some((_, instead)) = BENCHES.iter().find(|entry| entry.0 == bench)
    {
        return Err(does_not_exist(&format!("{verb} {bench}"), instead));
    }
    let asked = |entry: &&(&str, &str, &str)| entry.0 == verb && below.contains_id(entry.1);
    match OPTIONS.iter().find(asked) {
        Some((_, option, instead)) => Err(does_not_exist(&format!("{verb} --{option}"), instead)),
        None => Ok(()),
    }
}

/// Says so, in the three lines of every error.
pub(crate) fn does_not_exist(what: &str, instead: &str) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    say(&format!(
        "seawall: `{what}` does not exist yet in this version\n  \
         where: seawall {version}\n  \
         next: use {instead}"
    ));
    Exit::Usage
}
