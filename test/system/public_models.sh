#!/usr/bin/env bash
# Public models of many families train as PyTorch recorded.
exec timeout 400 python3 "$(dirname "$0")/public_models.py" "$1"
