//! Carries patches over the commits of a small repository.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const OLD: &str = "\
//! Writes.

pub fn write_out(file: &File, bytes: &[u8]) -> Result {
    check(bytes)?;
    file.write(bytes)?;
    file.barrier()?;
    Ok(())
}

pub fn check(bytes: &[u8]) -> Result {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    Ok(())
}
";

const HEAD: &str = "\
# breaks: A write returns before any sync.
# caught by: cargo test -p a write_out_is
";

/// The head of the carried patch: it names the renamed test by its whole name.
const NEW_HEAD: &str = "\
# breaks: A write returns before any sync.
# caught by: cargo test -p a write_all_is_durable
";

const TEST: &str = "#[test]\nfn write_out_is_durable() {}\n";

/// Moves src/a.rs to core/write.rs and renames `barrier`, `write_out` and the test in every file.
const SCRIPT: &str = "\
#!/bin/sh
set -eu
[ \"$PWD\" -ef \"$1\" ]
shift
[ $# -gt 0 ] || set -- $(find * -type f)
for file; do
    sed -i -e 's/barrier/sync/g' -e 's/write_out/write_all/g' \"$file\"
    if [ \"$file\" = src/a.rs ]; then
        mkdir -p core
        mv src/a.rs core/write.rs
    fi
done
";

/// A repository with src/a.rs and a patch that removes its sync.
struct Repository {
    folder: PathBuf,
    root: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let folder = format!("seawall-carry-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let repository = Self { root: folder.join("tree"), folder };
        repository.write("src/a.rs", OLD);
        repository.write("tests/a.rs", TEST);
        repository.git(&["init", "--quiet", "."]);
        repository.write("src/a.rs", &OLD.replace("    file.barrier()?;\n", ""));
        repository.git(&["add", "."]);
        repository.write("src/a.rs", OLD);
        let bug = repository.git(&["diff", "-R", "--src-prefix=b/", "--dst-prefix=a/"]);
        repository.write("proof/no-sync.patch", &format!("{HEAD}{bug}"));
        repository.commit("base");
        repository.git(&["tag", "base"]);
        repository
    }

    #[expect(clippy::disallowed_methods, reason = "a file of a scratch repository")]
    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let output = git.args(arguments).current_dir(&self.root).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", subject]);
    }

    /// Replaces src/a.rs by the file `path` with `text`.
    fn move_to(&self, path: &str, text: &str) {
        self.git(&["rm", "--quiet", "src/a.rs"]);
        self.write(path, text);
        self.commit("move");
    }

    fn script(&self) -> PathBuf {
        self.write("../script", SCRIPT);
        let path = self.folder.join("script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Carries the patch; returns whether that succeeded, and the patch.
    fn carry(&self, script: Option<&Path>) -> (bool, String) {
        let folder = self.folder.join("carry");
        let carrier = Carrier::in_folder(&self.root, &folder, "base", script).unwrap();
        let bugs = crate::prove::bug::read_all(&self.root).unwrap();
        (carrier.carry(&bugs).unwrap(), tree::read(&self.root.join("proof/no-sync.patch")).unwrap())
    }

    /// Applies the patch and returns the text of `path`.
    fn planted(&self, path: &str) -> String {
        self.git(&["apply", "proof/no-sync.patch"]);
        tree::read(&self.root.join(path)).unwrap()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn renamed(text: &str) -> String {
    text.replace("barrier", "sync").replace("write_out", "write_all")
}

#[test]
fn patch_follows_a_move_and_renames() {
    let repository = Repository::new("renames");
    let new = renamed(OLD).replace("//! Writes.", "//! Writes and syncs.");
    repository.move_to("core/write.rs", &new);
    let (carried, patch) = repository.carry(Some(&repository.script()));
    assert!(carried);
    assert!(patch.starts_with(NEW_HEAD), "{patch}");
    assert_eq!(repository.planted("core/write.rs"), new.replace("    file.sync()?;\n", ""));
}

#[test]
fn patch_follows_a_move_without_a_script() {
    let repository = Repository::new("move");
    repository.move_to("core/write.rs", OLD);
    let (carried, patch) = repository.carry(None);
    assert!(carried);
    assert!(patch.starts_with(HEAD), "{patch}");
    assert_eq!(repository.planted("core/write.rs"), OLD.replace("    file.barrier()?;\n", ""));
}

#[test]
fn patch_is_placed_where_a_comment_beside_it_changed() {
    let repository = Repository::new("comment");
    let new = renamed(OLD)
        .replace("    file.sync", "    // Durable from here.\n    file.sync")
        .replace("    file.write(bytes)?;", "    file.write_all(bytes, self.position)?;")
        .replace("\npub fn check", "\n// Empty batches are refused.\npub fn check");
    repository.move_to("core/write.rs", &new);
    let (carried, _) = repository.carry(Some(&repository.script()));
    assert!(carried);
    assert_eq!(repository.planted("core/write.rs"), new.replace("    file.sync()?;\n", ""));
}

#[test]
fn patch_for_a_later_commit_than_the_base_is_placed() {
    let repository = Repository::new("later");
    let later = OLD.replace("barrier()", "flush_and_wait()").replace("write(bytes)", "put(bytes)");
    repository.move_to("src/b.rs", &later);
    repository.write("src/b.rs", &later.replace("    file.flush_and_wait()?;\n", ""));
    let bug = repository.git(&["diff"]);
    let newest = later.replace("    check(bytes)?;\n", "    // Checked above.\n");
    repository.write("src/b.rs", &newest);
    repository.write("proof/no-sync.patch", &format!("{HEAD}{bug}"));
    repository.commit("later");
    assert!(repository.carry(None).0);
    assert_eq!(repository.planted("src/b.rs"), newest.replace("    file.flush_and_wait()?;\n", ""));
}

#[test]
fn patch_whose_lines_were_rewritten_stays_as_it_is() {
    let repository = Repository::new("conflict");
    repository.move_to("src/b.rs", &OLD.replace("file.barrier()", "file.flush_and_wait()"));
    let before = tree::read(&repository.root.join("proof/no-sync.patch")).unwrap();
    assert_eq!(repository.carry(None), (false, before));
}

#[test]
fn head_of_a_patch_that_still_applies_is_renamed() {
    let repository = Repository::new("head");
    let (carried, patch) = repository.carry(Some(&repository.script()));
    assert!(carried);
    assert!(patch.starts_with(NEW_HEAD), "{patch}");
    assert_eq!(repository.planted("src/a.rs"), OLD.replace("    file.barrier()?;\n", ""));
}
