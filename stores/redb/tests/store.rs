//! The tests that all stores pass.

#![allow(clippy::disallowed_methods, reason = "these files are not a log's")]

use seawall_redb::Redb;

seawall_store_tests::store_tests!(Redb);

#[test]
fn database_of_another_program_is_refused_unchanged() {
    let folder = seawall_store_tests::Folder::new("redb-other");
    let path = folder.0.join("other");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let other = redb::TableDefinition::<u64, &str>::new("other");
    transaction.open_table(other).unwrap().insert(1, "one").unwrap();
    transaction.commit().unwrap();
    // As a killed process leaves it: redb would repair it.
    let killed = folder.0.join("killed");
    std::fs::copy(&path, &killed).unwrap();
    drop(database);
    for path in [&path, &killed] {
        seawall_store_tests::store::assert_refused_unchanged::<Redb>(path);
    }
    std::fs::write(folder.0.join("empty"), "").unwrap();
    seawall_store_tests::store::assert_refused_unchanged::<Redb>(&folder.0.join("empty"));
}
