//! The speed table of the demo: commits per second of the log and of a file synced per record.

use super::super::bench::failure;
use super::stage::{RECORD_SIZE, Stage};
use seawall::Options;
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::{Ours, Plain, Rounds, Row, Trouble, compare};
use seawall_output::report::Failure;
use seawall_output::text::rounded;
use std::path::Path;
use std::time::Duration;

const WRITERS: [usize; 3] = [1, 8, 64];
const TIME: Duration = Duration::from_secs(3);

/// Measures and prints the table.
pub(super) fn measure(
    plain: &mut Plain,
    folder: &Path,
    stage: &mut Stage,
) -> Result<Vec<Row>, Failure> {
    let fail = |trouble| failure(folder, &trouble);
    let ours = Ours::new(&folder.join("speed.wal"), &Options::new(), RECORD_SIZE)
        .map_err(|error| fail(Trouble::Ours(error)))?;
    let mut rows = vec![];
    for writers in WRITERS {
        stage.hint(&format!("  measuring with {writers} at a time"));
        rows.push(compare(plain, &ours, writers, Rounds::within(TIME)).map_err(fail)?);
    }
    stage.hint("");
    ours.close().map_err(|error| fail(Trouble::Ours(error)))?;
    tell(stage, &rows);
    Ok(rows)
}

fn tell(stage: &mut Stage, rows: &[Row]) {
    let mut line = |name: &str, cell: &dyn Fn(&Row) -> String| {
        let cells: Vec<String> = rows.iter().map(|row| format!("{:>14}", cell(row))).collect();
        stage.say(&format!("{name:<31}{}", cells.concat()));
    };
    line("7 speed    durable commits/s", &|row| match row.writers {
        1 => "1 writer".to_owned(),
        writers => format!("{writers} writers"),
    });
    line("           a sync each record", &|row| rounded(row.raw_per_s));
    line("           seawall", &|row| rounded(row.commits_per_s));
    line("           times", &|row| format!("{:.2}", row.ratio));
    if let Some(why) = why_not_ranked(rows) {
        stage.say(&format!("           {why}"));
    }
}

/// The reason for not ranking these figures, in one line; `None` if they are ranked.
pub(super) fn why_not_ranked(rows: &[Row]) -> Option<String> {
    let conditions = Conditions::of(rows.iter().map(|row| row.others));
    match conditions.others().says() {
        Some(busy) => Some(format!("not ranked: {busy}")),
        None => (!conditions.are_good()).then(|| {
            "not ranked: other programs can disturb this; try it under `chrt -f 1`".to_owned()
        }),
    }
}
