//! seccomp: the system calls that a process can make, on x86-64, where the list was tried.
//!
//! A call that is not in the list fails as in a kernel that does not have it: libraries then use
//! another call, or report an error. No call kills the process, which has data to write.

use super::needs::{Guard, Needs};
use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::io;

/// The calls of every process of the disk: memory, open files, sockets, time, exit.
const COMMON: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_futex,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_lstat,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_stat,
    libc::SYS_statx,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Further calls of the server: files by name, disks, threads, locked memory.
const SERVER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_bind,
    libc::SYS_capget,
    libc::SYS_chdir,
    libc::SYS_chmod,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fgetxattr,
    libc::SYS_flock,
    libc::SYS_fsetxattr,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_mlockall,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_set_robust_list,
    libc::SYS_umask,
];

/// Further calls to start another process of this program, and to set up that one's sandbox.
const STARTS: &[c_long] = &[
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_pipe2,
    libc::SYS_seccomp,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

const MOUNTS: &[c_long] =
    &[libc::SYS_mkdir, libc::SYS_mkdirat, libc::SYS_mount, libc::SYS_rmdir, libc::SYS_umount2];

/// The allowed address families: the rest of the kernel's network code is out of reach.
const FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// The refused flags of `clone`: new namespaces would give rights.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
const PR_SET_VMA: i32 = 0x5356_4d41;
/// The allowed `prctl` options: names of threads and of memory, and a tighter sandbox.
const OPTIONS: &[i32] = &[
    libc::PR_SET_NAME,
    PR_SET_VMA,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
];
/// The allowed `ioctl` requests: descriptors, terminals, block devices, and the channel of FUSE.
const IOCTLS: &[u32] = &[
    0x5451,      // FIOCLEX
    0x5421,      // FIONBIO
    0x541b,      // FIONREAD
    0x5401,      // TCGETS
    0x5413,      // TIOCGWINSZ
    0x8008_1272, // BLKGETSIZE64
    0x8004_e500, // FUSE_DEV_IOC_CLONE
];

pub(super) fn confine(needs: &Needs) -> io::Result<Guard> {
    if rustix::thread::secure_computing_mode() == Err(rustix::io::Errno::INVAL) {
        return Ok(Guard::Absent);
    }
    let program = compile(needs).map_err(io::Error::other)?;
    match apply_filter(&program) {
        Ok(()) => Ok(Guard::On(1)),
        Err(Error::Prctl(error) | Error::Seccomp(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Compiles the filter to the form that the kernel takes.
fn compile(needs: &Needs) -> Result<BpfProgram, BackendError> {
    let mut lists = vec![COMMON];
    let mut rules = BTreeMap::new();
    if !needs.folders.is_empty() || needs.may_mount {
        lists.push(SERVER);
        rules.insert(libc::SYS_clone, vec![no_bit(0, NAMESPACES)?]);
    }
    if needs.may_start_itself {
        lists.push(STARTS);
    } else {
        // No memory may become executable. Only the loader of another program would need that.
        rules.insert(libc::SYS_mmap, vec![no_bit(2, libc::PROT_EXEC)?]);
        rules.insert(libc::SYS_mprotect, vec![no_bit(2, libc::PROT_EXEC)?]);
    }
    if needs.may_mount {
        lists.push(MOUNTS);
    }
    rules.insert(libc::SYS_socket, any_of(0, FAMILIES)?);
    rules.insert(libc::SYS_socketpair, any_of(0, &[libc::AF_UNIX])?);
    rules.insert(libc::SYS_prctl, any_of(0, OPTIONS)?);
    let ioctls = IOCTLS.iter().map(|ioctl| when(1, Eq, (*ioctl).into()));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    // A panic ends the process by a signal to itself.
    rules.insert(libc::SYS_tgkill, vec![when(0, Eq, std::process::id().into())?]);
    for call in lists.into_iter().flatten() {
        rules.entry(*call).or_default();
    }
    let missing = libc::ENOSYS.unsigned_abs();
    let (other, listed) = (SeccompAction::Errno(missing), SeccompAction::Allow);
    SeccompFilter::new(rules, other, listed, TargetArch::x86_64)?.try_into()
}

fn when(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, Dword, how, value)?])
}

fn any_of(argument: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| when(argument, Eq, value.unsigned_abs().into())).collect()
}

fn no_bit(argument: u8, bits: i32) -> Result<SeccompRule, BackendError> {
    when(argument, MaskedEq(bits.unsigned_abs().into()), 0)
}
