#!/usr/bin/env bash
# Losses and evaluations of many recipes are PyTorch's.
exec timeout 300 python3 "$(dirname "$0")/recipes.py" "$1"
