//! `seawall man`: pages for man(1), made of what `--help` says.

use crate::args::{self, Man};
use crate::output::Output;
use crate::report::{Exit, Failure};
use std::io;
use std::path::Path;

/// Prints the page of the program, or puts all pages into a directory.
pub(crate) fn run(args: &Man) -> Result<Exit, Failure> {
    let mut out = Output::new();
    match &args.dir {
        Some(folder) => {
            let made = clap_mangen::generate_to(args::shown(), folder);
            made.map_err(|error| failure(folder, &error))?;
            out.line(&format!("{}: seawall.1, and a page for each verb", folder.display()));
        }
        None => out.write(|out| {
            let mut page = vec![];
            clap_mangen::Man::new(args::shown().disable_help_subcommand(true)).render(&mut page)?;
            out.write_all(&page)
        }),
    }
    Ok(out.finish())
}

fn failure(folder: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot write the pages: {error}"));
    failure.at(folder.display()).next("give a directory that is there and can be written to")
}
