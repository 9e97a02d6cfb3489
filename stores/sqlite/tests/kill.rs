//! Replays into this store are killed midway.

use seawall_sqlite::Sqlite;

seawall_store_tests::kill_tests!(Sqlite);
