//! Where the key of an encrypted log comes from.

use seawall_format::encryption::KeyBytes;
use seawall_io::{PosixStorage, Storage, check_name, read_secret, read_secret_file};
use std::ffi::OsString;
use std::fmt::{Debug, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
/// It may be a symbolic link, a pipe, or `/dev/fd/N`, which is the inherited file descriptor `N`. A
/// pipe delivers the key once, and so to one open only: use the [`Key`] that it delivered for more.
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

    /// The credential `name` that systemd gives the service (`LoadCredential=`,
    /// `LoadCredentialEncrypted=`): a file in the directory `$CREDENTIALS_DIRECTORY`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if the service has no credentials,
    /// [`io::ErrorKind::InvalidInput`] if `name` is not the name of a file.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use seawall::encryption::KeyFile;
    /// use seawall::{Log, Options};
    ///
    /// let key = KeyFile::credential("orders.key")?;
    /// let log: Log<u32> = Options::new().key(key).open("/var/lib/app/orders.wal")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn credential(name: &str) -> io::Result<Self> {
        Self::credential_in(std::env::var_os("CREDENTIALS_DIRECTORY"), name)
    }

    fn credential_in(directory: Option<OsString>, name: &str) -> io::Result<Self> {
        check_name(name)?;
        let missing = || {
            let what = "the service has no credentials: CREDENTIALS_DIRECTORY is not set";
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        directory.ok_or_else(missing).map(|directory| Self(Path::new(&directory).join(name)))
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
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
        let name = name.ok_or_else(no_name)?;
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((PosixStorage::open(folder.unwrap_or(Path::new(".")))?, name.to_owned()))
    }
}

impl KeySource for KeyFile {
    fn key(&self) -> io::Result<Key> {
        let mut bytes = zeroizing();
        let read = read_secret_file(&self.0, &mut *bytes);
        read.map_err(|error| explained(format!("the key file {}", self.0.display()), &error))?;
        Ok(Key::new(&bytes))
    }
}

/// A command that writes the 32 bytes of a key to its standard output, and nothing else: one that
/// asks a key service or a chip, or decrypts a file.
///
/// The command runs when the log is opened, with this process's standard error, and without input.
///
/// # Examples
///
/// ```no_run
/// use seawall::encryption::KeyCommand;
/// use seawall::{Log, Options};
///
/// let key = KeyCommand::new("gpg").args(["--decrypt", "--quiet", "orders.key.gpg"]);
/// let log: Log<u32> = Options::new().key(key).open("orders.wal")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyCommand {
    program: OsString,
    arguments: Vec<OsString>,
}

impl KeyCommand {
    /// The command `program`, without arguments. It is found as a shell finds it.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), arguments: vec![] }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    fn run(&self) -> io::Result<KeyBytes> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut output = child.stdout.take().expect("it is a pipe");
        let mut bytes = zeroizing();
        let read = read_secret(&mut output, &mut *bytes);
        drop(output);
        if read.is_err() {
            // The command may still be running, and its further output is not needed.
            let _ = child.kill();
        }
        let status = child.wait()?;
        let failed = || Err(io::Error::other(status.to_string()));
        if status.code().is_some_and(|code| code != 0) {
            return failed();
        }
        read?;
        if !status.success() {
            return failed();
        }
        Ok(bytes)
    }

    fn bytes(&self) -> io::Result<KeyBytes> {
        let named = || format!("the key command {}", self.program.display());
        self.run().map_err(|error| explained(named(), &error))
    }
}

impl KeySource for KeyCommand {
    fn key(&self) -> io::Result<Key> {
        self.bytes().map(|bytes| Key::new(&bytes))
    }
}

/// The same error, prefixed with the operation that failed.
fn explained(what: impl Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Bytes that are cleared when they are dropped.
fn zeroizing() -> KeyBytes {
    KeyBytes::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> io::Result<KeyBytes> {
        KeyCommand::new("sh").args(["-c", line]).bytes()
    }

    fn refused(line: &str) -> String {
        shell(line).expect_err("no key").to_string()
    }

    const SECRET: &str = "printf 0123456789abcdef0123456789abcdef";

    #[test]
    fn command_writes_exactly_one_key_and_succeeds() {
        assert_eq!(*shell(SECRET).unwrap(), *b"0123456789abcdef0123456789abcdef");
        assert!(refused("printf 0123456789").contains("fewer than the 32 bytes"));
        assert!(refused(&format!("{SECRET}0")).contains("more than the 32 bytes"));
        // The output of this command never ends.
        assert!(refused("yes 0123456789abcdef").contains("more than the 32 bytes"));
        assert!(refused(&format!("{SECRET}; exit 3")).contains("exit status: 3"));
        assert!(refused(&format!("{SECRET}; kill -9 $$")).contains("signal: 9"));
        assert!(refused("exit 3").contains("exit status: 3"));
        let missing = KeyCommand::new("/nowhere/key-command").key().unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("the key command /nowhere/key-command: "));
        for line in ["printf 0123456789", "yes 0123456789", &format!("{SECRET}; exit 3")] {
            let said = refused(line);
            assert!(said.contains("key command sh") && !said.contains("012345"), "{said}");
        }
    }

    #[test]
    fn credential_is_a_file_in_the_directory_of_the_service() {
        let credential = |directory: Option<&str>, name: &str| {
            KeyFile::credential_in(directory.map(OsString::from), name).map(|file| file.0)
        };
        let found = credential(Some("/run/credentials/app.service"), "log.key").unwrap();
        assert_eq!(found, Path::new("/run/credentials/app.service/log.key"));
        assert_eq!(credential(None, "log.key").unwrap_err().kind(), io::ErrorKind::NotFound);
        for name in ["", ".", "..", "../log.key", "/etc/key"] {
            credential(Some("/run"), name).expect_err(name);
        }
    }
}
