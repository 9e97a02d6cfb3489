//! Keeps this process in memory: locks its pages and lowers its risk of being killed when memory
//! runs out.

use std::fs;
use std::io;

/// Locks all present and future memory of this process, so that none of it is swapped out. Present
/// pages, including code, are loaded; later pages are locked when they are first used.
///
/// This succeeds only without a limit on locked memory: under a limit, a later allocation would
/// fail and end the process.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] if there is a limit that this process may not lift; the
/// error says how to lift it. [`io::ErrorKind::Unsupported`] on systems without such a call;
/// otherwise the system's error.
#[cfg(target_os = "linux")]
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::thread::{CapabilitySet, capabilities};

    let is_unlimited = lift_memory_limit();
    let may_lock =
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if !is_unlimited && !may_lock() {
        let why =
            "there is a limit on locked memory: lift it by LimitMEMLOCK=infinity, or ulimit -l";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    mlockall(MlockAllFlags::CURRENT)?;
    Ok(mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?)
}

/// Lifts the limit on locked memory as far as this process may. A privileged process removes the
/// limit, also for the user that it later becomes; others raise it to the hard limit. Returns
/// whether there is no limit now.
#[cfg(target_os = "linux")]
#[must_use]
pub fn lift_memory_limit() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Memlock).maximum;
    for maximum in [None, hard] {
        if setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum }).is_ok() {
            break;
        }
    }
    getrlimit(Resource::Memlock).current.is_none()
}

/// This system has no such limit.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn lift_memory_limit() -> bool {
    false
}

/// Always fails: only Linux has the system call.
#[cfg(not(target_os = "linux"))]
pub fn lock_memory() -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "locking memory is not supported on this system",
    ))
}

/// Sets the OOM score adjustment of this process, or of process `process`: with a lower score it is
/// killed later when memory runs out, with -1000 never. Returns the resulting score, which is
/// higher than requested if the system refused the change.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] on systems without such a score.
pub fn set_oom_score(process: Option<u32>, score: i32) -> io::Result<i32> {
    let process = process.map_or_else(|| "self".to_owned(), |process| process.to_string());
    let path = format!("/proc/{process}/oom_score_adj");
    let before = score_at(&path)?;
    if before != score {
        // The result is read below.
        let _ = write(&path, &score.to_string());
    }
    score_at(&path)
}

/// The OOM score adjustment of this process.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] on systems without such a score.
pub fn oom_score() -> io::Result<i32> {
    score_at("/proc/self/oom_score_adj")
}

fn score_at(path: &str) -> io::Result<i32> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, text))
}

#[expect(clippy::disallowed_methods, reason = "this is a kernel setting, not a file")]
fn write(path: &str, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn oom_score_equals_that_of_the_system() {
        // Any process may raise its score; lowering it needs a privilege.
        let score = oom_score().unwrap();
        let raised = set_oom_score(None, (score + 1).min(1000)).unwrap();
        assert_eq!(raised, oom_score().unwrap());
        assert!(raised > score || score == 1000);
        assert_eq!(set_oom_score(None, score).unwrap(), oom_score().unwrap());
        assert_eq!(set_oom_score(Some(u32::MAX), 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
