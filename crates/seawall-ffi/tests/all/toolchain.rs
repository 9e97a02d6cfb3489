//! Compilers, the built library, and folders for tests.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the library: `SEAWALL_LIBRARIES`, or where cargo built it for this test.
pub(crate) fn libraries() -> PathBuf {
    if let Some(folder) = std::env::var_os("SEAWALL_LIBRARIES") {
        return folder.into();
    }
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().to_owned();
    assert!(folder.join("libseawall_ffi.so").exists(), "no library in {}", folder.display());
    folder
}

/// A temporary folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("seawall-ffi-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Installs the library once for all tests, and returns the prefix.
pub(crate) fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let mut install = Command::new("bash");
        install.arg(crate_folder().join("install.sh")).arg(&prefix);
        run(install.env("SEAWALL_LIBRARIES", libraries()).env_remove("DESTDIR"));
        prefix
    })
}

/// Runs a command, which must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

const COMPILERS: [&str; 4] = ["gcc", "g++", "clang", "clang++"];

/// Whether a tool exists. If not, reports that where the test harness does not capture it.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output();
    let exists = found.is_ok_and(|found| found.status.success());
    if !exists {
        let missing = format!("{tool} is not installed");
        if COMPILERS.contains(&tool) { lacks(&missing) } else { skip(&missing) }
    }
    exists
}

/// Reports what was not tested. With `CI` set, panics instead.
pub(crate) fn lacks(why: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|set| !set.is_empty());
    assert!(!is_ci, "CI={}, but {why}", std::env::var("CI").unwrap_or_default());
    skip(why);
}

/// Reports what was not tested. With `SEAWALL_FFI_COMPLETE=1`, panics instead.
pub(crate) fn skip(why: &str) {
    let is_complete = std::env::var_os("SEAWALL_FFI_COMPLETE").is_some_and(|set| set == "1");
    assert!(!is_complete, "{why}");
    // Unlike `eprintln`, this is not captured.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: {why}").unwrap();
}

/// Compiles a program against the installed library. `None` without the compiler.
pub(crate) fn compile(
    scratch: &Scratch,
    (compiler, flags, source): (&str, &[&str], &Path),
) -> Option<PathBuf> {
    if !has(compiler) {
        return None;
    }
    let (program, prefix) = (scratch.join(source.file_stem().unwrap()), installed());
    let mut compile = Command::new(compiler);
    compile.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"]).args(flags);
    compile.arg(source).arg("-o").arg(&program);
    compile.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib"));
    compile.arg("-lseawall").arg(rpath(prefix));
    run(&mut compile);
    Some(program)
}

fn rpath(prefix: &Path) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from("-Wl,-rpath,");
    flag.push(OsStr::new(&prefix.join("lib")));
    flag
}
