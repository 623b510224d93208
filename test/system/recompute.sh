#!/usr/bin/env bash
# Models train to the same losses where saved values are computed again to fit a memory limit.
exec python3 "$(dirname "$0")/recompute.py" "$1"
