//! The head of a planted bug: the lines of proof/NAME.patch before its first `diff --git` line.
//!
//! ```text
//! # breaks: An append returns before any sync.
//! # caught by: cargo test -p seawall-tests --test all acknowledged_records_survive
//! # says: record 7 is missing
//! diff --git a/... b/...
//! ```
//!
//! Two lines are optional: `# says: TEXT`, part of what the command then prints, and
//! `# hangs: yes`, if it does not end by itself.

const BREAKS: &str = "# breaks: ";
const CAUGHT_BY: &str = "# caught by: ";
const SAYS: &str = "# says: ";
const HANGS: &str = "# hangs: yes";

/// What a planted bug breaks, and the command that fails with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) breaks: &'a str,
    pub(crate) caught_by: &'a str,
    /// Part of what the command prints when it fails.
    pub(crate) says: Option<&'a str>,
    /// Whether the command does not end by itself.
    pub(crate) hangs: bool,
}

impl<'a> Head<'a> {
    /// Reads the head of `patch`.
    ///
    /// # Errors
    ///
    /// The line that is missing or malformed.
    pub(crate) fn of(patch: &'a str) -> Result<Self, String> {
        let (head, _) = split(patch);
        let mut lines = head.lines();
        let breaks = field(lines.next(), BREAKS)?;
        let caught_by = field(lines.next(), CAUGHT_BY)?;
        if !breaks.ends_with('.') {
            return Err(format!("`{BREAKS}` is not followed by one sentence"));
        }
        let mut lines = lines.peekable();
        let says = lines.next_if(|line| line.starts_with(SAYS.trim_end()));
        let says = says.map(|line| field(Some(line), SAYS)).transpose()?;
        let hangs = lines.next_if_eq(&HANGS).is_some();
        match lines.next() {
            None => Ok(Self { breaks, caught_by, says, hangs }),
            Some(_) => Err("another line than `# says: ...` and `# hangs: yes`".to_owned()),
        }
    }
}

fn field<'a>(line: Option<&'a str>, name: &str) -> Result<&'a str, String> {
    let value = line.and_then(|line| line.strip_prefix(name)).map_or("", str::trim);
    if value.is_empty() {
        return Err(format!("the line `{name}...` is missing"));
    }
    Ok(value)
}

/// Splits `patch` into its head and its difference.
pub(crate) fn split(patch: &str) -> (&str, &str) {
    let start = if patch.starts_with("diff --git ") {
        Some(0)
    } else {
        patch.find("\ndiff --git ").map(|newline| newline + 1)
    };
    patch.split_at(start.unwrap_or(patch.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn head_has_up_to_four_lines_and_the_difference_follows() {
        let patch = format!("# breaks: A is lost.\n# caught by: cargo test a\n{DIFF}");
        let breaks = "A is lost.";
        let mut head = Head { breaks, caught_by: "cargo test a", says: None, hangs: false };
        assert_eq!(Head::of(&patch), Ok(head));
        assert_eq!(split(&patch).1, DIFF);
        let patch = patch.replace("\ndiff", "\n# says: a is gone\n# hangs: yes\ndiff");
        head = Head { says: Some("a is gone"), hangs: true, ..head };
        assert_eq!(Head::of(&patch), Ok(head));
    }

    #[test]
    fn missing_or_malformed_line_is_refused() {
        for head in [
            "",
            "# breaks: A is lost.\n",
            "# caught by: cargo test a\n# breaks: A is lost.\n",
            "# breaks: A is lost\n# caught by: cargo test a\n",
            "# breaks: \n# caught by: cargo test a\n",
            "# breaks: A is lost.\n# caught by:\n",
            "# breaks: A is lost.\n# caught by: cargo test a\n# more\n",
            "# breaks: A is lost.\n# caught by: cargo test a\n# says: \n",
            "# breaks: A is lost.\n# caught by: cargo test a\n# hangs: no\n",
        ] {
            assert!(Head::of(&format!("{head}{DIFF}")).is_err(), "{head}");
        }
    }
}
