#!/usr/bin/env bash
# Mutated .pt2 files: the importer must answer each with a module or an error, never crash or hang. LOCKSTEP_TEST_ALL=1 tries 10,000 a model.
set -euo pipefail
build=$(realpath "${1:-build}")
cd "$(dirname "$0")/../.."
count=300
[ "${LOCKSTEP_TEST_ALL:-0}" = 1 ] && count=10000
timeout $((120 + count)) "$build/bin/fuzz_pt2" test/models/mlp.pt2 test/models/gpt2_dynamic.pt2 \
  test/models/versions/llama_transformers4.57.pt2 -n "$count"
