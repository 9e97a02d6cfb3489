//! Runs what the command line requests: seeds one after the other, totals, and findings printed as
//! tests.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use seawall_io::{Clock, SystemClock};
use seawall_sim::{Outcome, Plan, draw, exhaustive, run, shrink, tell};

use crate::Arguments;

/// Totals of all runs.
#[derive(Debug, Default)]
struct Sum {
    /// The first seed.
    from: u64,
    runs: u64,
    outcome: Outcome,
    findings: Vec<Finding>,
}

#[derive(Debug)]
struct Finding {
    plan: Plan,
    what: String,
}

/// Runs what the arguments request; returns whether nothing was found.
pub(crate) fn run_requested(arguments: &Arguments) -> io::Result<bool> {
    let clock = SystemClock::new();
    let today = clock.wall_us() / DAY_US * SEEDS_A_DAY;
    let mut sum =
        Sum { from: arguments.seed.or(arguments.from).unwrap_or(today), ..Sum::default() };
    if let Some(text) = &arguments.plan {
        return told(text);
    }
    if let Some(groups) = arguments.exhaustive {
        let found = exhaustive(groups, |states| progress(&format!("{states} states")));
        sum.runs = found.states;
        sum.outcome.steps = found.steps;
        sum.findings.extend(found.finding.map(|(plan, what)| Finding { plan, what }));
    } else {
        let seconds = arguments.seconds.map(Duration::from_secs);
        seeds(arguments, seconds, (&clock, &mut sum));
    }
    progress("");
    report(arguments, &sum, clock.now())?;
    Ok(sum.findings.is_empty())
}

fn seeds(arguments: &Arguments, seconds: Option<Duration>, (clock, sum): (&SystemClock, &mut Sum)) {
    for seed in sum.from.. {
        let plan = draw(seed);
        let outcome = run(&plan);
        sum.add(&outcome);
        if arguments.seed.is_some() && run(&plan) != outcome {
            let what = "the same seed does not do the same".to_owned();
            sum.findings.push(Finding { plan: plan.clone(), what });
        }
        if let Some(what) = outcome.finding {
            progress("making it smaller ...");
            let runs = if arguments.no_shrink { 0 } else { SHRINKING_RUNS };
            let (plan, what) = shrink(&plan, &what, runs);
            sum.findings.push(Finding { plan, what });
        }
        let time = clock.now();
        if sum.runs.is_multiple_of(16) {
            progress(&format!("seed {seed}, {}", sum.figures(time)));
        }
        let found = !sum.findings.is_empty() && !arguments.keep_going;
        if found || seconds.is_none_or(|seconds| time >= seconds) {
            return;
        }
    }
}

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// The distance of the first seeds of two days, more than the seeds of an hour.
const SEEDS_A_DAY: u64 = 1_000_000;

const SHRINKING_RUNS: u32 = 3_000;

fn told(text: &str) -> io::Result<bool> {
    let plan: Plan = text.parse().map_err(io::Error::other)?;
    let (outcome, story) = tell(&plan);
    let mut out = io::stdout().lock();
    story.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{}", outcome.finding.as_deref().unwrap_or("nothing found"))?;
    Ok(outcome.finding.is_none())
}

/// Replaces the progress line, on a terminal only.
fn progress(line: &str) {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
    }
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.outcome.add(outcome);
    }

    /// Steps per second and per day.
    fn speed(&self, time: Duration) -> (u64, u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let second = self.outcome.steps.saturating_mul(1_000_000) / micros;
        (second, second * 86_400)
    }

    fn figures(&self, time: Duration) -> String {
        let (second, day) = self.speed(time);
        let Outcome {
            steps,
            records,
            probes,
            mends,
            faults,
            reused,
            named_ahead,
            failovers,
            overlapped,
            compressed,
            encrypted,
            ..
        } = self.outcome;
        format!(
            "{} runs from seed {}, {records} records, {faults} faults, {probes} probes, \
             {mends} blocks mended, {reused} files used again, {named_ahead} segments named ahead, \
             {failovers} failovers, {overlapped} writes beside another, \
             {compressed} batches compressed, {encrypted} logs encrypted, \
             {steps} steps in {} s: {second} a second, {:.1e} a day",
            self.runs,
            self.from,
            time.as_secs(),
            as_float(day)
        )
    }
}

fn as_float(number: u64) -> f64 {
    number.to_string().parse().unwrap_or(f64::INFINITY)
}

fn report(arguments: &Arguments, sum: &Sum, time: Duration) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        return json(&mut out, sum, time);
    }
    for finding in &sum.findings {
        writeln!(out, "{}", as_test(finding))?;
    }
    writeln!(out, "{}", sum.figures(time))?;
    writeln!(out, "{} found", sum.findings.len())
}

/// Formats a finding as a test for `tests/found.rs`.
fn as_test(finding: &Finding) -> String {
    let Finding { plan, what } = finding;
    format!(
        "/// {what}\n#[test]\nfn found_by_seed_{:x}() {{\n    replay(\"{plan}\");\n}}\n",
        plan.seed
    )
}

fn json(out: &mut impl io::Write, sum: &Sum, time: Duration) -> io::Result<()> {
    let (second, day) = sum.speed(time);
    let Outcome { steps, records, probes, mends, faults, reused, .. } = sum.outcome;
    let Outcome { named_ahead, failovers, overlapped, compressed, encrypted, .. } = sum.outcome;
    let findings: Vec<String> = sum
        .findings
        .iter()
        .map(|Finding { plan, what }| {
            format!("{{\"plan\":{},\"what\":{}}}", quoted(&plan.to_string()), quoted(what))
        })
        .collect();
    writeln!(
        out,
        "{{\"schema\":\"seawall-sim.run/1\",\"from\":{},\"runs\":{},\"steps\":{steps},\
         \"records\":{records},\"faults\":{faults},\"probes\":{probes},\"mends\":{mends},\
         \"reused\":{reused},\"named_ahead\":{named_ahead},\"failovers\":{failovers},\
         \"overlapped\":{overlapped},\"compressed\":{compressed},\"encrypted\":{encrypted},\
         \"steps_per_s\":{second},\
         \"steps_per_day\":{day},\
         \"findings\":[{}]}}",
        sum.from,
        sum.runs,
        findings.join(",")
    )
}

/// Encodes a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
