//! Finds where to plant a bug by the lines that it changes, if git cannot merge it.
//!
//! A change is searched for in the files of `HEAD` regardless of blanks, line breaks and comments:
//! first with three lines before and after it, then with fewer. It must be found exactly once, in
//! the file of the same path or, if that has no such lines, in any other file.

use super::difference::{Change, changes};
use crate::tree;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The numbers of lines before and after a change that are searched for with it.
const CONTEXTS: &[(usize, usize)] =
    &[(3, 3), (2, 2), (1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)];

/// Minimum length of the text to search for; a shorter one could be found by chance.
const LENGTH_MIN: usize = 16;

/// The Rust files of `HEAD`.
#[derive(Debug)]
pub(super) struct Places {
    files: BTreeMap<String, String>,
    /// The same files without blanks, line breaks and comments.
    bare: BTreeMap<String, String>,
}

/// A range of bytes in a file and its replacement.
#[derive(Debug)]
struct Edit {
    path: String,
    range: Range<usize>,
    text: String,
}

impl Places {
    /// Reads the Rust files among `paths` in the tree at `root`.
    pub(super) fn of(root: &Path, paths: &[String]) -> io::Result<Self> {
        let is_rust = |path: &&String| {
            Path::new(path).extension().is_some_and(|ending| ending == "rs")
                && root.join(path).is_file()
        };
        let read = |path: &String| Ok((path.clone(), tree::read(&root.join(path))?));
        Ok(Self::new(paths.iter().filter(is_rust).map(read).collect::<io::Result<_>>()?))
    }

    fn new(files: BTreeMap<String, String>) -> Self {
        let bare = |(path, text): (&String, &String)| (path.clone(), Bare::new(text).text);
        let bare = files.iter().map(bare).collect();
        Self { files, bare }
    }

    /// Makes the changes of `difference` and returns the files that change.
    ///
    /// # Errors
    ///
    /// The change whose place is not found, or found more than once.
    pub(super) fn plant(&self, difference: &str) -> Result<BTreeMap<String, String>, String> {
        let edits = changes(difference)?;
        let mut edits =
            edits.iter().map(|change| self.edit(change)).collect::<Result<Vec<_>, _>>()?;
        // From the end of a file to its start, so that the other ranges stay valid.
        edits.sort_by_key(|edit| (edit.path.clone(), Reverse(edit.range.start)));
        let mut changed: BTreeMap<String, String> = BTreeMap::new();
        let mut last: Option<&Edit> = None;
        for edit in &edits {
            let overlaps =
                |last: &Edit| last.path == edit.path && last.range.start < edit.range.end;
            if last.is_some_and(overlaps) {
                return Err(format!("two changes overlap in {}", edit.path));
            }
            let original = self.files.get(&edit.path).expect("an edit names a file of the map");
            let text = changed.entry(edit.path.clone()).or_insert_with(|| original.clone());
            text.replace_range(edit.range.clone(), &edit.text);
            last = Some(edit);
        }
        Ok(changed)
    }

    fn edit(&self, change: &Change) -> Result<Edit, String> {
        for (before, after) in CONTEXTS {
            let Some(needle) = Needle::new(change, *before, *after) else { continue };
            let mut found = self.find(&change.path, &needle.bare);
            match (found.pop(), found.is_empty()) {
                (None, _) => {}
                (Some((path, at)), true) => {
                    let text = self.files.get(path).expect("the two maps have the same keys");
                    let (range, text) = needle.edit(text, at);
                    return Ok(Edit { path: path.to_owned(), range, text });
                }
                (Some((path, _)), false) => {
                    return Err(format!("several places for {}, one in {path}", change.title()));
                }
            }
        }
        Err(format!("no place for {}", change.title()))
    }

    /// The occurrences of `needle` in the bare file at `path` or, if there are none, in any file.
    fn find(&self, path: &str, needle: &str) -> Vec<(&str, usize)> {
        let own = self.bare.get_key_value(path).into_iter();
        let found: Vec<_> = own.flat_map(|file| occurrences(file, needle)).collect();
        if !found.is_empty() {
            return found;
        }
        self.bare.iter().flat_map(|file| occurrences(file, needle)).collect()
    }
}

/// The occurrences of `needle` in a file, each with the path.
fn occurrences<'a>((path, bare): (&'a String, &String), needle: &str) -> Vec<(&'a str, usize)> {
    bare.match_indices(needle).map(|(at, _)| (path.as_str(), at)).collect()
}

/// A text without blanks, line breaks, comment lines, and trailing commas.
#[derive(Debug, Default)]
struct Bare {
    text: String,
    /// The offset of each byte of `text` in the full text.
    places: Vec<usize>,
}

impl Bare {
    fn new(full: &str) -> Self {
        let mut bare = Self::default();
        let mut start = 0;
        for line in full.split_inclusive('\n') {
            if !line.trim_start().starts_with("//") {
                let letters = line.char_indices().filter(|(_, letter)| !letter.is_whitespace());
                letters.for_each(|(at, letter)| bare.push(letter, start + at));
            }
            start += line.len();
        }
        bare
    }

    fn push(&mut self, letter: char, place: usize) {
        if matches!(letter, ')' | ']' | '}') && self.text.ends_with(',') {
            self.text.pop();
            self.places.pop();
        }
        self.text.push(letter);
        self.places.extend((place..).take(letter.len_utf8()));
    }
}

/// A change and the text to search for.
struct Needle<'a> {
    change: &'a Change,
    bare: String,
    /// The removed lines in `bare`; empty if the change only adds lines.
    core: Range<usize>,
    /// The indentation of the change's reference line, from which added lines are indented.
    indentation: usize,
}

impl<'a> Needle<'a> {
    /// Returns `None` if the text is too short to search for.
    fn new(change: &'a Change, before: usize, after: usize) -> Option<Self> {
        let mut before: Vec<&String> =
            change.before.iter().rev().filter(|line| counts(line)).take(before).collect();
        before.reverse();
        let after: Vec<&String> =
            change.after.iter().filter(|line| counts(line)).take(after).collect();
        let removed: Vec<&String> = change.removed.iter().filter(|line| counts(line)).collect();
        let reference = removed.first().or(before.last()).or(after.first())?;
        let indentation = indentation(reference);
        let text = |lines: &[&String]| -> String {
            lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
        };
        let (head, middle) = (text(&before), text(&removed));
        let full = format!("{head}{middle}{}", text(&after));
        let bare = Bare::new(&full);
        let index = |place: usize| bare.places.partition_point(|other| *other < place);
        let core = index(head.len())..index(head.len() + middle.len());
        let is_enough = bare.text.len() >= LENGTH_MIN;
        is_enough.then_some(Self { change, bare: bare.text, core, indentation })
    }

    /// Returns the range of `text` to replace, and the new text; the needle was found at `at` in
    /// the bare text.
    fn edit(&self, text: &str, at: usize) -> (Range<usize>, String) {
        let places = Bare::new(text).places;
        let place = |index: usize| places.get(at + index).copied().unwrap_or(text.len());
        let Range { start, end } = self.core;
        let range = if start < end {
            place(start)..self.with_comma(text, place(end - 1) + 1)
        } else if start > 0 {
            let here = place(start - 1) + 1;
            here..here
        } else {
            place(0)..place(0)
        };
        let line = text.get(..range.start).and_then(|text| text.rfind('\n')).map_or(0, |n| n + 1);
        let next = text.get(range.end..).and_then(|text| text.find('\n'));
        let next = next.map_or(text.len(), |newline| range.end + newline + 1);
        let is_blank = |range: Range<usize>| text.get(range).is_some_and(|s| s.trim().is_empty());
        let starts_a_line = is_blank(line..range.start);
        let ends_a_line = is_blank(range.end..next);
        let to = indentation(text.get(line..).unwrap_or_default());
        let added = self.change.added.iter().map(|line| moved(line, self.indentation, to));
        let added: String = added.collect();
        if start < end && starts_a_line && ends_a_line {
            (line..next, added)
        } else if start == end && start > 0 && ends_a_line {
            (next..next, added)
        } else if start == end && start == 0 && starts_a_line {
            (line..line, added)
        } else {
            (range, format!("\n{added}"))
        }
    }

    /// Returns `end`, or the end of the comma after it if the removed lines end with one.
    fn with_comma(&self, text: &str, end: usize) -> usize {
        let removed = self.change.removed.iter().rfind(|line| counts(line));
        let rest = text.get(end..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start().len();
        let is_cut = !text.get(..end).is_some_and(|text| text.ends_with(','));
        let has_comma = removed.is_some_and(|line| line.trim_end().ends_with(','));
        if is_cut && has_comma && rest.trim_start().starts_with(',') {
            end + blanks + 1
        } else {
            end
        }
    }
}

/// Whether a search considers `line`.
fn counts(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns `line` with a newline, shifted like its neighbour, which moved from column `from` to
/// `to`.
fn moved(line: &str, from: usize, to: usize) -> String {
    let column = (indentation(line) + to).saturating_sub(from);
    format!("{}{}\n", " ".repeat(column), line.trim_start_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str =
        "fn write(batch: &Batch) {\n    check(batch, self.limit);\n    sync(file);\n}\n";

    fn difference(path: &str, hunk: &str) -> String {
        let lines = hunk.lines().map(|line| format!("{line}\n"));
        let lines: String = lines.collect();
        format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n{lines}")
    }

    fn planted(files: &[(&str, &str)], hunk: &str) -> Result<Vec<(String, String)>, String> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let changed = Places::new(files.collect()).plant(&difference("a.rs", hunk))?;
        Ok(changed.into_iter().collect())
    }

    const NO_SYNC: &str =
        " fn write(batch: &Batch) {\n     check(batch, self.limit);\n-    sync(file);\n }";

    #[test]
    fn comments_and_line_breaks_do_not_hide_a_place() {
        let new = "    fn write(batch: &Batch) {\n        check(\n            batch,\n            \
                   self.limit,\n        );\n        // Now durable.\n        sync(file);\n    }\n";
        let expected = new.replace("        sync(file);\n", "");
        assert_eq!(planted(&[("a.rs", new)], NO_SYNC), Ok(vec![("a.rs".to_owned(), expected)]));
    }

    #[test]
    fn place_in_another_file_is_found() {
        let files = [("a.rs", "fn other() {}\n"), ("b.rs", OLD)];
        let expected = OLD.replace("    sync(file);\n", "");
        assert_eq!(planted(&files, NO_SYNC), Ok(vec![("b.rs".to_owned(), expected)]));
    }

    #[test]
    fn place_in_the_same_file_goes_before_others() {
        let expected = OLD.replace("    sync(file);\n", "");
        let found = planted(&[("a.rs", OLD), ("b.rs", OLD)], NO_SYNC);
        assert_eq!(found, Ok(vec![("a.rs".to_owned(), expected)]));
    }

    #[test]
    fn several_places_or_none_are_refused() {
        let twice = format!("{OLD}{OLD}");
        assert!(planted(&[("a.rs", &twice)], NO_SYNC).unwrap_err().starts_with("several"));
        assert!(planted(&[("a.rs", "fn other() {}\n")], NO_SYNC).unwrap_err().starts_with("no "));
        // A single bracket is too short to search for.
        planted(&[("a.rs", "}\n")], "-}\n+};").unwrap_err();
    }

    #[test]
    fn added_lines_follow_the_line_before_them_and_its_indentation() {
        let new = "mod a {\n    fn write(batch: &Batch) {\n        check(batch, self.limit);\n    \
                   \x20   // Durable from here.\n        flush(file);\n    }\n}\n";
        let hunk = [
            " fn write(batch: &Batch) {",
            "     check(batch, self.limit);",
            "+    if late {",
            "+        return;",
            "+    }",
            "     sync(file);",
            " }",
        ];
        let hunk = hunk.join("\n");
        let text = planted(&[("a.rs", new)], &hunk).unwrap().remove(0).1;
        let line = "        check(batch, self.limit);\n";
        let added = "        if late {\n            return;\n        }\n";
        assert_eq!(text, new.replace(line, &format!("{line}{added}")));
    }

    #[test]
    fn argument_keeps_one_comma() {
        let hunk =
            " write_to_the_device(\n     file,\n-    batch_with_its_header,\n+    batch,\n );";
        let new = "write_to_the_device(\n    file,\n    batch_with_its_header,\n);\n";
        let text = planted(&[("a.rs", new)], hunk).unwrap().remove(0).1;
        assert_eq!(text, "write_to_the_device(\n    file,\n    batch,\n);\n");
    }
}
