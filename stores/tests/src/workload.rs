//! The operations that are replayed, and the content that they must produce.

use seawall_replay::{Change, Operation, Operators, TxId};
use seawall_testkit::Dice;
use std::collections::BTreeMap;

const TRANSACTIONS: u64 = 6_000;

/// Generates a log of concurrent transactions with one to four changes, which commit, abort or
/// never end, and of atomic transactions that drop a table and create it again.
pub(crate) fn operations(dice: &mut Dice) -> Vec<Operation> {
    let mut operations = vec![
        Change::create_table("sum", "numbers").into(),
        Change::create_table("mixed", "").into(),
        Change::create_table("remade", "").into(),
    ];
    let mut open: Vec<(TxId, u64)> = Vec::new();
    let mut begun = 0;
    while begun < TRANSACTIONS || !open.is_empty() {
        if begun < TRANSACTIONS && (open.len() < 5 || dice.one_in(3)) {
            begun += 1;
            let tx = TxId(begun);
            open.push((tx, 1 + dice.below(4)));
            operations.push(Operation::Begin(tx));
        }
        let at = usize::try_from(dice.below(u64::try_from(open.len()).unwrap())).unwrap();
        let (tx, left) = open[at];
        if left > 0 {
            open[at].1 -= 1;
            operations.push(Operation::Change(tx, change(dice)));
            continue;
        }
        open.remove(at);
        match dice.below(10) {
            0 => operations.push(Operation::Abort(tx)),
            // This transaction never ends. The first ones all end, because otherwise every replay
            // would start at their begins.
            1 if begun > TRANSACTIONS / 2 => {}
            _ => operations.push(Operation::Commit(tx)),
        }
        if dice.one_in(200) {
            operations.push(Operation::Atomic(table_anew(dice)));
        }
    }
    operations
}

fn change(dice: &mut Dice) -> Change {
    let (key, value) = (dice_number(dice.any()), (1 + dice.below(99)).to_le_bytes());
    let add = |table: &str| Change::merge(table, key, ("add", value));
    match dice.below(8) {
        0..4 => add("sum"),
        4 => add("mixed"),
        5 => Change::put("mixed", key, value),
        6 => Change::delete("mixed", key),
        _ => Change::put("", key, value),
    }
}

fn dice_number(number: u64) -> [u8; 8] {
    (number % 500).to_le_bytes()
}

/// Drops and recreates a table twice in one record, so that two tables get ids of the same record.
fn table_anew(dice: &mut Dice) -> Vec<Change> {
    let row = |key: u64| Change::merge("remade", dice_number(key), ("add", 1u64.to_le_bytes()));
    let remade =
        [Change::drop_table("remade"), Change::create_table("remade", dice_number(dice.any()))];
    let rows = [row(dice.any()), row(dice.any())];
    [&remade[..], &rows[..1], &remade[..], &rows[1..]].concat()
}

pub(crate) type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Computes the expected content after the replay.
pub(crate) fn expected(operations: &[Operation]) -> Content {
    let mut tables = Content::new();
    let mut open: BTreeMap<TxId, Vec<Change>> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::Begin(tx) => drop(open.insert(*tx, vec![])),
            Operation::Change(tx, change) => open.get_mut(tx).unwrap().push(change.clone()),
            Operation::Commit(tx) => apply(&mut tables, &open.remove(tx).unwrap()),
            Operation::Abort(tx) => drop(open.remove(tx)),
            Operation::Atomic(changes) => apply(&mut tables, changes),
            other => panic!("{other:?} is not made here"),
        }
    }
    tables
}

fn apply(tables: &mut Content, changes: &[Change]) {
    for change in changes {
        let rows = tables.entry(change.table().to_owned()).or_default();
        match change.clone() {
            Change::Put { key, value, .. } => drop(rows.insert(key, value)),
            Change::Delete { key, .. } => drop(rows.remove(&key)),
            Change::Merge { key, operator, operand, .. } => {
                let has = rows.get(&key).map(Vec::as_slice);
                let value = Operators::new().merge(&operator, has, &operand).unwrap();
                rows.insert(key, value);
            }
            _ => rows.clear(),
        }
    }
}
