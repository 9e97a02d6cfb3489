//! A crash-safe map in a hundred lines: each change is written down, durably, before it is done.
//!
//! `kv_store STORE put KEY VALUE | get KEY | remove KEY | list | compact`. Kill it whenever you
//! like: what it said is done is there when it is started again. `compact` writes an image of the
//! whole map as one atomic set, notes it as the checkpoint, and gives up what stands before.

#![forbid(unsafe_code)]

use seawall::{Log, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// What is written down.
#[derive(Serialize, Deserialize)]
enum Change {
    Put {
        key: String,
        value: String,
    },
    Remove {
        key: String,
    },
    /// An image of the map begins: what came before does not count.
    Clear,
}

struct Store {
    log: Log<Change>,
    map: BTreeMap<String, String>,
}

impl Store {
    fn open(path: &Path) -> Result<Self> {
        let log: Log<Change> = Log::open(path)?;
        let mut map = BTreeMap::new();
        for entry in log.read_from(log.replay_start())? {
            apply(&mut map, entry?.1);
        }
        Ok(Self { log, map })
    }

    /// Returns once the change is durable, and then done.
    fn change(&mut self, change: Change) -> Result<()> {
        self.log.append(&change)?;
        apply(&mut self.map, change);
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        let put = |(key, value): (&String, &String)| Change::Put {
            key: key.clone(),
            value: value.clone(),
        };
        let image: Vec<_> =
            std::iter::once(Change::Clear).chain(self.map.iter().map(put)).collect();
        // All of the image, or none of it, survives a crash here.
        let first = *self.log.append_batch(&image)?.start();
        self.log.checkpoint(first)?;
        self.log.truncate_before(first)?;
        Ok(())
    }
}

fn apply(map: &mut BTreeMap<String, String>, change: Change) {
    match change {
        Change::Put { key, value } => drop(map.insert(key, value)),
        Change::Remove { key } => drop(map.remove(&key)),
        Change::Clear => map.clear(),
    }
}

fn run(
    arguments: &[&str],
    out: &mut impl Write,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [path, command @ ..] = arguments else { return Err(USAGE.into()) };
    let mut store = Store::open(Path::new(path))?;
    match command {
        ["put", key, value] => {
            let (key, value) = ((*key).to_owned(), (*value).to_owned());
            store.change(Change::Put { key, value })?;
        }
        ["remove", key] => store.change(Change::Remove { key: (*key).to_owned() })?,
        ["get", key] => {
            let value = store.map.get(*key).ok_or("there is no such key")?;
            writeln!(out, "{value}")?;
        }
        ["list"] => {
            for (key, value) in &store.map {
                writeln!(out, "{key}\t{value}")?;
            }
        }
        ["compact"] => store.compact()?,
        _ => return Err(USAGE.into()),
    }
    Ok(store.log.close()?)
}

const USAGE: &str = "usage: kv_store STORE put KEY VALUE | get KEY | remove KEY | list | compact";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "kv_store: {error}");
            ExitCode::FAILURE
        }
    }
}
