//! A log of the tree of golden files: `NAME.bytes`, a text with hexadecimal numbers.
//!
//! ```text
//! # COMMENT
//! file NAME SIZE              zeros; the next lines put bytes into it: OFFSET DIGITS
//! text NAME                   the next lines are |LINE, or >REST for a line without a line break
//! from CASE                   all files of another case, changed by the next lines
//! set NAME OFFSET DIGITS
//! zero NAME OFFSET SIZE
//! copy NAME OFFSET SIZE TO
//! length NAME SIZE            truncates a file, or extends it with zeros
//! remove NAME
//! take CASE NAME TO           adds a file of another case
//! ```

use seawall_io::{Access, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The files of a log by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// How many bytes a line of digits shows.
const ROW: usize = 32;

/// The files of the log `name`.
pub(crate) fn load(folder: &Path, name: &str) -> Files {
    let text = read(folder, &format!("{name}.bytes"));
    let (mut files, mut open) = (Files::new(), None);
    for line in text.lines() {
        match line.split_at_checked(1) {
            None | Some(("#", _)) => {}
            Some(("|", text)) => extend(&mut files, open.as_ref(), &[text, "\n"].concat()),
            Some((">", text)) => extend(&mut files, open.as_ref(), text),
            _ => open = word(folder, &mut files, open, line),
        }
    }
    files
}

/// Reads a text file of the folder.
pub(crate) fn read(folder: &Path, name: &str) -> String {
    let file = PosixStorage::open(folder).unwrap().open(name, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len(), "{name}");
    String::from_utf8(bytes).unwrap()
}

fn extend(files: &mut Files, open: Option<&String>, text: &str) {
    files.get_mut(open.unwrap()).unwrap().extend(text.as_bytes());
}

/// Executes a line of words. Returns the file to which the following lines apply.
fn word(folder: &Path, files: &mut Files, open: Option<String>, line: &str) -> Option<String> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    match *words.as_slice() {
        ["from", log] => *files = load(folder, log),
        ["file", name, size] => {
            files.insert(name.to_owned(), vec![0; number(size)]);
            return Some(name.to_owned());
        }
        ["text", name] => {
            files.insert(name.to_owned(), vec![]);
            return Some(name.to_owned());
        }
        ["remove", name] => drop(files.remove(name).unwrap()),
        [at, digits] => {
            put(files.get_mut(open.as_ref().unwrap()).unwrap(), at, digits);
            return open;
        }
        ["set", name, at, digits] => put(files.get_mut(name).unwrap(), at, digits),
        ["zero", name, at, size] => {
            files.get_mut(name).unwrap()[number(at)..number(at) + number(size)].fill(0);
        }
        ["length", name, size] => files.get_mut(name).unwrap().resize(number(size), 0),
        ["copy", name, at, size, to] => {
            let from = number(at)..number(at) + number(size);
            files.get_mut(name).unwrap().copy_within(from, number(to));
        }
        ["take", log, name, to] => {
            let bytes = load(folder, log).remove(name).unwrap();
            files.insert(to.to_owned(), bytes);
        }
        _ => panic!("no line of a golden file: {line}"),
    }
    None
}

fn put(file: &mut [u8], at: &str, digits: &str) {
    let bytes = digits.as_bytes().chunks(2);
    let bytes = bytes.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
    for (place, byte) in file[number(at)..].iter_mut().zip(bytes.collect::<Vec<_>>()) {
        *place = byte;
    }
}

/// Parses hexadecimal digits.
fn number(digits: &str) -> usize {
    usize::from_str_radix(digits, 16).unwrap()
}

/// The text that [`load`] reads as `files`.
pub(crate) fn show(files: &Files) -> String {
    let mut text = String::new();
    for (name, bytes) in files {
        let lines = str::from_utf8(bytes).ok().filter(|_| name.contains(".jsonl"));
        if let Some(lines) = lines {
            writeln!(text, "text {name}").unwrap();
            for line in lines.split_inclusive('\n') {
                match line.strip_suffix('\n') {
                    Some(line) => writeln!(text, "|{line}").unwrap(),
                    None => writeln!(text, ">{line}").unwrap(),
                }
            }
            continue;
        }
        writeln!(text, "file {name} {:x}", bytes.len()).unwrap();
        for (index, row) in bytes.chunks(ROW).enumerate() {
            let used = row.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let begins = row.iter().position(|byte| *byte != 0).unwrap_or(0);
            let digits = row[begins..used].iter().map(|byte| format!("{byte:02x}"));
            if used > 0 {
                let at = index * ROW + begins;
                writeln!(text, "{at:04x} {}", digits.collect::<String>()).unwrap();
            }
        }
    }
    text
}
