//! What the second reader, docs/reader.py, says of a golden file.

use super::READER;
use super::image::Files;
use super::observe::record;
use seawall::Lsn;
use seawall_io::{PosixStorage, Storage};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether there is a Python that can run it.
pub(crate) fn is_there() -> bool {
    let asked = "import sys; assert sys.version_info >= (3, 8)";
    let ran = Command::new("python3").args(["-c", asked]).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// Its exit code and the records that it shows; `folder` is made and removed.
pub(crate) fn ask(files: &Files, folder: &Path) -> (i32, Vec<String>) {
    let storage = PosixStorage::create(folder).unwrap();
    for (name, bytes) in files {
        storage.create(name).unwrap().write_at(bytes, 0).unwrap();
    }
    let ran = Command::new("python3").arg(READER).arg(folder).output().unwrap();
    for name in files.keys() {
        storage.remove(name).unwrap();
    }
    assert!(Command::new("rmdir").arg(folder).status().unwrap().success());
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
