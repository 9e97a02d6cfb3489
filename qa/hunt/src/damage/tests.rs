//! Checks that the judge notices broken promises and that no case breaks one.

use super::judge::{Truth, broken};
use super::look::{Opened, Reading, Seen};
use super::sample::numbers;
use super::{peers, rows, table};
use seawall::Lsn;
use seawall::damage::{Corruption, Damage, Lost};
use seawall::verify::Verdict;

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

fn lost(from: u64, to: u64) -> Lost {
    Lost::new(lsn(from), Lsn::new(to))
}

/// A reading with all records that were written.
fn whole() -> Reading {
    Reading { intact: numbers().collect(), ..Reading::default() }
}

fn without(range: Lost) -> Reading {
    let mut reading = whole();
    reading.intact.retain(|lsn| *lsn < range.from || range.to.is_some_and(|to| *lsn > to));
    reading.lost.push(range);
    reading
}

/// The results for a log without damage.
fn sound() -> Seen {
    Seen {
        verdict: Verdict::Clean,
        damage: vec![],
        mended: 0,
        tail: None,
        reader: whole(),
        open: Opened::Yes(whole()),
        strict: Opened::Yes(whole()),
    }
}

/// The results for a log that reports its lost records correctly.
fn honest(range: Lost) -> Seen {
    let mut damage = Damage::new(Corruption::Body);
    damage.lost = Some(range);
    Seen {
        verdict: Verdict::Lost,
        damage: vec![damage],
        reader: without(range),
        open: Opened::No(String::new()),
        strict: Opened::No(String::new()),
        ..sound()
    }
}

/// The results for a log with verdict `unsure` that opens without the records of `range`.
fn unsure(range: Lost) -> Seen {
    let reading = Reading { lost: vec![], ..without(range) };
    Seen {
        verdict: Verdict::Unsure,
        reader: reading.clone(),
        open: Opened::Yes(reading),
        strict: Opened::No(String::new()),
        ..sound()
    }
}

fn touched(range: Lost) -> Truth {
    let touched = (range.from.get()..=range.to.unwrap().get()).map(lsn).collect();
    Truth { touched, ..Truth::default() }
}

fn says(truth: &Truth, seen: &Seen, words: &str) {
    let found = broken(truth, seen);
    assert!(found.iter().any(|found| found.contains(words)), "{words}: {found:?}");
}

#[test]
fn an_honest_log_keeps_its_promises() {
    assert_eq!(broken(&Truth::default(), &sound()), Vec::<String>::new());
    assert_eq!(broken(&touched(lost(7, 9)), &honest(lost(7, 9))), Vec::<String>::new());
}

#[test]
fn wrong_content_is_broken_wherever_it_is_delivered() {
    let mut seen = sound();
    seen.reader.wrong.push(lsn(7));
    says(&Truth::default(), &seen, "record 7: delivered, and not what was written");
    let mut seen = sound();
    seen.strict = Opened::Yes(Reading { wrong: vec![lsn(7)], ..whole() });
    says(&Truth::default(), &seen, "record 7: not what was written after a strict open");
}

#[test]
fn a_missing_record_is_named_by_verify_and_by_the_reader() {
    let truth = touched(lost(7, 9));
    let mut seen = honest(lost(7, 9));
    seen.damage[0].lost = Some(lost(7, 8));
    says(&truth, &seen, "record 9: missing, and not named");
    let mut seen = honest(lost(7, 9));
    seen.reader.lost = vec![lost(8, 9)];
    says(&truth, &seen, "record 7: missing, and not named");
}

#[test]
fn an_intact_record_is_reached() {
    let seen = honest(lost(7, 2000));
    says(&touched(lost(7, 7)), &seen, "1993 records from 8 to 2000: intact, and not reached");
}

#[test]
fn only_the_window_is_excused_and_only_by_a_verdict_that_says_so() {
    let truth = Truth { window: [lsn(2000)].into(), ..touched(lost(1999, 2000)) };
    assert_eq!(broken(&truth, &unsure(lost(2000, 2000))), Vec::<String>::new());
    says(&truth, &unsure(lost(1999, 2000)), "record 1999: missing, and not named");
    let seen = Seen { verdict: Verdict::Clean, ..unsure(lost(2000, 2000)) };
    says(&truth, &seen, "record 2000: missing, and not named");
    let blind = Truth { is_blind: true, ..truth };
    assert_eq!(broken(&blind, &seen), Vec::<String>::new());
}

#[test]
fn an_open_refuses_a_log_that_lacks_records() {
    let truth = touched(lost(7, 7));
    let seen = Seen { open: Opened::Yes(without(lost(7, 7))), ..honest(lost(7, 7)) };
    says(&truth, &seen, "record 7: missing after an open");
    let seen = Seen { open: Opened::Yes(whole()), ..honest(lost(7, 7)) };
    says(&truth, &seen, "an open takes a log of which records are lost");
}

#[test]
fn a_log_with_a_torn_write_opens_and_continues() {
    let truth = Truth { must_open: true, ..touched(lost(2000, 2000)) };
    says(&truth, &honest(lost(2000, 2000)), "must not need help");
    let mut seen = sound();
    let troubles = vec!["opened, and does not go on: torn".to_owned()];
    seen.open = Opened::Yes(Reading { troubles, ..whole() });
    says(&truth, &seen, "does not go on");
}

#[test]
fn damage_that_parity_can_restore_is_restored() {
    let truth = Truth { must_mend: true, ..touched(lost(7, 9)) };
    assert_eq!(broken(&truth, &sound()), Vec::<String>::new());
    let seen = honest(lost(7, 9));
    says(&truth, &seen, "lost, and parity could mend it");
    says(&truth, &seen, "3 records from 7 to 9: missing, and parity has it");
    says(&truth, &seen, "an open must go on");
}

#[test]
fn a_reader_that_fails_in_another_way_is_told() {
    let mut seen = sound();
    seen.reader.troubles.push("the reader fails: closed".to_owned());
    says(&Truth::default(), &seen, "the reader fails");
}

#[test]
fn every_line_that_the_comparison_program_prints_is_a_row() {
    let printed = include_str!("../../../compare/damage.txt");
    assert_eq!(peers::measured().count() + 1, printed.lines().count());
}

/// Uses real logs on the real file system, and compares the output with docs/damage.md.
#[test]
fn no_damage_breaks_a_promise_and_the_document_holds_the_table() {
    let rows = rows().unwrap();
    let broken: Vec<_> = rows.iter().filter(|row| !row.broken.is_empty()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let text = table::text(&rows);
    let long: Vec<_> = text.lines().filter(|line| line.len() > 100).collect();
    assert!(long.is_empty(), "{long:#?}");
    let document = include_str!("../../../../docs/damage.md");
    let news: Vec<_> = text.lines().filter(|line| !document.contains(line)).collect();
    assert!(document.contains(&text), "`seawall-hunt damage` prints other lines: {news:#?}");
}
