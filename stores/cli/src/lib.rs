//! The stores of this workspace, by the names that programs use: `fjall:DIR`, `redb:FILE`,
//! `sqlite:FILE`, and with the feature `rocksdb` also `rocksdb:DIR`.

#![forbid(unsafe_code)]

use seawall_cli::{OpenError, StoreKind};
use seawall_replay::{Store, StoreError};
use seawall_tables::{Engine, Tables};
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

/// All stores.
pub const STORES: &[&dyn StoreKind] = &[
    &Kind::<seawall_fjall::Fjall>::NEW,
    &Kind::<seawall_redb::Redb>::NEW,
    &Kind::<seawall_sqlite::Sqlite>::NEW,
    #[cfg(feature = "rocksdb")]
    &Kind::<seawall_rocksdb::Rocks>::NEW,
];

/// The kind of store that keeps its tables in a database `E`.
struct Kind<E>(PhantomData<fn() -> E>);

impl<E> Kind<E> {
    const NEW: Self = Self(PhantomData);
}

impl<E: Engine + 'static> StoreKind for Kind<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn open(&self, place: &Path) -> Result<Box<dyn Store>, OpenError> {
        Ok(Box::new(Tables::<E>::open(place).map_err(failed)?))
    }

    fn exists(&self, place: &Path) -> Result<bool, OpenError> {
        Tables::<E>::exists(place).map_err(failed)
    }
}

fn failed(error: seawall_tables::OpenError) -> OpenError {
    match error {
        seawall_tables::OpenError::Foreign { .. } => OpenError::Foreign(StoreError::failed(error)),
        seawall_tables::OpenError::Unsynced { .. } => {
            OpenError::Unsynced(StoreError::failed(error))
        }
        error => OpenError::Failed(StoreError::failed(error)),
    }
}

impl<E: Engine> fmt::Debug for Kind<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(E::NAME)
    }
}
