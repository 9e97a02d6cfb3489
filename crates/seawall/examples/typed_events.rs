//! Events of several kinds in one typed log: what an account is follows from what happened to it.
//!
//! `typed_events LOG` opens an account, moves money as one atomic set, and prints the balances
//! that all events so far add up to. The log knows its records as "bank-event", and refuses a
//! program that takes them for something else.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn, Options};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Serialize, Deserialize)]
enum Event {
    Opened { account: u32, owner: String },
    Deposited { account: u32, cents: u64 },
    Withdrawn { account: u32, cents: u64 },
}

#[derive(Default)]
struct Account {
    owner: String,
    cents: u64,
}

/// What the world is like after the event. It is the same function now and at the next start.
fn apply(accounts: &mut BTreeMap<u32, Account>, event: Event) {
    match event {
        Event::Opened { account, owner } => accounts.entry(account).or_default().owner = owner,
        Event::Deposited { account, cents } => accounts.entry(account).or_default().cents += cents,
        Event::Withdrawn { account, cents } => accounts.entry(account).or_default().cents -= cents,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "bank.wal".to_owned());
    let log: Log<Event> = Options::new().type_name("bank-event").open(&folder)?;
    let mut accounts = BTreeMap::new();
    for entry in log.read_from(Lsn::FIRST)? {
        let (_, event) = entry?; // damage is an error that names its records
        apply(&mut accounts, event);
    }
    for (account, owner) in [(1, "Ada"), (2, "Bob")] {
        if !accounts.contains_key(&account) {
            let opened = Event::Opened { account, owner: owner.to_owned() };
            log.append(&opened)?; // written down first,
            apply(&mut accounts, opened); // then done
        }
    }
    let salary = Event::Deposited { account: 1, cents: 300 };
    log.append(&salary)?;
    apply(&mut accounts, salary);
    // Money that leaves one account comes to the other: after a crash both are there, or neither.
    let moved =
        [Event::Withdrawn { account: 1, cents: 100 }, Event::Deposited { account: 2, cents: 100 }];
    log.append_batch(&moved)?;
    for event in moved {
        apply(&mut accounts, event);
    }

    let mut out = std::io::stdout().lock();
    for (account, Account { owner, cents }) in &accounts {
        writeln!(out, "{account} {owner}: {cents}")?;
    }
    Ok(log.close()?)
}
