//! Runs the steps in `docs/disk.md` as written: PostgreSQL's log moves to a disk, and back.

use crate::disk::tail;
use crate::need::Ground;
use crate::process::{Failure, kill_all, start, wait_for};
use std::fs;
use std::process::Command;
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/disk.md");
const SECTION: &str = "## PostgreSQL's log on it\n";
/// The folder of the disk in the page.
const FOLDER: &str = "/srv";
/// How long the walk may take.
const DONE: Duration = Duration::from_secs(120);

/// Moves the log to a disk and back, and inserts rows before, between and after.
///
/// # Errors
///
/// A command of the page fails, or a row is missing; the error has the output.
pub(crate) fn run(ground: &Ground) -> Result<(), Failure> {
    let home = ground.folder_of_user("walk")?;
    let disk = ground.dir.join("walk-srv");
    fs::create_dir(&disk)?;
    let log = ground.dir.join("walk.log");
    let programs = [ground.programs.as_path(), ground.seawall.parent().unwrap_or(&ground.dir)];
    let [postgres, seawall] = programs.map(|path| path.display().to_string());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script(PAGE)?]).current_dir(&home);
    bash.env("PATH", format!("{postgres}:{seawall}:{path}"));
    bash.env("D", home.join("data")).env("S", &disk).env("PGHOST", &home);
    bash.stdout(fs::OpenOptions::new().create(true).append(true).open(&log)?);
    let mut child = start(&mut bash, &log)?;
    let ended = wait_for(DONE, || child.try_wait().ok().flatten());
    kill_all(child.id());
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("the walk: {status}:\n{}", tail(&log)).into()),
        None => Err(format!("the walk does not end:\n{}", tail(&log)).into()),
    }
}

/// Returns a script with both blocks of commands, and the steps that a reader does around them.
fn script(page: &str) -> Result<String, Failure> {
    let (_, section) = page.split_once(SECTION).ok_or("the page has no such section")?;
    let mut blocks = section.split("```sh\n").skip(1).filter_map(|text| text.split("```").next());
    let (there, back) = blocks.next().zip(blocks.next()).ok_or("the page has no two blocks")?;
    let [there, back] = [there, back].map(commands);
    Ok(format!(
        r#"set -eux
AS="setpriv --reuid postgres --regid postgres --init-groups"
row() {{ $AS psql -X -q -c "INSERT INTO rows VALUES ($1)" postgres; }}
$AS initdb -D $D -A trust > /dev/null
printf "unix_socket_directories='$PGHOST'\nlisten_addresses=''\n" >> $D/postgresql.conf
$AS pg_ctl -D $D -w start
$AS psql -X -q -c "CREATE TABLE rows (k int)" postgres
row 1
{there}
rm -r $D/pg_wal.before
test -L $D/pg_wal
row 2
{back}
wait $SERVER
test ! -L $D/pg_wal
row 3
test "$($AS psql -X -A -t -c 'SELECT array_agg(k) FROM rows' postgres)" = '{{1,2,3}}'
$AS pg_ctl -D $D -w stop
"#
    ))
}

/// Adapts the commands of a block to a folder of the run. Adds the steps of a reader, who waits
/// until the server is ready and knows its process id.
fn commands(block: &str) -> String {
    let block = block.replace(FOLDER, "$S").replace("TERM SERVER", "TERM $SERVER");
    let is_started =
        |line: &str| line.split('#').next().is_some_and(|what| what.trim_end().ends_with('&'));
    let lines = block.lines().map(|line| {
        let wait = if is_started(line) {
            "\nSERVER=$!\nuntil mountpoint -q $S/log; do sleep 0.1; done"
        } else {
            ""
        };
        format!("{line}{wait}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_commands_for_both_ways() {
        let script = script(PAGE).unwrap();
        for part in ["--export fuse-dir:$S/log &", "SERVER=$!", "kill -TERM $SERVER", "ln -s"] {
            assert!(script.contains(part), "{part} is not in\n{script}");
        }
        assert!(!script.contains(FOLDER));
        super::script("no section").unwrap_err();
    }
}
