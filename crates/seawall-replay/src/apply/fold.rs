//! Folds changes into few writes: sorts them by table and key, evaluates merges, and keeps one
//! write per key.

use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::operation::Change;
use crate::store::Store;
use crate::store::write::{Edit, Write, is_same};
use seawall::Lsn;
use std::collections::{BTreeMap, BTreeSet};

/// The store and the merge operators, which folding needs.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) operators: &'a Operators,
}

/// Rows sorted by table and key. Rows of one key keep the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// The rows in log order.
    rows: Vec<Option<(Lsn, Change)>>,
    /// The sorted order.
    order: Vec<Sequel>,
}

/// A row's place in the sorted order.
#[derive(Clone, Copy, Debug)]
struct Sequel {
    /// The index of the row.
    at: usize,
    /// Whether the row before it has the same table and key.
    is_again: bool,
}

impl Sorted {
    /// Takes the rows in sorted order. The flag of a row tells whether the row before it has the
    /// same table and key.
    fn into_rows(self) -> impl Iterator<Item = (bool, Lsn, Change)> {
        let Self { mut rows, order } = self;
        order.into_iter().filter_map(move |Sequel { at, is_again }| {
            let (lsn, row) = rows.get_mut(at)?.take()?;
            Some((is_again, lsn, row))
        })
    }

    /// Returns whether a result depends on a value in the store.
    fn needs_store(&self) -> bool {
        self.rows.iter().flatten().any(|(_, row)| matches!(row, Change::Merge { .. }))
    }
}

/// Rows without table creations or drops, folded as far as possible without reading the store.
#[derive(Debug)]
pub(crate) enum Folding {
    /// Completely folded: one write for each key.
    Done(Vec<Write>),
    /// Some rows merge into a value of the store. That value is read when the batch is written.
    Sorted(Sorted),
}

impl Folding {
    /// Sorts the rows, and folds them if no value of the store is needed. May run on a different
    /// thread from the writer's.
    pub(crate) fn of(rows: Vec<(Lsn, Change)>, tools: Tools<'_>) -> Self {
        let sorted = sort(rows);
        if sorted.needs_store() {
            return Self::Sorted(sorted);
        }
        Self::Done(fold_sorted(sorted, tools).expect("nothing but a merge can fail"))
    }

    /// Finishes folding and returns the writes.
    pub(crate) fn finish(self, tools: Tools<'_>) -> Result<Vec<Write>> {
        match self {
            Self::Done(writes) => Ok(writes),
            Self::Sorted(rows) => fold_sorted(rows, tools),
        }
    }
}

fn fold_sorted(rows: Sorted, tools: Tools<'_>) -> Result<Vec<Write>> {
    let mut folded = Folded::new(tools);
    folded.rows(rows)?;
    Ok(folded.writes)
}

/// Folds `changes` into writes with the same result as applying the changes in order.
pub(crate) fn fold(changes: Vec<(Lsn, Change)>, tools: Tools<'_>) -> Result<Vec<Write>> {
    let mut folded = Folded::new(tools);
    let mut rows = Vec::with_capacity(changes.len());
    for (lsn, change) in changes {
        let (table, edit) = match change {
            Change::CreateTable { table, definition } => (table, Edit::Create { definition }),
            Change::DropTable { table } => (table, Edit::Drop),
            row => {
                rows.push((lsn, row));
                continue;
            }
        };
        // Rows before a table change are written before it.
        folded.rows(sort(std::mem::take(&mut rows)))?;
        folded.table(Write { lsn, table, edit });
    }
    folded.rows(sort(rows))?;
    Ok(folded.writes)
}

struct Folded<'a> {
    tools: Tools<'a>,
    writes: Vec<Write>,
    /// The number of writes up to the last table creation or drop.
    settled: usize,
    /// The values of the keys in those writes, by table. Does not contain rows that were dropped
    /// with their table.
    values: BTreeMap<String, BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    /// Tables dropped or created in this batch: their rows in the store no longer count.
    replaced: BTreeSet<String>,
}

impl<'a> Folded<'a> {
    fn new(tools: Tools<'a>) -> Self {
        let (values, replaced) = (BTreeMap::new(), BTreeSet::new());
        Self { tools, writes: Vec::new(), settled: 0, values, replaced }
    }

    fn table(&mut self, write: Write) {
        // Later rows must see the rows written so far. Earlier calls have added the others: a
        // second time would bring back rows of a table dropped since.
        for Write { table, edit, .. } in self.writes.iter().skip(self.settled) {
            let (key, value) = match edit {
                Edit::Put { key, value } => (key, Some(value.clone())),
                Edit::Delete { key } => (key, None),
                Edit::Create { .. } | Edit::Drop => continue,
            };
            self.values.entry(table.clone()).or_default().insert(key.clone(), value);
        }
        self.values.remove(&write.table);
        self.replaced.insert(write.table.clone());
        self.writes.push(write);
        self.settled = self.writes.len();
    }

    fn rows(&mut self, rows: Sorted) -> Result<()> {
        self.writes.reserve(rows.order.len());
        for (is_again, lsn, row) in rows.into_rows() {
            let before = self.writes.last().filter(|_| is_again);
            let shown = matches!(row, Change::Merge { .. }).then(|| row.to_string());
            let (table, edit) = match row {
                Change::Put { table, key, value } => (table, Edit::Put { key, value }),
                Change::Delete { table, key } => (table, Edit::Delete { key }),
                Change::Merge { table, key, operator, operand } => {
                    let has = match before.map(|before| &before.edit) {
                        Some(Edit::Put { value, .. }) => Some(value.clone()),
                        Some(_) => None,
                        None => self.value(&table, &key)?,
                    };
                    let refused = |why| {
                        let change = shown.unwrap_or_default();
                        Error::Apply { lsn, change, why }
                    };
                    let operators = self.tools.operators;
                    let value =
                        operators.merge(&operator, has.as_deref(), &operand).map_err(refused)?;
                    (table, Edit::Put { key, value })
                }
                Change::CreateTable { .. } | Change::DropTable { .. } => continue,
            };
            if is_again {
                self.writes.pop();
            }
            self.writes.push(Write { lsn, table, edit });
        }
        Ok(())
    }

    fn value(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.values.get(table).and_then(|values| values.get(key)) {
            return Ok(value.clone());
        }
        if self.replaced.contains(table) {
            return Ok(None);
        }
        self.tools.store.get(table, key).map_err(Error::store("read a key that is merged into"))
    }
}

/// Sorts rows by table and key.
///
/// Comparing two keys can miss the CPU cache. So each row gets two numbers that decide most
/// comparisons: the rank of its table, and the eight bytes of its key that follow the common prefix
/// of all keys of the table.
fn sort(rows: Vec<(Lsn, Change)>) -> Sorted {
    let mut tables = Tables::default();
    let mut order: Vec<((usize, u64), usize)> = Vec::with_capacity(rows.len());
    for (at, (_, row)) in rows.iter().enumerate() {
        let table = tables.of(row);
        order.push(((table, 0), at));
    }
    let ranks = tables.ranks();
    for ((table, head), at) in &mut order {
        let common = tables.common.get(*table).map_or(0, |common| common.size);
        let key = rows.get(*at).and_then(|(_, row)| row.key()?.get(common..)).unwrap_or_default();
        let bytes = key.iter().copied().chain(std::iter::repeat(0));
        *head = bytes.take(8).fold(0, |head, byte| (head << 8) | u64::from(byte));
        *table = ranks.get(*table).copied().unwrap_or(0);
    }
    let key = |at: usize| rows.get(at).map(|(_, row)| row.key());
    order.sort_unstable_by(|(numbers, at), (other, other_at)| {
        let by_key = || (key(*at), at).cmp(&(key(*other_at), other_at));
        numbers.cmp(other).then_with(by_key)
    });
    let mut before = None;
    let sequel = |(numbers, at)| {
        let same = before.replace((numbers, at)).filter(|(before, _)| *before == numbers);
        Sequel { at, is_again: same.is_some_and(|(_, before)| key(before) == key(at)) }
    };
    let order = order.into_iter().map(sequel).collect();
    Sorted { rows: rows.into_iter().map(Some).collect(), order }
}

/// The tables of some rows, numbered in order of appearance.
#[derive(Default)]
struct Tables<'a> {
    numbers: BTreeMap<&'a str, usize>,
    common: Vec<Common<'a>>,
    /// The most recent table and its number: consecutive rows often have the same table.
    last: Option<(&'a str, usize)>,
}

impl<'a> Tables<'a> {
    /// Returns the number of the row's table.
    fn of(&mut self, row: &'a Change) -> usize {
        let (name, key) = (row.table(), row.key().unwrap_or_default());
        let number = match self.last {
            Some((last, number)) if is_same(last, name) => number,
            _ => *self.numbers.entry(name).or_insert(self.common.len()),
        };
        self.last = Some((name, number));
        match self.common.get_mut(number) {
            Some(common) => common.shrink(key),
            None => self.common.push(Common { first: key, size: key.len() }),
        }
        number
    }

    /// Returns the rank of each table in sorted order, indexed by table number.
    fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.common.len()];
        for (rank, number) in self.numbers.values().enumerate() {
            if let Some(place) = ranks.get_mut(*number) {
                *place = rank;
            }
        }
        ranks
    }
}

/// The common prefix of all keys of a table seen so far.
struct Common<'a> {
    first: &'a [u8],
    size: usize,
}

impl Common<'_> {
    fn shrink(&mut self, key: &[u8]) {
        let common = self.first.iter().zip(key).take(self.size);
        self.size = common.take_while(|(one, other)| one == other).count();
    }
}

/// Returns one change with the effect of two of the same row. The first one is a put or a delete.
pub(crate) fn merged(
    (_, before): (Lsn, Change),
    (lsn, row): (Lsn, Change),
    operators: &Operators,
) -> Result<(Lsn, Change)> {
    let Change::Merge { operator, operand, .. } = &row else { return Ok((lsn, row)) };
    let has = match &before {
        Change::Put { value, .. } => Some(value.as_slice()),
        _ => None,
    };
    let value = operators.merge(operator, has, operand);
    let value = value.map_err(|why| Error::Apply { lsn, change: row.to_string(), why })?;
    match row {
        Change::Merge { table, key, .. } => Ok((lsn, Change::Put { table, key, value })),
        row => Ok((lsn, row)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;
    use crate::store::memory::MemoryStore;
    use seawall_testkit::{Dice, each_seed};

    fn apply(store: &MemoryStore, changes: Vec<Change>) -> Result<usize> {
        let operators = Operators::new();
        let numbered = (1..).filter_map(Lsn::new).zip(changes).collect();
        let writes = fold(numbered, Tools { store, operators: &operators })?;
        let count = writes.len();
        store.write(&Batch { writes, watermarks: vec![] }).map_err(Error::store("write"))?;
        Ok(count)
    }

    fn change(dice: &mut Dice) -> Change {
        // The last two keys differ only after the eight bytes that are compared as a number.
        let keys = ["a", "b", "first eight, 1", "first eight, 2"];
        let (table, key) = (["", "t", "u"][dice.index(3)], keys[dice.index(4)]);
        let droppable = ["t", "u"][dice.index(2)];
        match dice.below(9) {
            0 => Change::delete(table, key),
            1..=3 => Change::merge(table, key, ("append", [dice.byte()])),
            4 | 5 => Change::create_table(droppable, [dice.byte()]),
            6 => Change::drop_table(droppable),
            _ => Change::put(table, key, [dice.byte()]),
        }
    }

    /// Folding gives the same result as applying changes one by one, unless a change is refused.
    #[test]
    fn folded_changes_equal_changes_applied_one_by_one() {
        each_seed(256, |dice| {
            let count = dice.index(100);
            let changes = dice.many(count, change);
            let (one_by_one, at_once) = (MemoryStore::new(), MemoryStore::new());
            let is_allowed = |change: &Change| apply(&one_by_one, vec![change.clone()]).is_ok();
            let allowed: Vec<Change> = changes.into_iter().filter(is_allowed).collect();
            apply(&at_once, allowed).unwrap();
            for table in ["", "t", "u"] {
                assert_eq!(one_by_one.rows(table), at_once.rows(table));
            }
            assert_eq!(one_by_one.tables(), at_once.tables());
        });
    }

    #[test]
    fn merge_sees_no_row_of_a_dropped_table_after_another_is_created() {
        let store = MemoryStore::new();
        apply(&store, vec![Change::create_table("t", "")]).unwrap();
        let changes = vec![
            Change::put("t", "k", "old"),
            Change::drop_table("t"),
            Change::create_table("t", ""),
            Change::create_table("u", ""),
            Change::merge("t", "k", ("append", "new")),
        ];
        apply(&store, changes).unwrap();
        assert_eq!(store.rows("t").get(&b"k"[..]).unwrap(), b"new");
    }

    #[test]
    fn key_that_changes_often_is_written_once() {
        let store = MemoryStore::new();
        let often = (0..100).map(|_| Change::merge("", "k", ("add", 1u64.to_le_bytes())));
        assert_eq!(apply(&store, often.collect()).unwrap(), 1);
        assert_eq!(store.rows("").get(&b"k"[..]).unwrap(), &100u64.to_le_bytes());
    }

    #[test]
    fn failed_merge_names_the_operator_and_the_record() {
        let changes = vec![Change::put("", "a", "1"), Change::merge("", "k", ("max", "1"))];
        let error = apply(&MemoryStore::new(), changes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LSN 2: merge into table ``, key `k`: no merge operator `max` is registered, only \
             add, append"
        );
    }
}
