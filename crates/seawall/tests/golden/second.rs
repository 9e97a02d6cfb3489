//! The results of the second reader, docs/reader.py, for a golden file.

use super::READER;
use super::image::Files;
use super::observe::{KEY, is_encrypted, record};
use super::programs::output;
use seawall::Lsn;
use seawall_io::{PosixStorage, Storage};
use std::path::Path;
use std::process::Command;

/// Whether a suitable Python is installed.
pub(crate) fn is_there() -> bool {
    runs("import sys; assert sys.version_info >= (3, 8)")
}

/// Whether that Python can decrypt this log.
pub(crate) fn has_cipher_for(files: &Files) -> bool {
    let module = "cryptography.hazmat.primitives.ciphers.aead";
    !is_encrypted(files) || runs(&format!("from {module} import AESGCMSIV"))
}

fn runs(asked: &str) -> bool {
    let ran = output(Command::new("python3").args(["-c", asked]));
    ran.is_ok_and(|ran| ran.status.success())
}

/// Runs the second reader with the key. Returns its exit code and the records that it shows.
/// Creates and removes `folder`.
pub(crate) fn ask(files: &Files, folder: &Path) -> (i32, Vec<String>) {
    let storage = PosixStorage::create(folder).unwrap();
    for (name, bytes) in files {
        storage.create(name).unwrap().write_at(bytes, 0).unwrap();
    }
    // The key is in a file that is not part of the log.
    storage.create("user.key").unwrap().write_at(&KEY, 0).unwrap();
    let key = is_encrypted(files).then(|| folder.join("user.key"));
    let ran = output(Command::new("python3").arg(READER).arg(folder).args(key)).unwrap();
    for name in files.keys().map(String::as_str).chain(["user.key"]) {
        storage.remove(name).unwrap();
    }
    assert!(output(Command::new("rmdir").arg(folder)).unwrap().status.success());
    let said = String::from_utf8(ran.stdout).unwrap();
    let shown = said.lines().map(|line| {
        let (lsn, digits) = line.split_once('\t').unwrap();
        let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        let payload: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        record(Lsn::new(lsn.parse().unwrap()).unwrap(), &payload)
    });
    let code = ran.status.code();
    (code.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&ran.stderr))), shown.collect())
}
