//! The tables of TPC-C, their first rows, and the conditions that always hold.

/// Consistency conditions, each with a query that counts its violations.
pub(super) const CONDITIONS: [(u32, &str); 4] = [
    (
        1,
        "SELECT count(*) FROM warehouse
         WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    ),
    (
        2,
        "SELECT count(*) FROM district
         WHERE d_next_o_id - 1 <>
               (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
            OR d_next_o_id - 1 <>
               (SELECT coalesce(max(no_o_id), d_next_o_id - 1) FROM new_order
                WHERE no_w_id = d_w_id AND no_d_id = d_id)",
    ),
    (
        3,
        "SELECT count(*) FROM (SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id
                               HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*))",
    ),
    (
        4,
        "SELECT count(*) FROM (SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS n FROM orders
                               GROUP BY o_w_id, o_d_id)
         WHERE n <> (SELECT count(*) FROM order_line WHERE ol_w_id = w AND ol_d_id = d)",
    ),
];

const TABLES: &str = "
PRAGMA cache_size = -262144;
BEGIN;
CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_name TEXT, w_tax INT, w_ytd INT);
CREATE TABLE district (d_w_id INT, d_id INT, d_name TEXT, d_tax INT, d_ytd INT, d_next_o_id INT,
    PRIMARY KEY (d_w_id, d_id)) WITHOUT ROWID;
CREATE TABLE customer (c_w_id INT, c_d_id INT, c_id INT, c_first TEXT, c_last INT, c_credit TEXT,
    c_discount INT, c_balance INT, c_ytd_payment INT, c_payment_cnt INT, c_delivery_cnt INT,
    c_data TEXT, PRIMARY KEY (c_w_id, c_d_id, c_id)) WITHOUT ROWID;
CREATE TABLE history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date TEXT,
    h_amount INT, h_data TEXT);
CREATE TABLE orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d TEXT, o_carrier_id INT,
    o_ol_cnt INT, PRIMARY KEY (o_w_id, o_d_id, o_id)) WITHOUT ROWID;
CREATE TABLE new_order (no_w_id INT, no_d_id INT, no_o_id INT,
    PRIMARY KEY (no_w_id, no_d_id, no_o_id)) WITHOUT ROWID;
CREATE TABLE order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT,
    ol_delivery_d TEXT, ol_quantity INT, ol_amount INT, ol_dist_info TEXT,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)) WITHOUT ROWID;
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name TEXT, i_price INT, i_data TEXT);
CREATE TABLE stock (s_w_id INT, s_i_id INT, s_quantity INT, s_dist TEXT, s_ytd INT, s_order_cnt INT,
    s_data TEXT, PRIMARY KEY (s_w_id, s_i_id)) WITHOUT ROWID;
CREATE TEMP TABLE n (i INTEGER PRIMARY KEY);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100000)
    INSERT INTO n SELECT i FROM c;
INSERT INTO item
    SELECT i, hex(randomblob(10)), 100 + abs(random() % 9901), hex(randomblob(20)) FROM n;
CREATE TEMP TABLE w (w INTEGER PRIMARY KEY);
CREATE TEMP TABLE d (d INTEGER PRIMARY KEY);
INSERT INTO d SELECT i FROM n WHERE i <= 10;
";

const ROWS: &str = "
INSERT INTO warehouse SELECT w, hex(randomblob(5)), abs(random() % 2001), 30000000 FROM w;
INSERT INTO stock SELECT w, i, 10 + abs(random() % 91), hex(randomblob(12)), 0, 0,
    hex(randomblob(25)) FROM w, n;
INSERT INTO district SELECT w, d, hex(randomblob(5)), abs(random() % 2001), 3000000, 3001 FROM w, d;
INSERT INTO customer SELECT w, d, i, hex(randomblob(8)), (i - 1) % 1000,
    CASE WHEN random() % 10 = 0 THEN 'BC' ELSE 'GC' END, abs(random() % 5001), -1000, 1000, 1, 0,
    hex(randomblob(200)) FROM w, d, n WHERE i <= 3000;
CREATE INDEX by_name ON customer (c_w_id, c_d_id, c_last, c_first);
INSERT INTO history SELECT i, d, w, d, w, datetime('now'), 1000, hex(randomblob(9))
    FROM w, d, n WHERE i <= 3000;
INSERT INTO orders SELECT w, d, i, 1 + (i * 1013) % 3000, datetime('now'),
    CASE WHEN i <= 2100 THEN 1 + abs(random() % 10) END, 5 + abs(random() % 11)
    FROM w, d, n WHERE i <= 3000;
CREATE INDEX by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
INSERT INTO new_order SELECT w, d, i FROM w, d, n WHERE i BETWEEN 2101 AND 3000;
INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, d.i, 1 + abs(random() % 100000),
    CASE WHEN o_id <= 2100 THEN o_entry_d END, 5,
    CASE WHEN o_id <= 2100 THEN 0 ELSE 1 + abs(random() % 999999) END, hex(randomblob(12))
    FROM orders, n AS d WHERE d.i <= o_ol_cnt;
COMMIT;
PRAGMA wal_checkpoint(TRUNCATE);
ANALYZE;
";

/// Returns statements that create and fill all tables.
pub(super) fn tables(warehouses: u32) -> String {
    format!("{TABLES}INSERT INTO w SELECT i FROM n WHERE i <= {warehouses};{ROWS}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// For each condition, a change that breaks only this one, and a statement that undoes it.
    const CHANGES: [(&str, &str); 4] = [
        (
            "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 3",
            "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_id = 3",
        ),
        (
            "UPDATE district SET d_next_o_id = 3002 WHERE d_id = 3",
            "UPDATE district SET d_next_o_id = 3001 WHERE d_id = 3",
        ),
        (
            "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 2500",
            "INSERT INTO new_order VALUES (1, 3, 2500)",
        ),
        (
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 3 AND o_id = 7",
            "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_d_id = 3 AND o_id = 7",
        ),
    ];

    #[test]
    fn filled_tables_are_consistent_and_each_condition_notices_one_wrong_row() {
        let conditions = CONDITIONS.map(|(_, query)| format!("{query};")).concat();
        let change = |(change, back): (&str, &str)| format!("{change};{conditions}{back};");
        let changes = CHANGES.map(change).concat();
        let script = format!("{}SELECT 'filled';{conditions}{changes}{conditions}", tables(1));
        let done = Command::new("sqlite3").args(["-batch", "-bail", ":memory:", &script]).output();
        // Without sqlite3, nothing is tested.
        let Ok(done) = done else { return };
        let said = String::from_utf8_lossy(&done.stdout);
        let (_, counts) = said.split_once("filled").expect(&said);
        let counts: Vec<bool> = counts.split_whitespace().map(|count| count != "0").collect();
        let rows: Vec<&[bool]> = counts.chunks(4).collect();
        let broken = |only: usize| -> Vec<bool> { (0..4).map(|n| n == only).collect() };
        assert_eq!(rows, [9, 0, 1, 2, 3, 9].map(broken));
    }
}
