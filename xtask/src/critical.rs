//! Counts the lines of the virtual disk that decide whether it keeps acknowledged data: they must
//! be few enough to be read as a whole.

use crate::rules::Finding;
use crate::source::Source;

/// The critical files; `docs/adr/0009-the-virtual-log-disk.md` says what each decides.
const PARTS: [&str; 10] = [
    "ring.rs",
    "ring/buffer.rs",
    "ring/flights.rs",
    "ring/kept.rs",
    "budget.rs",
    "disk.rs",
    "files.rs",
    "dump.rs",
    "layout.rs",
    "options.rs",
];
const FOLDER: &str = "crates/seawall-disk/src/";
/// Size of the virtual disk `RapiLog` (`EuroSys` 2013), which runs on a verified kernel, in lines.
const RAPILOG: usize = 1619;
/// The limit, without the keeper. It was 1,300 before the ring was laid out for a keeper.
const LIMIT: usize = RAPILOG;
/// Counted separately: the keeper holds the memory of a server that was killed.
const KEEPER: &str = "keeper.rs";

/// Counts the lines and describes the result; adds a finding above the limit.
pub(crate) fn count(tree: &[Source]) -> (String, Vec<Finding>) {
    let mut total = 0;
    let mut parts = Vec::new();
    let mut findings = Vec::new();
    let found = |line, advice: String| Finding {
        path: format!("{FOLDER}disk.rs"),
        line,
        rule: "critical",
        advice,
    };
    for part in PARTS {
        match tree.iter().find(|source| source.path.strip_prefix(FOLDER) == Some(part)) {
            Some(source) => {
                let size = code_lines(source);
                total += size;
                parts.push(format!("{part} {size}"));
            }
            None => findings.push(found(1, format!("{part} is gone: name what took its place"))),
        }
    }
    if total > LIMIT {
        let advice = format!("{total} lines are critical, and {LIMIT} are allowed");
        findings.push(found(1, format!("{advice}: take some out, or say why in xtask")));
    }
    let parts = parts.join(", ");
    let keeper = tree.iter().find(|source| source.path.strip_prefix(FOLDER) == Some(KEEPER));
    let keeper = keeper.map_or(0, code_lines);
    let summary = format!(
        "critical: {total} of {LIMIT} lines, as many as RapiLog has ({parts}), and {keeper} of the \
         keeper"
    );
    (summary, findings)
}

/// The number of lines of code, without tests, comments and blank lines.
fn code_lines(source: &Source) -> usize {
    let lines = (1..).zip(source.code.lines());
    lines.filter(|(line, code)| !code.trim().is_empty() && !source.is_test(*line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = concat!(
            "//! A disk.\n\n/// Doc.\nfn a() -> u8 {\n    // Why.\n    let b = \"//\"; // c\n\n",
            "    /* more\n    of it */\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    fn d() {}\n}\n",
        );
        assert_eq!(code_lines(&Source::new("crates/seawall-disk/src/ring.rs", text)), 4);
    }

    #[test]
    fn one_line_too_many_is_a_finding_and_so_is_a_part_that_is_gone() {
        let part = |name: &str, lines: usize| {
            Source::new(&format!("{FOLDER}{name}"), &"fn a() {}\n".repeat(lines))
        };
        let tree = |lines| PARTS.map(|name| part(name, if name == "ring.rs" { lines } else { 1 }));
        let others = PARTS.len() - 1;
        assert_eq!(count(&tree(LIMIT - others)).1.len(), 0);
        assert_eq!(count(&tree(LIMIT - others + 1)).1.len(), 1);
        let [_, rest @ ..] = tree(1);
        let (said, findings) = count(&rest);
        assert!(said.starts_with(&format!("critical: {others} of ")), "{said}");
        assert!(matches!(&findings[..], [only] if only.advice.contains("ring.rs")));
    }
}
