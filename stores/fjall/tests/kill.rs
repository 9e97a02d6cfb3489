//! Replays into this store are killed midway.

use seawall_fjall::Fjall;

seawall_store_tests::kill_tests!(Fjall);
