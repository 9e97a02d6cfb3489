//! What keeps this process in memory: its pages, and its life when memory runs out.

use std::fs;
use std::io;

/// Locks all memory of this process, what it has now and what it will have: a system that swaps
/// takes none of it away. What there is now is touched, code too; of what comes later each page
/// from the moment when it is first used.
///
/// It is done only where no limit on locked memory stands: under a limit a later request for
/// memory would fail, and end the process.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] where there is a limit that cannot be lifted, with how to
/// lift it; [`io::ErrorKind::Unsupported`] where systems have no such call; whatever the system
/// says.
#[cfg(target_os = "linux")]
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities};

    // The owner of the machine may, and others up to their hard limit.
    let hard = getrlimit(Resource::Memlock).maximum;
    for maximum in [None, hard] {
        if setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum }).is_ok() {
            break;
        }
    }
    let is_unlimited = getrlimit(Resource::Memlock).current.is_none();
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

/// There is none here.
#[cfg(not(target_os = "linux"))]
pub fn lock_memory() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no way that is known here"))
}

/// Asks that this process, or the one that is named, is killed later than others, or never for
/// -1000, when memory runs out; gives the score that it has then, which is higher if the system
/// did not want that.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] where systems have no such score.
pub fn set_oom_score(process: Option<u32>, score: i32) -> io::Result<i32> {
    let process = process.map_or_else(|| "self".to_owned(), |process| process.to_string());
    let path = format!("/proc/{process}/oom_score_adj");
    let before = score_at(&path)?;
    if before != score {
        // What became of it is read below.
        let _ = write(&path, &score.to_string());
    }
    score_at(&path)
}

/// The score of this process.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] where systems have no such score.
pub fn oom_score() -> io::Result<i32> {
    score_at("/proc/self/oom_score_adj")
}

fn score_at(path: &str) -> io::Result<i32> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, text))
}

#[expect(clippy::disallowed_methods, reason = "it is a switch of the system, and no file")]
fn write(path: &str, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_what_the_system_says_it_is() {
        // Everybody may be killed sooner; not everybody takes that back.
        let score = oom_score().unwrap();
        let raised = set_oom_score(None, (score + 1).min(1000)).unwrap();
        assert_eq!(raised, oom_score().unwrap());
        assert!(raised > score || score == 1000);
        assert_eq!(set_oom_score(None, score).unwrap(), oom_score().unwrap());
        assert_eq!(set_oom_score(Some(u32::MAX), 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
