//! Runs the real program, reads its output, and damages its files.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::indexing_slicing, reason = "a test reports failure by panicking")]

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A new folder for the program to run in; removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder; `name` is the name of the test.
    pub(crate) fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = place.join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("make a folder");
        Self(path)
    }

    /// The program with arguments as typed in a shell, to run in this folder.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments.split_whitespace()).current_dir(&self.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the program with pipes for its input and output.
    pub(crate) fn start(&self, arguments: &str) -> Child {
        self.command(arguments).spawn().expect("start the program")
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &str, input: &[u8]) -> Ran {
        finish(self.start(arguments), input)
    }

    /// Runs a shell command in which `seawall` is the program.
    pub(crate) fn shell(&self, line: &str, input: &[u8]) -> Ran {
        let program = crate::PROGRAM;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("seawall() {{ '{program}' \"$@\"; }}\n{line}"));
        shell.current_dir(&self.0);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(shell.spawn().expect("start a shell"), input)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn make_folder(&self, name: &str) {
        fs::create_dir(self.path(name)).expect("make a folder");
    }

    pub(crate) fn make_link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("make a link");
    }

    #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("read a file")
    }

    #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("write a file");
    }

    #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("remove a file");
    }

    /// The permissions of a file or folder.
    pub(crate) fn mode(&self, name: &str) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        let found = fs::symlink_metadata(self.path(name)).expect("look at a file");
        found.permissions().mode() & 0o7777
    }

    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).expect("list a folder");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("read an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The processes whose working directory is `name`; Linux only.
    pub(crate) fn processes(&self, name: &str) -> Vec<String> {
        let here = self.0.canonicalize().expect("find the folder").join(name);
        let mut processes: Vec<_> = fs::read_dir("/proc").expect("list /proc").flatten().collect();
        processes.retain(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder == here)
        });
        let name = |process: &fs::DirEntry| process.file_name().to_string_lossy().into_owned();
        processes.iter().map(name).collect()
    }

    /// All files below a folder, each with a checksum.
    pub(crate) fn contents(&self, name: &str) -> Vec<(String, u64)> {
        let each = |inner: String| {
            let inner = format!("{name}/{inner}");
            if self.path(&inner).is_dir() {
                return self.contents(&inner);
            }
            let mut sum = DefaultHasher::new();
            sum.write(&self.read(&inner));
            vec![(inner, sum.finish())]
        };
        self.names(name).into_iter().flat_map(each).collect()
    }

    /// Changes bytes of a file.
    pub(crate) fn overwrite(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut content = self.read(name);
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.write(name, &content);
    }

    /// Flips one bit in the first occurrence of `needle` in a file.
    pub(crate) fn flip(&self, name: &str, needle: &[u8]) {
        let mut content = self.read(name);
        let found = content.windows(needle.len()).position(|window| window == needle);
        content[found.expect("the needle is there")] ^= 0x10;
        self.write(name, &content);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The exit code and output of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text")
    }

    /// Standard output as JSON lines.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let read = |line| serde_json::from_str(line).expect("JSON");
        self.text().lines().map(read).collect()
    }

    /// Checks the exit code, and that the error says what failed, where, and what to do next.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        let lines: Vec<&str> = self.err.lines().collect();
        let place = lines.iter().position(|line| line.starts_with("  where: ")).expect("where");
        let program = Path::new(crate::PROGRAM).file_name().expect("a name").display();
        assert!(lines[place - 1].starts_with(&format!("{program}: ")), "{self:?}");
        assert!(lines[place + 1].starts_with("  next: "), "{self:?}");
        assert!(lines[place].len() > 9 && lines[place + 1].len() > 8, "{self:?}");
        &self.err
    }

    /// Checks that the exit code is 0.
    #[track_caller]
    pub(crate) fn fine(&self) -> &Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// Appends `line N` as record N for each of `records`, kills the writer, and restores `live` to its
/// content when record `said` was acknowledged.
pub(crate) fn append_and_leave_an_old_live(folder: &Folder, (records, said): (usize, usize)) {
    let mut writer = folder.start("append log --ack -q --segment-size 1MiB");
    let mut input = writer.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    let mut old = vec![];
    for number in 1..=records {
        writeln!(input, "line {number}").expect("the writer reads");
        let ack = acks.next().expect("an acknowledgement").expect("text");
        assert_eq!(ack, number.to_string());
        if number == said {
            old = folder.read("log/live");
        }
    }
    writer.kill().expect("kill the writer");
    writer.wait().expect("wait for the writer");
    assert_ne!(folder.read("log/live"), old, "`live` tells of the last record");
    folder.write("log/live", &old);
}

/// Runs `act` while other threads keep a quarter of the processors busy.
pub(crate) fn beside_others<T>(act: impl FnOnce() -> T) -> T {
    use std::sync::atomic::{AtomicBool, Ordering};
    let done = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors.div_ceil(4) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // If `act` panics, the other threads must end, too.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        done.store(true, Ordering::Relaxed);
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn finish(mut child: Child, input: &[u8]) -> Ran {
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // The program may end before it has read everything.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("wait for the program");
    feeder.join().expect("the feeder returns");
    Ran {
        code: output.status.code().expect("not killed"),
        out: output.stdout,
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Reports what is not tested here.
pub(crate) fn skipped(what: &str) {
    // Unlike `eprintln`, this is not captured.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
