//! `seawall rekey`: replaces the keys of an encrypted log.

use crate::args::Rekey;
use crate::commands::opener::{Opener, read_key};
use crate::commands::records::append::tell_recovery;
use seawall::{Error, Log, Raw};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::typed;
use serde::Serialize;

/// Replaces the user's key, if a new one is given, and then the key of the log.
pub(crate) fn run(args: &Rekey) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "rekey", &args.log);
    let opener = Opener::of(&args.key)?;
    let new = args.new_key_file.as_deref().map(read_key).transpose()?;
    let stored = opener.reader(&args.log).map_err(fail)?;
    let options = opener.options().create(false).codec(stored.codec()).schema(stored.schema());
    let log: Log<[u8], Raw> = options.open(&args.log).map_err(fail)?;
    if !args.look.quiet {
        tell_recovery(&args.log, &log);
    }
    if let Some(new) = &new {
        log.change_key(new).map_err(fail)?;
    }
    let renewed = log.renew_log_key().and_then(|()| log.close());
    renewed.map_err(|error| match &args.new_key_file {
        Some(new) => {
            let (log, new) = (typed(&args.log), typed(new));
            let again = format!("seawall rekey {log} --key-file {new}");
            fail(error).next(format!("the log has the new key; for a new log key: {again}"))
        }
        None => fail(error),
    })?;
    let mut out = Output::lock();
    args.look.show(&mut out, &Answer::of(args), |out| {
        out.line(&format!("{}: new records are encrypted with a new key", args.log.display()));
        if let Some(new) = &args.new_key_file {
            let shown = typed(new);
            out.line(&format!(
                "from now on it opens with --key-file {shown}, not with the old key"
            ));
        }
    });
    Ok(out.finish())
}

answer! {
    /// `seawall rekey --json`
    #[serde(tag = "schema", rename = "seawall.rekey/1")]
    struct Answer(args: &Rekey) {
        log: String = args.log.display().to_string(),
        key_changed: bool = args.new_key_file.is_some(),
        log_key_renewed: bool = true,
    }
}
