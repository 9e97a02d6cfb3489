//! The stores that are built in.

use seawall_output::report::{Exit, Failure};
use seawall_replay::{Store, StoreError};
use std::path::Path;

/// A kind of store that a log can be replayed into: `seawall replay --into NAME:PLACE`.
pub trait StoreKind: Sync {
    /// The NAME: short, lower case, without a colon; not `json`, `cmd` or `memory`.
    fn name(&self) -> &'static str;

    /// Opens the store at PLACE, or creates it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if it cannot be opened or created.
    fn open(&self, place: &Path) -> Result<Box<dyn Store>, StoreError>;
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
    kind.open(place).map_err(|error| {
        let what = format!("cannot open the {} store: {error}", kind.name());
        let failure = Failure::new(Exit::Failed, what).at(place.display());
        failure.next("check the path, its permissions, and whether another process has it open")
    })
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

        fn open(&self, place: &Path) -> Result<Box<dyn Store>, StoreError> {
            match place.to_str() {
                Some("locked") => Err(StoreError::failed("it is in use")),
                _ => Ok(Box::new(MemoryStore::new())),
            }
        }
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
