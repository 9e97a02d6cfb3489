//! The tests that all stores pass.

use seawall_sqlite::{Sqlite, SqliteStore};

seawall_store_tests::store_tests!(Sqlite);

/// A database of another program: in rollback mode, and in its write-ahead log.
#[test]
fn database_of_another_program_is_refused_unchanged() {
    let folder = seawall_store_tests::Folder::new("sqlite-other");
    for mode in ["delete", "wal"] {
        let path = folder.0.join(format!("{mode} of 100%?.db"));
        let other = rusqlite::Connection::open(&path).unwrap();
        other.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        let keep = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        other.set_db_config(keep, true).unwrap();
        other.execute_batch("CREATE TABLE other(x); INSERT INTO other VALUES (1)").unwrap();
        drop(other);
        assert_eq!(folder.0.join(format!("{mode} of 100%?.db-wal")).exists(), mode == "wal");
        seawall_store_tests::store::assert_refused_unchanged::<Sqlite>(&path);
    }
}

#[test]
fn database_without_tables_is_a_store_only_if_its_log_has_content() {
    let folder = seawall_store_tests::Folder::new("sqlite-bare");
    let bare = folder.0.join("bare");
    let other = rusqlite::Connection::open(&bare).unwrap();
    other.execute_batch("CREATE TABLE t(x); DROP TABLE t").unwrap();
    drop(other);
    assert!(std::fs::metadata(&bare).unwrap().len() > 0);
    assert!(!SqliteStore::exists(&bare).unwrap());

    let store = SqliteStore::open(folder.0.join("store")).unwrap();
    for end in ["", "-wal"] {
        let [from, to] = ["store", "killed"].map(|name| folder.0.join(format!("{name}{end}")));
        std::fs::copy(from, to).unwrap();
    }
    assert!(SqliteStore::exists(folder.0.join("killed")).unwrap());
    drop(store);
}
