//! The JSON codec. Refuses NaN and infinities, which `serde_json` would write as `null`, so that
//! the record would read back as another one.

use crate::base::codec::Codec;
use crate::base::error::CodecError;
use seawall_format::CodecId;
use seawall_format::nesting::{DEPTH_MAX, TOO_DEEP};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer, ser};
use std::cell::{Cell, RefCell};
use std::fmt::Display;

/// JSON text, readable by people and other programs. Floats read back bit for bit.
///
/// Appending NaN or an infinity fails, at any depth of the record, because JSON cannot represent
/// them, and so does a record nested more than 127 deep, which could not be read. `Some(None)` is
/// written as `null` and reads back as `None`.
///
/// # Examples
///
/// ```
/// use seawall::{Error, Json, Log};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-json-{}", std::process::id()));
/// let log: Log<Vec<f64>, Json> = Log::open(&folder)?;
/// let lsn = log.append(&vec![0.1, 1e300])?;
/// assert_eq!(log.get(lsn)?, Some(vec![0.1, 1e300]));
/// let refused = log.append(&vec![0.5, f64::NAN]).unwrap_err();
/// let why = "cannot encode the record: [1]: NaN is not a JSON number";
/// assert_eq!(format!("{refused:#}"), format!("log {}: {why}", folder.display()));
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Json {}

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    type Item = T;

    const ID: CodecId = CodecId::Json;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        let place = Position::default();
        let mut text = serde_json::Serializer::new(payload);
        let written = record.serialize(Finite { inner: &mut text, place: &place });
        written.map_err(|error| place.tell(&error).into())
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        // Valid UTF-8 is checked once here, not string by string. For invalid bytes, the parser
        // reports what is wrong.
        let decoded = match str::from_utf8(payload) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(payload),
        };
        decoded.map_err(CodecError::from)
    }
}

/// Where in the record the serializer is.
#[derive(Debug, Default)]
struct Position {
    /// Path to the refused value; written only on an error.
    path: RefCell<String>,
    /// How many arrays and objects are open.
    depth: Cell<usize>,
}

impl Position {
    /// Adds `part` to the front of the path if `result` is an error. A record that is nested too
    /// deep gets no path: 127 parts would tell nothing.
    fn within<R, E>(&self, result: Result<R, E>, part: impl FnOnce() -> String) -> Result<R, E> {
        if result.is_err() {
            self.add(part);
        }
        result
    }

    /// Kept out of the success path, because there is one instance for each field of a type.
    #[cold]
    #[inline(never)]
    fn add(&self, part: impl FnOnce() -> String) {
        if self.depth.get() <= DEPTH_MAX {
            self.path.borrow_mut().insert_str(0, &part());
        }
    }

    /// Opens `count` arrays or objects, unless a reader would refuse the depth.
    fn open<E: ser::Error>(&self, count: usize) -> Result<(), E> {
        self.depth.set(self.depth.get() + count);
        if self.depth.get() <= DEPTH_MAX { Ok(()) } else { Err(E::custom(TOO_DEEP)) }
    }

    fn close(&self, count: usize) {
        self.depth.set(self.depth.get() - count);
    }

    fn tell(&self, why: &impl Display) -> String {
        match self.path.borrow().trim_start_matches('.') {
            "" => why.to_string(),
            place => format!("{place}: {why}"),
        }
    }
}

/// A serializer that forwards everything except floats that are not finite.
struct Finite<'p, S> {
    inner: S,
    place: &'p Position,
}

/// A part of a record, serialized through `Finite`.
struct Part<'p, 'v, T: ?Sized> {
    value: &'v T,
    place: &'p Position,
}

impl<T: Serialize + ?Sized> Serialize for Part<'_, '_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Finite { inner: serializer, place: self.place })
    }
}

/// Serializes the parts of a sequence, map or structure.
struct Parts<'p, S> {
    inner: S,
    place: &'p Position,
    /// Number of arrays and objects that this value opens: an enum variant with parts opens two.
    levels: usize,
    /// Number of parts so far.
    count: usize,
}

impl<'p, S> Finite<'p, S> {
    fn part<'v, T: ?Sized>(&self, value: &'v T) -> Part<'p, 'v, T> {
        Part { value, place: self.place }
    }
}

fn refuse<R, E: ser::Error>(value: f64) -> Result<R, E> {
    let name = match value {
        _ if value.is_nan() => "NaN",
        _ if value > 0.0 => "infinity",
        _ => "-infinity",
    };
    Err(E::custom(format_args!("{name} is not a JSON number")))
}

/// Methods that only forward.
macro_rules! hand_on {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method(self, $($argument: $type),*) -> Result<S::Ok, S::Error> {
            self.inner.$method($($argument),*)
        })*
    };
}

/// Methods that begin a value with parts. The number counts the arrays and objects that it opens.
macro_rules! open {
    ($($method:ident($($argument:ident: $type:ty),*) -> $parts:ident, $levels:literal;)*) => {
        $(fn $method(self, $($argument: $type),*) -> Result<Self::$parts, S::Error> {
            let Self { inner, place } = self;
            place.open($levels)?;
            Ok(Parts { inner: inner.$method($($argument),*)?, place, levels: $levels, count: 0 })
        })*
    };
}

impl<'p, S: Serializer> Serializer for Finite<'p, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Parts<'p, S::SerializeSeq>;
    type SerializeTuple = Parts<'p, S::SerializeTuple>;
    type SerializeTupleStruct = Parts<'p, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Parts<'p, S::SerializeTupleVariant>;
    type SerializeMap = Parts<'p, S::SerializeMap>;
    type SerializeStruct = Parts<'p, S::SerializeStruct>;
    type SerializeStructVariant = Parts<'p, S::SerializeStructVariant>;

    hand_on! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_i128(value: i128);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_u128(value: u128);
        serialize_char(value: char);
        serialize_str(value: &str);
        serialize_bytes(value: &[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(name: &'static str);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        if value.is_finite() { self.inner.serialize_f32(value) } else { refuse(value.into()) }
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        if value.is_finite() { self.inner.serialize_f64(value) } else { refuse(value) }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let part = self.part(value);
        self.inner.serialize_some(&part)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let part = self.part(value);
        self.inner.serialize_newtype_struct(name, &part)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let Self { inner, place } = self;
        place.open(1)?;
        let written = inner.serialize_newtype_variant(name, index, variant, &Part { value, place });
        place.close(1);
        written
    }

    open! {
        serialize_seq(length: Option<usize>) -> SerializeSeq, 1;
        serialize_tuple(length: usize) -> SerializeTuple, 1;
        serialize_tuple_struct(name: &'static str, length: usize) -> SerializeTupleStruct, 1;
        serialize_tuple_variant(
            name: &'static str, index: u32, variant: &'static str, length: usize
        ) -> SerializeTupleVariant, 2;
        serialize_map(length: Option<usize>) -> SerializeMap, 1;
        serialize_struct(name: &'static str, length: usize) -> SerializeStruct, 1;
        serialize_struct_variant(
            name: &'static str, index: u32, variant: &'static str, length: usize
        ) -> SerializeStructVariant, 2;
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Parts identified by position.
macro_rules! positions {
    ($($trait:ident::$method:ident;)*) => {
        $(impl<S: ser::$trait> ser::$trait for Parts<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                let Self { inner, place, count, .. } = self;
                let written = inner.$method(&Part { value, place });
                place.within(written, || format!("[{count}]"))?;
                *count += 1;
                Ok(())
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.place.close(self.levels);
                self.inner.end()
            }
        })*
    };
}

positions! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

/// Parts identified by name.
macro_rules! fields {
    ($($trait:ident;)*) => {
        $(impl<S: ser::$trait> ser::$trait for Parts<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                let Self { inner, place, .. } = self;
                let written = inner.serialize_field(name, &Part { value, place });
                place.within(written, || format!(".{name}"))
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), S::Error> {
                self.inner.skip_field(name)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.place.close(self.levels);
                self.inner.end()
            }
        })*
    };
}

fields! {
    SerializeStruct;
    SerializeStructVariant;
}

impl<S: ser::SerializeMap> ser::SerializeMap for Parts<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(&Part { value: key, place: self.place })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let Self { inner, place, count, .. } = self;
        let written = inner.serialize_value(&Part { value, place });
        place.within(written, || format!("[{count}]"))?;
        *count += 1;
        Ok(())
    }

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), S::Error> {
        let Self { inner, place, .. } = self;
        let written = inner.serialize_entry(&Part { value: key, place }, &Part { value, place });
        place.within(written, || format!("[{}]", serde_json::to_string(key).unwrap_or_default()))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.place.close(self.levels);
        self.inner.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Record {
        id: u32,
        ratio: f64,
        small: f32,
        maybe: Option<f64>,
        parts: Vec<(u8, f64)>,
        named: BTreeMap<String, f64>,
        kind: Kind,
        wide: i128,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    enum Kind {
        #[default]
        None,
        One(f64),
        Two(f32, f32),
        Three {
            x: f64,
        },
    }

    fn encode(record: &impl Serialize) -> Result<String, String> {
        let place = Position::default();
        let mut payload = vec![];
        let mut text = serde_json::Serializer::new(&mut payload);
        let written = record.serialize(Finite { inner: &mut text, place: &place });
        written.map_err(|error| place.tell(&error))?;
        Ok(String::from_utf8(payload).unwrap())
    }

    fn there_and_back(record: &Record) -> Record {
        let mut payload = vec![];
        Json::encode(record, &mut payload).unwrap();
        Json::decode(&payload).unwrap()
    }

    #[test]
    fn every_float_is_read_back_exactly() {
        let mut bits = 1_u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let (ratio, small) = (f64::from_bits(bits), f32::from_bits((bits >> 32) as u32));
            let ratio = if ratio.is_finite() { ratio } else { -0.0 };
            let small = if small.is_finite() { small } else { f32::MIN_POSITIVE };
            let mut payload = vec![];
            Json::encode(&(ratio, small), &mut payload).unwrap();
            let back: (f64, f32) = Json::decode(&payload).unwrap();
            let text = String::from_utf8(payload).unwrap();
            assert_eq!(back.0.to_bits(), ratio.to_bits(), "{text}");
            assert_eq!(back.1.to_bits(), small.to_bits(), "{text}");
        }
    }

    #[test]
    fn text_equals_that_of_serde_json() {
        let record = Record {
            id: 7,
            ratio: 0.1,
            maybe: Some(-1e-7),
            parts: vec![(1, 2.5), (3, 1e300)],
            named: BTreeMap::from([("a \"b\"".to_owned(), 0.0)]),
            kind: Kind::Three { x: 4.0 },
            wide: i128::MIN,
            ..Record::default()
        };
        assert_eq!(encode(&record).unwrap(), serde_json::to_string(&record).unwrap());
        assert_eq!(there_and_back(&record), record);
        for kind in [Kind::None, Kind::One(1.5), Kind::Two(0.1, 0.2)] {
            let record = Record { kind, ..Record::default() };
            assert_eq!(encode(&record).unwrap(), serde_json::to_string(&record).unwrap());
            assert_eq!(there_and_back(&record), record);
        }
    }

    #[test]
    fn floats_without_a_json_form_are_refused_anywhere_in_the_record() {
        let nan = f64::NAN;
        let named = |value| BTreeMap::from([("k".to_owned(), value)]);
        let sound = Record::default;
        for (record, place) in [
            (Record { ratio: nan, ..sound() }, "ratio"),
            (Record { small: f32::NAN, ..sound() }, "small"),
            (Record { maybe: Some(nan), ..sound() }, "maybe"),
            (Record { parts: vec![(0, 0.0), (1, nan)], ..sound() }, "parts[1][1]"),
            (Record { named: named(nan), ..sound() }, "named[\"k\"]"),
            (Record { kind: Kind::One(nan), ..sound() }, "kind"),
            (Record { kind: Kind::Two(0.0, f32::NAN), ..sound() }, "kind[1]"),
            (Record { kind: Kind::Three { x: nan }, ..sound() }, "kind.x"),
        ] {
            assert_eq!(encode(&record).unwrap_err(), format!("{place}: NaN is not a JSON number"));
        }
    }

    #[test]
    fn error_names_the_refused_value() {
        assert_eq!(encode(&f64::NAN).unwrap_err(), "NaN is not a JSON number");
        assert_eq!(encode(&f32::INFINITY).unwrap_err(), "infinity is not a JSON number");
        assert_eq!(encode(&f64::NEG_INFINITY).unwrap_err(), "-infinity is not a JSON number");
    }
}
