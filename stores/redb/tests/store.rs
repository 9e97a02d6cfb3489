//! The tests that all stores pass.

use seawall_redb::Redb;

seawall_store_tests::store_tests!(Redb);
