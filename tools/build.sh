#!/usr/bin/env bash
# Configures and builds into build/ (or $LOCKSTEP_BUILD_DIR). Arguments are build targets; none builds everything.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${LOCKSTEP_BUILD_DIR:-build}
if [ ! -e "$build/build.ninja" ]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=clang++-22 >"${TMPDIR:-/tmp}/lockstep-cmake.$$" 2>&1 ||
    { cat "${TMPDIR:-/tmp}/lockstep-cmake.$$" >&2; exit 1; }
  rm -f "${TMPDIR:-/tmp}/lockstep-cmake.$$"
fi
ninja -C "$build" --quiet "$@"
