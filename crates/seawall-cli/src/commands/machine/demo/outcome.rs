//! The results of the demo, for people and for programs.

use super::damage::Damaged;
use super::parity::Mended;
use super::rescue::Rescue;
use super::witness::{Compared, Witness};
use seawall_measure::pairs::Row;
use seawall_output::color::Tone;
use seawall_output::report::Exit;
use serde::Serialize;

/// All results.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "seawall.demo/1")]
pub(super) struct Done {
    pub(super) exit: Exit,
    pub(super) seed: u64,
    pub(super) in_memory: bool,
    /// `None` in memory.
    pub(super) syncs_per_s: Option<f64>,
    #[serde(flatten)]
    pub(super) witness: Witness,
    #[serde(flatten)]
    pub(super) compared: Compared,
    pub(super) damage: Damaged,
    pub(super) rescue: Rescue,
    pub(super) parity: Mended,
    pub(super) ranked: Option<bool>,
    /// `None` if speed was not measured.
    pub(super) speed: Option<Vec<Row>>,
}

impl Done {
    /// Whether every guarantee held.
    pub(super) fn kept(&self) -> bool {
        self.witness.never_damaged()
            && self.compared.holds()
            && self.damage.holds()
            && self.rescue.all_others
            && self.parity.holds()
    }

    /// The verdict and its tone.
    pub(super) fn verdict(&self) -> (&'static str, Tone) {
        if self.kept() {
            ("Every acknowledged record is there, and the damage was named.", Tone::Good)
        } else {
            let text = "A PROMISE WAS BROKEN. Please report this, with the line that has the seed.";
            (text, Tone::Bad)
        }
    }
}
