#!/usr/bin/env bash
# Writes docs/dialects/*.md from the dialects' definitions. With --check: fails when they are not up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
llvm=${LLVM_DIR:-/usr/lib/llvm-22}
target=docs/dialects
if [ "${1:-}" = --check ]; then target=$(mktemp -d); trap 'rm -rf "$target"' EXIT; fi
for dialect in train:Train dist:Dist plan:Plan; do
  name=${dialect%%:*} file=${dialect##*:}
  "$llvm/bin/mlir-tblgen" -gen-dialect-doc -dialect="$name" -I "$llvm/include" -I . "dialects/$name/${file}Ops.td" >"$target/$name.md"
done
if [ "${1:-}" = --check ] && ! diff -r -q "$target" docs/dialects >&2; then
  echo "error: docs/dialects is not what the definitions say; run tools/generate-docs.sh" >&2
  exit 1
fi
