//! Temporary files of a run: removed at its end, and when SIGINT, SIGTERM or SIGHUP ends it.

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

/// What exists now. Signals concern the whole process, so there is one list.
static PATHS: Mutex<List> = Mutex::new(List { paths: vec![], is_watched: false });

struct List {
    paths: Vec<PathBuf>,
    is_watched: bool,
}

/// A folder for temporary files; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    // Dropped first: a signal meanwhile still finds the path in the list.
    folder: Folder,
    watched: Option<Watched>,
}

impl Scratch {
    /// Makes the folder `name`-PID in `parent`.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or signals cannot be handled.
    pub fn new(parent: &Path, name: &str) -> Result<Self, NoFolder> {
        let folder = Folder::new(parent, name)?;
        Self::watch(folder)
    }

    /// Removes the folder `path` at the end; the caller creates it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is something already.
    pub fn around(path: PathBuf) -> Result<Self, NoFolder> {
        Self::watch(Folder::around(path)?)
    }

    fn watch(folder: Folder) -> Result<Self, NoFolder> {
        let path = folder.path();
        let watched =
            Watched::new(path).map_err(|source| NoFolder { path: path.to_owned(), source })?;
        Ok(Self { folder, watched: Some(watched) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the folder where it is.
    pub fn keep(&mut self) {
        self.watched = None;
        self.folder.keep();
    }
}

/// A path that is removed if a signal ends this process before this is dropped.
#[derive(Debug)]
pub struct Watched(PathBuf);

impl Watched {
    /// From now on `path` is removed on a signal.
    ///
    /// # Errors
    ///
    /// Signals cannot be handled.
    pub fn new(path: &Path) -> io::Result<Self> {
        let mut list = list();
        if !list.is_watched {
            start()?;
            list.is_watched = true;
        }
        // A relative path stays valid: this program never changes its directory.
        list.paths.push(path.to_owned());
        Ok(Self(path.to_owned()))
    }

    /// The draft of a report at `path`.
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
            // Held to the end: no other thread adds a path any more.
            let list = list();
            list.paths.iter().for_each(|path| remove_in_use(path));
            let _ = emulate_default_handler(signal);
        }
    };
    thread::Builder::new().name("seawall-signals".to_owned()).spawn(end).map(drop)
}
