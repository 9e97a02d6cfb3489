//! Tests of ranking entries that are measured in alternating slices.

use super::*;
use serde_json::json;

const QUIET: [f64; 12] = [1.0, 0.98, 1.02, 1.01, 0.99, 1.0, 1.03, 0.97, 1.0, 1.01, 0.99, 1.0];

#[test]
fn difference_below_the_noise_counts_as_the_same() {
    assert_eq!(verdict(&QUIET, &QUIET), Verdict::Same);
    assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.01), &QUIET), Verdict::Same);
    assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &QUIET), Verdict::Faster);
    assert_eq!(verdict(&QUIET.map(|ratio| ratio * 0.7), &QUIET), Verdict::Slower);
}

#[test]
fn nothing_is_ranked_when_the_first_entry_differs_from_itself() {
    let wild: Vec<f64> = (0..12).map(|n| if n % 2 == 0 { 0.5 } else { 1.5 }).collect();
    assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &wild), Verdict::TooNoisy);
    // A single disturbed round does not matter.
    let mut once = QUIET;
    once[3] = 0.1;
    assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &once), Verdict::Faster);
}

#[test]
fn entries_get_equal_turns_and_the_first_gets_two() {
    use std::cell::Cell;
    use std::rc::Rc;
    let turns = Rc::new([const { Cell::new(0_u32) }; 3]);
    let entry = |place: usize| {
        let turns = turns.clone();
        let act = move |_| {
            turns[place].set(turns[place].get() + 1);
            Ok::<_, ()>(Slice { per_second: [100.0, 200.0, 50.0][place], times: vec![1_000; 900] })
        };
        Entry::new(["one", "two", "half"][place], act)
    };
    let mut entries = [entry(0), entry(1), entry(2)];
    let standings = hold(&mut entries, Duration::from_millis(100)).unwrap();
    let rounds = standings.rounds;
    assert_eq!(turns.iter().map(Cell::get).collect::<Vec<_>>(), [2 * rounds, rounds, rounds]);
    let ratios: Vec<_> = standings.rows.iter().map(|row| row.ratio.median).collect();
    assert_eq!(ratios, [1.0, 2.0, 0.5]);
    let row = &standings.rows[1];
    assert_eq!((row.mean_us, row.p50_us, row.p99_us), (1.0, 1.0, 1.0));
    assert_eq!(row.p999_us, Some(1.0));
}

#[test]
fn shuffled_rounds_have_every_turn_in_changing_order() {
    let sorted = |mut order: Vec<usize>| {
        order.sort_unstable();
        order
    };
    let orders: Vec<_> = (0..20).map(|_| shuffled(11)).collect();
    assert!(orders.iter().all(|order| sorted(order.clone()) == (0..11).collect::<Vec<_>>()));
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");

    let turns = std::cell::RefCell::new(vec![]);
    let entry = |place: usize| {
        let act = |_| Ok::<_, ()>(Slice { per_second: 1.0, times: vec![1_000] });
        let turns = &turns;
        Entry::new(["one", "two"][place], move |time| {
            turns.borrow_mut().push(place);
            act(time)
        })
    };
    let mut told = vec![];
    let mut tell = |done, total| told.push((done, total));
    let time = Duration::from_millis(180);
    let standings = hold_shuffled(&mut [entry(0), entry(1)], time, time, &mut tell).unwrap();
    assert_eq!(standings.rounds, 12);
    assert_eq!(told, (0..12).map(|round| (round, 12)).collect::<Vec<_>>());
    let rounds = turns.into_inner();
    assert_eq!(rounds.len(), 36);
    assert!(rounds.chunks(3).all(|round| sorted(round.to_vec()) == [0, 0, 1]), "{rounds:?}");
}

/// Ranks three entries after twelve quiet rounds, while other programs used `share` of the
/// processors.
fn judged(share: Option<f64>) -> Contest {
    let done = |rate: f64| Done { rates: QUIET.map(|one| one * rate).into(), times: vec![1] };
    let ways = [("one", 100.0), ("two", 200.0), ("half", 50.0)];
    let ways = ways.map(|(name, rate)| (name.into(), done(rate))).into();
    let standings = judge(ways, &QUIET.map(|one| one * 100.0), (12, Others::of(share)));
    Contest { name: "test", asks: "what".to_owned(), standings }
}

#[test]
fn busy_machine_prevents_ranking_and_is_reported() {
    let verdicts = |contest: &Contest| -> Vec<_> {
        contest.standings.rows.iter().map(|row| row.verdict).collect()
    };
    let quiet = judged(Some(0.01));
    assert_eq!(verdicts(&quiet), [Verdict::First, Verdict::Faster, Verdict::Slower]);
    assert_eq!(quiet.lines().len(), 7);
    for share in [Some(0.3), None] {
        let busy = judged(share);
        assert_eq!(verdicts(&busy), [Verdict::First, Verdict::NotRanked, Verdict::NotRanked]);
        assert_eq!(busy.as_json()["rows"][1]["verdict"], "not ranked");
        assert_eq!(busy.as_json()["others_share"], json!(share));
        let why = busy.lines().pop().unwrap();
        assert!(why.contains(if share.is_some() { "used 30 %" } else { "unknown" }), "{why}");
    }
}
