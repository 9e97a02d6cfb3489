//! The tests that all stores pass.

use seawall_rocksdb::Rocks;

seawall_store_tests::store_tests!(Rocks);
