#!/usr/bin/env bash
# No thread that computes runs a signal's handler.
exec timeout 300 python3 "$(dirname "$0")/signals.py" "$1"
