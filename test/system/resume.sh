#!/usr/bin/env bash
# A run that is killed and resumed gives the bits of one that is not. LOCKSTEP_TEST_ALL=1 kills 20 times a model.
exec timeout 900 python3 "$(dirname "$0")/resume.py" "$1"
