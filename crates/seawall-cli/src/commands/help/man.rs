//! `seawall man`: manual pages generated from the help texts.

use crate::args::{self, Man};
use crate::commands::outside;
use clap::{Arg, ArgGroup, Command};
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use std::io;
use std::path::Path;

/// Prints the page of the program, or writes all pages to a directory.
pub(crate) fn run(args: &Man) -> Result<Exit, Failure> {
    let command = for_pages(args::shown(), "seawall");
    let mut out = Output::lock();
    match &args.dir {
        Some(folder) => {
            outside::check_folder(folder)?;
            let made = clap_mangen::generate_to(command, folder);
            made.map_err(|error| failure(folder, &error))?;
            out.line(&format!("{}: seawall.1, and a page for each verb", folder.display()));
        }
        None => out.write(|out| {
            let mut page = vec![];
            clap_mangen::Man::new(command.disable_help_subcommand(true)).render(&mut page)?;
            out.write_all(&page)
        }),
    }
    Ok(out.finish())
}

fn failure(folder: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot write the pages: {error}"));
    failure.at(folder.display()).next("give an existing directory that is writable")
}

/// Prepares a command for a page: shows each option with its value, and keeps lists as lists.
fn for_pages(command: Command, path: &str) -> Command {
    let usage = usage(&command, path);
    let help = command.get_after_help().map(|help| unfilled(&help.to_string()));
    let command = command.override_usage(usage);
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(|verb| {
        let path = format!("{path} {}", verb.get_name());
        for_pages(verb, &path)
    })
}

/// Indents lists, because man(1) joins lines that begin at the margin.
fn unfilled(text: &str) -> String {
    let lines =
        text.lines().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

fn usage(command: &Command, path: &str) -> String {
    let mut words = vec![path.to_owned()];
    let groups = command.get_groups().filter(|group| group.is_required_set());
    let choices: Vec<_> = groups.flat_map(ArgGroup::get_args).collect();
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let options = command.get_arguments().filter(|arg| !arg.is_positional()).filter(shown);
    for arg in options.filter(|arg| !choices.contains(&arg.get_id())) {
        let option = option(arg);
        words.push(if arg.is_required_set() { option } else { format!("[{option}]") });
    }
    if !choices.is_empty() {
        let choices = command.get_arguments().filter(|arg| choices.contains(&arg.get_id()));
        words.push(format!("<{}>", choices.map(option).collect::<Vec<_>>().join(" | ")));
    }
    for arg in command.get_positionals().filter(shown) {
        let value = value(arg);
        words.push(if arg.is_required_set() { value } else { format!("[{value}]") });
    }
    if command.has_subcommands() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

/// An option with its value, as `-o|--output SHAPE`.
fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    let names = names.join("|");
    if arg.get_action().takes_values() { format!("{names} {}", value(arg)) } else { names }
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    if names.is_empty() { arg.get_id().as_str().to_uppercase() } else { names.join(" ") }
}
