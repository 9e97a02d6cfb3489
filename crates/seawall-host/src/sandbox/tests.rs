//! Tests of the sandbox: processes confine themselves, then try what is forbidden.

use super::*;

#[test]
fn a_byte_holds_what_confines_a_process() {
    for landlock in [Guard::Off, Guard::Absent, Guard::On(1), Guard::On(14)] {
        for seccomp in [Guard::Off, Guard::Absent, Guard::On(1)] {
            let confined = Confined { landlock, seccomp };
            assert_eq!(Confined::decode(confined.encode()), confined);
        }
    }
    let newer = Confined { landlock: Guard::On(77), seccomp: Guard::Off };
    assert_eq!(Confined::decode(newer.encode()).landlock, Guard::On(14));
    assert_eq!(Confined::OFF.to_string(), "landlock off, seccomp off");
}

/// These tests confine child processes, because confinement cannot be undone. In a child, only the
/// test's thread and what it starts are confined.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod confined {
    use super::*;
    use crate::programs::output;
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The environment variable that marks a child process. Its value is the child's folder.
    const CHILD: &str = "SEAWALL_SANDBOX_FOLDER";

    static FOLDERS: AtomicU32 = AtomicU32::new(0);

    /// Runs `test` in a child process. Returns the lines that it reported with [`say`].
    fn child(test: &str) -> String {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("seawall-sandbox-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let program = std::env::current_exe().unwrap();
        let test = format!("sandbox::tests::confined::{test}");
        let mut command = Command::new(program);
        command.args(["--exact", &test, "--nocapture"]).env(CHILD, &folder);
        let ran = output(&mut command).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{said} {}", String::from_utf8_lossy(&ran.stderr));
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("# ")).collect();
        lines.join("\n")
    }

    /// Returns the folder of this child process, or `None` in the parent.
    fn own_folder() -> Option<PathBuf> {
        std::env::var_os(CHILD).map(PathBuf::from)
    }

    fn say(what: &str, done: io::Result<()>) {
        let done = done.map_err(|error| error.raw_os_error().unwrap_or_default());
        let mut line = format!("# {what}: ");
        line.push_str(&match done {
            Ok(()) => "yes".to_owned(),
            Err(number) => {
                Errno::from_raw_os_error(number).to_string().split(" (").next().unwrap().to_owned()
            }
        });
        writeln!(io::stdout(), "{line}").unwrap();
    }

    fn try_all(folder: &Path, (open, shut): (u16, u16)) {
        let family = |family| socket(family, SocketType::DGRAM, None).map(drop);
        let own = folder.join("own");
        say(
            "new file in the folder",
            OpenOptions::new().write(true).create_new(true).open(own).map(drop),
        );
        say("file outside", read("/etc/passwd".as_ref()));
        say("file outside, by a link in it", read(&folder.join("link")));
        say("this program", run("/proc/self/exe"));
        say("another program", run("/bin/true"));
        say("port", TcpStream::connect(("127.0.0.1", open)).map(drop));
        say("other port", TcpStream::connect(("127.0.0.1", shut)).map(drop));
        say("unix socket", family(AddressFamily::UNIX).map_err(io::Error::from));
        say("netlink socket", family(AddressFamily::NETLINK).map_err(io::Error::from));
        let mounted = rustix::mount::unmount("/", rustix::mount::UnmountFlags::empty());
        say("unmount", mounted.map_err(io::Error::from));
        let other = std::thread::spawn(|| read("/etc/passwd".as_ref()));
        say("file outside, by a new thread", other.join().unwrap());
    }

    fn read(path: &Path) -> io::Result<()> {
        OpenOptions::new().read(true).open(path).map(drop)
    }

    fn run(program: &str) -> io::Result<()> {
        let mut command = Command::new(program);
        command.arg("--list").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map(drop)
    }

    /// Returns `answers`, or `None` if this kernel lacks parts of the sandbox: its answers differ.
    fn expected(confined: Confined, answers: &str) -> Option<String> {
        match confined {
            Confined { landlock: Guard::On(abi), seccomp: Guard::On(_) } if abi >= 4 => {
                Some(answers.to_owned())
            }
            other => {
                // Unlike `eprintln`, this is not captured.
                let _ = writeln!(io::stderr(), "SKIPPED: a sandbox in this kernel: {other}");
                None
            }
        }
    }

    fn in_this_kernel() -> Confined {
        let said = child("nothing_is_needed");
        let byte = said.strip_prefix("# ").and_then(|rest| rest.split(':').next()).unwrap();
        Confined::decode(byte.parse().unwrap())
    }

    #[test]
    fn nothing_is_needed() {
        if own_folder().is_some() {
            let confined = Needs::default().removal("/proc").confine_thread().unwrap();
            say(&confined.encode().to_string(), Ok(()));
            say("start", run("/proc/self/exe"));
            say("thread", std::thread::Builder::new().spawn(|| {}).map(drop));
            return;
        }
        if let Some(answers) = expected(
            in_this_kernel(),
            "# 113: yes\n# start: Function not implemented\n# thread: Function not implemented",
        ) {
            assert_eq!(child("nothing_is_needed"), answers);
        }
    }

    #[test]
    fn a_confined_process_reaches_what_it_needs_and_nothing_else() {
        if let Some(folder) = own_folder() {
            std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
            let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let ports = ports.map(|port| (port.local_addr().unwrap().port(), OwnedFd::from(port)));
            let [open, shut] = [0, 1].map(|at: usize| ports.get(at).unwrap().0);
            let needs = Needs::default().folder(&folder).tcp(open).itself();
            needs.confine_thread().unwrap();
            try_all(&folder, (open, shut));
            return;
        }
        let answers = "\
            # new file in the folder: yes\n\
            # file outside: Permission denied\n\
            # file outside, by a link in it: Permission denied\n\
            # this program: yes\n\
            # another program: Permission denied\n\
            # port: yes\n\
            # other port: Permission denied\n\
            # unix socket: yes\n\
            # netlink socket: Function not implemented\n\
            # unmount: Function not implemented\n\
            # file outside, by a new thread: Permission denied";
        if let Some(answers) = expected(in_this_kernel(), answers) {
            let test = "a_confined_process_reaches_what_it_needs_and_nothing_else";
            assert_eq!(child(test), answers);
        }
    }

    #[test]
    fn a_sandbox_that_the_kernel_refuses_is_an_error() {
        if own_folder().is_some() {
            let target = std::env::consts::ARCH.try_into().unwrap();
            let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
            let rules = [(libc::SYS_seccomp, vec![])].into();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, target).unwrap();
            apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
            say("confined", Needs::default().removal("/proc").confine_thread().map(drop));
            return;
        }
        let answers = "# confined: Operation not permitted";
        if let Some(answers) = expected(in_this_kernel(), answers) {
            assert_eq!(child("a_sandbox_that_the_kernel_refuses_is_an_error"), answers);
        }
    }

    #[test]
    fn a_process_with_two_threads_is_not_confined() {
        std::thread::scope(|scope| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || stopped.recv());
            let refused = Needs::default().confine().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
            drop(stop);
        });
    }
}
