//! The file of `seawall disk serve --config`: lines of `key = value`, one per command-line option.
//! They are inserted before the typed options, and clap parses both.

use super::verbs::DiskServe;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use seawall_output::report::{Exit, Failure};
use seawall_output::text::folded;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Larger files are refused.
const SIZE_MAX: u64 = 64 * 1024;
/// Not allowed in a file: this option names the file.
const CONFIG: &str = "config";
/// Not allowed in a file: this option decides about one dump.
const DUMP: &str = "dump";
/// The verbs of a command line that may name a file.
const DISK: &str = "disk";
const SERVE: &str = "serve";
/// The key of the image, which is a positional argument on the command line.
const IMAGE: &str = "image";

/// The first lines of the template.
const HEAD: &str = "\
# For seawall disk serve --config FILE. A line is `key = value`, or a comment
# that begins with #. The command line wins over this file. Relative paths
# begin in the directory in which the server is started.
";

/// Inserts the options of the file that `--config` names, if there is one, into the words of a
/// command line, after `disk serve`. Typed options take precedence. `whole` parses all verbs, with
/// [`Disk`](super::Disk) as `disk`.
///
/// # Errors
///
/// The file cannot be read, or a line of it is not `key = value` with a key and a value of `serve`.
///
/// # Panics
///
/// If `whole` has no verb `disk`.
pub fn with_config(whole: &Command, words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let mut verbs = words.iter().map(OsString::as_os_str);
    let is_serve = verbs.any(|word| word == DISK) && verbs.any(|word| word == SERVE);
    if !is_serve {
        return Ok(words);
    }
    let at = words.len() - verbs.count();
    // Whatever this refuses, `whole` refuses, too, and reports the error.
    let Ok(matches) = lenient(whole).try_get_matches_from(&words) else { return Ok(words) };
    let verb = matches.subcommand_matches(DISK).and_then(|disk| disk.subcommand_matches(SERVE));
    let Some(matches) = verb else { return Ok(words) };
    let Some(path) = matches.get_one::<PathBuf>(CONFIG) else { return Ok(words) };
    let text = seawall_host::read_text(path, SIZE_MAX).map_err(|error| {
        let failure = Failure::new(Exit::Failed, format!("the configuration: {error}"));
        failure.at(path.display()).next("create one with seawall disk config > FILE")
    })?;
    let more = read(&text, path, matches)?;
    let (before, typed) = words.split_at(at);
    Ok(before.iter().cloned().chain(more).chain(typed.iter().cloned()).collect())
}

/// `whole`, with every required option of `serve` made optional: the file may have it.
fn lenient(whole: &Command) -> Command {
    let serve = |serve: Command| serve.mut_args(|arg| arg.required(false));
    whole.clone().mut_subcommand(DISK, |disk| disk.mut_subcommand(SERVE, serve))
}

/// A template with all keys, their help and their default values.
pub(crate) fn template() -> String {
    let mut text = String::from(HEAD);
    for arg in bare().get_arguments().filter(|arg| is_key(arg)) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let default = arg.get_default_values().first().and_then(|value| value.to_str());
        let names: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let names =
            if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        let place = arg.get_value_names().and_then(|names| names.first());
        let value = default.or(place.map(clap::builder::Str::as_str)).unwrap_or_default();
        let comment = folded(&format!("{help}{names}"), 2).replace("\n  ", "\n# ");
        write!(text, "\n# {comment}\n#{} = {value}\n", key(arg)).expect("a string takes all");
    }
    text
}

/// `serve` with every required option made optional.
fn bare() -> Command {
    let whole = DiskServe::augment_args(Command::new("serve").no_binary_name(true));
    whole.disable_help_flag(true).mut_args(|arg| arg.required(false))
}

fn is_key(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_id() != CONFIG && arg.get_id() != DUMP
}

fn key(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(IMAGE)
}

/// Converts the lines of a file to command-line words, except those that were typed.
fn read(text: &str, path: &Path, typed: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let command = bare();
    let mut words = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| {
            let place = format!("{}, line {number}", path.display());
            let next = "seawall disk config lists all keys";
            Failure::new(Exit::Usage, what).at(place).next(next)
        };
        let (name, value) =
            line.split_once('=').ok_or_else(|| wrong(format!("`{line}` is not `key = value`")))?;
        let (name, value) = (name.trim_end(), value.trim_start());
        let mut keys = command.get_arguments().filter(|arg| is_key(arg));
        let arg = keys.find(|arg| key(arg) == name);
        let arg = arg.ok_or_else(|| wrong(format!("unknown key `{name}`")))?;
        if seen.contains(&name) {
            return Err(wrong(format!("`{name}` is given twice")));
        }
        seen.push(name);
        if name == IMAGE && value.starts_with('-') {
            return Err(wrong("the path would be taken for an option: write ./ before it".into()));
        }
        let word = if name == IMAGE { value.to_owned() } else { format!("--{name}={value}") };
        if let Err(error) = bare().try_get_matches_from([OsStr::new(&word)]) {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default();
            return Err(wrong(why.trim_start_matches("error: ").to_owned()));
        }
        if typed.value_source(arg.get_id().as_str()) != Some(ValueSource::CommandLine) {
            words.push(word.into());
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, typed: &[&str]) -> Result<Vec<OsString>, String> {
        let typed = bare().try_get_matches_from(typed).unwrap();
        read(text, Path::new("vd.conf"), &typed).map_err(|failure| format!("{failure:?}"))
    }

    /// Options of the whole command line may be anywhere.
    #[test]
    fn file_is_read_wherever_a_global_option_is() {
        let color = Arg::new("color").long("color").global(true);
        let whole = super::super::Disk::augment_args(Command::new(DISK));
        let whole = Command::new("seawall").arg(color).subcommand(whole);
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "seawall disk serve --config none",
            "seawall disk serve --config=none -v --color never",
            "seawall --color never disk serve x --color=never --config none",
            "seawall disk --color never serve --config none",
        ] {
            let said = format!("{:?}", with_config(&whole, words(line)).unwrap_err());
            assert!(said.contains("the configuration: "), "{line}: {said}");
        }
        // An image of this name is no verb, and the whole command line refuses the other.
        let unknown = "seawall disk serve --config none --unknown";
        for line in [unknown, "seawall disk status serve"] {
            assert_eq!(with_config(&whole, words(line)).unwrap(), words(line));
        }
        whole.clone().try_get_matches_from(words(unknown)).unwrap_err();
    }

    #[test]
    fn typed_options_override_the_file() {
        let text = "# mine\n\nimage = a b.img\n export=nbd:tcp:0\nhold-up =  16 \n";
        let all = ["a b.img", "--export=nbd:tcp:0", "--hold-up=16"];
        assert_eq!(of(text, &[]).unwrap(), all);
        assert_eq!(of(text, &["x.img", "--hold-up", "9"]).unwrap(), ["--export=nbd:tcp:0"]);
        // A default value does not count as typed.
        assert_eq!(of("hold-up = 16", &["x.img"]).unwrap(), ["--hold-up=16"]);
    }

    #[test]
    fn config_error_names_its_line() {
        for (text, why) in [
            ("\nholdup = 1", "unknown key `holdup`"),
            ("\nconfig = more", "unknown key `config`"),
            ("\ndump = apply", "unknown key `dump`"),
            ("\njson = true", "unknown key `json`"),
            ("\nimage", "`image` is not `key = value`"),
            ("hold-up = 1\nhold-up = 1", "`hold-up` is given twice"),
            ("\nhold-up = soon", "`soon` is not a number of milliseconds"),
            ("\npower = sure", "'sure'"),
            ("\nexport =", "give nbd:unix:PATH"),
            ("\nimage = --json", "taken for an option"),
        ] {
            let said = of(text, &[]).unwrap_err();
            assert!(said.contains(why) && said.contains("vd.conf, line 2"), "{text}: {said}");
        }
    }

    #[test]
    fn template_shows_the_defaults() {
        let template = template();
        assert_eq!(of(&template, &[]).unwrap(), [""; 0]);
        let defaults = |line: &&str| {
            let is_line = line.starts_with('#') && line.contains(" = ") && !line.starts_with("# ");
            is_line && !line.chars().skip_while(|letter| *letter != '=').any(char::is_uppercase)
        };
        let lines: Vec<&str> = template.lines().filter(defaults).collect();
        let said: Vec<&str> = lines.iter().filter_map(|line| line.get(1..)).collect();
        let words = of(&said.join("\n"), &[]).unwrap();
        let matches = bare().try_get_matches_from(&words).unwrap();
        let without = bare().try_get_matches_from([""; 0]).unwrap();
        for id in ["hold_up", "buffer_size", "power", "buffers", "name"] {
            let value = |matches: &ArgMatches| -> Vec<OsString> {
                matches.get_raw(id).unwrap().map(OsStr::to_owned).collect()
            };
            assert_eq!(value(&matches), value(&without), "{id}");
        }
        assert!(words.len() >= 5 && template.contains("#export = EXPORT"), "{template}");
        assert!(template.lines().all(|line| line.len() <= 80), "{template}");
    }
}
