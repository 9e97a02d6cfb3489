//! The figures of the evaluation of `RapiLog`: runs one bench for each experiment, and writes a
//! page with the results.

mod page;

use crate::args::{Bench, Buffers, Engine, Figures, Kinds, Load, Transport};
use crate::need::Ground;
use crate::process::Failure;
use crate::rig::{replace, say};
use crate::verbs::bench::report::Report;
use crate::verbs::{bench, clean};
use seawall_io::PosixStorage;
use serde_json::Value;
use std::fs;

/// Time of a flush on a disk with 7,200 revolutions a minute, in milliseconds.
const SLOW: f64 = 8.3;

/// The kind of measurement made in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Experiment {
    /// All ways to keep the log, on a slow device.
    Slow,
    /// The usual ways, on the machine's own device.
    Fast,
    /// With and without PostgreSQL's `commit_delay`.
    GroupCommit,
    /// With buffers of different numbers and sizes.
    Buffers,
}

impl Experiment {
    const ALL: [Self; 4] = [Self::Slow, Self::Fast, Self::GroupCommit, Self::Buffers];

    fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Fast => "fast",
            Self::GroupCommit => "group-commit",
            Self::Buffers => "buffers",
        }
    }

    /// Whether it is measured with this database. Only PostgreSQL has a `commit_delay`. Buffers are
    /// not measured with `MariaDB`, which writes its log as PostgreSQL does.
    fn is_for(self, engine: Engine) -> bool {
        match self {
            Self::Slow | Self::Fast => true,
            Self::GroupCommit => engine == Engine::Postgres,
            Self::Buffers => engine != Engine::Mariadb,
        }
    }

    fn bench(self, args: &Figures, engine: Engine) -> Bench {
        let all = Bench {
            rounds: args.rounds,
            seconds: args.seconds,
            delays: vec![SLOW],
            ways: vec![Kinds::Native, Kinds::Armed],
            buffers: vec![Buffers::USUAL],
            commit_delays: vec![0],
            database: engine,
            load: Load::Tpcc,
            warehouses: args.warehouses,
            clients: vec![1, 2, 4, 8, 16],
            scale: 1,
            hold_up: 150,
            // SQLite makes dozens of small writes for each commit, and none should become a
            // request.
            transport: if engine == Engine::Sqlite { Transport::Loop } else { Transport::Dir },
            tables: Some(args.out.join("tables")),
            out: args.out.clone(),
            place: args.place.clone(),
        };
        match self {
            Self::Slow => Bench { ways: Kinds::ALL.to_vec(), ..all },
            Self::Fast => Bench { delays: vec![0.0], ways: Kinds::USUAL.to_vec(), ..all },
            Self::GroupCommit => {
                Bench { commit_delays: vec![0, 200], clients: vec![4, 8, 16], ..all }
            }
            Self::Buffers => {
                let sizes = [128, 512, 1024];
                let counts = [1, 2, 6, 12];
                let of = |size: u64| counts.map(|count| Buffers { count, size: size * 1024 });
                let buffers = sizes.into_iter().flat_map(of).collect();
                Bench { ways: vec![Kinds::Armed], buffers, clients: vec![8], ..all }
            }
        }
    }
}

/// Runs the experiments that have no result yet, and writes the page.
///
/// # Errors
///
/// The rig itself failed; earlier results are kept.
pub(crate) fn run(args: &Figures, ground: &[(Engine, Ground)]) -> Result<(), Failure> {
    fs::create_dir_all(&args.out)?;
    let out = PosixStorage::open(&args.out)?;
    let mut results = Vec::new();
    for (engine, ground) in ground {
        for experiment in Experiment::ALL.into_iter().filter(|it| it.is_for(*engine)) {
            let bench = experiment.bench(args, *engine);
            let name = format!("{}-{}.json", experiment.name(), engine.name().to_lowercase());
            let file = args.out.join(&name);
            if !file.exists() {
                say(&format!("measuring {name}"));
                let result = measured(&bench, ground)?;
                replace(&out, &name, format!("{result:#}\n").as_bytes())?;
            }
            let result = serde_json::from_str(&fs::read_to_string(&file)?)?;
            results.push(Measured { experiment, engine: *engine, result });
        }
    }
    let page = page::Page::of(&results);
    for (name, chart) in page.charts() {
        replace(&out, &name, chart.as_bytes())?;
    }
    replace(&out, "figures.md", page.text().as_bytes())?;
    say(&format!("in {}: figures.md and its charts", args.out.display()));
    Ok(())
}

fn measured(bench: &Bench, ground: &Ground) -> Result<Value, Failure> {
    let _kept = clean::begin(&ground.dir)?;
    let cells = bench::run(bench, ground)?;
    let report = Report::of(bench, ground, &cells);
    report.lines().iter().for_each(|line| say(line));
    Ok(report.json())
}

/// The result of one experiment with one database.
#[derive(Debug)]
struct Measured {
    experiment: Experiment,
    engine: Engine,
    /// The contents of `bench.json`.
    result: Value,
}
