//! The stores that the program was built with.

use crate::args::StorePlace;
use crate::failure::Failure;
use seawall_cli::StoreKind;
use seawall_replay::Store;
use std::path::Path;

/// The stores that this program was built with.
pub(crate) type Stores = &'static [&'static dyn StoreKind];

/// Finds a store by name.
pub(crate) fn find(stores: Stores, wanted: &StorePlace) -> Result<&'static dyn StoreKind, Failure> {
    let name = &wanted.name;
    let found = stores.iter().find(|kind| kind.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = stores.iter().map(|kind| kind.name()).collect();
        let built_in = match names.as_slice() {
            [] => "this program has no store built in".to_owned(),
            names => format!("built-in stores: {}", names.join(", ")),
        };
        let next = "stores/README.md says how to build the benchmarks with stores";
        Failure::usage(format!("no store `{name}`: {built_in}"), "--store", next)
    })
}

/// Opens a new store in the folder `path`.
pub(crate) fn open(kind: &dyn StoreKind, path: &Path) -> Result<Box<dyn Store>, Failure> {
    kind.open(path).map_err(|error| {
        let what = format!("cannot open the {} store: {error}", kind.name());
        Failure::new(what, path.display(), "check the place and its permissions")
    })
}
