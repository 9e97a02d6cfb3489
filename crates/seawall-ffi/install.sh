#!/usr/bin/env bash
# Builds the library and installs it with its headers, for pkg-config and CMake:
#
#     sudo bash crates/seawall-ffi/install.sh [PREFIX]
#
# PREFIX defaults to /usr/local. DESTDIR is prepended to it, for packaging. SEAWALL_LIBRARIES names
# a folder with a prebuilt library.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${1:-/usr/local}
root=${DESTDIR-}$prefix
built=${SEAWALL_LIBRARIES-}
if [ -z "$built" ]; then
    (cd "$here" && cargo build --release --locked -p seawall-ffi)
    built=${CARGO_TARGET_DIR:-$here/../../target}/release
fi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
abi=$(sed -n 's/^#define SEAWALL_ABI_VERSION \([0-9]*\)$/\1/p' "$here/include/seawall.h")

mkdir -p "$root/include/seawall" "$root/lib/pkgconfig" "$root/lib/cmake/seawall" \
    "$root/share/man/man3"
install -m 644 "$here/include/seawall.h" "$here/include/seawall.hpp" "$root/include/"
install -m 644 "$here/include/seawall/cwal.hpp" "$root/include/seawall/"
install -m 644 "$here/man/seawall.3" "$root/share/man/man3/"
install -m 755 "$built/libseawall_ffi.so" "$root/lib/libseawall.so.$abi"
ln -sf "libseawall.so.$abi" "$root/lib/libseawall.so"
install -m 644 "$built/libseawall_ffi.a" "$root/lib/libseawall.a"
fill() { sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@ABI@|$abi|" "$1"; }
fill "$here/packaging/seawall.pc.in" >"$root/lib/pkgconfig/seawall.pc"
fill "$here/packaging/seawall-config.cmake.in" >"$root/lib/cmake/seawall/seawall-config.cmake"
fill "$here/packaging/seawall-config-version.cmake.in" \
    >"$root/lib/cmake/seawall/seawall-config-version.cmake"
# The dynamic loader finds libraries in these prefixes through its cache. In others, programs need
# LD_LIBRARY_PATH or an rpath.
case $root in
/usr | /usr/local) ldconfig ;;
esac
echo "installed seawall $version in $root"
