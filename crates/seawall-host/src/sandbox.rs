//! Takes from a process what it does not need: files (Landlock), system calls (seccomp), and the
//! rights of root.
//!
//! A part that the kernel does not have is left out, and reported as [`Guard::Absent`]. A part that
//! the kernel has but refuses is an error.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
#[cfg(target_os = "linux")]
mod files;
mod needs;
#[cfg(target_os = "linux")]
mod threads;
mod user;

pub use needs::{Confined, Guard, Needs};
pub use user::{User, effective_user, user_name};

use std::io;

impl Needs {
    /// Confines this process, and all processes that it starts, for the rest of their lives.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ResourceBusy`] if it has several threads, of which only one would be
    /// confined; otherwise the system's error, after which the process may be confined in part.
    #[cfg(target_os = "linux")]
    pub fn confine(&self) -> io::Result<Confined> {
        threads::check_single()?;
        self.confine_thread()
    }

    #[cfg(target_os = "linux")]
    fn confine_thread(&self) -> io::Result<Confined> {
        let landlock = if self.may_mount { Guard::Off } else { files::confine(self)? };
        #[cfg(target_arch = "x86_64")]
        let seccomp = calls::confine(self)?;
        #[cfg(not(target_arch = "x86_64"))]
        let seccomp = Guard::Absent;
        Ok(Confined { landlock, seccomp })
    }

    /// Confines nothing: this system has neither Landlock nor seccomp.
    ///
    /// # Errors
    ///
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn confine(&self) -> io::Result<Confined> {
        Ok(Confined { landlock: Guard::Absent, seccomp: Guard::Absent })
    }
}

#[cfg(test)]
mod tests;
