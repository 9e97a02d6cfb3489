//! The workload of a bench: pgbench's TPC-B, or TPC-C by go-tpc.

use crate::args::Load;
use crate::database::{Database, Draw};
use crate::process::{Failure, output, start};
use crate::tpcc;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program that runs TPC-C: `go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12`.
pub(crate) const TPCC: &str = "go-tpc";
/// Threads that fill the tables.
const FILLERS: &str = "2";

/// A workload and its size: pgbench's scale, or the number of warehouses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) load: Load,
    pub(crate) size: u32,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Transactions a second, or new orders a minute.
    pub(crate) rate: f64,
    /// Mean time of a transaction or order, in milliseconds.
    pub(crate) latency_ms: f64,
}

impl Workload {
    /// The unit of the rate.
    pub(crate) fn unit(self) -> &'static str {
        match self.load {
            Load::Pgbench => "transactions a second",
            Load::Tpcc => "new orders a minute",
        }
    }

    pub(crate) fn about(self) -> String {
        match self.load {
            Load::Pgbench => format!("pgbench's TPC-B, scale {}", self.size),
            Load::Tpcc => format!("TPC-C without think time, warehouses: {}", self.size),
        }
    }

    /// Creates and fills the tables.
    pub(crate) fn fill(self, database: &dyn Database) -> Result<(), Failure> {
        match self.load {
            Load::Pgbench => database.pgbench(&["-i", "-q", "-s", &self.size.to_string()])?,
            Load::Tpcc if database.has_one_client() => {
                return tpcc::fill(database, self.size);
            }
            Load::Tpcc => self.tpcc(database, "prepare", &["-T", FILLERS, "--no-check"])?,
        };
        database.settle()
    }

    /// Runs it for some seconds without a result, since it may end before the first order.
    pub(crate) fn warm_up(self, database: &dyn Database, seconds: u32) -> Result<(), Failure> {
        let time = seconds.to_string();
        match self.load {
            Load::Pgbench => database.pgbench(&["-T", &time])?,
            Load::Tpcc if database.has_one_client() => {
                return tpcc::run(database, self.size, (1, seconds)).map(drop);
            }
            Load::Tpcc => self.tpcc(database, "run", &["--time", &format!("{time}s")])?,
        };
        Ok(())
    }

    /// Runs the workload for some seconds.
    pub(crate) fn run(
        self,
        database: &dyn Database,
        clients: u32,
        seconds: u32,
    ) -> Result<Measured, Failure> {
        let seconds_each = seconds;
        let (count, seconds) = (clients.to_string(), seconds.to_string());
        match self.load {
            Load::Pgbench => {
                let threads = clients.min(2).to_string();
                let said = database.pgbench(&["-c", &count, "-j", &threads, "-T", &seconds])?;
                measured_by_pgbench(&said)
            }
            Load::Tpcc if database.has_one_client() => {
                tpcc::run(database, self.size, (clients, seconds_each))
            }
            Load::Tpcc => {
                let time = format!("{seconds}s");
                let arguments = ["-T", &count, "--time", &time, "--interval", "24h"];
                measured_by_tpcc(&self.tpcc(database, "run", &arguments)?)
            }
        }
    }

    /// Generates transactions of this workload, for the only client of a database.
    pub(crate) fn transactions(self, seed: u64) -> Draw {
        tpcc::transactions(self.size, seed)
    }

    /// Starts TPC-C without a time limit; it ends when the database is gone.
    pub(crate) fn start(
        self,
        database: &dyn Database,
        (clients, log): (u32, &Path),
    ) -> Result<Child, Failure> {
        let clients = clients.to_string();
        let mut command = self.tpcc_command(database, "run", &["-T", &clients])?;
        start(command.stdout(Stdio::null()), log)
    }

    /// Checks what the workload promises of its tables: the consistency conditions of TPC-C.
    pub(crate) fn check(self, database: &dyn Database) -> Result<(), Failure> {
        if self.load == Load::Pgbench {
            return Ok(());
        }
        if database.has_one_client() {
            return tpcc::check(database);
        }
        // Without this index, the check would read the whole table for each customer.
        database
            .sql("CREATE INDEX IF NOT EXISTS checked ON history (h_c_w_id, h_c_d_id, h_c_id)")?;
        self.tpcc(database, "check", &["-T", FILLERS]).map(drop)
    }

    fn tpcc(
        self,
        database: &dyn Database,
        what: &str,
        arguments: &[&str],
    ) -> Result<String, Failure> {
        output(&mut self.tpcc_command(database, what, arguments)?)
    }

    fn tpcc_command(
        self,
        database: &dyn Database,
        what: &str,
        arguments: &[&str],
    ) -> Result<Command, Failure> {
        let mut command = Command::new(TPCC);
        command.args(["tpcc", what, "--output", "json", "--warehouses", &self.size.to_string()]);
        command.args(["--host", "127.0.0.1"]).args(database.driver()?).args(arguments);
        Ok(command)
    }
}

fn measured_by_pgbench(said: &str) -> Result<Measured, Failure> {
    let number = |name| number_after(said, name);
    let found = number("tps = ").zip(number("latency average = "));
    let (rate, latency_ms) = found.ok_or_else(|| format!("pgbench says no rate: {said}"))?;
    Ok(Measured { rate, latency_ms })
}

/// Parses the lines of JSON that go-tpc prints at the end.
fn measured_by_tpcc(said: &str) -> Result<Measured, Failure> {
    let rows: Vec<Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Vec<Value>>(line).ok())
        .flatten()
        .collect();
    let text = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |row: &Value, name: &str| text(row, name).and_then(|text| text.parse().ok());
    let is_order = |row: &&Value| text(row, "Operation").as_deref() == Some("NEW_ORDER");
    let rate = rows.iter().find_map(|row| number(row, "tpmC"));
    let latency = rows.iter().rfind(is_order).and_then(|row| number(row, "Avg(ms)"));
    let found = rate.zip(latency).map(|(rate, latency_ms)| Measured { rate, latency_ms });
    found.ok_or_else(|| format!("go-tpc says no rate: {said}").into())
}

/// The number that follows a name.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let (_, after) = text.split_once(name)?;
    after.split([' ', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_pgbench_is_read() {
        let said = "latency average = 1.234 ms\ninitial connection time = 3 ms\n\
                    tps = 810.5 (without initial connection time)\n";
        let Measured { rate, latency_ms } = measured_by_pgbench(said).unwrap();
        assert_eq!([rate, latency_ms].map(f64::to_bits), [810.5, 1.234].map(f64::to_bits));
        assert_eq!(number_after(said, "rate"), None);
        measured_by_pgbench("latency average = 1 ms\ntps = many").unwrap_err();
    }

    #[test]
    fn result_of_tpcc_is_read() {
        let said = r#"Finished
[{"Avg(ms)":"26.6","Operation":"DELIVERY"},{"Avg(ms)":"17.2","Operation":"NEW_ORDER"}]
[{"efficiency":"58816.9%","tpmC":"7563.8","tpmTotal":"17163.3"}]
"#;
        let Measured { rate, latency_ms } = measured_by_tpcc(said).unwrap();
        assert_eq!([rate, latency_ms].map(f64::to_bits), [7563.8, 17.2].map(f64::to_bits));
        measured_by_tpcc("Finished\n[]\n[{\"tpmC\":\"1\"}]").unwrap_err();
    }
}
