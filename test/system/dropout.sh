#!/usr/bin/env bash
# Dropout's masks are the same on any layout and in the interpreter.
exec timeout 300 python3 "$(dirname "$0")/dropout.py" "$1"
