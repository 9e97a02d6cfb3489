#!/usr/bin/env bash
# Builds a Debian package of the library, its headers and the command-line tool:
#
#     bash crates/seawall-ffi/deb.sh [FOLDER]
#
# The package goes to FOLDER, by default the current one. SEAWALL_LIBRARIES names a folder with a
# prebuilt library, SEAWALL_COMMAND a prebuilt command-line tool.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(cd "${1:-.}" && pwd)
built=${CARGO_TARGET_DIR:-$here/../../target}/release
if [ -z "${SEAWALL_LIBRARIES-}" ] || [ -z "${SEAWALL_COMMAND-}" ]; then
    (cd "$here" && cargo build --release --locked -p seawall-ffi -p seawall-cli)
fi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

SEAWALL_LIBRARIES=${SEAWALL_LIBRARIES:-$built} DESTDIR=$root bash "$here/install.sh" /usr >&2
mkdir -p "$root/usr/bin" "$root/usr/share/doc/seawall" "$root/usr/share/man/man1" "$root/DEBIAN"
install -m 755 "${SEAWALL_COMMAND:-$built/seawall}" "$root/usr/bin/seawall"
"$root/usr/bin/seawall" man --dir "$root/usr/share/man/man1" >&2
strip --strip-unneeded "$root/usr/bin/seawall" "$root"/usr/lib/libseawall.so.*
strip --strip-debug "$root/usr/lib/libseawall.a"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
cat "$here"/../../LICENSE-{MIT,APACHE} >"$root/usr/share/doc/seawall/copyright"
chmod 644 "$root/usr/share/doc/seawall/copyright"

# The newest glibc symbol version that the binaries need.
libc=$(objdump -T "$root/usr/bin/seawall" "$root"/usr/lib/libseawall.so.* |
    sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
cat >"$root/DEBIAN/control" <<CONTROL
Package: seawall
Version: $version
Architecture: $architecture
Maintainer: Seawall <seawall@users.noreply.github.com>
Installed-Size: $(du -k -s "$root/usr" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1
Section: libs
Priority: optional
Homepage: https://github.com/seawall-wal/seawall
Description: write-ahead log
 A write-ahead log that tells a torn tail from damage and names what is lost:
 library for C and C++, headers, and command-line tool.
CONTROL
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
package=$target/seawall_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >&2
echo "$package"
