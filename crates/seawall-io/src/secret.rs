//! Reads a short secret, such as a key, from a file or a pipe.

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::retry_on_intr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Fills `secret` from the file at `path`, which must be exactly as long.
///
/// Symbolic links are followed, and the file may be a pipe or an inherited descriptor,
/// `/dev/fd/N`: then the secret is there only once.
///
/// # Errors
///
/// As [`read_secret`], or the error of opening the file.
pub fn read_secret_file(path: &Path, secret: &mut [u8]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
    read_secret(&mut File::from(file), secret)
}

/// Fills `secret` from `source`, which must end there. No other copy of the bytes is made.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the source has fewer bytes, or more; otherwise its error.
pub fn read_secret(source: &mut dyn Read, secret: &mut [u8]) -> io::Result<()> {
    let size = secret.len();
    let wrong = |than| {
        let what = format!("it has {than} than the {size} bytes of a key");
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    match source.read_exact(secret) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(wrong("fewer")),
        other => other?,
    }
    match source.read_exact(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(wrong("more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_exactly_its_size() {
        for size in 0..7 {
            let mut secret = [0; 4];
            let read = read_secret(&mut [7; 7].get(..size).unwrap(), &mut secret);
            match size {
                4 => assert_eq!((read.is_ok(), secret), (true, [7; 4])),
                _ => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData),
            }
        }
        let endless = read_secret_file(Path::new("/dev/zero"), &mut [1; 4]).unwrap_err();
        assert!(endless.to_string().contains("more than the 4 bytes"), "{endless}");
        let empty = read_secret_file(Path::new("/dev/null"), &mut [1; 4]).unwrap_err();
        assert!(empty.to_string().contains("fewer than the 4 bytes"), "{empty}");
    }
}
