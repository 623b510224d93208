#!/usr/bin/env bash
# Every kind of bad input ends with one error line and the right exit code.
exec timeout 300 python3 "$(dirname "$0")/bad_inputs.py" "$1"
