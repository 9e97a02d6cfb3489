//! Temporary files, removed at the end of the process and on SIGINT, SIGTERM and SIGHUP.

mod folder;
mod signals;

use folder::remove_in_use;
pub use folder::{Folder, NoFolder};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
pub use signals::ending_signals;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The existing paths. Signals are handled per process, so there is one list.
static PATHS: Mutex<List> = Mutex::new(List { paths: vec![], is_watched: false });

struct List {
    paths: Vec<PathBuf>,
    is_watched: bool,
}

/// A folder for temporary files, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    // Dropped before `watched`, so that a signal in between still finds the path in the list.
    folder: Folder,
    watched: Option<Watched>,
}

impl Scratch {
    /// Creates the folder `name`-PID in `parent`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or signals cannot be handled.
    pub fn new(parent: &Path, name: &str) -> Result<Self, NoFolder> {
        let folder = Folder::new(parent, name)?;
        Self::watch(folder)
    }

    /// Removes the folder `path` on drop; the caller creates it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the path exists.
    pub fn around(path: PathBuf) -> Result<Self, NoFolder> {
        Self::watch(Folder::around(path)?)
    }

    fn watch(folder: Folder) -> Result<Self, NoFolder> {
        let path = folder.path();
        let watched =
            Watched::new(path).map_err(|source| NoFolder { path: path.to_owned(), source })?;
        Ok(Self { folder, watched: Some(watched) })
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder.
    pub fn keep(&mut self) {
        self.watched = None;
        self.folder.keep();
    }
}

/// A path that is removed if a signal ends this process before this value is dropped.
#[derive(Debug)]
pub struct Watched(PathBuf);

impl Watched {
    /// Removes `path` on a signal from now on.
    ///
    /// # Errors
    ///
    /// If signals cannot be handled.
    pub fn new(path: &Path) -> io::Result<Self> {
        let mut list = list();
        if !list.is_watched {
            start()?;
            list.is_watched = true;
        }
        // A relative path stays valid because this program never changes its directory.
        list.paths.push(path.to_owned());
        Ok(Self(path.to_owned()))
    }

    /// Watches the temporary file of a report at `path`.
    ///
    /// # Errors
    ///
    /// As [`Watched::new`].
    pub fn draft_of(path: &Path) -> io::Result<Self> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".partial");
        Self::new(Path::new(&draft))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut list = list();
        if let Some(place) = list.paths.iter().position(|path| *path == self.0) {
            list.paths.swap_remove(place);
        }
    }
}

fn list() -> MutexGuard<'static, List> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> io::Result<()> {
    let mut signals = Signals::new(ending_signals())?;
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is held until the exit, so that no other thread adds a path.
            let list = list();
            list.paths.iter().for_each(|path| remove_in_use(path));
            let _ = emulate_default_handler(signal);
        }
    };
    let started = thread::Builder::new().name("seawall-signals".to_owned()).spawn(end).map(drop);
    started.map_err(|error| io::Error::new(error.kind(), format!("cannot start a thread: {error}")))
}
