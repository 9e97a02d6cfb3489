//! Compares a contest with the same contest of an earlier build.

use crate::baseline::{self, Baseline, Change, Ratio, Unfit};
use seawall_measure::contest::{Contest, Row, Spread, Verdict};
use serde_json::Value;

/// A contest, and the change of each way since an earlier build.
#[derive(Debug)]
pub struct Compared {
    /// The contest of this build.
    pub contest: Contest,
    /// One entry per row; `None` if the earlier build does not have the way. Empty without an
    /// earlier build.
    changes: Vec<Option<Change>>,
}

impl From<Contest> for Compared {
    fn from(contest: Contest) -> Self {
        Self { contest, changes: vec![] }
    }
}

impl Compared {
    /// Compares each row with that of an earlier build. `is_ranked`: this run may be ranked.
    ///
    /// # Errors
    ///
    /// If the earlier build does not have this contest.
    pub fn compare(&mut self, baseline: &Baseline, is_ranked: bool) -> Result<(), Unfit> {
        let past = baseline.contest(self.contest.name, &self.contest.asks)?;
        let change = |row: &Row| {
            let then = past.iter().find(|past| past.get("name").is_some_and(|it| *it == *row.name));
            let then = then.filter(|_| row.verdict != Verdict::First);
            let then = then.and_then(|then| baseline.ratio(then, "ratio"))?;
            let Spread { median, quartiles, .. } = row.ratio;
            let now = Ratio { median, quartiles, is_ranked: is_ranked && !row.verdict.is_unsure() };
            Some(Change { then, now })
        };
        self.changes = self.contest.standings.rows.iter().map(change).collect();
        Ok(())
    }

    /// The ways that both builds have: their names and changes.
    pub fn changes(&self) -> impl Iterator<Item = (&str, &Change)> {
        let rows = self.contest.standings.rows.iter().zip(&self.changes);
        rows.filter_map(|(row, change)| Some((&*row.name, change.as_ref()?)))
    }

    /// The contest and the changes as text; the first line is empty.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.contest.lines();
        lines.extend(baseline::lines(self.changes()));
        lines
    }

    /// The contest and the changes as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let mut answer = self.contest.as_json();
        let rows = answer.get_mut("rows").and_then(Value::as_array_mut);
        for (row, change) in rows.into_iter().flatten().zip(&self.changes) {
            baseline::add(row, change.as_ref());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::contest::Standings;
    use seawall_measure::load::Others;
    use serde_json::json;

    /// A contest of three ways. Other programs used `share` of the processors; if that is too much,
    /// nothing is ranked.
    fn held(share: Option<f64>) -> Compared {
        let spread = |median: f64| {
            let quartiles = [median * 0.99, median * 1.01];
            Spread { median, lowest: quartiles[0], highest: quartiles[1], quartiles }
        };
        let ways = [("one", 1.0), ("two", 2.0), ("half", 0.5)];
        let verdicts = [Verdict::First, Verdict::Faster, Verdict::Slower];
        let row = |((name, ratio), verdict): ((&'static str, f64), Verdict)| Row {
            name: name.into(),
            per_second: spread(100.0 * ratio),
            mean_us: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            p999_us: None,
            ratio: spread(ratio),
            verdict,
        };
        let rows = ways.into_iter().zip(verdicts).map(row).collect();
        let (noise, others) = (spread(1.0), Others::of(share));
        let mut standings = Standings { rows, noise, rounds: 12, others };
        if !others.is_quiet() {
            standings.rank_nothing();
        }
        Contest { name: "test", asks: "what".to_owned(), standings }.into()
    }

    #[test]
    fn an_earlier_build_is_compared_row_by_row() {
        let mut now = held(Some(0.01));
        let mut answer = json!({ "ranked": true, "contest": held(Some(0.01)).as_json() });
        let half = &mut answer["contest"]["rows"][2];
        (half["ratio"], half["ratio_quartiles"]) = (json!(0.25), json!([0.24, 0.26]));
        let compare = |compared: &mut Compared, answer: &Value, is_ranked| -> Vec<_> {
            let baseline = Baseline::parse(&answer.to_string(), &[]).unwrap();
            compared.compare(&baseline, is_ranked).unwrap();
            compared.changes.iter().map(|change| change.map(|change| change.verdict())).collect()
        };
        let said = compare(&mut now, &answer, true);
        assert_eq!(said, [None, Some(Verdict::Same), Some(Verdict::Faster)]);
        assert_eq!(now.as_json()["rows"][2]["baseline"]["now_to_then"], 2.0);
        assert!(now.lines().pop().unwrap().ends_with("0.25x    0.50x     2.00x  faster"));
        let unranked = [None, Some(Verdict::NotRanked), Some(Verdict::NotRanked)];
        assert_eq!(compare(&mut now, &answer, false), unranked);
        assert_eq!(compare(&mut held(Some(0.5)), &answer, true), unranked);
        answer["ranked"] = json!(false);
        assert_eq!(compare(&mut now, &answer, true), unranked);
        answer["contest"]["asks"] = json!("other");
        let baseline = Baseline::parse(&answer.to_string(), &[]).unwrap();
        assert!(now.compare(&baseline, true).unwrap_err().to_string().contains("`test`, what"));
    }
}
