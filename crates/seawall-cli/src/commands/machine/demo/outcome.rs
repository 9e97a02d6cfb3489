//! What the demo found out, for people and for programs.

use super::damage::Damaged;
use super::parity::Mended;
use super::rescue::Rescue;
use super::speed::why_not_ranked;
use super::witness::{Compared, Witness};
use crate::output::color::Tone;
use crate::output::report::Exit;
use seawall_measure::pairs::Row;
use serde_json::{Value, json};

/// All that came out.
pub(super) struct Done {
    /// `None` in memory.
    pub(super) syncs_per_s: Option<f64>,
    pub(super) witness: Witness,
    pub(super) compared: Compared,
    pub(super) damaged: Damaged,
    pub(super) rescue: Rescue,
    pub(super) mended: Mended,
    /// `None` if it was not measured.
    pub(super) rates: Option<Vec<Row>>,
    pub(super) in_memory: bool,
}

impl Done {
    /// Whether every promise held.
    pub(super) fn kept(&self) -> bool {
        self.witness.never_damaged()
            && self.compared.holds()
            && self.damaged.holds()
            && self.rescue.holds
            && self.mended.holds()
    }

    /// In words, and how they are to sound.
    pub(super) fn verdict(&self) -> (&'static str, Tone) {
        if self.kept() {
            ("Every acknowledged record is there, and the damage was named.", Tone::Good)
        } else {
            let text = "A PROMISE WAS BROKEN. Please report this, with the line that has the seed.";
            (text, Tone::Bad)
        }
    }

    pub(super) fn as_json(&self, seed: u64, exit: Exit) -> Value {
        let rates = self.rates.as_ref();
        json!({
            "schema": "seawall.demo/1",
            "exit": exit.code(),
            "seed": seed,
            "in_memory": self.in_memory,
            "syncs_per_s": self.syncs_per_s.map(f64::round),
            "kills": self.witness.kills(),
            "torn": self.witness.torn(),
            "acknowledged": self.witness.acknowledged(),
            "found": self.compared.found,
            "lost": self.compared.lost,
            "wrong": self.compared.wrong,
            "gaps": self.compared.gaps,
            "unacknowledged_found": self.compared.extra,
            "damage": self.damaged.as_json(),
            "rescue": self.rescue.as_json(),
            "parity": self.mended.as_json(),
            "ranked": rates.map(|rows| why_not_ranked(rows).is_none()),
            "speed": rates.map(|rows| {
                rows.iter().map(Row::as_json).collect::<Vec<_>>()
            }),
        })
    }
}
