//! The installed files: `pkg-config`, `CMake`, `man` and `dpkg` find them.

use crate::toolchain::{Scratch, crate_folder, has, installed, run};
use std::fs;
use std::process::Command;

#[test]
fn pkg_config_and_make_without_more_build_the_example() {
    let scratch = Scratch::new();
    if !has("pkg-config") || !has("gcc") {
        return;
    }
    let prefix = installed();
    for (arguments, extra) in
        [("--cflags --libs", ""), ("--cflags --libs --static", "-static-libgcc")]
    {
        // The command that examples/orders.c names.
        let line = format!(
            "cc {extra} {}/examples/orders.c $(pkg-config {arguments} seawall) -o orders",
            crate_folder().display()
        );
        let mut build = Command::new("bash");
        build.args(["-c", &line]).current_dir(scratch.join(""));
        build.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        run(&mut build);
        let mut orders = Command::new(scratch.join("orders"));
        orders.arg(scratch.join("log")).env("LD_LIBRARY_PATH", prefix.join("lib"));
        assert!(run(&mut orders).contains("logged"));
    }
}

#[test]
fn cmake_finds_the_package_and_builds_both_examples() {
    let scratch = Scratch::new();
    if !has("cmake") || !has("g++") {
        return;
    }
    let prefix = installed();
    let examples = crate_folder().join("examples");
    let project = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(orders C CXX)\n\
         find_package(seawall 0.1 REQUIRED)\n\
         add_executable(shared {0}/orders.c)\ntarget_link_libraries(shared seawall::seawall)\n\
         add_executable(static {0}/orders.cpp)\ntarget_link_libraries(static seawall::static)\n\
         set_target_properties(static PROPERTIES CXX_STANDARD 17)\n",
        examples.display()
    );
    fs::write(scratch.join("CMakeLists.txt"), project).unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(scratch.join("")).arg("-B").arg(scratch.join("build"));
    run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new("cmake").arg("--build").arg(scratch.join("build")));
    for program in ["shared", "static"] {
        let mut orders = Command::new(scratch.join("build").join(program));
        assert!(run(orders.arg(scratch.join(format!("{program}.wal")))).contains("logged 1"));
    }
}

#[test]
fn destdir_goes_before_the_prefix() {
    let scratch = Scratch::new();
    let mut install = Command::new("bash");
    install.arg(crate_folder().join("install.sh")).arg("/opt/seawall");
    install.env("DESTDIR", scratch.join("root"));
    run(install.env("SEAWALL_LIBRARIES", crate::toolchain::libraries()));
    let config = scratch.join("root/opt/seawall/lib/pkgconfig/seawall.pc");
    assert!(fs::read_to_string(config).unwrap().starts_with("prefix=/opt/seawall\n"));
}

#[test]
fn debian_package_has_what_programs_need() {
    let scratch = Scratch::new();
    if !["dpkg-deb", "objdump", "pkg-config", "gcc"].into_iter().all(has) {
        return;
    }
    let mut build = Command::new("bash");
    build.arg(crate_folder().join("deb.sh")).arg(scratch.join(""));
    build.env("SEAWALL_LIBRARIES", crate::toolchain::libraries());
    // Stands in for the command line tool, which this test does not build.
    build.env("SEAWALL_COMMAND", "/bin/true").env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let package = run(&mut build).trim().to_owned();
    let fields = run(Command::new("dpkg-deb").args(["--field", &package]));
    assert!(fields.contains("Package: seawall\n") && fields.contains("libc6 (>= 2."), "{fields}");
    let root = scratch.join("root");
    run(Command::new("dpkg-deb").args(["--extract", &package]).arg(&root));
    let usr = root.join("usr");
    for file in ["bin/seawall", "share/man/man3/seawall.3.gz", "include/seawall/cwal.hpp"] {
        assert!(usr.join(file).exists(), "{file}");
    }
    let line = format!(
        "cc {}/examples/orders.c $(pkg-config --define-variable=prefix={} --cflags --libs seawall) \
         -o orders",
        crate_folder().display(),
        usr.display()
    );
    let mut build = Command::new("bash");
    build.args(["-c", &line]).current_dir(scratch.join(""));
    run(build.env("PKG_CONFIG_PATH", usr.join("lib/pkgconfig")));
    let mut orders = Command::new(scratch.join("orders"));
    orders.arg(scratch.join("log")).env("LD_LIBRARY_PATH", usr.join("lib"));
    assert_eq!(run(&mut orders), "logged 1\n");
}
