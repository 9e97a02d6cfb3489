//! A power cut during a test run, and the check of rows that were acknowledged before it.

use crate::args::Suite;
use crate::database::{Client, Database, number};
use crate::disk::Disk;
use crate::process::{Failure, pause, wait_for};
use crate::rig::say;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Acknowledged rows before a cut.
const ROWS_MIN: u64 = 20;
const ROWS_WITHIN: Duration = Duration::from_secs(60);

/// A power cut, and the state found after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    pub(super) number: usize,
    /// The tests that were running, or the last one before.
    pub(super) during: String,
    pub(super) acknowledged: u64,
    /// Acknowledged rows found after recovery.
    pub(super) found: Option<u64>,
    /// Servers that recovered, and tables of the suite that were checked.
    pub(super) recovered: usize,
    pub(super) checked: usize,
    /// Why a database did not recover, or what its check found.
    pub(super) why: Option<String>,
}

impl Cut {
    pub(super) fn is_fine(&self) -> bool {
        self.why.is_none() && self.found == Some(self.acknowledged)
    }

    /// Prints the result.
    pub(super) fn report(&self) {
        let Self { number, during, acknowledged, checked, .. } = self;
        let kept = match (self.found, &self.why) {
            (_, Some(why)) => format!("BROKEN: {why}"),
            (Some(found), None) if found == *acknowledged => "nothing lost".to_owned(),
            (found, None) => format!("LOST {}", acknowledged - found.unwrap_or_default()),
        };
        let rows = format!("{acknowledged} rows acknowledged, {checked} tables checked");
        say(&format!("cut {number} at {during}: {rows}, {kept}"));
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "cut": self.number,
            "during": self.during,
            "acknowledged": self.acknowledged,
            "found": self.found,
            "recovered": self.recovered,
            "checked": self.checked,
            "why": self.why,
        })
    }
}

/// A client that commits numbered rows until the cut.
#[derive(Debug)]
pub(super) struct Witness {
    client: Client,
    table: String,
}

impl Witness {
    /// Starts the client and returns once enough rows have been acknowledged.
    pub(super) fn start(
        database: &dyn Database,
        number: usize,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let table = format!("counted_{number}");
        database.make_table(&table)?;
        let client = Client::start(database, (&table, folder), None)?;
        let is_enough = || (client.acknowledged() >= ROWS_MIN).then_some(());
        wait_for(ROWS_WITHIN, is_enough).ok_or("the client gets no acknowledgements")?;
        Ok(Self { client, table })
    }

    /// Ends the client after the cut. Returns its table, and the number of acknowledged rows.
    pub(super) fn end(self) -> (String, u64) {
        (self.table, self.client.end())
    }
}

/// Counts the acknowledged rows in a recovered table, and checks the table.
///
/// # Errors
///
/// The table is damaged.
pub(super) fn found(
    database: &dyn Database,
    table: &str,
    acknowledged: u64,
) -> Result<u64, Failure> {
    let count = format!("SELECT count(*) FROM {table} WHERE k <= {acknowledged}");
    let found = number(database, &count)?;
    database.check(table)?;
    Ok(found)
}

/// Cuts the power of a disk, after a warning unless the run is the control.
pub(super) fn cut_power(args: &Suite, disk: &mut Disk) -> Result<(), Failure> {
    if !args.unannounced {
        disk.warn()?;
        pause(Duration::from_millis(u64::from(args.hold_up)));
    }
    disk.cut()
}

/// Starts a disk again after a cut, and arms it.
pub(super) fn power_on(disk: &mut Disk) -> Result<(), Failure> {
    disk.forget()?;
    disk.up()?;
    disk.set_armed(true)
}

/// Arms a disk again that has disarmed itself, because a flush of its device took too long.
pub(super) fn keep_armed(disk: &Disk) -> Result<(), Failure> {
    let status = disk.ask("status")?;
    let is_armed = status.get("state").and_then(Value::as_str) == Some("armed");
    if is_armed { Ok(()) } else { disk.set_armed(true) }
}

/// Adds the flushes since the disk's start.
pub(super) fn count_flushes(flushes: &mut [u64; 2], disk: &Disk) -> Result<(), Failure> {
    let more = disk.flushes()?;
    *flushes = [flushes[0] + more[0], flushes[1] + more[1]];
    Ok(())
}
