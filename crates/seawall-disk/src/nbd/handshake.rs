//! The handshake: a client sends one option after another until it chooses an export or
//! disconnects.

use super::protocol::{Export, REQUEST_MAX, Step};
use super::wire::{self, Fields, answer, can, hello, info, option, put_u16, put_u32, put_u64};
use crate::layout::BLOCK_SIZE;

/// The most bytes of an option's data that are read: enough for the longest name and for more kinds
/// of information than exist. Longer data is skipped.
const DATA_MAX: u32 = 8 * 1024;
/// The size of magic, option and length, in bytes.
const HEAD: usize = 16;

/// The state of a connection in the handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    /// Whether the client declined the 124 zeros at the end of the answer to `EXPORT_NAME`.
    without_zeros: bool,
    is_structured: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The client must send the flags that it shares with the server.
    Flags,
    Option,
    /// Data to skip before its option is refused.
    Skip {
        left: u32,
        option: u32,
        answer: u32,
    },
}

/// The result of one step.
#[derive(Debug)]
pub(crate) enum Heard {
    Step(Step),
    /// The client has chosen an export, and `used` bytes were consumed.
    Chosen {
        /// The index of the export.
        which: usize,
        used: usize,
        is_structured: bool,
    },
}

/// An option that has arrived completely.
#[derive(Debug)]
struct Asked<'a> {
    option: u32,
    data: &'a [u8],
    /// The number of bytes of the whole option.
    used: usize,
}

impl Handshake {
    pub(crate) fn new(replies: &mut Vec<u8>) -> Self {
        put_u64(replies, wire::GREETING);
        put_u64(replies, wire::OPTION);
        put_u16(replies, hello::FIXED_NEWSTYLE | hello::NO_ZEROES);
        Self { state: State::Flags, without_zeros: false, is_structured: false }
    }

    pub(crate) fn hear(&mut self, input: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Heard {
        match self.state {
            State::Flags => Heard::Step(self.flags(input)),
            State::Option => self.option(input, exports, out),
            State::Skip { left, option, answer } => {
                let here = u32::try_from(input.len()).unwrap_or(u32::MAX).min(left);
                if left > 0 && here == 0 {
                    return Heard::Step(Step::Need(1));
                }
                let left = left - here;
                self.state = State::Skip { left, option, answer };
                if left == 0 {
                    reply(out, option, answer, &[]);
                    self.state = State::Option;
                }
                Heard::Step(Step::Used(usize::try_from(here).unwrap_or(input.len())))
            }
        }
    }

    fn flags(&mut self, input: &[u8]) -> Step {
        let Some(flags) = Fields(input).u32() else { return Step::Need(4) };
        let known = u32::from(hello::FIXED_NEWSTYLE | hello::NO_ZEROES);
        if flags & !known != 0 {
            return Step::End;
        }
        self.without_zeros = flags & u32::from(hello::NO_ZEROES) != 0;
        self.state = State::Option;
        Step::Used(4)
    }

    fn option(&mut self, input: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Heard {
        let mut fields = Fields(input);
        let (Some(magic), Some(option), Some(length)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return Heard::Step(Step::Need(HEAD));
        };
        if magic != wire::OPTION {
            return Heard::Step(Step::End);
        }
        if let Some(answer) = refused_unseen(option, length) {
            if option == option::EXPORT_NAME {
                // This option cannot be answered with an error.
                return Heard::Step(Step::End);
            }
            self.state = State::Skip { left: length, option, answer };
            return Heard::Step(Step::Used(HEAD));
        }
        let used = HEAD + usize::try_from(length).expect("it was found to be small");
        let Some(data) = fields.bytes(length) else { return Heard::Step(Step::Need(used)) };
        self.answer(&Asked { option, data, used }, exports, out)
    }

    fn answer(&mut self, asked: &Asked<'_>, exports: &[Export], out: &mut Vec<u8>) -> Heard {
        let Asked { option, data, used } = *asked;
        match option {
            option::EXPORT_NAME => match named(exports, data) {
                Some((which, export)) => return self.by_name((which, used), export, out),
                None => return Heard::Step(Step::End),
            },
            option::ABORT => {
                reply(out, option, answer::ACK, &[]);
                return Heard::Step(Step::End);
            }
            option::INFO | option::GO => match wanted(data) {
                None => reply(out, option, answer::INVALID, &[]),
                Some((name, with_name)) => match named(exports, name) {
                    None => reply(out, option, answer::UNKNOWN, &[]),
                    Some((which, export)) => {
                        self.describe((option, with_name), export, out);
                        if option == option::GO {
                            let is_structured = self.is_structured;
                            return Heard::Chosen { which, used, is_structured };
                        }
                    }
                },
            },
            _ if !data.is_empty() => reply(out, option, answer::INVALID, &[]),
            option::LIST => {
                for export in exports {
                    let mut entry = Vec::new();
                    put_u32(&mut entry, length_of(export.name().as_bytes()));
                    entry.extend_from_slice(export.name().as_bytes());
                    reply(out, option, answer::SERVER, &entry);
                }
                reply(out, option, answer::ACK, &[]);
            }
            option::STRUCTURED_REPLY => {
                self.is_structured = true;
                reply(out, option, answer::ACK, &[]);
            }
            _ => unreachable!("unknown options were refused before"),
        }
        Heard::Step(Step::Used(used))
    }

    /// Answers `EXPORT_NAME`, the old way to choose an export: the only answer is its description.
    fn by_name(&self, (which, used): (usize, usize), export: &Export, out: &mut Vec<u8>) -> Heard {
        put_u64(out, export.size());
        put_u16(out, self.can());
        if !self.without_zeros {
            out.extend_from_slice(&[0; 124]);
        }
        Heard::Chosen { which, used, is_structured: self.is_structured }
    }

    fn describe(&self, asked: (u32, bool), export: &Export, out: &mut Vec<u8>) {
        let (option, with_name) = asked;
        let mut item = Vec::new();
        put_u16(&mut item, info::EXPORT);
        put_u64(&mut item, export.size());
        put_u16(&mut item, self.can());
        reply(out, option, answer::INFO, &item);

        item.clear();
        put_u16(&mut item, info::BLOCK_SIZE);
        put_u32(&mut item, 1);
        put_u32(&mut item, u32::try_from(BLOCK_SIZE).expect("a block is small"));
        put_u32(&mut item, REQUEST_MAX);
        reply(out, option, answer::INFO, &item);

        if with_name {
            item.clear();
            put_u16(&mut item, info::NAME);
            item.extend_from_slice(export.name().as_bytes());
            reply(out, option, answer::INFO, &item);
        }
        reply(out, option, answer::ACK, &[]);
    }

    /// The transmission flags of the export.
    fn can(&self) -> u16 {
        let unfragmented = if self.is_structured { can::DF } else { 0 };
        let changes = can::FLUSH | can::FUA | can::TRIM | can::WRITE_ZEROES;
        // All connections share one ring: a flush covers what was acknowledged on any of them.
        can::HAS_FLAGS | changes | can::MULTI_CONN | unfragmented
    }
}

/// Returns the answer to an option that is refused without reading its data; `None` for others.
fn refused_unseen(option: u32, length: u32) -> Option<u32> {
    match option {
        option::EXPORT_NAME
        | option::ABORT
        | option::LIST
        | option::INFO
        | option::GO
        | option::STRUCTURED_REPLY => (length > DATA_MAX).then_some(answer::TOO_BIG),
        _ => Some(answer::UNSUPPORTED),
    }
}

/// The name in the data of `INFO` or `GO`, and whether the client wants it repeated.
fn wanted(data: &[u8]) -> Option<(&[u8], bool)> {
    let mut fields = Fields(data);
    let length = fields.u32()?;
    let name = fields.bytes(length)?;
    let kinds = fields.u16()?;
    let mut with_name = false;
    for _ in 0..kinds {
        with_name |= fields.u16()? == info::NAME;
    }
    fields.0.is_empty().then_some((name, with_name))
}

/// The export of this name, or the first if the name is empty, and its index.
fn named<'a>(exports: &'a [Export], name: &[u8]) -> Option<(usize, &'a Export)> {
    let is_meant = |export: &Export| name.is_empty() || name == export.name().as_bytes();
    exports.iter().enumerate().find(|(_, export)| is_meant(export))
}

fn reply(out: &mut Vec<u8>, option: u32, answer: u32, data: &[u8]) {
    put_u64(out, wire::OPTION_REPLY);
    put_u32(out, option);
    put_u32(out, answer);
    put_u32(out, length_of(data));
    out.extend_from_slice(data);
}

fn length_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("answers are as short as the names of exports")
}
