//! Records nested so deep that decoding them could overflow the stack are refused: by `append`, and
//! by readers of a log that another program wrote. Tests run on a stack of 2 MiB.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::lsn;
#[cfg(feature = "json")]
use seawall::Json;
use seawall::{Codec, Error, Log, Lsn, MessagePack, Options, Positional, Raw};
use seawall_format::nesting::TOO_DEEP;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;

/// Each variant is one level. `rmp-serde` does not count these.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Link {
    Down(Box<Link>),
    End,
}

/// Each variant is two levels: the variant itself and its fields.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Node { left: Option<Box<Tree>>, name: String },
    Pair(u8, Box<Tree>),
    Leaf,
}

/// A structure whose decoder needs much of the stack.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Wide {
    names: Vec<String>,
    numbers: [u64; 8],
    next: Option<Box<Wide>>,
    other: Option<String>,
}

fn link(levels: usize) -> Link {
    (0..levels).fold(Link::End, |inner, _| Link::Down(Box::new(inner)))
}

fn tree(levels: usize) -> Tree {
    (0..levels / 2).fold(Tree::Leaf, |inner, number| match number % 2 {
        0 => Tree::Node { left: Some(Box::new(inner)), name: "n".to_owned() },
        _ => Tree::Pair(7, Box::new(inner)),
    })
}

/// The array `numbers` at the bottom is one more level.
fn wide(levels: usize) -> Wide {
    let around = |inner| Wide { next: Some(Box::new(inner)), ..Wide::default() };
    (2..levels).fold(Wide::default(), |inner, _| around(inner))
}

fn open<T: ?Sized, C: Codec<T>>(device: &MemStorage, options: Options) -> Log<T, C> {
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    options.segment_size(1 << 20).open_in(storage).unwrap()
}

/// Checks that the deepest record is appended and read, and that a deeper one is refused.
fn keeps_the_deepest<T: Debug + PartialEq, C: Codec<T, Item = T>>(deepest: &T, deeper: &T) {
    let log: Log<T, C> = open(&MemStorage::new(), Options::new());
    let stored = log.append(deepest).unwrap();
    assert_eq!(log.get(stored).unwrap().as_ref(), Some(deepest));
    for refused in [log.append(deeper).unwrap_err(), log.submit(deeper).unwrap_err()] {
        let is_named =
            matches!(&refused, Error::Encode { source, .. } if source.to_string() == TOO_DEEP);
        assert!(is_named, "{refused:?}");
    }
    assert_eq!(log.append(deepest).unwrap(), lsn(2));
}

/// Checks that a record written by a program without the limit is refused.
fn refuses<T: Debug, C: Codec<T, Item = T>>(payload: &[u8]) {
    let device = MemStorage::new();
    let log: Log<[u8], Raw> = open(&device, Options::new().codec(<C as Codec<T>>::ID));
    log.append(payload).unwrap();
    drop(log);
    let log: Log<T, C> = open(&device, Options::new());
    let refused = log.get(Lsn::FIRST).unwrap_err();
    assert!(matches!(refused, Error::Decode { .. }), "{refused:?}");
}

fn keeps_all<C>()
where
    C: Codec<Link, Item = Link> + Codec<Tree, Item = Tree> + Codec<Wide, Item = Wide>,
{
    keeps_the_deepest::<Link, C>(&link(127), &link(128));
    keeps_the_deepest::<Tree, C>(&tree(126), &tree(128));
    keeps_the_deepest::<Wide, C>(&wide(127), &wide(128));
}

#[test]
fn every_codec_keeps_127_levels_and_refuses_more() {
    keeps_all::<MessagePack>();
    keeps_all::<Positional>();
    #[cfg(feature = "json")]
    keeps_all::<Json>();
}

#[test]
fn stored_record_of_any_depth_does_not_overflow_the_stack() {
    let arrays = vec![0x91; 100_000];
    let variants = [0x81, 0xa4, b'D', b'o', b'w', b'n'].repeat(100_000);
    // The structure does not have this member, so the decoder skips it.
    let unknown = [&[0x81, 0xa1, b'x'], &*arrays].concat();
    for payload in [&arrays, &variants, &unknown] {
        refuses::<Link, MessagePack>(payload);
        refuses::<Wide, MessagePack>(payload);
        refuses::<Link, Positional>(payload);
        refuses::<Wide, Positional>(payload);
    }
}

#[test]
#[cfg(feature = "json")]
fn stored_json_of_any_depth_does_not_overflow_the_stack() {
    for opening in ["[", r#"{"Down":"#, r#"{"next":"#] {
        refuses::<Link, Json>(opening.repeat(100_000).as_bytes());
        refuses::<Wide, Json>(opening.repeat(100_000).as_bytes());
    }
}
