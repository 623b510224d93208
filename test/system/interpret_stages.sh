#!/usr/bin/env bash
# Every stage's IR computes the same, by the reference interpreter: for the host, and in bf16 for a GPU, whose products absorb what is behind them.
check="$(dirname "$0")/interpret_stages.py"
python3 "$check" "$1" || exit 1
for model in bert gpt2 llama vit; do
  python3 "$check" "$1" --only $model.pt2 --flags='--precision bf16-mixed --target sm_90a' --tolerance 2e-2 || exit 1
done
