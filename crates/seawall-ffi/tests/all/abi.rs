//! Random sequences of calls of the C interface, and sequences that fuzzers found.

mod calls;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../qa/fuzz");

/// Pseudo-random bytes that depend on the seed.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let length = 20 + 8 * usize::from(draw());
    (0..length).map(|_| draw()).collect()
}

/// Tries 100 seeds, or as many as `SEAWALL_FFI_SEEDS` says.
#[test]
fn random_sequences_of_calls_have_a_status() {
    let seeds = std::env::var("SEAWALL_FFI_SEEDS").map_or(100, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        println!("seed {seed}");
        calls::run(&noise(seed));
    }
}

#[test]
fn sequences_that_fuzzers_found_have_a_status() {
    for folder in ["seeds", "found"] {
        let Ok(files) = std::fs::read_dir(format!("{FUZZ}/{folder}/abi")) else { continue };
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            calls::run(&std::fs::read(&path).unwrap());
        }
    }
}
