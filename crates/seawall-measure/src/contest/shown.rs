//! Formats the results of a contest as text and JSON.

use super::{Contest, Row, Spread, Standings, Verdict};
use crate::human::{rounded, times};
use serde_json::{Value, json};

impl Contest {
    /// Formats a table for people. The first line is empty.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Standings { rows, others, .. } = &self.standings;
        let head = format!(
            "{:<24}{:>11}{:>8}{:>8}{:>8}  against the first",
            "", "a second", "p50 us", "p99 us", "p99.9"
        );
        let mut lines = vec![String::new(), self.asks.clone(), head];
        lines.extend(rows.iter().map(Row::line));
        lines.push(self.standings.noise_line());
        lines.extend(others.says().map(|says| format!("  {says}")));
        lines
    }

    /// Formats the results as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let Standings { rows, noise, rounds, others } = &self.standings;
        json!({
            "name": self.name,
            "asks": self.asks,
            "rounds": rounds,
            "noise": [noise.lowest, noise.median, noise.highest],
            "others_share": others.share(),
            "rows": rows.iter().map(Row::as_json).collect::<Vec<_>>(),
        })
    }
}

impl Standings {
    pub(crate) fn noise_line(&self) -> String {
        let Spread { lowest, highest, .. } = self.noise;
        let rounds = self.rounds;
        format!("  the first against itself: {lowest:.2}x to {highest:.2}x, in {rounds} rounds")
    }
}

impl Row {
    fn line(&self) -> String {
        let rate = rounded(self.per_second.median);
        let p999 = self.p999_us.map_or("-".to_owned(), rounded);
        let times = format!("{:>8}{:>8}{:>8}", rounded(self.p50_us), rounded(self.p99_us), p999);
        let line = format!("  {:<22}{rate:>11}{times}  {}", self.name, self.beside());
        line.trim_end().to_owned()
    }

    fn beside(&self) -> String {
        match self.verdict {
            Verdict::First => String::new(),
            verdict => format!("{}  {}", times(self.ratio.median), verdict.name()),
        }
    }

    fn as_json(&self) -> Value {
        let Self { name, per_second, ratio, .. } = self;
        json!({
            "name": name,
            "per_s": per_second.median,
            "per_s_lowest": per_second.lowest,
            "per_s_highest": per_second.highest,
            "mean_us": self.mean_us,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "p999_us": self.p999_us,
            "ratio": ratio.median,
            "ratio_lowest": ratio.lowest,
            "ratio_highest": ratio.highest,
            "ratio_quartiles": ratio.quartiles,
            "verdict": self.verdict.name(),
        })
    }
}
