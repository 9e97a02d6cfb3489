//! Objects that other programs opened or made: descriptors by number, sockets by path, small text
//! files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens the file to which descriptor `number` of this process refers, for appending.
///
/// It opens the file again by the name under which the system lists it, so the number need not be
/// trusted. This works for pipes, terminals and files, but not for sockets. Writes never wait: if
/// the reader has not read earlier output, they fail with [`io::ErrorKind::WouldBlock`], and a
/// short line is written completely or not at all.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if the descriptor is not open, [`io::ErrorKind::BrokenPipe`] for a
/// named pipe without a reader, [`io::ErrorKind::Unsupported`] for a socket; otherwise the system's
/// error.
pub fn open_descriptor(number: u32) -> io::Result<File> {
    let name = descriptor(number)?;
    // Without NONBLOCK, opening a named pipe would wait for its reader.
    let opened = OpenOptions::new().append(true).custom_flags(flags()).open(name);
    opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::ErrorKind::BrokenPipe.into(),
        _ => error,
    })
}

/// Opens a pipe for reading by its descriptor. A read of an empty pipe fails with
/// [`io::ErrorKind::WouldBlock`].
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if this process has no such descriptor;
/// [`io::ErrorKind::Unsupported`] if it is a socket; otherwise the system's error.
pub fn read_descriptor(number: u32) -> io::Result<File> {
    let name = descriptor(number)?;
    // Without NONBLOCK, opening a named pipe would wait for its writer.
    OpenOptions::new().read(true).custom_flags(flags()).open(name)
}

/// Reads a small UTF-8 file, such as a configuration file, of at most `size_max` bytes.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if it is longer or not UTF-8; otherwise the device's error.
pub fn read_text(path: &Path, size_max: u64) -> io::Result<String> {
    let text = read_bytes(path, size_max)?;
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a small file in which names of any bytes can be, of at most `size_max` bytes.
pub(crate) fn read_bytes(path: &Path, size_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let opened = OpenOptions::new().read(true).open(path)?;
    opened.take(size_max.saturating_add(1)).read_to_end(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > size_max {
        let why = format!("it has more than {size_max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// Returns whether `path` itself is a socket. A symbolic link is not.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`]; otherwise the system's error.
pub fn is_socket(path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.file_type().is_socket())
}

/// The inode number of the file at `path` itself. Another file of that name has another number.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`]; otherwise the system's error.
pub fn file_number(path: &Path) -> io::Result<u64> {
    Ok(std::fs::symlink_metadata(path)?.ino())
}

/// The device and inode number of the file or directory at `path`, after following links: the same
/// by every path to it, even through a bind mount.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`]; otherwise the system's error.
///
/// # Examples
///
/// ```
/// assert_eq!(seawall_host::identity(".".as_ref())?, seawall_host::identity("./".as_ref())?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// The name of a descriptor that is not a socket.
fn descriptor(number: u32) -> io::Result<String> {
    let name = format!("/dev/fd/{number}");
    if std::fs::metadata(&name)?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it is a socket"));
    }
    Ok(name)
}

fn flags() -> i32 {
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    i32::try_from(flags.bits()).expect("a flag of the system fits in its type")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn write_to_a_pipe_by_descriptor_never_blocks() {
        let (mut reader, writer) = io::pipe().unwrap();
        let number = u32::try_from(writer.as_raw_fd()).unwrap();
        open_descriptor(number).unwrap().write_all(b"7").unwrap();
        let mut heard = [0];
        reader.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"7");
        let number_of_reader = u32::try_from(reader.as_raw_fd()).unwrap();
        let mut opened = read_descriptor(number_of_reader).unwrap();
        let empty = opened.read(&mut heard).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        drop((reader, opened));
        let deaf = open_descriptor(number).unwrap().write_all(b"7").unwrap_err();
        assert_eq!(deaf.kind(), io::ErrorKind::BrokenPipe);
        let (socket, _other) = UnixStream::pair().unwrap();
        let number = u32::try_from(socket.as_raw_fd()).unwrap();
        assert_eq!(open_descriptor(number).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(open_descriptor(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
