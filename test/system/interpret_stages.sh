#!/usr/bin/env bash
# Every stage's IR computes the same, by the reference interpreter.
exec python3 "$(dirname "$0")/interpret_stages.py" "$1"
