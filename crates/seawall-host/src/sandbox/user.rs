//! The user of a process, and the change from root to another user.

use std::io;
use std::path::Path;

/// A user and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    number: u32,
    group: u32,
}

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
/// Larger tables are refused.
const TABLE_MAX: u64 = 16 << 20;

impl User {
    /// Finds `USER` or `USER:GROUP`, names or numbers, in `/etc/passwd` and `/etc/group`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if the user or the group is not there; otherwise the system's
    /// error.
    pub fn find(text: &str) -> io::Result<Self> {
        let read = |path: &str| crate::fd::read_bytes(Path::new(path), TABLE_MAX);
        find_in(text, &read(USERS)?, &read(GROUPS)?)
    }

    /// The name, as the system's user database has it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes this process, which must have one thread, to this user for good. The process loses
    /// the rights of root and its other groups. Nothing changes if it already has this user and
    /// group.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] if this process runs neither as root nor as this user;
    /// [`io::ErrorKind::InvalidInput`] if this user is root; otherwise the system's error, after
    /// which the process must end.
    #[cfg(target_os = "linux")]
    pub fn assume(&self) -> io::Result<()> {
        use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getgroups, getuid};
        use rustix::thread::{
            capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
        };
        let failed = |kind, why: String| Err(io::Error::new(kind, why));
        let (user, group) = (Uid::from_raw(self.number), Gid::from_raw(self.group));
        if user.is_root() {
            return failed(io::ErrorKind::InvalidInput, "root has all rights".to_owned());
        }
        let is_it = || {
            let users = [getuid(), geteuid()].iter().all(|own| *own == user);
            users && [getgid(), getegid()].iter().all(|own| *own == group)
        };
        if !geteuid().is_root() {
            let why = format!("only root can become {}", self.name);
            return if is_it() { Ok(()) } else { failed(io::ErrorKind::PermissionDenied, why) };
        }
        super::threads::check_single()?;
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // The system has done it, and there is no way back.
        let sets = capabilities(None)?;
        let is_back = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok();
        let has_rights = !(sets.effective | sets.permitted | sets.inheritable).is_empty();
        if is_back || has_rights || !is_it() || !getgroups()?.is_empty() {
            return failed(io::ErrorKind::Other, "rights of root are left".to_owned());
        }
        Ok(())
    }

    /// Always fails: this is implemented for Linux only.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`].
    #[cfg(not(target_os = "linux"))]
    pub fn assume(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The number of the user whose rights this process has.
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of the user with this number, or the number.
#[must_use]
pub fn user_name(number: u32) -> String {
    let users = crate::fd::read_bytes(Path::new(USERS), TABLE_MAX).unwrap_or_default();
    let row = rows(&users).find(|row| row.number == number);
    row.map_or_else(|| number.to_string(), |row| row.name.to_owned())
}

/// A row of either table: `NAME:PASSWORD:NUMBER:...`. In `/etc/passwd`, `GROUP:` is next.
struct Row<'a> {
    name: &'a str,
    number: u32,
    group: Option<u32>,
}

/// The rows whose name is text. Other fields, such as a person's name, can have any encoding.
fn rows(table: &[u8]) -> impl Iterator<Item = Row<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b':').map(|field| str::from_utf8(field).ok());
        let (name, number) = (fields.next()??, fields.nth(1)??.parse().ok()?);
        let group = fields.next().flatten().and_then(|group| group.parse().ok());
        Some(Row { name, number, group })
    })
}

fn find_in(text: &str, users: &[u8], groups: &[u8]) -> io::Result<User> {
    let none = |what: String| io::Error::new(io::ErrorKind::NotFound, what);
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number != u32::MAX);
    let (name, group) = text.split_once(':').map_or((text, None), |(name, g)| (name, Some(g)));
    let row = rows(users).find(|row| row.name == name || Some(row.number) == number(name));
    let user = row.as_ref().map(|row| row.number).or_else(|| number(name));
    let user = user.ok_or_else(|| none(format!("{USERS} has no user {name}")))?;
    let group = match group {
        Some(group) => {
            let row = rows(groups).find(|row| row.name == group);
            let found = row.map(|row| row.number).or_else(|| number(group));
            found.ok_or_else(|| none(format!("{GROUPS} has no group {group}")))?
        }
        None => row.and_then(|row| row.group).ok_or_else(|| {
            none(format!("{USERS} has no user {name}, whose group would be taken"))
        })?,
    };
    Ok(User { name: text.to_owned(), number: user, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let users =
            b"root:x:0:0:root:/root:/bin/sh\n\xe9:x:1:1::/:\nsea:x:7:8:L\xe9a:/:/bin/false\n\
                      broken\n7:x:9:9:\n";
        let groups = b"root:x:0:\nm\xe9:x:5:\ndisk:x:6:sea,root\n";
        let found = |text| {
            let user = find_in(text, users, groups).ok()?;
            assert_eq!(user.name, text);
            Some((user.number, user.group))
        };
        assert_eq!(found("sea"), Some((7, 8)));
        assert_eq!(found("sea:disk"), Some((7, 6)));
        assert_eq!(found("7"), Some((7, 8)));
        assert_eq!(found("55:66"), Some((55, 66)));
        for none in ["", "nobody", "55", "sea:", "sea:wheel", ":", "sea:4294967295", "-1:1"] {
            assert_eq!(found(none), None, "{none}");
        }
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(u32::MAX), u32::MAX.to_string());
    }
}
