//! The example prints the expected output.

#[allow(dead_code, unreachable_pub, missing_docs, reason = "the example is included unchanged")]
#[path = "../examples/engine.rs"]
mod example;

use seawall_fjall::FjallStore;
use seawall_store_tests::Folder;

#[test]
fn engine_recovers_from_what_fjall_kept() {
    let folder = Folder::new("engine");
    let mut said = Vec::new();
    example::run(&folder.0, &mut said).unwrap();
    let expected = "ada paid bob 1.00 in record 9\n\
                    recovered: 0 transactions replayed, 1 unfinished\n\
                    ada has 200 cents\n\
                    bob has 100 cents\n";
    assert_eq!(String::from_utf8(said).unwrap(), expected);

    // Deletes the store. It must be rebuilt from the log alone.
    std::fs::remove_dir_all(folder.0.join("store")).unwrap();
    let store = FjallStore::open(folder.0.join("store")).unwrap();
    let engine = example::engine::Engine::open(folder.0.join("log"), store).unwrap();
    assert_eq!(engine.recovered().applied, 3);
    let rows: Vec<_> = engine.store().rows("account").map(Result::unwrap).collect();
    let row = |name: &str, cents: u64| (name.as_bytes().to_vec(), cents.to_le_bytes().to_vec());
    assert_eq!(rows, [row("ada", 200), row("bob", 100)]);
}
