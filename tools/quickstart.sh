#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs packages, builds, compiles a small GPT-2 and trains it on 2 CPU ranks on the bytes of
# a text that Debian ships.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/quickstart}
text=/usr/share/common-licenses/GPL-3

echo "== 1. packages"
tools/install-packages.sh
echo "== 2. build (some minutes the first time)"
tools/build.sh lockstep-compile lockstep-run lockstep-inspect LockstepTestModels
mkdir -p "$out"
export PATH="$PWD/build/bin:$PATH"

echo "== 3. what is in the exported model"
lockstep-inspect test/models/gpt2.pt2 | head -n 20
echo "== 4. compile the whole training step for 2 ranks"
lockstep-compile test/models/gpt2.pt2 --weights none --init normal:0.02 --labels next-token --optimizer adamw --lr 3e-3 --weight-decay 0.1 \
  --weight-decay-exclude 'ndim<2' --grad-clip 1.0 --lr-schedule cosine --warmup-steps 20 --total-steps 200 --min-lr 3e-4 \
  --ranks 2 -o "$out/gpt2.lockstep"
echo "== 5. train on 2 CPU ranks"
lockstep-run "$out/gpt2.lockstep" --data "$text" --data-dtype uint8 --steps 200 --log "$out/losses.jsonl" --save-weights "$out/final.safetensors"

first=$(sed -n 2p "$out/losses.jsonl" | sed -E 's/.*"loss": *([0-9.]+).*/\1/')
last=$(tail -n 1 "$out/losses.jsonl" | sed -E 's/.*"loss": *([0-9.]+).*/\1/')
cat <<TXT

The loss fell from $first to $last.
  $out/gpt2.lockstep       the artifact: lockstep-inspect shows what each rank does
  $out/losses.jsonl        loss, gradient norm, learning rate and time of every step
  $out/final.safetensors   the weights, for PyTorch: model.load_state_dict(safetensors.torch.load_file(...))
Next: README.md says how to export your own model, docs/architecture.md how the compiler works.
TXT
