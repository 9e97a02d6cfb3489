//! The tests that all stores pass.

use seawall_fjall::Fjall;

seawall_store_tests::store_tests!(Fjall);
