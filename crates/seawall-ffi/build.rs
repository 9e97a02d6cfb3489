//! Gives the shared library the name that programs look for when they start.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number after `.so` is the version of the ABI: `ABI_VERSION` in src/lib.rs.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libseawall.so.1");
    }
}
