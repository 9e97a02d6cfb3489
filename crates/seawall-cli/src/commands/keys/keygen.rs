//! `seawall keygen`: makes a key for encrypted logs.

use crate::args::Keygen;
use crate::commands::outside;
use seawall::encryption::KeyFile;
use seawall_host::folder_and_name;
use seawall_output::answer;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::typed;
use serde::Serialize;
use std::io::ErrorKind;

/// Makes a file with a new key.
pub(crate) fn run(args: &Keygen) -> Result<Exit, Failure> {
    outside::check_path(&args.file)?;
    if folder_and_name(&args.file).is_none() {
        let what = "this path does not end in a UTF-8 file name";
        let failure = Failure::new(Exit::Failed, what).at(args.file.display());
        return Err(failure.next("give a path that does"));
    }
    KeyFile::new(&args.file).generate().map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let failure = Failure::new(Exit::Conflict, "the file exists, and was not changed");
            return failure.at(args.file.display()).next("give a name that does not exist");
        }
        let failure = Failure::new(Exit::Failed, format!("cannot make the key: {error}"));
        failure.at(args.file.display()).next("give a name in a writable directory")
    })?;
    let mut out = Output::lock();
    args.look.show(&mut out, &Answer::of(args), |out| {
        let file = typed(&args.file);
        out.line(&format!("{}: a new key, readable only by its owner", args.file.display()));
        out.line("keep a copy, apart from the logs: without the key they cannot be read");
        out.line("");
        out.line(&format!("next: seawall append LOG --encrypt --key-file {file}"));
    });
    Ok(out.finish())
}

answer! {
    /// `seawall keygen --json`
    #[serde(tag = "schema", rename = "seawall.keygen/1")]
    struct Answer(args: &Keygen) {
        file: String = args.file.display().to_string(),
    }
}
