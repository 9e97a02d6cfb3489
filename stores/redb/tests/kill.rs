//! Replays into this store are killed midway.

use seawall_redb::Redb;

seawall_store_tests::kill_tests!(Redb);
