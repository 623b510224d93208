#!/usr/bin/env bash
# Installs what a Debian 12 system needs to build Lockstep. Does nothing when all of it is there already.
set -euo pipefail

packages=(
  # Compiler: MLIR, LLVM, clang and lld 22 come from Debian's security suite.
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 clang-format-22 lld-22 liblld-22-dev
  # Build
  gcc libc6-dev libstdc++-12-dev cmake ninja-build ccache git
  # Libraries
  libzip-dev nlohmann-json3-dev libcli11-dev catch2 libflatbuffers-dev flatbuffers-compiler libxxhash-dev libssl-dev
  libgloo-dev libdnnl-dev libopenblas-openmp-dev zlib1g-dev libzstd-dev libxml2-dev libedit-dev libcurl4-openssl-dev
  # lit, and the scripts of the tests
  python3
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: installing ${missing[*]} needs root: run as root, or install sudo" >&2; exit 1; }
  root=(sudo)
fi
echo "installing: ${missing[*]}"
log=$(mktemp)
if ! { "${root[@]}" apt-get update -qq && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: packages could not be installed; LLVM 22 needs Debian 12's security suite (bookworm-security) in the package sources" >&2
  exit 1
fi
rm -f "$log"
