#!/usr/bin/env bash
# Stopping after a phase and going on from its IR gives the same artifact.
exec timeout 300 python3 "$(dirname "$0")/compile_from.py" "$1"
