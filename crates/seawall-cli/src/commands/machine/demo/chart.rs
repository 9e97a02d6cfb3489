//! The chart of the demo: commits per second by number of writers, log-log, as SVG.

use seawall_measure::pairs::Row;
use seawall_output::text::{rounded, to_f64, to_u64};

/// Edges of the plot area.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 400.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 280.0;

/// Draws two lines: durable commits of Seawall, and plain syncs.
pub(super) fn rates(rows: &[Row]) -> String {
    let writers: Vec<f64> = rows.iter().map(|row| to_f64(to_u64(row.writers))).collect();
    let ours: Vec<f64> = rows.iter().map(|row| row.commits_per_s).collect();
    let plain: Vec<f64> = rows.iter().map(|row| row.raw_per_s).collect();
    let x = Axis::over(&writers, [LEFT, RIGHT]);
    let y = Axis::over(&[ours.as_slice(), &plain].concat(), [BOTTOM, TOP]).whole();
    let ticks = writers.iter().map(|value| {
        let (at, text) = (x.place(*value), rounded(*value));
        format!(
            "<path d=\"M{at:.1} {TOP}V{BOTTOM}\" class=\"grid\"/>\
             <text x=\"{at:.1}\" y=\"298\" text-anchor=\"middle\">{text}</text>\n"
        )
    });
    let decades = y.decades().map(|value| {
        let (at, text) = (y.place(value), rounded(value));
        format!(
            "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" class=\"grid\"/>\
             <text x=\"74\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>\n",
            at + 4.0
        )
    });
    let points = |rates: &[f64]| -> String {
        let place = |(writers, rate): (&f64, &f64)| {
            format!("{:.1},{:.1} ", x.place(*writers), y.place(*rate))
        };
        writers.iter().zip(rates).map(place).collect()
    };
    include_str!("chart.svg")
        .replace("@ticks@\n", &ticks.chain(decades).collect::<String>())
        .replace("@ours@", points(&ours).trim_end())
        .replace("@plain@", points(&plain).trim_end())
}

/// A logarithmic axis.
struct Axis {
    /// Logarithms of the first and last value.
    ends: [f64; 2],
    /// Positions of the two ends on the page.
    places: [f64; 2],
}

impl Axis {
    /// Creates an axis from the lowest to the highest value.
    fn over(values: &[f64], places: [f64; 2]) -> Self {
        let logs = || values.iter().map(|value| value.max(1.0).log10());
        let (low, high) = (logs().fold(f64::MAX, f64::min), logs().fold(0.0, f64::max));
        Self { ends: [low, high.max(low + 0.1)], places }
    }

    /// Extends the axis to powers of ten.
    fn whole(self) -> Self {
        let [low, high] = self.ends;
        Self { ends: [low.floor(), high.ceil()], ..self }
    }

    /// The position of a value on the page.
    fn place(&self, value: f64) -> f64 {
        let ([low, high], [begin, end]) = (self.ends, self.places);
        begin + (value.max(1.0).log10() - low) / (high - low) * (end - begin)
    }

    /// The powers of ten on the axis.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let [low, high] = self.ends;
        let powers = std::iter::successors(Some(low.ceil()), |power| Some(power + 1.0));
        powers.take_while(move |power| *power <= high).map(|power| 10_f64.powf(power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_between_their_decades() {
        let y = Axis::over(&[200.0, 3_000.0], [BOTTOM, TOP]).whole();
        let rounds = |values: [f64; 3]| values.map(rounded);
        assert_eq!(y.decades().map(rounded).collect::<Vec<_>>(), ["100", "1,000", "10,000"]);
        let places = rounds([100.0, 1_000.0, 10_000.0].map(|rate| y.place(rate)));
        assert_eq!(places, ["280", "160", "40"]);
        let x = Axis::over(&[1.0, 8.0, 64.0], [LEFT, RIGHT]);
        assert_eq!(rounds([1.0, 8.0, 64.0].map(|writers| x.place(writers))), ["80", "240", "400"]);
        assert!(Axis::over(&[5.0], [LEFT, RIGHT]).place(5.0).is_finite());
    }
}
