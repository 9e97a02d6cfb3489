//! The five transactions of TPC-C, as SQL statements.

use seawall_testkit::Dice;
use std::fmt::Write;

/// Customers of a district, and items.
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;
const DISTRICTS: u64 = 10;
/// Number of last names; each is stored as a number.
const NAMES: u64 = 1000;
/// Constants of the distribution that prefers some of the customers, names and items.
const C_CUSTOMER: u64 = 259;
const C_NAME: u64 = 223;
const C_ITEM: u64 = 7911;

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    /// Its statements, from begin to end.
    pub(super) sql: String,
    pub(super) is_order: bool,
    pub(super) is_committed: bool,
}

impl Transaction {
    /// Draws a transaction of the mix: 45 % new orders, 43 % payments, 4 % of each of the others.
    pub(super) fn draw(dice: &mut Dice, warehouses: u32) -> Self {
        let at = At {
            warehouse: 1 + dice.below(u64::from(warehouses)),
            district: 1 + dice.below(DISTRICTS),
        };
        let of = |sql: String| Self { sql, is_order: false, is_committed: true };
        match dice.below(100) {
            0..45 => {
                let is_committed = !dice.one_in(100);
                Self { sql: at.new_order(dice, is_committed), is_order: true, is_committed }
            }
            45..88 => of(at.payment(dice)),
            88..92 => of(at.order_status(dice)),
            92..96 => of(at.delivery(dice)),
            _ => of(at.stock_level(dice)),
        }
    }
}

/// The warehouse and district of a terminal.
#[derive(Clone, Copy, Debug)]
struct At {
    warehouse: u64,
    district: u64,
}

impl At {
    fn new_order(self, dice: &mut Dice, is_committed: bool) -> String {
        let Self { warehouse: w, district: d } = self;
        let customer = 1 + skewed(dice, (1023, C_CUSTOMER), CUSTOMERS);
        let lines = 5 + dice.below(11);
        let here = format!("FROM district WHERE d_w_id = {w} AND d_id = {d}");
        let mut sql = format!(
            "BEGIN IMMEDIATE;
SELECT w_tax, c_discount, c_last, c_credit FROM warehouse, customer
 WHERE w_id = {w} AND c_w_id = {w} AND c_d_id = {d} AND c_id = {customer};
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = {w} AND d_id = {d};
INSERT INTO orders SELECT {w}, {d}, d_next_o_id - 1, {customer}, datetime('now'), NULL, {lines}
 {here};
INSERT INTO new_order SELECT {w}, {d}, d_next_o_id - 1 {here};
"
        );
        for line in 1..=lines {
            let (item, quantity) = (1 + skewed(dice, (8191, C_ITEM), ITEMS), 1 + dice.below(10));
            // Writing to a string cannot fail.
            let _ = write!(
                sql,
                "UPDATE stock SET s_ytd = s_ytd + {quantity}, s_order_cnt = s_order_cnt + 1,
 s_quantity = s_quantity - {quantity} + CASE WHEN s_quantity >= {quantity} + 10 THEN 0 ELSE 91 END
 WHERE s_w_id = {w} AND s_i_id = {item};
INSERT INTO order_line SELECT {w}, {d}, d_next_o_id - 1, {line}, {item}, NULL, {quantity},
 {quantity} * i_price, s_dist FROM district, item, stock
 WHERE d_w_id = {w} AND d_id = {d} AND i_id = {item} AND s_w_id = {w} AND s_i_id = {item};
"
            );
        }
        sql + if is_committed { "COMMIT;\n" } else { "ROLLBACK;\n" }
    }

    /// An expression for a customer's id: a number, or the middle one of those with a last name.
    fn customer(self, dice: &mut Dice) -> String {
        if dice.below(100) < 40 {
            return (1 + skewed(dice, (1023, C_CUSTOMER), CUSTOMERS)).to_string();
        }
        let name = skewed(dice, (255, C_NAME), NAMES);
        let Self { warehouse: w, district: d } = self;
        let named =
            format!("FROM customer WHERE c_w_id = {w} AND c_d_id = {d} AND c_last = {name}");
        format!(
            "(SELECT c_id {named} ORDER BY c_first LIMIT 1 OFFSET (SELECT count(*) / 2 {named}))"
        )
    }

    fn payment(self, dice: &mut Dice) -> String {
        let Self { warehouse: w, district: d } = self;
        let (customer, amount) = (self.customer(dice), 100 + dice.below(499_901));
        format!(
            "BEGIN IMMEDIATE;
UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE w_id = {w};
UPDATE district SET d_ytd = d_ytd + {amount} WHERE d_w_id = {w} AND d_id = {d};
UPDATE customer SET c_balance = c_balance - {amount}, c_ytd_payment = c_ytd_payment + {amount},
 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = {w} AND c_d_id = {d} AND c_id = {customer};
INSERT INTO history VALUES ({customer}, {d}, {w}, {d}, {w}, datetime('now'), {amount}, 'payment');
COMMIT;
"
        )
    }

    fn order_status(self, dice: &mut Dice) -> String {
        let Self { warehouse: w, district: d } = self;
        let customer = self.customer(dice);
        format!(
            "BEGIN;
SELECT c_balance, c_first FROM customer WHERE c_w_id = {w} AND c_d_id = {d} AND c_id = {customer};
SELECT ol_i_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
 WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = (SELECT max(o_id) FROM orders
  WHERE o_w_id = {w} AND o_d_id = {d} AND o_c_id = {customer});
COMMIT;
"
        )
    }

    fn delivery(self, dice: &mut Dice) -> String {
        let (w, carrier) = (self.warehouse, 1 + dice.below(10));
        let mut sql = "BEGIN IMMEDIATE;\n".to_owned();
        for d in 1..=DISTRICTS {
            let order = format!(
                "(SELECT min(no_o_id) FROM new_order WHERE no_w_id = {w} AND no_d_id = {d})"
            );
            let _ = write!(
                sql,
                "UPDATE orders SET o_carrier_id = {carrier}
 WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {order};
UPDATE order_line SET ol_delivery_d = datetime('now')
 WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {order};
UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance +
 (SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {order})
 WHERE c_w_id = {w} AND c_d_id = {d} AND c_id =
 (SELECT o_c_id FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {order});
DELETE FROM new_order WHERE no_w_id = {w} AND no_d_id = {d} AND no_o_id = {order};
"
            );
        }
        sql + "COMMIT;\n"
    }

    fn stock_level(self, dice: &mut Dice) -> String {
        let Self { warehouse: w, district: d } = self;
        let threshold = 10 + dice.below(11);
        let next = format!("(SELECT d_next_o_id FROM district WHERE d_w_id = {w} AND d_id = {d})");
        format!(
            "SELECT count(DISTINCT s_i_id)
 FROM order_line JOIN stock ON s_w_id = {w} AND s_i_id = ol_i_id
 WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id >= {next} - 20 AND ol_o_id < {next}
 AND s_quantity < {threshold};
"
        )
    }
}

/// Draws a number below `end` from the specification's distribution `NURand`, 2.1.6.
fn skewed(dice: &mut Dice, (a, c): (u64, u64), end: u64) -> u64 {
    ((dice.below(a + 1) | dice.below(end)) + c) % end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_that_of_the_specification_and_one_order_of_a_hundred_is_rolled_back() {
        let mut dice = Dice::new(1);
        let all: Vec<Transaction> = (0..20_000).map(|_| Transaction::draw(&mut dice, 3)).collect();
        let orders = all.iter().filter(|it| it.is_order).count();
        let undone = all.iter().filter(|it| !it.is_committed).count();
        assert!((8700..9300).contains(&orders), "{orders}");
        assert!((50..140).contains(&undone), "{undone}");
        let ends = |it: &Transaction| it.sql.ends_with("ROLLBACK;\n") != it.is_committed;
        assert!(all.iter().all(ends));
    }
}
