#!/usr/bin/env bash
# Given, drawn and saved weights.
exec timeout 100 python3 "$(dirname "$0")/weights.py" "$1"
