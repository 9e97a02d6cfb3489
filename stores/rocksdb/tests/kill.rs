//! Replays into this store are killed midway.

use seawall_rocksdb::Rocks;

seawall_store_tests::kill_tests!(Rocks);
seawall_store_tests::ingestion_kill_tests!(Rocks);
