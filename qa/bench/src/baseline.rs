//! Compares the results of this build with those of an earlier one.
//!
//! Rates of two runs are not comparable: the disk's speed changes by half within a second, and the
//! machine's from day to day. So each run measures ratios to the plain way of its own slices, and
//! these are compared. Two ratios differ if the middle halves of their slices do not overlap;
//! otherwise they are the same.

use crate::place::{Place, read_text};
use seawall_measure::contest::Verdict;
use seawall_measure::human::times;
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

/// The speed of an entry relative to the first entry of its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of all slices.
    pub median: f64,
    /// The lower and upper quartile of the slices.
    pub quartiles: [f64; 2],
    /// Whether the measurement was quiet enough to draw conclusions.
    pub is_ranked: bool,
}

/// The ratio of a way in an earlier build and in this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The ratio in the earlier build.
    pub then: Ratio,
    /// The ratio in this build.
    pub now: Ratio,
}

impl Change {
    /// The current median divided by the earlier one.
    #[must_use]
    pub fn times(&self) -> f64 {
        self.now.median / self.then.median.max(1e-9)
    }

    /// The conclusion: faster, slower, the same, or not ranked.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Self { then, now } = self;
        let ([then_low, then_high], [now_low, now_high]) = (then.quartiles, now.quartiles);
        if !then.is_ranked || !now.is_ranked {
            Verdict::NotRanked
        } else if now_low > then_high {
            Verdict::Faster
        } else if now_high < then_low {
            Verdict::Slower
        } else {
            Verdict::Same
        }
    }

    /// The earlier ratio and the change, as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        json!({
            "ratio": self.then.median,
            "ratio_quartiles": self.then.quartiles,
            "now_to_then": self.times(),
            "verdict": self.verdict().name(),
        })
    }

    /// Table cells: the earlier ratio, the current ratio, the change and the verdict.
    #[must_use]
    pub fn cells(&self) -> [String; 4] {
        let [then, now, change] = [self.then.median, self.now.median, self.times()].map(times);
        [then, now, change, self.verdict().name().to_owned()]
    }
}

/// Adds `change` to a `row` of the JSON result, if there is one.
pub fn add(row: &mut Value, change: Option<&Change>) {
    if let (Some(members), Some(change)) = (row.as_object_mut(), change) {
        members.insert("baseline".to_owned(), change.as_json());
    }
}

/// The headers of the columns of [`Change::cells`].
pub const COLUMNS: [&str; 4] = ["then", "now", "now/then", ""];

/// Formats the changes of some ways as a text table. New ways have no change and no line. Returns
/// no lines if there is nothing to compare.
#[must_use]
pub fn lines<'a>(ways: impl Iterator<Item = (impl AsRef<str>, &'a Change)>) -> Vec<String> {
    let line = |name: &str, [then, now, change, verdict]: [&str; 4]| {
        let line = format!("  {name:<22}{then:>9}{now:>9}{change:>10}  {verdict}");
        line.trim_end().to_owned()
    };
    let mut rows = vec![];
    for (name, change) in ways {
        rows.push(line(name.as_ref(), change.cells().each_ref().map(String::as_str)));
    }
    if !rows.is_empty() {
        rows.insert(0, line("beside the baseline", COLUMNS));
    }
    rows
}

/// The result of an earlier build, as its `--json` printed it.
#[derive(Clone, Debug)]
pub struct Baseline {
    answer: Value,
}

/// The reason why a file cannot serve as a baseline.
#[derive(Debug)]
pub enum Unfit {
    /// The file cannot be read.
    Io(io::Error),
    /// The file does not match this run; the text says how.
    Other(String),
}

impl Display for Unfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the baseline: {error}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unfit {}

impl Baseline {
    /// Reads the baseline at `path`. It must contain each field of `settings` with the same value.
    ///
    /// # Errors
    ///
    /// [`Unfit::Io`] if the file cannot be read. [`Unfit::Other`] if it is not JSON, or names the
    /// first field that differs.
    pub fn read(path: &Path, settings: &[(&str, Value)]) -> Result<Self, Unfit> {
        let text = Place::of(path).and_then(|place| read_text(&place)).map_err(Unfit::Io)?;
        Self::parse(&text, settings)
    }

    /// Parses a baseline. It must contain each field of `settings` with the same value.
    ///
    /// # Errors
    ///
    /// [`Unfit::Other`] if the text is not JSON, or names the first field that differs.
    pub fn parse(text: &str, settings: &[(&str, Value)]) -> Result<Self, Unfit> {
        let answer: Value = serde_json::from_str(text)
            .map_err(|error| Unfit::Other(format!("this baseline is not JSON: {error}")))?;
        for (field, now) in settings {
            let then = answer.get(field).unwrap_or(&Value::Null);
            if then != now {
                let why = format!("this baseline has `{field}` {then}, and this run {now}");
                return Err(Unfit::Other(why));
            }
        }
        Ok(Self { answer })
    }

    /// Whether the run of the baseline was ranked.
    #[must_use]
    pub fn is_ranked(&self) -> bool {
        self.answer.get("ranked") == Some(&Value::Bool(true))
    }

    /// Returns the rows of the contest with this name and question.
    ///
    /// # Errors
    ///
    /// [`Unfit::Other`] if the baseline has no such contest.
    pub fn contest(&self, name: &str, asks: &str) -> Result<&[Value], Unfit> {
        let is_it = |value: &Value| {
            value.get("name").is_some_and(|found| found == name)
                && value.get("asks").is_some_and(|found| found == asks)
        };
        let found = find(&self.answer, &is_it).and_then(|found| found.get("rows")?.as_array());
        let why = || Unfit::Other(format!("this baseline does not have `{name}`, {asks}"));
        found.map(Vec::as_slice).ok_or_else(why)
    }

    /// Returns the result in which `field` is `number`.
    ///
    /// # Errors
    ///
    /// [`Unfit::Other`] if the baseline has no such result.
    pub fn result(&self, field: &str, number: usize) -> Result<&Value, Unfit> {
        let results = self.answer.get("results").and_then(Value::as_array);
        let is_it = |value: &&Value| value.get(field) == Some(&json!(number));
        let found = results.and_then(|results| results.iter().find(is_it));
        found.ok_or_else(|| {
            Unfit::Other(format!("this baseline has no result with {number} {field}"))
        })
    }

    /// Reads the ratio called `name` from a row. `None` if the row does not have it.
    #[must_use]
    pub fn ratio(&self, row: &Value, name: &str) -> Option<Ratio> {
        let quartiles = row.get(format!("{name}_quartiles"))?;
        let quartile = |place: usize| quartiles.get(place)?.as_f64();
        let verdict = row.get("verdict").and_then(Value::as_str);
        let is_unsure =
            verdict.is_some_and(|verdict| Verdict::of(verdict).is_none_or(Verdict::is_unsure));
        Some(Ratio {
            median: row.get(name)?.as_f64()?,
            quartiles: [quartile(0)?, quartile(1)?],
            is_ranked: self.is_ranked() && !is_unsure,
        })
    }
}

/// Searches `value`, including itself, depth-first for the first value that satisfies `is_it`.
fn find<'a>(value: &'a Value, is_it: &dyn Fn(&Value) -> bool) -> Option<&'a Value> {
    if is_it(value) {
        return Some(value);
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| find(item, is_it)),
        Value::Object(members) => members.values().find_map(|member| find(member, is_it)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(median: f64) -> Ratio {
        Ratio { median, quartiles: [median * 0.9, median * 1.1], is_ranked: true }
    }

    #[test]
    fn what_differs_by_less_than_both_spread_is_the_same() {
        let verdict = |then: f64, now: f64| Change { then: ratio(then), now: ratio(now) }.verdict();
        assert_eq!(verdict(1.0, 1.15), Verdict::Same);
        assert_eq!(verdict(1.0, 0.85), Verdict::Same);
        assert_eq!(verdict(1.0, 1.3), Verdict::Faster);
        assert_eq!(verdict(1.3, 1.0), Verdict::Slower);
        let unranked = Ratio { is_ranked: false, ..ratio(1.0) };
        for change in
            [Change { then: unranked, now: ratio(2.0) }, Change { then: ratio(2.0), now: unranked }]
        {
            assert_eq!(change.verdict(), Verdict::NotRanked);
        }
        let change = Change { then: ratio(2.0), now: ratio(3.0) };
        assert_eq!(change.cells(), ["2.00x", "3.00x", "1.50x", "faster"]);
        let said = lines([("a way".to_owned(), &change)].into_iter());
        assert_eq!(said.len(), 2);
        assert!(said[1].ends_with("2.00x    3.00x     1.50x  faster"), "{said:?}");
        assert_eq!(lines(std::iter::empty::<(&str, &Change)>()), [""; 0]);
    }

    const ANSWER: &str = r#"{"schema":"seawall.bench-x/1","record_bytes":116,"ranked":true,
        "results":[{"writers":8,"contest":{"name":"x","asks":"what","rows":[
            {"name":"a","ratio":2.0,"ratio_quartiles":[1.9,2.1],"verdict":"faster"},
            {"name":"b","ratio":1.0,"ratio_quartiles":[0.5,2.1],"verdict":"too noisy"}]}}]}"#;

    #[test]
    fn rows_of_a_baseline_are_found_and_other_settings_are_refused() {
        let settings = [("schema", json!("seawall.bench-x/1")), ("record_bytes", json!(116))];
        let baseline = Baseline::parse(ANSWER, &settings).unwrap();
        let rows = baseline.contest("x", "what").unwrap();
        let [a, b] = [0, 1].map(|place| baseline.ratio(&rows[place], "ratio").unwrap());
        assert_eq!(a, Ratio { median: 2.0, quartiles: [1.9, 2.1], is_ranked: true });
        assert!(!b.is_ranked);
        assert_eq!(baseline.ratio(&rows[0], "raw_ratio"), None);
        assert_eq!(baseline.result("writers", 8).unwrap()["writers"], 8);
        let said = |unfit: Result<(), Unfit>| unfit.unwrap_err().to_string();
        assert!(said(baseline.result("writers", 9).map(drop)).contains("no result with 9 writers"));
        assert!(said(baseline.contest("x", "other").map(drop)).contains("`x`, other"));
        let other = Baseline::parse(ANSWER, &[("record_bytes", json!(256))]).map(drop);
        assert_eq!(said(other), "this baseline has `record_bytes` 116, and this run 256");
        let other = Baseline::parse(ANSWER, &[("level", json!("synced"))]).map(drop);
        assert_eq!(said(other), "this baseline has `level` null, and this run \"synced\"");
        assert!(said(Baseline::parse("nonsense", &[]).map(drop)).contains("not JSON"));
    }
}
