//! Wraps lines to the width of a terminal: a long cell continues in its own column.

use std::io::{self, IsTerminal};

/// Returns the width of the terminal in columns; `None` if standard output is a file or a pipe.
pub(crate) fn of_terminal() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let size = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    columns.or_else(size).filter(|columns| *columns > 0)
}

/// Breaks lines of `text` that are longer than `width` at blanks.
///
/// Lines meant for copying stay whole: JSON, comments of a configuration, and command lines.
#[must_use]
pub fn fitted(text: &str, width: usize) -> String {
    text.split('\n').map(|line| fitted_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn fitted_line(line: &str, width: usize) -> String {
    let start = line.trim_start().trim_start_matches("next: ");
    let is_copied = start.starts_with(['{', '#']) || start.starts_with("seawall ");
    if is_copied || columns(line) <= width {
        return line.to_owned();
    }
    let indent = last_column(line, width * 5 / 8);
    let (mut fitted, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let size = columns(word.trim_end());
        if column > indent && size > 0 && column + size > width {
            fitted.truncate(fitted.trim_end().len());
            fitted.push('\n');
            fitted.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        fitted.push_str(word);
        column += columns(word);
    }
    fitted
}

/// The start of the last column separated by two or more blanks, at most `max`.
fn last_column(line: &str, max: usize) -> usize {
    let plain: Vec<char> = plain(line).collect();
    let begins = |at: &usize| matches!(plain.get(at - 2..=*at), Some([' ', ' ', c]) if *c != ' ');
    (2..plain.len().min(max + 1)).rev().find(begins).unwrap_or(2).min(max)
}

/// The width of `text` in columns.
fn columns(text: &str) -> usize {
    plain(text).count()
}

/// The characters without colour sequences.
fn plain(text: &str) -> impl Iterator<Item = char> {
    let mut is_escape = false;
    text.chars().filter(move |character| {
        let was_escape = is_escape;
        is_escape = *character == '\u{1b}' || (is_escape && *character != 'm');
        !is_escape && !was_escape
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cell_continues_in_its_column() {
        let row = "  segment 1  000000000001.seg, offset 4096: stored bytes have changed";
        assert_eq!(
            fitted(row, 40),
            "  segment 1  000000000001.seg, offset\n\
             \x20            4096: stored bytes have\n\
             \x20            changed"
        );
        let head = format!("{:<72}{:>8}", "orders.wal   clean", "exit 0");
        assert_eq!(fitted(&head, 40), "orders.wal   clean\n             exit 0");
    }

    #[test]
    fn no_line_exceeds_the_width_and_no_word_is_lost() {
        let text = "  read       1 record   2.0 MiB   1 segment   0.01 s and a long remark on it";
        for width in 20..90 {
            let fitted = fitted(text, width);
            assert!(fitted.lines().all(|line| columns(line) <= width), "{width}: {fitted}");
            assert!(fitted.split_whitespace().eq(text.split_whitespace()), "{width}: {fitted}");
        }
        assert_eq!(fitted(text, 80), text);
    }

    #[test]
    fn colour_sequences_have_no_width() {
        let painted = format!("log   \u{1b}[1m\u{1b}[32mclean\u{1b}[0m{:>10}", "exit 0");
        assert_eq!(columns(&painted), 21);
        assert_eq!(fitted(&painted, 21), painted);
    }

    #[test]
    fn copied_lines_are_not_wrapped() {
        for line in [
            r#"{"schema":"seawall.verify/1", "log": "a"}"#,
            "# a comment of a configuration",
            "next: seawall repair orders.wal --yes",
            "      seawall cat orders.wal --skip-damaged",
        ] {
            assert_eq!(fitted(line, 20), line);
        }
    }
}
