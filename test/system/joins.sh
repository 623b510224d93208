#!/usr/bin/env bash
# Ranks started by torchrun, Slurm or mpirun find each other, or say why not.
exec timeout 300 python3 "$(dirname "$0")/joins.py" "$1"
