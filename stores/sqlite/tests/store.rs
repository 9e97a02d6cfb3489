//! The tests that all stores pass.

use seawall_sqlite::Sqlite;

seawall_store_tests::store_tests!(Sqlite);
