//! A look at a log that writes nothing: what is there, and the row of the recovery table it fits.

use crate::directory::{self, Survey};
use crate::recovery::{Facts, Row};
use crate::walk::{End, Event, Walk};
use crate::{Corruption, Damage, Error, Lost, Lsn, Offset, Result};
use seawall_format::{Manifest, next_lsn};
use seawall_io::Storage;
use std::sync::Arc;

/// What a look at the directory found; nothing was written.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) row: Row,
    pub(crate) survey: Survey,
    pub(crate) damage: Option<Damage>,
    pub(crate) end: Option<End>,
    /// The first record.
    pub(crate) first: Option<Lsn>,
    /// Last LSN and chain value of each batch of the newest segment.
    chains: Vec<(Lsn, u64)>,
    /// The chain value of the batch before them, or 0.
    pub(crate) chain_before: u64,
}

/// Reads the log and finds the row of the recovery table.
pub(crate) fn inspect(storage: &Arc<dyn Storage>) -> Result<Inspection> {
    let survey = directory::survey(storage, None)?;
    let newest = survey.chain.last().map(|link| link.segment.clone());
    let newest_base = newest.as_ref().map(|newest| newest.header.base);
    let mut found = Inspection {
        row: Row::NothingYet,
        damage: None,
        end: None,
        first: survey.chain.first().map(|link| link.segment.header.base),
        chains: vec![],
        chain_before: newest.as_ref().map_or(0, |newest| newest.header.pred_chain),
        survey,
    };
    let needed = found.survey.manifest.as_ref().and_then(Manifest::newest_checkpoint);
    // What stands before the segment of the checkpoint is judged by headers and links alone.
    let mut walk = Walk::new(&found.survey, needed);
    while found.end.is_none() && found.damage.is_none() {
        match walk.step()? {
            Event::Batch(batch) if Some(batch.header.first) >= newest_base => {
                found.chains.push((batch.last, batch.header.chain_value()));
            }
            Event::Batch(_) => {}
            Event::Damage(damages, _) => found.damage = damages.into_iter().next(),
            Event::End(end) => found.end = Some(end),
        }
    }
    let end = found.end.as_ref();
    let facts = Facts {
        manifest_is_readable: found.survey.manifest.is_some(),
        holds_something: found.survey.manifest_lost,
        chain: found.survey.trouble(),
        valid: end.and_then(|end| end.last),
        confirmed: end.and_then(|end| end.confirmed),
        is_whole: newest.is_none_or(|newest| newest.length >= newest.header.size),
        tail: end.and_then(|end| end.tail.as_ref()).map(|tail| tail.row),
    };
    found.row = facts.row();
    Ok(found)
}

impl Survey {
    /// The first row of the table that something wrong with the chain matches.
    pub(crate) fn trouble(&self) -> Option<Row> {
        let gaps = self.chain.iter().filter_map(|link| link.gap.as_ref()).map(|gap| gap.0);
        gaps.chain(self.beyond.map(|beyond| beyond.row)).min()
    }
}

impl Inspection {
    /// The damage that the row stands for.
    pub(crate) fn damage_or_cut(&self) -> Damage {
        let valid = self.end.as_ref().and_then(|end| end.last);
        let lost = Some(Lost { from: next_lsn(valid), to: None });
        let at_end = self.end.iter().flat_map(|end| &end.damage).next();
        let gap = self.survey.chain.iter().find_map(|link| link.gap.as_ref()).map(|gap| &gap.1);
        match (self.row, gap.or(self.damage.as_ref()).or(at_end)) {
            (Row::ManifestUnreadable, _) | (_, None) => {
                let cause = Corruption::Manifest;
                Damage { segment: None, offset: Offset(0), bytes: 0, lost, cause }
            }
            (_, Some(damage)) => damage.clone(),
        }
    }

    /// The error that a strict open ends with.
    pub(crate) fn cannot_tell(&self) -> Error {
        let tail = self.end.as_ref().and_then(|end| end.tail.as_ref());
        let tail = tail.expect("the verdict is about the tail");
        Error::CannotTell { segment: tail.segment, offset: tail.offset }
    }

    /// The chain value of the batch that holds record `lsn`, or 0.
    pub(crate) fn chain_of(&self, lsn: Option<Lsn>) -> u64 {
        let holder = self.chains.iter().find(|(last, _)| Some(*last) >= lsn);
        let newest = self.survey.chain.last().map(|link| link.segment.header.base);
        match holder {
            Some((_, chain)) if lsn >= newest => *chain,
            _ => self.chain_before,
        }
    }
}
