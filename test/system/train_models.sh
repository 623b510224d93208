#!/usr/bin/env bash
# Every model trains as PyTorch recorded it. LOCKSTEP_TEST_ALL=1 runs every layout.
exec python3 "$(dirname "$0")/train_models.py" "$1" ${LOCKSTEP_TEST_ALL:+--all}
