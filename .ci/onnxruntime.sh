#!/bin/sh
# Puts the pinned ONNX Runtime library into the cache where jempipe looks for it.
# Nothing is fetched when a fitting library can be found without.
set -eu

version=1.30.0
package_sha512=b7086cd42d82fc1164cf5c9ce4e634288536194aba0d444eee10f86f1e50d90cb79c0309c115d6f31537355733136f5503d96894b3987a9a03f1f8d318e7c8ab

say() { printf 'onnxruntime: %s\n' "$*" >&2; }
fail() { say "$1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }
by_hand='or give a library yourself: JEMPIPE_ONNXRUNTIME=/path/to/libonnxruntime.so (version 1.24 or newer)'

if [ -n "${JEMPIPE_ONNXRUNTIME:-}" ]; then
    exit 0 # the program checks the library that it is given
fi

# found: whether the program finds a library without the cache, such as one of the system's.
found() { go run ./onnx/runtime/locate 2>/dev/null; }

for file in bin/libonnxruntime.so bin/libonnxruntime.so.1; do # beside the binary
    if [ -f "$file" ] && JEMPIPE_ONNXRUNTIME=$file found; then exit 0; fi
done

case "$(uname -s)-$(uname -m)" in
Linux-x86_64 | Linux-amd64)
    machine=x64
    library_sha256=ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23
    ;;
Linux-aarch64 | Linux-arm64)
    machine=arm64
    library_sha256=1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76
    ;;
*)
    if found; then exit 0; fi
    fail "no pinned library for $(uname -s) $(uname -m), only for Linux on x64 and arm64" "$by_hand"
    ;;
esac

case "${XDG_CACHE_HOME:-}" in
/*) cache=$XDG_CACHE_HOME ;;
'') cache=${HOME:?set HOME or XDG_CACHE_HOME}/.cache ;;
*) fail "XDG_CACHE_HOME is $XDG_CACHE_HOME, wanted an absolute path" ;;
esac
folder=$cache/jempipe/onnxruntime/$version/linux-$machine
library=$folder/libonnxruntime.so.1

# holds FILE TOOL SUM: whether the checksum of the file is the pinned one.
holds() { [ "$("$2" <"$1" | cut -d ' ' -f 1)" = "$3" ]; }

if [ -f "$library" ]; then
    if holds "$library" sha256sum "$library_sha256"; then exit 0; fi
    say "$library has the wrong checksum; it is fetched anew"
elif found; then
    exit 0
fi

command -v npm >/dev/null 2>&1 ||
    fail 'npm is not installed; it fetches the library from the package onnxruntime-node' 'install npm (it comes with Node.js)' "$by_hand"

mkdir -p "$folder"
temp=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say "fetching onnxruntime-node $version (about 115 MB) with npm"
(cd "$temp" && npm pack "onnxruntime-node@$version" --ignore-scripts --silent >/dev/null) ||
    fail "npm could not fetch onnxruntime-node $version; its message is above" 'check the network and the npm settings (npm config ls), then run make onnxruntime again' "$by_hand"
package=$temp/onnxruntime-node-$version.tgz
holds "$package" sha512sum "$package_sha512" ||
    fail 'the package that npm fetched has not the pinned SHA-512 checksum; it is not used' 'try again; if it happens again, the registry serves another file' "$by_hand"

member=package/bin/napi-v6/linux/$machine/libonnxruntime.so.1
tar -xzf "$package" -C "$temp" "$member" || fail "cannot unpack $member"
holds "$temp/$member" sha256sum "$library_sha256" ||
    fail 'the library in the package has not the pinned SHA-256 checksum; it is not used' "$by_hand"
chmod 644 "$temp/$member"
mv -f "$temp/$member" "$library"
say "ONNX Runtime $version is in $library"
