//! Where the key of an encrypted log comes from.

use seawall_format::encryption::KEY_SIZE;
use seawall_io::{Access, PosixStorage, Storage};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use seawall_format::encryption::KeyEncryptionKey as Key;

/// Delivers the key of a log when the log is opened.
///
/// # Examples
///
/// ```
/// use seawall::encryption::{Key, KeySource};
/// use seawall::{Log, Options};
///
/// /// Asks a key service, which would need a network.
/// #[derive(Debug)]
/// struct Service;
///
/// impl KeySource for Service {
///     fn key(&self) -> std::io::Result<Key> {
///         Ok(Key::new(&[7; 32]))
///     }
/// }
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-ksrc-{}", std::process::id()));
/// let log: Log<String> = Options::new().key(Service).open(&folder)?; // a new log is encrypted
/// log.append(&"for holders of the key".to_owned())?;
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeySource: Debug + Send + Sync {
    /// Returns the key.
    ///
    /// # Errors
    ///
    /// Why it is not available.
    fn key(&self) -> io::Result<Key>;
}

impl KeySource for Key {
    fn key(&self) -> io::Result<Key> {
        Ok(self.clone())
    }
}

impl KeySource for Arc<dyn KeySource> {
    fn key(&self) -> io::Result<Key> {
        (**self).key()
    }
}

/// A file that holds the 32 bytes of a key, and nothing else.
///
/// # Examples
///
/// ```
/// use seawall::encryption::KeyFile;
/// use seawall::{Log, LogReader, Lsn, Options};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-kfile-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let (path, key) = (folder.join("log"), KeyFile::new(folder.join("key")));
/// key.generate()?; // keep it elsewhere, and keep a copy: without it the log cannot be read
/// let log: Log<u32> = Options::new().key(key.clone()).open(&path)?;
/// log.append(&7)?;
/// log.close()?;
///
/// let reader: LogReader<u32> = Options::new().key(key).open_reader(&path)?;
/// assert_eq!(reader.get(Lsn::FIRST)?, Some(7));
/// assert!(LogReader::<u32>::open(&path).is_err(), "not without the key");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    /// The file at this path, which is read when the log is opened.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Writes a new random key to the file, durably and readable only by its owner.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the file exists: it is left as it is. Otherwise the
    /// device's error.
    pub fn generate(&self) -> io::Result<()> {
        use seawall_io::{Entropy, SystemEntropy};

        let mut bytes = zeroizing();
        SystemEntropy.fill(&mut *bytes)?;
        let (folder, name) = self.place()?;
        let file = folder.create(&name)?;
        let written = file.write_at(&*bytes, 0).and_then(|()| file.sync());
        written.and_then(|()| folder.sync_dir()).inspect_err(|_| drop(folder.remove(&name)))
    }

    /// The folder of the file, and its name there.
    fn place(&self) -> io::Result<(PosixStorage, String)> {
        let name = self.0.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| invalid(&self.0, "has no file name"))?;
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((PosixStorage::open(folder.unwrap_or(Path::new(".")))?, name.to_owned()))
    }
}

impl KeySource for KeyFile {
    fn key(&self) -> io::Result<Key> {
        let (folder, name) = self.place()?;
        let file = folder.open(&name, Access::Read)?;
        let mut bytes = zeroizing();
        let read = file.read_at(&mut *bytes, 0)?;
        if read < KEY_SIZE || file.len()? != 32 {
            return Err(invalid(&self.0, "does not hold a key: that has 32 bytes"));
        }
        Ok(Key::new(&bytes))
    }
}

fn invalid(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} {what}", path.display()))
}

/// Bytes that are cleared when they are dropped.
fn zeroizing() -> seawall_format::encryption::KeyBytes {
    seawall_format::encryption::KeyBytes::default()
}
