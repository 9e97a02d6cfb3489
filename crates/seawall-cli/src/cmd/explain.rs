//! `seawall explain`: what an exit code or a word of `verify` means, and what to do about it.

use crate::args::Explain;
use crate::human::folded;
use crate::output::Output;
use crate::report::{Exit, Failure};
use serde_json::json;

/// What can be asked about.
#[derive(Debug)]
struct Topic {
    name: &'static str,
    kind: Kind,
    means: &'static str,
    next: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Verdict,
    Damage,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "exit code",
            Self::Verdict => "verdict",
            Self::Damage => "cause of damage",
        }
    }
}

/// Around records that are lost.
const RESCUE: &[&str] = &[
    "keep a copy of the log's directory as it is",
    "seawall repair LOG                    what is lost, and what can be done",
    "seawall repair LOG --salvage-to NEW   rescue the rest, with its numbers",
];
/// In a file of another program.
const CONVERT: &[&str] = &[
    "use what comes before it: the target has that",
    "another copy of the file may have the rest",
];
const REPORT: &[&str] = &["please report it with what was printed and the command"];
const NOTHING: &[&str] = &["nothing"];

const fn code(name: &'static str, means: &'static str, next: &'static [&'static str]) -> Topic {
    Topic { name, kind: Kind::Code, means, next }
}

const fn verdict(name: &'static str, means: &'static str, next: &'static [&'static str]) -> Topic {
    Topic { name, kind: Kind::Verdict, means, next }
}

const fn damage(name: &'static str, means: &'static str, next: &'static [&'static str]) -> Topic {
    Topic { name, kind: Kind::Damage, means, next }
}

const TOPICS: &[Topic] = &[
    code("0", "Success. An ordinary torn tail is success, too.", NOTHING),
    code(
        "1",
        "The system refused something: no such path, no room, no permission, a device that fails. \
         Reading before the oldest record of a truncated log exits so, too. It says nothing about \
         damage.",
        &["read the line that says `next`", "then try again: what was acknowledged is kept"],
    ),
    code(
        "2",
        "The command line is wrong, or uses something that this version does not have.",
        &["seawall VERB --help"],
    ),
    code(
        "3",
        "Ambiguous tail: bytes at the end of the log are an unfinished write that was never \
         acknowledged, or damage to the last records. With --strict: the tail is torn.",
        &[
            "seawall tail LOG      compare with what was acknowledged",
            "seawall append LOG    cuts it off, and keeps a copy in LOG/quarantine",
        ],
    ),
    code(
        "4",
        "The log is damaged, and every record can still be read: the damage hit none, or parity \
         restores what is damaged, for each reader again until a repair has written it.",
        &[
            "seawall verify LOG        what is damaged, and what parity put right",
            "seawall repair LOG        what can be done; changes nothing",
            "seawall repair LOG --yes  writes what parity restores",
            "replace the device: it changed bytes",
        ],
    ),
    code(
        "5",
        "The log is damaged, and the records that are named are lost. The target of `convert` \
         has everything before the damage.",
        RESCUE,
    ),
    code(
        "6",
        "Another process has the log open for writing; there is one writer at a time. Or it serves \
         the virtual disk.",
        &["wait until it has ended, or end it", "reading works beside it: cat, tail, verify, stat"],
    ),
    code(
        "7",
        "The key is wrong or missing, or the log was tampered with. No log of this version is \
         encrypted, so this version never ends so.",
        NOTHING,
    ),
    code(
        "8",
        "This is not a Seawall log, or a newer version wrote it; or it is not one of the formats \
         that `convert` knows, or not a virtual disk.",
        &["give the log's directory, not a file in it", "seawall --version"],
    ),
    code(
        "9",
        "The target exists with different content, and stays unchanged. Or the dump of a virtual \
         disk belongs to another image.",
        &["give another target, or move that one away"],
    ),
    code(
        "10",
        "The device or the set-up does not keep what it promised: what was synced is not durable. \
         It comes from `doctor`, which sees the set-up and not the device, and from `disk`: its \
         device failed, a dump was torn, or a deadline was missed.",
        &[
            "keep logs where `seawall doctor DIR` names nothing as broken",
            "seawall disk status IMG    what became of a virtual disk",
        ],
    ),
    code("101", "A bug in seawall, whatever the input was.", REPORT),
    code("129", "SIGHUP ended it, as 130 is the end by SIGINT: its terminal was closed.", NOTHING),
    code(
        "130",
        "SIGINT (Ctrl-C) ended it. `append` has appended all whole records that it had read, and \
         closed the log; `bench`, `demo` and `probe` have removed their files.",
        NOTHING,
    ),
    code(
        "141",
        "The reader of its output closed the pipe: `append --ack` stops then, as no one would \
         learn which records are durable. What it had acknowledged is kept.",
        &["seawall tail LOG      compare with what was sent, and send the rest again"],
    ),
    code("143", "SIGTERM ended it, as 130 is the end by SIGINT.", NOTHING),
    verdict("clean", "All records are there. Exit code 0.", NOTHING),
    verdict(
        "torn",
        "All records are there. At the end is part of a write that was never acknowledged, as a \
         crash leaves it. Exit code 0; 3 with --strict.",
        &["nothing: the next append cuts it off"],
    ),
    verdict(
        "unsure",
        "All records up to the end are there. What follows is part of a write that was \
         never acknowledged, or damage. Exit code 3.",
        &["seawall explain 3"],
    ),
    verdict(
        "correctable",
        "Something is damaged, and every record can still be read, from parity if need be. \
         Exit code 4.",
        &["seawall explain 4"],
    ),
    verdict("lost", "Records are lost; they are named. Exit code 5.", &["seawall explain 5"]),
    verdict("key", "The log cannot be read without its key. Exit code 7.", &["seawall explain 7"]),
    verdict("format", "This is not a log that can be read. Exit code 8.", &["seawall explain 8"]),
    damage("body", "Records fail their checksum: stored bytes changed.", RESCUE),
    damage(
        "header",
        "The header of a batch of records is unreadable; reading continues at the \
         next intact batch.",
        RESCUE,
    ),
    damage(
        "order",
        "Sound batches do not continue each other: one is missing, or an old one is in its place, \
         as after a write that the device lost.",
        RESCUE,
    ),
    damage(
        "cut-short",
        "A file ends before it should: it was cut, or copied in part; or a write to a file of \
         another program did not end.",
        &[
            "keep a copy of the log's directory as it is",
            "seawall repair LOG                    what is lost, and what can be done",
            "seawall repair LOG --salvage-to NEW   rescue the rest, with its numbers",
            "of a file to convert: use what comes before it, the target has that",
        ],
    ),
    damage("segment-header", "The header of a segment is unreadable.", RESCUE),
    damage(
        "misplaced",
        "The bytes here belong to another place in the log, which lacks them: a renamed file, or a \
         write that the device put elsewhere.",
        &["put the files back under their names, or from a copy", "seawall verify LOG"],
    ),
    damage(
        "duplicated",
        "The bytes here are a copy of another place in the log: a copied file, or a write that \
         the device put in two places.",
        &["remove a file that is a copy", "seawall verify LOG"],
    ),
    damage(
        "foreign-epoch",
        "The bytes here belong to another segment or another log.",
        &["put the right file back if there is one", "seawall repair LOG    what can be done"],
    ),
    damage(
        "unreadable",
        "The device cannot read it. The bytes are unknown, not wrong: another try, or another \
         device below, may read them.",
        &["look for errors of this device in the kernel log (dmesg)", "seawall repair LOG"],
    ),
    damage(
        "line",
        "A line of the log is missing or changed: it was edited, or stored \
         bytes changed. White space and the order of fields may change, values may not.",
        RESCUE,
    ),
    damage(
        "text-missing",
        "The head of a segment is there, its text is not: a .jsonl file was removed or renamed.",
        &["put the file back if it was moved", "seawall verify LOG"],
    ),
    damage(
        "segment-missing",
        "A segment that the log needs is not there.",
        &["put the file back if it was moved", "seawall verify LOG"],
    ),
    damage(
        "segment-replaced",
        "Another file has replaced a segment, for example one from an older copy of the log.",
        &["put the right file back if there is one", "seawall verify LOG"],
    ),
    damage(
        "manifest",
        "No slot of the manifest is readable. The records may all be there.",
        RESCUE,
    ),
    damage(
        "given-up",
        "A repair gave up these records, which were lost: their numbers stay taken, and nothing is \
         wrong with the log any more.",
        &["seawall verify LOG    which records were given up"],
    ),
    damage(
        "checksum",
        "An entry of a file to convert is not the one that its checksum was made of: stored bytes \
         changed, or what is left of a longer log follows a shorter one that was written over it.",
        CONVERT,
    ),
    damage(
        "length",
        "An entry of a file to convert claims more bytes than any entry has.",
        CONVERT,
    ),
    damage(
        "syntax",
        "The bytes in a file to convert are not of its format: changed bytes, the rest of a longer \
         log, or another format.",
        CONVERT,
    ),
    damage(
        "zeros",
        "Zeros in a cwal log that could pass for empty entries, and nothing valid after them: \
         bytes that were never written.",
        CONVERT,
    ),
];

/// Where the text after `next: ` of an error begins.
const INDENT: usize = 8;

/// Says what there is to say about a topic.
pub(crate) fn run(args: &Explain) -> Exit {
    let asked = args.topic.to_ascii_lowercase();
    let Some(topic) = TOPICS.iter().find(|topic| topic.name == asked) else {
        let failure =
            Failure::new(Exit::Usage, "there is no such exit code, verdict or cause of damage");
        let (codes, words) = (names(|kind| kind == Kind::Code), names(|kind| kind != Kind::Code));
        let words = folded(&format!("or of {words}"), INDENT);
        let next = format!("one of {codes},\n{:INDENT$}{words}", "");
        failure.at(format!("seawall explain {}", args.topic)).next(next).tell();
        return Exit::Usage;
    };
    let mut out = Output::new();
    if args.look.json {
        out.line(&as_json(topic).to_string());
    } else {
        tell(&mut out, topic);
    }
    out.finish()
}

fn as_json(topic: &Topic) -> serde_json::Value {
    json!({
        "schema": "seawall.explain/1",
        "topic": topic.name,
        "kind": topic.kind.name(),
        "means": topic.means,
        "next": topic.next,
    })
}

fn tell(out: &mut Output, topic: &Topic) {
    out.line(&format!("{} {}", topic.kind.name(), topic.name));
    let mut line = String::from(" ");
    for word in topic.means.split(' ') {
        if line.len() + 1 + word.len() > 78 {
            out.line(&line);
            line = String::from(" ");
        }
        line = format!("{line} {word}");
    }
    out.line(&line);
    for (step, start) in
        topic.next.iter().zip(std::iter::once("next: ").chain(std::iter::repeat("      ")))
    {
        out.line(&format!("{start}{step}"));
    }
}

fn names(wanted: impl Fn(Kind) -> bool) -> String {
    let names = TOPICS.iter().filter(|topic| wanted(topic.kind)).map(|topic| topic.name);
    names.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::damage::Corruption;
    use seawall::verify::Verdict;
    use seawall_foreign as foreign;

    #[test]
    fn every_code_verdict_and_cause_that_the_program_says_is_explained() {
        let explained = |name: &str, kind| {
            let found: Vec<_> = TOPICS.iter().filter(|topic| topic.name == name).collect();
            assert!(matches!(found[..], [topic] if topic.kind == kind), "{name}");
        };
        for code in (0..=10).chain([101, 129, 130, 141, 143]) {
            explained(&code.to_string(), Kind::Code);
        }
        for verdict in
            [Verdict::Clean, Verdict::Torn, Verdict::Unsure, Verdict::Correctable, Verdict::Lost]
        {
            explained(verdict.name(), Kind::Verdict);
        }
        for cause in [foreign::CHECKSUM, foreign::LENGTH, foreign::SYNTAX, foreign::ZEROS] {
            explained(cause, Kind::Damage);
        }
        for cause in [
            Corruption::Body,
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
            Corruption::GivenUp,
        ] {
            explained(cause.name(), Kind::Damage);
        }
    }

    #[test]
    fn nobody_is_left_without_a_next_step() {
        assert!(TOPICS.iter().all(|topic| !topic.next.is_empty() && topic.means.ends_with('.')));
    }
}
