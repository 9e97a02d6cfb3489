//! The stores that are built in.

use seawall_output::report::{Exit, Failure};
use seawall_replay::{Store, StoreError};
use std::fmt;
use std::path::Path;

/// A kind of store that a log can be replayed into: `seawall replay --into NAME:PLACE`.
pub trait StoreKind: Sync {
    /// The NAME: short, lower case, without a colon; not `json`, `cmd` or `memory`.
    fn name(&self) -> &'static str;

    /// Opens the store at PLACE, or creates it.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    fn open(&self, place: &Path) -> Result<Box<dyn Store>, OpenError>;

    /// Returns whether there is a store at PLACE that [`open`](StoreKind::open) would open rather
    /// than create. Changes nothing. A dry run plans for an empty store if there is none.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    fn exists(&self, place: &Path) -> Result<bool, OpenError>;
}

/// The reason why a store was not opened or created.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// PLACE has other content, which was not changed: use another one. The exit code is 9.
    Foreign(StoreError),
    /// A sync of the store failed, so it may show changes that the device lost, until the machine
    /// restarts. The exit code is 1.
    Unsynced(StoreError),
    /// The store is open elsewhere, or the device or the database failed. The exit code is 1.
    Failed(StoreError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Foreign(error) | Self::Unsynced(error) | Self::Failed(error)) = self;
        error.fmt(f)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let (Self::Foreign(error) | Self::Unsynced(error) | Self::Failed(error)) = self;
        error.source()
    }
}

/// The built-in stores.
pub(crate) type Stores = &'static [&'static dyn StoreKind];

/// Finds a store by name; `at` is where the name was given.
pub(crate) fn find(
    stores: Stores,
    name: &str,
    at: &str,
) -> Result<&'static dyn StoreKind, Failure> {
    let found = stores.iter().find(|kind| kind.name() == name);
    found.copied().ok_or_else(|| unknown(stores, name).at(at))
}

/// Opens a store, or reports why it cannot be opened.
pub(crate) fn open(kind: &dyn StoreKind, place: &Path) -> Result<Box<dyn Store>, Failure> {
    kind.open(place).map_err(|error| not_opened(kind, place, &error))
}

/// Returns whether there is a store that [`open`] would open rather than create, or reports why it
/// cannot be opened.
pub(crate) fn exists(kind: &dyn StoreKind, place: &Path) -> Result<bool, Failure> {
    kind.exists(place).map_err(|error| not_opened(kind, place, &error))
}

fn not_opened(kind: &dyn StoreKind, place: &Path, error: &OpenError) -> Failure {
    let what = format!("cannot open the {} store: {error}", kind.name());
    let (exit, next) = match error {
        OpenError::Foreign(_) => (Exit::Conflict, "give another path, or move away what is there"),
        OpenError::Unsynced(_) => (
            Exit::Failed,
            "check the device, and rebuild the store; or restart the machine, then replay again: \
             the store then shows what the device has",
        ),
        OpenError::Failed(_) => (
            Exit::Failed,
            "check the path, its permissions, and whether another process has it open",
        ),
    };
    Failure::new(exit, what).at(place.display()).next(next)
}

fn unknown(stores: Stores, name: &str) -> Failure {
    let names: Vec<&str> = stores.iter().map(|kind| kind.name()).collect();
    let built_in = match names.as_slice() {
        [] => "this program has no built-in store".to_owned(),
        names => format!("built-in stores: {}", names.join(", ")),
    };
    let failure = Failure::new(Exit::Usage, format!("no store `{name}`: {built_in}"));
    failure.next(
        "write json:- or cmd:PROGRAM; or `cargo install --path stores/cli` (in the repository) \
         gives one with fjall, redb and SQLite",
    )
}

/// For tests: a store in memory that several handles share.
#[cfg(test)]
pub(crate) mod held {
    use super::{Store, StoreError};
    use seawall_replay::{Batch, MemoryStore, Watermark};
    use std::path::PathBuf;
    use std::sync::Arc;

    /// A store in memory. If it has a directory, that must exist at each write.
    pub(crate) struct Held {
        pub(crate) store: Arc<MemoryStore>,
        pub(crate) folder: Option<PathBuf>,
    }

    impl Store for Held {
        fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
            self.store.watermarks()
        }

        fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.store.get(table, key)
        }

        fn write(&self, batch: &Batch) -> Result<(), StoreError> {
            assert!(self.folder.as_ref().is_none_or(|folder| folder.is_dir()), "it is gone");
            self.store.write(batch)
        }

        fn flush(&self) -> Result<(), StoreError> {
            self.store.flush()
        }

        fn partitions_max(&self) -> usize {
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_replay::MemoryStore;

    struct Memory;

    impl StoreKind for Memory {
        fn name(&self) -> &'static str {
            "heap"
        }

        fn open(&self, place: &Path) -> Result<Box<dyn Store>, OpenError> {
            self.exists(place)?;
            match place.to_str() {
                Some("unsynced") => Err(OpenError::Unsynced(StoreError::failed("a sync failed"))),
                Some("locked") => Err(OpenError::Failed(StoreError::failed("it is in use"))),
                _ => Ok(Box::new(MemoryStore::new())),
            }
        }

        fn exists(&self, place: &Path) -> Result<bool, OpenError> {
            match place.to_str() {
                Some("notes") => Err(OpenError::Foreign(StoreError::failed("it is a text"))),
                _ => Ok(false),
            }
        }
    }

    #[test]
    fn place_with_other_content_exits_with_9_and_a_failed_open_with_1() {
        let refused = |place: &str| open(&Memory, Path::new(place)).err().unwrap();
        let (foreign, failed) = (refused("notes"), refused("locked"));
        assert_eq!(refused("unsynced").tell(), Exit::Failed);
        assert_eq!((foreign.tell(), failed.tell()), (Exit::Conflict, Exit::Failed));
        assert_eq!(foreign.what(), "cannot open the heap store: it is a text");
        assert_eq!(exists(&Memory, Path::new("notes")).unwrap_err().tell(), Exit::Conflict);
    }

    #[test]
    fn store_is_found_by_name_and_unknown_names_list_the_known() {
        let heap = find(&[&Memory], "heap", "--into heap:x").unwrap();
        assert_eq!(open(heap, Path::new("x")).unwrap().watermarks().unwrap(), []);
        let failure = open(heap, Path::new("locked")).err().unwrap();
        assert_eq!(failure.what(), "cannot open the heap store: it is in use");
        let failure = find(&[&Memory], "stack", "--into stack:x").err().unwrap();
        assert_eq!(failure.what(), "no store `stack`: built-in stores: heap");
        let failure = find(&[], "stack", "--into stack:x").err().unwrap();
        assert_eq!(failure.what(), "no store `stack`: this program has no built-in store");
    }
}
