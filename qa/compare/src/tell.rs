//! The results as text, JSON and page.

use crate::args::Compare;
use crate::compare::Compared;
use crate::peer::{Discipline, Kind};
use crate::peers::OURS;
use crate::race::{Raced, SET, Task};
use seawall_bench::chart::{Names, Series, log_log};
use seawall_bench::page::{self, escaped};
use seawall_measure::contest::{Row, Verdict};
use seawall_measure::human::{folded, number, rounded};
use serde_json::{Value, json};

/// Colours of the lines of a chart; the first is for Seawall.
const COLORS: [&str; 17] = [
    "#0b6e4f", "#b3541e", "#1f5fa8", "#5fa8d3", "#7a3e9d", "#8a94a0", "#c2185b", "#6d4c41",
    "#e0a100", "#444c56", "#2aa198", "#d33682", "#6c71c4", "#859900", "#00838f", "#9e9d24",
    "#ff7043",
];

/// The name of a log on the command line.
pub(crate) fn key(kind: &Kind) -> String {
    kind.name.replace(", ", "-").replace(' ', "-")
}

/// The list of the peers, as text or JSON.
pub(crate) fn list(kinds: &[&'static Kind], as_json: bool) -> Vec<String> {
    let peers = kinds.iter().filter(|kind| kind.name != OURS.name);
    if as_json {
        let peer = |kind: &&Kind| {
            json!({
                "peer": key(kind),
                "what": kind.what,
                "how": kind.how,
                "better": kind.better,
                "left_out": kind.lacks.iter().map(|(_, why)| why).collect::<Vec<_>>(),
            })
        };
        let peers: Vec<Value> = peers.map(peer).collect();
        return vec![json!({ "schema": "seawall-bench.list/1", "peers": peers }).to_string()];
    }
    let mut lines = vec![];
    for kind in peers {
        lines.push(format!("{:<24}{}", key(kind), kind.what));
        lines.push(format!("    here      {}", folded(kind.how, 14)));
        lines.push(format!("    better    {}", folded(kind.better, 14)));
        for (discipline, why) in kind.lacks {
            lines.push(format!("    not       {}: {why}", name(*discipline)));
        }
        lines.push(String::new());
    }
    lines.pop();
    lines
}

fn name(discipline: Discipline) -> &'static str {
    match discipline {
        Discipline::Synced => "synced",
        Discipline::Batches => "batches",
        Discipline::Buffered => "buffered",
        Discipline::Read => "read",
    }
}

/// The question that a table answers.
fn asks(task: Task) -> String {
    let threads = match task.writers {
        1 => "one thread".to_owned(),
        writers => format!("{writers} threads"),
    };
    match task.discipline {
        Discipline::Synced => format!("each record durable when its append returns, by {threads}"),
        Discipline::Batches => {
            format!("sets of {}, each set durable; times are of a set", number_of(SET))
        }
        Discipline::Buffered => "NOT durable when the append returns, by one thread".to_owned(),
        Discipline::Read => format!(
            "{} records read back and compared, from a warm cache; times are of 1,000",
            number_of(task.records)
        ),
    }
}

fn number_of(count: usize) -> String {
    number(u64::try_from(count).expect("fits in 64 bits"))
}

/// The lines before the first table.
pub(crate) fn head(args: &Compare) -> Vec<String> {
    let place = args.dir.display();
    let about = format!(
        "Records of {} bytes, everybody by turns, some {} s for a table; in {place}. The ratio is \
         seawall's rate beside that of the row, of the same rounds.",
        args.size, args.time
    );
    folded(&about, 0).lines().map(str::to_owned).collect()
}

/// The lines of one table.
pub(crate) fn table(raced: &Raced) -> Vec<String> {
    let standings = &raced.standings;
    let columns =
        format!("{:<29}{:>11}{:>10}{:>10}  seawall is", "", "records/s", "p50 us", "p99 us");
    let mut lines = vec![String::new(), asks(raced.task), columns];
    for row in &standings.rows {
        let times = format!("{:>10}{:>10}", rounded(row.p50_us), rounded(row.p99_us));
        let rate = rounded(row.per_second.median);
        let line = format!("  {:<27}{rate:>11}{times}  {}", row.name, beside(row));
        lines.push(line.trim_end().to_owned());
    }
    for (name, why) in &raced.failed {
        lines.push(format!("  {name:<27}FAILED: {why}"));
    }
    for (name, why) in &raced.left_out {
        lines.push(format!("  {name:<27}not asked: {why}"));
    }
    let (low, high) = (standings.noise.lowest, standings.noise.highest);
    let rounds = standings.rounds;
    lines.push(format!("  seawall beside itself: {low:.2}x to {high:.2}x, in {rounds} rounds"));
    lines.extend(standings.others.says().map(|says| format!("  {says}")));
    lines
}

/// The speed of Seawall relative to this row, while a row has the speed relative to Seawall.
fn ratio(row: &Row) -> [f64; 3] {
    let over = |value: f64| 1.0 / value.max(1e-9);
    [over(row.ratio.highest), over(row.ratio.median), over(row.ratio.lowest)]
}

fn beside(row: &Row) -> String {
    let word = word(row.verdict);
    let [_, ratio, _] = ratio(row);
    match row.verdict {
        Verdict::First => String::new(),
        _ if ratio >= 100.0 => format!("{}x  {word}", rounded(ratio)),
        _ => format!("{ratio:.2}x  {word}"),
    }
}

/// How Seawall compares with the row.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::First => "itself",
        Verdict::Same => "the same",
        Verdict::Faster => "behind",
        Verdict::Slower => "ahead",
        Verdict::TooNoisy => "too noisy to say",
        Verdict::NotRanked => "not ranked",
    }
}

/// The lines after the last table.
pub(crate) fn foot(compared: &Compared<'_>) -> Vec<String> {
    let mut lines = vec![];
    let says = compared.conditions().says();
    if !says.is_empty() {
        lines.push(String::new());
        lines.extend(says);
    }
    lines
}

/// The results as JSON.
pub(crate) fn as_json(compared: &Compared<'_>) -> Value {
    let (Compared { args, tables, .. }, conditions) = (compared, compared.conditions());
    json!({
        "schema": "seawall-bench.compare/1",
        "dir": args.dir.display().to_string(),
        "record_bytes": args.size,
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "tables": tables.iter().map(table_as_json).collect::<Vec<_>>(),
    })
}

fn table_as_json(raced: &Raced) -> Value {
    let absent = |(name, why): &(&str, String)| json!({ "peer": name, "why": why });
    let noise = raced.standings.noise;
    json!({
        "name": name(raced.task.discipline),
        "asks": asks(raced.task),
        "writers": raced.task.writers,
        "rounds": raced.standings.rounds,
        "noise": [noise.lowest, noise.median, noise.highest],
        "others_share": raced.standings.others.share(),
        "rows": raced.standings.rows.iter().map(row_as_json).collect::<Vec<_>>(),
        "failed": raced.failed.iter().map(absent).collect::<Vec<_>>(),
        "left_out": raced.left_out.iter().map(absent).collect::<Vec<_>>(),
    })
}

fn row_as_json(row: &Row) -> Value {
    let [lowest, median, highest] = ratio(row);
    json!({
        "peer": row.name,
        "per_s": row.per_second.median,
        "per_s_lowest": row.per_second.lowest,
        "per_s_highest": row.per_second.highest,
        "p50_us": row.p50_us,
        "p99_us": row.p99_us,
        "p999_us": row.p999_us,
        "seawall_ratio": median,
        "seawall_ratio_lowest": lowest,
        "seawall_ratio_highest": highest,
        "seawall_is": word(row.verdict),
    })
}

/// The results as a page: charts of the rates and of the latencies, every table, and the peers.
pub(crate) fn page(compared: &Compared<'_>) -> String {
    let mut body = vec!["<h1>Seawall beside other logs</h1>".to_owned()];
    body.push(format!("<p>{}</p>", escaped(&head(compared.args).join(" "))));
    let says = compared.conditions().says();
    if !says.is_empty() {
        body.push(format!("<p class=verdict>{}</p>", escaped(&says.join(" "))));
    }
    body.push(chart(compared, "Durable records a second", |row| row.per_second.median));
    body.push(chart(compared, "99 of 100 commits took less, in microseconds", |row| row.p99_us));
    for raced in &compared.tables {
        body.push(format!("<h2>{}</h2>", escaped(&asks(raced.task))));
        body.extend(html(raced));
    }
    body.push("<h2>What each does better</h2>\n<ul>".to_owned());
    for kind in compared.kinds.iter().filter(|kind| kind.name != OURS.name) {
        let Kind { name, what, how, better, .. } = kind;
        let [what, how, better] = [what, how, better].map(|text| escaped(text));
        body.push(format!("<li><b>{name}</b> ({what}): {better} Here: {how}.</li>"));
    }
    let version = env!("CARGO_PKG_VERSION");
    body.push(format!("</ul>\n<footer>seawall-compare {version}</footer>"));
    body.join("\n")
}

/// A chart over the number of writers; empty if there is only one.
fn chart(compared: &Compared<'_>, title: &str, value: fn(&Row) -> f64) -> String {
    let synced: Vec<&Raced> = compared
        .tables
        .iter()
        .filter(|raced| raced.task.discipline == Discipline::Synced)
        .collect();
    if synced.len() < 2 {
        return String::new();
    }
    let point = |name: &str, raced: &Raced| {
        let row = raced.standings.rows.iter().find(|row| row.name == name)?;
        let writers = u32::try_from(raced.task.writers).ok()?;
        Some((f64::from(writers), value(row))).filter(|(_, value)| *value > 0.0)
    };
    let line = |(kind, color): (&&'static Kind, &'static str)| Series {
        name: kind.name,
        color,
        points: synced.iter().filter_map(|raced| point(kind.name, raced)).collect(),
    };
    let series: Vec<Series<'_>> = compared.kinds.iter().zip(COLORS).map(line).collect();
    let series: Vec<Series<'_>> =
        series.into_iter().filter(|line| !line.points.is_empty()).collect();
    let names = Names { title, x: "threads that commit at the same time", y: "" };
    format!("<figure>{}</figure>", log_log(&names, &series))
}

fn html(raced: &Raced) -> Vec<String> {
    let head = ["", "records/s", "p50 us", "p99 us", "seawall is"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for row in &raced.standings.rows {
        let figures = [row.per_second.median, row.p50_us, row.p99_us].map(rounded);
        let mut cells = vec![row.name.to_string()];
        cells.extend(figures);
        cells.push(beside(row));
        rows.push(cells);
    }
    let failed = raced.failed.iter().map(|(name, why)| format!("{name} FAILED: {why}"));
    let left_out = raced.left_out.iter().map(|(name, why)| format!("{name} is left out: {why}"));
    let (noise, rounds) = (raced.standings.noise, raced.standings.rounds);
    let (low, high) = (noise.lowest, noise.highest);
    let noise = format!("Seawall beside itself: {low:.2}x to {high:.2}x, in {rounds} rounds.");
    let below = failed.chain(left_out).chain([noise]);
    let below = below.map(|line| format!("<p>{}</p>", escaped(&line)));
    std::iter::once(page::table(&rows)).chain(below).collect()
}
