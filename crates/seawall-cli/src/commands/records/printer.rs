//! Prints records in the requested shape.

use crate::args::Shape;
use crate::select::{Fields, Picked, Picker, Selection};
use seawall::Record;
use seawall::damage::AtomicSet;
use seawall::format::CodecId;
use seawall_foreign::value;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::{Output, harmless_json, hex, one_line};
use seawall_output::text;
use serde_json::Value;
use std::io::{self, Write};

/// How many bytes of a binary payload to show.
const PREVIEW: usize = 32;

/// Prints records in the requested shape.
pub(crate) struct Printer {
    shape: Shape,
    codec: CodecId,
    picker: Picker,
    pub(crate) out: Output,
    /// Records whose payload does not match the log's codec.
    undecodable: u64,
}

impl Printer {
    /// Refuses `--fields` with shapes that print a record's bytes unchanged.
    pub(crate) fn new(shape: Shape, codec: CodecId, chosen: &Selection) -> Result<Self, Failure> {
        if chosen.names_fields() && !matches!(shape, Shape::Short | Shape::Json) {
            let what = "--fields is for -o short and -o json: other shapes print whole records";
            let failure = Failure::new(Exit::Usage, what).at("the command line");
            return Err(failure.next("omit --fields or -o"));
        }
        let picker = Picker::new(chosen.clone());
        Ok(Self { shape, codec, picker, out: Output::lock(), undecodable: 0 })
    }

    /// Flushes the output, and reports records that could not be decoded. Returns whether the
    /// output still has a reader, and the exit code if nothing else failed.
    pub(crate) fn finish(self) -> (bool, Exit) {
        let somebody_reads = self.out.is_open();
        let written = self.out.finish();
        self.picker.tell();
        if self.undecodable > 0 {
            say(&format!(
                "seawall: warning: {} shown as bytes: no {}",
                text::count(self.undecodable, "record"),
                self.codec.name()
            ));
        }
        (somebody_reads, written)
    }

    /// Prints a record if it is selected. Returns whether it was printed.
    pub(crate) fn record(&mut self, record: &Record<'_>) -> bool {
        match self.picker.pick(self.codec, record.payload) {
            Some(Picked::Whole) => self.whole(record),
            Some(Picked::Fields(fields)) => self.fields(record, fields),
            None => return false,
        }
        true
    }

    fn fields(&mut self, record: &Record<'_>, fields: Fields) {
        if self.shape == Shape::Json {
            return self.object(record, &fields.object());
        }
        let (lsn, columns) = (record.lsn, fields.columns());
        self.out.write(|out| writeln!(out, "{lsn}\t{columns}"));
    }

    fn whole(&mut self, record: &Record<'_>) {
        let (lsn, payload) = (record.lsn, record.payload);
        match self.shape {
            Shape::Raw => self.out.write(|out| {
                out.write_all(payload)?;
                out.write_all(b"\n")
            }),
            Shape::Len32 => self.out.write(|out| write_counted(out, payload)),
            Shape::Hex => self.out.write(|out| writeln!(out, "{lsn}\t{}", hex(payload))),
            Shape::Short => {
                let text = self.short(payload);
                self.out.write(|out| writeln!(out, "{lsn}\t{text}"));
            }
            Shape::Json => {
                let data = self.data(payload);
                self.object(record, &data);
            }
        }
    }

    fn object(&mut self, record: &Record<'_>, data: &str) {
        let (lsn, data) = (record.lsn, harmless_json(data));
        let time = seawall_format::time::to_text(record.time_us);
        let time = time.map_or(Value::Null, Value::String);
        let set = match record.set {
            AtomicSet::Whole => String::new(),
            part => format!(",\"set\":\"{}\"", part.name()),
        };
        self.out
            .write(|out| writeln!(out, "{{\"lsn\":{lsn},\"time\":{time}{set},\"data\":{data}}}"));
    }

    fn short(&mut self, payload: &[u8]) -> String {
        if self.holds_values() {
            let text = self.decoded(payload);
            return text.map_or_else(|| preview(payload), |text| harmless_json(&text).into_owned());
        }
        std::str::from_utf8(payload).map_or_else(|_| preview(payload), one_line)
    }

    fn data(&mut self, payload: &[u8]) -> String {
        if self.holds_values() {
            return self.decoded(payload).unwrap_or_else(|| value::bytes(payload).to_string());
        }
        let text = std::str::from_utf8(payload).map(Value::from);
        text.unwrap_or_else(|_| value::bytes(payload)).to_string()
    }

    fn holds_values(&self) -> bool {
        self.codec != CodecId::Raw
    }

    /// Decodes a payload to JSON.
    fn decoded(&mut self, payload: &[u8]) -> Option<String> {
        let value = match self.codec {
            CodecId::Json => value::minified(payload).ok(),
            _ => value::from_message_pack(payload).ok().map(|value| value.to_string()),
        };
        self.undecodable += u64::from(value.is_none());
        value
    }
}

fn write_counted(out: &mut dyn Write, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).expect("a frame's length is stored in 31 bits");
    out.write_all(&length.to_le_bytes())?;
    out.write_all(payload)
}

fn preview(payload: &[u8]) -> String {
    match payload.get(..PREVIEW) {
        Some(start) if payload.len() > PREVIEW => {
            format!("0x{}... ({} bytes)", hex(start), payload.len())
        }
        _ => format!("0x{}", hex(payload)),
    }
}
