//! A file descriptor that the starter of this program left open, by its number.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Opens what descriptor `number` of this process leads to, for writing behind what is there.
///
/// It goes by the name that the system has for it: a pipe, a terminal or a file is opened once
/// more, which needs no trust in the number; a socket cannot be.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if it is not open; whatever the system says.
pub fn open_descriptor(number: u32) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("a flag of the system fits in its type");
    let name = format!("/dev/fd/{number}");
    OpenOptions::new().append(true).custom_flags(flags).open(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_is_written_to_by_its_number() {
        let (mut reader, writer) = io::pipe().unwrap();
        let number = u32::try_from(writer.as_raw_fd()).unwrap();
        open_descriptor(number).unwrap().write_all(b"7").unwrap();
        drop(writer);
        let mut heard = String::new();
        reader.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "7");
        assert_eq!(open_descriptor(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
