#!/usr/bin/env bash
# Every model trains on this machine's GPU as PyTorch recorded it; skipped (exit 77) where there is none.
set -euo pipefail
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || true
case "$capability" in
  8.*) target=sm_80 ;;
  9.0) target=sm_90a ;;
  10.0) target=sm_100a ;;
  *) echo "SKIPPED: no GPU that the compiler has a target for${capability:+ (compute capability $capability)}"; exit 77 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(dirname "$0")/gpu_models.py" compile "$1" "$folder" --target "$target"
"$(dirname "$0")/gpu_models.py" run "$1" "$folder"
