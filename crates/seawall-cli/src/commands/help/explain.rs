//! `seawall explain`: what an exit code or a word of `verify` means, and what to do about it.

use crate::args::Explain;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::folded;
use seawall_output::width::fitted;
use serde::Serialize;

/// A topic, its meaning, and what to do.
#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "seawall.explain/1")]
struct Topic {
    #[serde(rename = "topic")]
    name: &'static str,
    /// `exit code`, `verdict` or `cause of damage`.
    kind: &'static str,
    means: String,
    next: Vec<&'static str>,
}

const CODE: &str = "exit code";

/// Parses all topics. A block has a line with kind and name, then text, then steps after dashes.
fn topics() -> impl Iterator<Item = Topic> {
    include_str!("explain.txt").split("\n\n").map(|block| {
        let (head, text) = block.split_once('\n').unwrap_or((block, ""));
        let (kind, name) = head.rsplit_once(' ').unwrap_or(("", head));
        let means = text.lines().filter(|line| !line.starts_with("- "));
        let next = text.lines().filter_map(|line| line.strip_prefix("- "));
        Topic { name, kind, means: means.collect::<Vec<_>>().join(" "), next: next.collect() }
    })
}

/// The column of the text after `next: ` in an error.
const INDENT: usize = 8;

/// Prints what a topic means and what to do.
pub(crate) fn run(args: &Explain) -> Exit {
    let asked = args.topic.to_ascii_lowercase();
    let Some(topic) = topics().find(|topic| topic.name == asked) else {
        let failure = Failure::new(Exit::Usage, "no such exit code, verdict or cause of damage");
        let (codes, words) = (names(|kind| kind == CODE), names(|kind| kind != CODE));
        let words = folded(&format!("or of {words}"), INDENT);
        let next = format!("one of {codes},\n{:INDENT$}{words}", "");
        return failure.at(format!("seawall explain {}", args.topic)).next(next).tell();
    };
    let mut out = Output::lock();
    if args.look.json {
        out.json(&topic);
    } else {
        tell(&mut out, &topic);
    }
    out.finish()
}

fn tell(out: &mut Output, topic: &Topic) {
    out.line(&format!("{} {}", topic.kind, topic.name));
    out.line(&fitted(&format!("  {}", topic.means), out.columns().min(78)));
    for (step, start) in
        topic.next.iter().zip(std::iter::once("next: ").chain(std::iter::repeat("      ")))
    {
        out.line(&format!("{start}{step}"));
    }
}

fn names(wanted: impl Fn(&str) -> bool) -> String {
    let names = topics().filter(|topic| wanted(topic.kind)).map(|topic| topic.name);
    names.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::damage::{ChangedPart, Corruption};
    use seawall::verify::Verdict;
    use seawall_foreign as foreign;

    #[test]
    fn every_code_verdict_and_cause_is_explained() {
        let explained = |name: &str, kind| {
            let found: Vec<_> = topics().filter(|topic| topic.name == name).collect();
            assert!(matches!(&found[..], [topic] if topic.kind == kind), "{name}");
        };
        for code in (0..=10).chain([101, 129, 130, 141, 143]) {
            explained(&code.to_string(), CODE);
        }
        for verdict in
            [Verdict::Clean, Verdict::Torn, Verdict::Unsure, Verdict::Correctable, Verdict::Lost]
        {
            explained(verdict.name(), "verdict");
        }
        for cause in [foreign::CHECKSUM, foreign::LENGTH, foreign::SYNTAX, foreign::ZEROS] {
            explained(cause, "cause of damage");
        }
        for cause in [
            Corruption::Body,
            Corruption::Encoding,
            Corruption::Header,
            Corruption::Order,
            Corruption::CutShort,
            Corruption::SegmentHeader,
            Corruption::Misplaced,
            Corruption::Duplicated,
            Corruption::ForeignEpoch,
            Corruption::Unreadable,
            Corruption::Line,
            Corruption::TextMissing,
            Corruption::SegmentMissing,
            Corruption::SegmentReplaced,
            Corruption::Manifest,
            Corruption::Keys,
            Corruption::GivenUp,
        ] {
            explained(cause.name(), "cause of damage");
        }
        for part in [
            ChangedPart::Length,
            ChangedPart::Payload,
            ChangedPart::Checksum,
            ChangedPart::NotJson,
            ChangedPart::Members,
            ChangedPart::Value,
        ] {
            explained(part.name(), "cause of damage");
        }
    }

    #[test]
    fn every_topic_has_a_next_step() {
        assert!(topics().all(|topic| !topic.next.is_empty() && topic.means.ends_with('.')));
    }
}
