//! The URI of an NBD export that a server offers on a Unix socket.

use super::protocol::NAME_MAX;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of an export of an NBD server on this machine.
///
/// # Examples
///
/// ```
/// use seawall_disk::nbd::Uri;
/// use std::path::Path;
///
/// let uri: Uri = "nbd+unix:///home?socket=/run/my%20device".parse()?;
/// assert_eq!((uri.name(), uri.socket()), ("home", Path::new("/run/my device")));
/// assert_eq!(uri.with_name("area").to_string(), "nbd+unix:///area?socket=/run/my%20device");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    name: String,
    socket: PathBuf,
}

impl Uri {
    /// The export of this name at this socket.
    #[must_use]
    pub fn new(name: &str, socket: &Path) -> Self {
        Self { name: name.to_owned(), socket: socket.to_owned() }
    }

    /// The name of the export.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the server's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Another export of the same server.
    #[must_use]
    pub fn with_name(&self, name: &str) -> Self {
        Self::new(name, &self.socket)
    }
}

impl FromStr for Uri {
    type Err = io::Error;

    /// Reads `nbd+unix:///NAME?socket=PATH`.
    fn from_str(text: &str) -> io::Result<Self> {
        let wrong = || {
            let why = format!("`{text}` is not of the form `nbd+unix:///NAME?socket=PATH`");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        let rest = text.strip_prefix("nbd+unix:///").ok_or_else(wrong)?;
        let (name, socket) = rest.split_once("?socket=").ok_or_else(wrong)?;
        let name = unescaped(name).and_then(|name| String::from_utf8(name).ok());
        let socket = unescaped(socket).ok_or_else(wrong)?;
        let is_path = !socket.is_empty() && !socket.contains(&0);
        let name = name.filter(|name| is_path && name.len() <= NAME_MAX).ok_or_else(wrong)?;
        Ok(Self { name, socket: OsString::from_vec(socket).into() })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nbd+unix:///")?;
        escaped(self.name.as_bytes(), f)?;
        f.write_str("?socket=")?;
        escaped(self.socket.as_os_str().as_bytes(), f)
    }
}

/// Writes bytes with percent escapes for those that a URI may not contain.
fn escaped(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
            write!(f, "{}", char::from(*byte))
        }
        other => write!(f, "%{other:02X}"),
    })
}

/// Decodes percent escapes; `None` if a percent sign is not followed by two hexadecimal digits.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match (byte, behind) {
            (b'%', [high, low, behind @ ..]) => {
                bytes.push(digit(high)? << 4 | digit(low)?);
                rest = behind;
            }
            (b'%', _) => return None,
            (other, _) => bytes.push(*other),
        }
    }
    Some(bytes)
}
