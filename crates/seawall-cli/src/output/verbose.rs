//! `--verbose`: details on standard error.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use seawall::{Error, LogReader};
use seawall_measure::machine::Stopwatch;
use seawall_output::report::{Exit, say};
use std::path::Path;

/// Notes for `--verbose`; silent without it.
pub(crate) struct Notes {
    watch: Stopwatch,
    on: bool,
}

impl Notes {
    /// Prints the effective options.
    pub(crate) fn start(command: &Command, matches: &ArgMatches) -> Self {
        let notes = Self { watch: Stopwatch::start(), on: asked(matches) };
        if notes.on {
            let version = env!("CARGO_PKG_VERSION");
            say(&format!(
                "seawall: version {version}; options in force: {}",
                options(command, matches)
            ));
        }
        notes
    }

    /// Prints the log that a verb is about to open.
    pub(crate) fn log(&self, path: &Path) {
        if !self.on {
            return;
        }
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // If this fails, the verb reports the error.
        let codec = match LogReader::open_any(path) {
            Ok(reader) => format!("codec {}", reader.codec().name()),
            Err(Error::Key { .. }) => "encrypted".to_owned(),
            Err(_) => "no log yet".to_owned(),
        };
        say(&format!("seawall: {}: {codec}", place.display()));
    }

    /// Prints the exit code and the duration.
    pub(crate) fn end(&self, exit: Exit) {
        if self.on {
            let took = seawall_output::text::span(self.watch.elapsed());
            say(&format!("seawall: exit {} after {took}", exit.code()));
        }
    }
}

/// Whether `--verbose` was given to the verb or its subcommand.
fn asked(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("verbose").ok().flatten().copied().unwrap_or(false);
    here || matches.subcommand().is_some_and(|(_, below)| asked(below))
}

/// Every option that has a value, and whether it is the default.
fn options(command: &Command, matches: &ArgMatches) -> String {
    let mut shown = vec![];
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let Ok(Some(values)) = matches.try_get_raw(id) else { continue };
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let name = id.replace('_', "-");
        match (values.join(","), matches.value_source(id) == Some(ValueSource::DefaultValue)) {
            // A switch that was not given.
            (value, true) if value == "false" => {}
            (value, false) if value == "true" => shown.push(name),
            (value, true) => shown.push(format!("{name}={value} (default)")),
            (value, false) => shown.push(format!("{name}={value}")),
        }
    }
    if let Some((verb, below)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(verb)
    {
        shown.extend([verb.to_owned(), options(command, below)]);
    }
    shown.join(" ")
}
