//! Splits a unified difference into runs of changed lines.

/// A run of changed lines with the lines around it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) before: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) added: Vec<String>,
    pub(super) after: Vec<String>,
}

impl Change {
    /// The first changed line, for messages.
    pub(super) fn title(&self) -> String {
        let line = self.removed.first().or(self.added.first());
        format!("`{}`", line.map_or("", |line| line.trim()))
    }
}

/// Returns the changes of `difference`, in order.
///
/// # Errors
///
/// The difference creates or removes a file.
pub(super) fn changes(difference: &str) -> Result<Vec<Change>, String> {
    let mut found = Vec::new();
    let mut path = String::new();
    let mut hunk: Vec<&str> = Vec::new();
    for line in difference.lines().chain(["diff --git"]) {
        if line.starts_with("diff --git") || line.starts_with("@@ ") {
            found.extend(in_hunk(&path, &std::mem::take(&mut hunk)));
        } else if line == "--- /dev/null" || line == "+++ /dev/null" {
            return Err("it creates or removes a file".to_owned());
        } else if let Some(new) = line.strip_prefix("+++ b/") {
            new.clone_into(&mut path);
            hunk.clear();
        } else {
            hunk.push(line);
        }
    }
    Ok(found)
}

fn in_hunk(path: &str, hunk: &[&str]) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    let mut context: Vec<String> = Vec::new();
    let mut is_changing = false;
    for line in hunk {
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        if kind != "-" && kind != "+" {
            context.push(text.to_owned());
            is_changing = false;
            continue;
        }
        if !is_changing {
            if let Some(last) = found.last_mut() {
                last.after.clone_from(&context);
            }
            let before = std::mem::take(&mut context);
            found.push(Change { path: path.to_owned(), before, ..Change::default() });
            is_changing = true;
        }
        let change = found.last_mut().expect("one was pushed above");
        let side = if kind == "-" { &mut change.removed } else { &mut change.added };
        side.push(text.to_owned());
    }
    if let Some(last) = found.last_mut() {
        last.after = context;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn hunk_with_two_runs_gives_two_changes() {
        let difference = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,5 +1,5 @@ fn f\n \
                          a\n-b\n+c\n d\n e\n+f\n g\n";
        let path = "x.rs".to_owned();
        let first = Change {
            path: path.clone(),
            before: lines("a"),
            removed: lines("b"),
            added: lines("c"),
            after: lines("d e"),
        };
        let second = Change {
            path,
            before: lines("d e"),
            removed: vec![],
            added: lines("f"),
            after: lines("g"),
        };
        assert_eq!(changes(difference), Ok(vec![first, second]));
    }

    #[test]
    fn new_file_is_refused() {
        let difference = "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
        assert_eq!(changes(difference), Err("it creates or removes a file".to_owned()));
    }
}
