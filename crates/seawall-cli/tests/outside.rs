//! No verb creates a file, directory or log of the user inside a log.

use crate::tool;

use tool::Folder;

#[test]
fn nothing_is_created_inside_a_log() {
    let folder = Folder::new("outside");
    folder.run("append log", b"one\ntwo\n").fine();
    folder.run("append other", b"three\n").fine();
    folder.run("append text --log-format json", b"1\n").fine();
    folder.run("keygen key", b"").fine();
    folder.write("values", b"1\n2\n");
    folder.shell("mkdir -p log/inner log/quarantine; ln -s log link; ln -s log/inner to", b"");
    let before = folder.contents(".");
    for line in [
        "keygen log/key",
        "keygen link/key",
        "keygen text/key",
        "append log/new",
        "append link/new --format json",
        "append log/inner",
        "append to",
        "append log/inner/new/",
        "append log/quarantine/new --encrypt --key-file key",
        "copy other log/copy",
        "copy log log/inner/copy",
        "repair other --salvage-to log/saved",
        "convert values log/new --to seawall",
        "convert values link/inner/new --to cwal",
        "tail other --cursor-file log/at",
        "replay other --into json:log/lines",
        "man --dir log",
        "demo --fast --report log/report",
        "demo --fast --keep --dir log",
    ] {
        let ran = folder.run(line, b"1\n");
        assert!(ran.refused(2).contains(" is inside the log "), "{line}: {ran:?}");
        assert!(ran.err.contains("next: give a path outside of the log"), "{line}: {ran:?}");
        assert_eq!(folder.contents("."), before, "{line}");
    }
    let said = folder.shell("cd log/inner && seawall keygen key", b"").refused(2).to_owned();
    assert!(said.contains("key is inside the log "), "{said}");
}

/// Earlier versions made logs inside logs. These stay usable.
#[test]
fn log_that_is_inside_a_log_already_stays_usable() {
    let folder = Folder::new("outside-inner");
    folder.run("append log", b"one\n").fine();
    folder.run("append inner", b"one\n").fine();
    folder.shell("mv inner log/inner", b"").fine();
    folder.run("append log/inner", b"two\n").fine();
    folder.run("keygen key", b"").fine();
    folder.run("append log/inner --encrypt --key-file key", b"three\n").fine();
    folder.run("append log/inner", b"four\n").refused(7);
    let kept = folder.run("cat log/inner -o raw --key-file key", b"");
    assert_eq!(kept.fine().text(), "one\ntwo\nthree\n");
    folder.run("copy log/inner out --key-file key", b"").fine();
    folder.run("verify log", b"").fine();
}

#[test]
fn files_beside_and_around_a_log_are_created() {
    let folder = Folder::new("outside-beside");
    folder.run("append log", b"one\n").fine();
    folder.run("keygen log/../key", b"").fine();
    folder.run("copy log log-2", b"").fine();
    folder.run("tail log --cursor-file ./at", b"").fine();
    folder.shell("cd log && seawall copy . ../log-3", b"").fine();
    assert_eq!(folder.names("."), ["at", "key", "log", "log-2", "log-3"]);
}
