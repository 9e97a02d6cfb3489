//! Answers as Prometheus metrics.

use serde_json::Value;
use std::fmt::Write as _;

/// The metrics of one kind of answer.
#[derive(Clone, Copy, Debug)]
pub struct MetricList {
    /// The prefix of all metric names.
    pub prefix: &'static str,
    /// The label that says what was measured: its name, and the pointer to its value in the answer.
    pub label: (&'static str, &'static str),
    /// One metric per line: a JSON pointer into the answer, a name, and a help text. A name that
    /// ends in `_total` is a counter; values of pointers that end in `ms` are converted to seconds.
    /// A string becomes the value of a label with the metric's name.
    pub lines: &'static str,
}

impl MetricList {
    /// Formats an answer for Prometheus. Unknown values are omitted.
    pub fn render(&self, answer: &Value) -> String {
        let mut text = String::new();
        let (label, pointer) = self.label;
        let subject = answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let subject = format!("{label}=\"{}\"", escaped(subject));
        for line in self.lines.lines() {
            let mut words = line.splitn(3, ' ').map(str::trim);
            let mut word = || words.next().unwrap_or_default();
            let (pointer, name, help) = (word(), word(), word());
            let scale = if pointer.ends_with("ms") { 0.001 } else { 1.0 };
            let mut labels = subject.clone();
            let value = match answer.pointer(pointer) {
                Some(Value::Bool(is_so)) => f64::from(u8::from(*is_so)),
                Some(Value::Number(number)) => number.as_f64().unwrap_or_default() * scale,
                Some(Value::String(text)) => {
                    labels = format!("{subject},{name}=\"{}\"", escaped(text));
                    1.0
                }
                _ => continue,
            };
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let name = format!("{}_{name}", self.prefix);
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            // Prometheus accepts numbers in Rust's notation.
            writeln!(text, "{head}{name}{{{labels}}} {value}").expect("a string takes all");
        }
        text
    }
}

/// Escapes text for use between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn known_values_are_shown_with_escaped_labels() {
        let list = MetricList {
            prefix: "seawall_x",
            label: ("image", "/image"),
            lines: "/armed armed Is it?\n/none none None.\n/dirty dirty_bytes Bytes.\n\
                    /inner/margin_ms margin_seconds Time.\n/writes writes_total Writes.\n\
                    /verdict verdict The verdict.\n",
        };
        let answer = json!({
            "image": "a\"b\\c\nd", "armed": true, "none": null, "dirty": 5,
            "inner": { "margin_ms": -1.5 }, "writes": 7, "verdict": "clean",
        });
        let text = list.render(&answer);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let at = r#"{image="a\"b\\c\nd"}"#;
        let with_verdict = at.replace('}', ",verdict=\"clean\"}");
        let expected = ["armed@ 1", "dirty_bytes@ 5", "margin_seconds@ -0.0015", "writes_total@ 7"];
        let expected = expected.map(|row| format!("seawall_x_{}", row.replace('@', at)));
        let verdict = format!("seawall_x_verdict{with_verdict} 1");
        assert_eq!(lines, [expected.to_vec(), vec![verdict]].concat());
        assert!(text.contains("# HELP seawall_x_armed Is it?\n# TYPE seawall_x_armed gauge\n"));
        assert!(text.contains("# TYPE seawall_x_writes_total counter\n"));
    }
}
