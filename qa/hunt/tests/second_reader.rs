//! Checks that the second reader, docs/reader.py, and the library agree on hundreds of damaged
//! logs: the same records up to the same end, and the same verdict on the end. One Python process
//! reads all the logs.
//!
//! Without `python3` nothing is compared; the test prints this to standard error, past the harness.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use seawall::Error;
use seawall::recovery::TailState;
use seawall_hunt::change::Change;
use seawall_hunt::random::Random;
use seawall_hunt::sample::{End, KEY, Kind, Sample, Scale, files};
use seawall_io::{PosixStorage, Storage};
use seawall_testkit::MemStorage;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reader.py");

/// A Python program that reads every folder named on standard input, with the key file given after
/// it, as the second reader itself does.
const DRIVER: &str = "
import contextlib, importlib.util, io, sys
spec = importlib.util.spec_from_file_location('reader', sys.argv[1])
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)
for line in sys.stdin:
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        reader.LOG_KEYS.clear()
        reader.WITHOUT_KEYS[:] = reader.KEY, 'no key'
        try:
            reader.read(*line.rstrip('\\n').split('\\t'))
        except reader.Stop as stop:
            code = stop.args[0]
    print(out.getvalue() + '= %d' % code)
";

/// A folder of folders, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let Ok(root) = PosixStorage::open(&self.0) else { return };
        for name in root.list_others().unwrap_or_default() {
            let _ = Command::new("rm").arg("-r").arg(self.0.join(name)).status();
        }
        let _ = Command::new("rmdir").arg(&self.0).status();
    }
}

fn has_python() -> bool {
    runs("import sys; assert sys.version_info >= (3, 8)")
}

/// Whether Python can decrypt.
fn has_cipher() -> bool {
    runs("from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV")
}

fn runs(asked: &str) -> bool {
    let ran = Command::new("python3").args(["-c", asked]).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// The name of the key file, which is not part of a log.
const KEY_FILE: &str = "user.key";

fn write(device: &MemStorage, folder: &Path) {
    let storage = PosixStorage::create(folder).unwrap();
    storage.create(KEY_FILE).unwrap().write_at(&KEY, 0).unwrap();
    for (name, bytes) in files(device) {
        // `live` of a killed writer belongs to another boot.
        if name != "live" {
            storage.create(&name).unwrap().write_at(&bytes, 0).unwrap();
        }
    }
}

/// Returns the result of the library's reader, in the format of the second reader.
fn ours(folder: &Path, kind: Kind) -> String {
    let storage: Arc<dyn Storage> = Arc::new(PosixStorage::open(folder).unwrap());
    let mut said = String::new();
    let code = match read(&storage, kind, &mut said) {
        Ok(()) => {
            let found = kind.maintenance(&storage).verify().unwrap();
            match found.tail {
                _ if !found.damage.is_empty() => 5,
                TailState::Ambiguous => 3,
                _ => 0,
            }
        }
        Err(Error::Damaged { .. }) => 5,
        Err(Error::NotALog { .. } | Error::Unsupported { .. }) => 8,
        Err(error) => panic!("{error}"),
    };
    writeln!(said, "= {code}").unwrap();
    said
}

fn read(storage: &Arc<dyn Storage>, kind: Kind, said: &mut String) -> seawall::Result<()> {
    let reader = kind.reader(storage.clone())?;
    let mut cursor = reader.cursor(reader.oldest()?)?;
    while let Some(record) = cursor.next_record()? {
        write!(said, "{}\t", record.lsn).unwrap();
        for byte in record.payload {
            write!(said, "{byte:02x}").unwrap();
        }
        said.push('\n');
    }
    Ok(())
}

#[test]
fn both_readers_say_the_same_of_damaged_logs() {
    if !has_python() {
        let _ = writeln!(io::stderr(), "SKIPPED: no python3: docs/reader.py was NOT compared");
        return;
    }
    let root = std::env::temp_dir().join(format!("seawall-hunt-readers-{}", std::process::id()));
    let scratch = Scratch(root);
    drop(PosixStorage::create(&scratch.0).unwrap());
    let has_cipher = has_cipher();
    if !has_cipher {
        let skipped = "SKIPPED: python3 has no package cryptography with AES-GCM-SIV";
        let _ = writeln!(io::stderr(), "{skipped}; encrypted logs were NOT compared");
    }
    let is_asked = |kind: &Kind| {
        let is_binary = kind.layout == seawall::Layout::Binary;
        is_binary && kind.end != End::Killed && (has_cipher || !kind.is_encrypted())
    };
    let samples: Vec<_> = Kind::all(Scale::Tiny)
        .into_iter()
        .filter(is_asked)
        .map(|kind| [Sample::make(kind), Sample::make(Kind { seed: 77, ..kind })])
        .collect();
    let count = std::env::var("SEAWALL_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut asked = String::new();
    let mut expected = vec![];
    for number in 0..count.unwrap_or(300_u64) {
        let mut random = Random::new(number);
        let [sample, other] = random.pick(&samples);
        let change = Change::draw(&mut random, sample, other);
        let folder = scratch.0.join(format!("{number}"));
        write(&change.made(sample), &folder);
        let what = format!(
            "{number}: {:?}: {:?}, {} {:?}",
            sample.kind, change.act, change.file, change.range
        );
        expected.push((what, ours(&folder, sample.kind)));
        let key = sample.kind.is_encrypted().then(|| folder.join(KEY_FILE));
        let key = key.map_or_else(String::new, |key| format!("\t{}", key.display()));
        writeln!(asked, "{}{key}", folder.display()).unwrap();
    }
    let mut python = Command::new("python3")
        .args(["-c", DRIVER, READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let said = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    let mut rest = said.as_str();
    for (what, ours) in expected {
        let end = rest.find("= ").map_or(rest.len(), |at| at + 4).min(rest.len());
        let (theirs, behind) = rest.split_at(end);
        assert!(theirs == ours, "{what}\nthe second reader: {theirs}\nours: {ours}");
        rest = behind;
    }
    assert_eq!(rest, "");
}
