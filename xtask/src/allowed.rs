//! Exceptions from the rules of tidy, each with its reason.
//!
//! An exception that excuses no finding is itself a finding.

use crate::rules::Finding;

/// An exception.
#[derive(Debug)]
pub(crate) struct Allowed {
    /// Prefix of the paths that the exception covers.
    pub(crate) path: &'static str,
    /// The rule that does not apply there.
    pub(crate) rule: &'static str,
    pub(crate) reason: &'static str,
}

/// All exceptions.
pub(crate) const ALLOWED: &[Allowed] = &[
    Allowed {
        path: "xtask/src/tidy.rs",
        rule: "machine",
        reason: "tidy reads the tree that it judges",
    },
    Allowed {
        path: "xtask/src/book.rs",
        rule: "machine",
        reason: "documents are copied, not logs",
    },
    Allowed {
        path: "xtask/src/tree.rs",
        rule: "machine",
        reason: "chores read the tree that they judge",
    },
    Allowed {
        path: "xtask/src/prove/",
        rule: "machine",
        reason: "it copies the tree, to plant bugs in the copy, and rewrites patches",
    },
    Allowed {
        path: "qa/hunt/src/damage/scratch.rs",
        rule: "machine",
        reason: "a folder for temporary files is removed with all that is in it",
    },
    Allowed {
        path: "crates/seawall-measure/src/scratch/folder.rs",
        rule: "machine",
        reason: "a folder for temporary files is removed with all that is in it",
    },
    Allowed {
        path: "qa/syscalls/src/linux",
        rule: "machine",
        reason: "it drives a program from outside: its files, its memory, its folder",
    },
    Allowed {
        path: "crates/seawall/tests/encoded.rs",
        rule: "unfinished",
        reason: "the step `encoded` of .ci/run runs its ignored tests",
    },
    Allowed {
        path: "crates/seawall-cli/tests/kill.rs",
        rule: "machine",
        reason: "the kernel says there which signals are ignored",
    },
    Allowed {
        path: "crates/seawall-cli/tests/tool/",
        rule: "machine",
        reason: "these tests drive the program from outside, and damage its files",
    },
    Allowed {
        path: "qa/scheduler/src/lib.rs",
        rule: "machine",
        reason: "shuttle's sleep takes no time: it lets another task run",
    },
    Allowed {
        path: "qa/hunt/src/",
        rule: "unwrap",
        reason: "this is a test bench: a panic is its report",
    },
    Allowed {
        path: "crates/seawall/tests/allocations.rs",
        rule: "unsafe",
        reason: "an allocator that counts can be written in no other way",
    },
    Allowed {
        path: "qa/hunt/tests/tasks.rs",
        rule: "machine",
        reason: "a folder for a test is removed with all that is in it",
    },
    Allowed {
        path: "crates/seawall/tests/common/mod.rs",
        rule: "machine",
        reason: "a folder for a test is removed with all that is in it",
    },
    Allowed {
        path: "crates/seawall-replay/examples/quakes.rs",
        rule: "machine",
        reason: "its folder is made and removed with all that is in it",
    },
    Allowed {
        path: "crates/seawall-replay/tests/snapshot.rs",
        rule: "machine",
        reason: "a folder for a test is removed with all that is in it",
    },
    Allowed {
        path: "crates/seawall/examples/repair_after_damage.rs",
        rule: "machine",
        reason: "it plays the disk that changes a log's bytes",
    },
    Allowed {
        path: "crates/seawall-disk-cli/src/control.rs",
        rule: "machine",
        reason: "the permissions of a socket are set by its path; no file is touched",
    },
    Allowed {
        path: "crates/seawall-disk/src/nbd/socket.rs",
        rule: "machine",
        reason: "whether a path is a socket is in no file: it asks what kind of thing lies there",
    },
    Allowed {
        path: "crates/seawall-disk/src/fuse/mount.rs",
        rule: "machine",
        reason: "an empty folder is made and removed, as the place of a mount",
    },
    Allowed {
        path: "crates/seawall-disk/tests/fuse_dir.rs",
        rule: "machine",
        reason: "these tests drive a file system from outside",
    },
    Allowed {
        path: "qa/rig/src/",
        rule: "machine",
        reason: "it drives programs from outside: folders, mounts, processes and what they say",
    },
    Allowed {
        path: "qa/rig/src/verbs/detach/shutdown.rs",
        rule: "unsafe",
        reason: "rustix has no safe call for the ioctl that shuts a file system down",
    },
    Allowed {
        path: "qa/rig/src/main.rs",
        rule: "forbid-unsafe",
        reason: "shutdown.rs has some; all others are denied it",
    },
    Allowed {
        path: "crates/seawall-disk/src/fuse/mount.rs",
        rule: "machine",
        reason: "it mounts: the device of FUSE and the table of mounts are no files of a log",
    },
    Allowed {
        path: "crates/seawall-disk/tests/fuse.rs",
        rule: "machine",
        reason: "it tries the disk as any program would, by a file of the system",
    },
    Allowed {
        path: "crates/seawall-disk/tests/vhost_user/",
        rule: "machine",
        reason: "a folder for sockets is removed, and a file is the memory of a machine",
    },
    Allowed {
        path: "crates/seawall-ffi/src/ticket.rs",
        rule: "machine",
        reason: "whether a descriptor blocks is asked of the system; no file is touched",
    },
    Allowed {
        path: "crates/seawall-ffi/tests/all/",
        rule: "machine",
        reason: "it reads the header and the sources, and gives compilers a folder",
    },
    Allowed {
        path: "crates/seawall-disk/tests/common/folder.rs",
        rule: "machine",
        reason: "a folder for a test is removed with all that is in it",
    },
];

/// Returns the findings that no exception covers, and one for each exception that covers none.
pub(crate) fn excuse(findings: Vec<Finding>, allowed: &[Allowed]) -> Vec<Finding> {
    let fits = |finding: &Finding, entry: &Allowed| {
        finding.path.starts_with(entry.path) && finding.rule == entry.rule
    };
    let unused: Vec<Finding> = allowed
        .iter()
        .filter(|entry| !findings.iter().any(|finding| fits(finding, entry)))
        .map(|entry| Finding {
            path: "xtask/src/allowed.rs".into(),
            line: 1,
            rule: "allowed",
            advice: format!(
                "remove the entry for `{}` in `{}` ({}): it excuses nothing",
                entry.rule, entry.path, entry.reason
            ),
        })
        .collect();
    let mut left = findings;
    left.retain(|finding| !allowed.iter().any(|entry| fits(finding, entry)));
    left.extend(unused);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, rule: &'static str) -> Finding {
        Finding { path: path.into(), line: 1, rule, advice: String::new() }
    }

    const ENTRY: Allowed = Allowed { path: "a/", rule: "cast", reason: "a test" };

    #[test]
    fn an_entry_excuses_its_rule_under_its_path_only() {
        let found = vec![finding("a/b", "cast"), finding("a/b", "unwrap"), finding("b/a", "cast")];
        let left = excuse(found, &[ENTRY]);
        assert_eq!(left, [finding("a/b", "unwrap"), finding("b/a", "cast")]);
    }

    #[test]
    fn an_entry_that_excuses_nothing_is_a_finding() {
        let left = excuse(vec![finding("a/b", "unwrap")], &[ENTRY]);
        assert_eq!(left.iter().map(|f| f.rule).collect::<Vec<_>>(), ["unwrap", "allowed"]);
    }

    #[test]
    fn every_exception_names_a_rule_and_a_reason() {
        for entry in ALLOWED {
            assert!(crate::rules::RULES.iter().any(|r| r.name == entry.rule), "{}", entry.rule);
            assert!(entry.reason.len() > 10, "{}", entry.path);
        }
    }
}
