#!/usr/bin/env python3
"""Losses, gradient norms, rates and evaluations of many recipes against what PyTorch recorded (test/models/make_recipes.py): smoothing, ignored
labels spread unevenly over ranks and accumulation steps, momentum, decay and its exclusions, clipping, schedules, class dimension, batch
norm's statistics global and local, evaluation with running statistics and without dropout.

    recipes.py BUILD_DIR [--only SUBSTRING]        Standard library only.
"""
import argparse, json, os, sys, tempfile

from support import MODELS, Tools, segments, succeed

FOLDER = os.path.join(MODELS, "recipes")
TOLERANCE = 2e-5


def far(a, b, tolerance=TOLERANCE): return a is None or not abs(a - b) <= tolerance * max(abs(b), 1e-3)


def check(tools, folder, record, ranks, accumulation):
    """The first disagreement as text, or ''."""
    stem = os.path.join(FOLDER, record["graph"])
    artifact, log = os.path.join(folder, "m.lockstep"), os.path.join(folder, "log.jsonl")
    succeed(tools.compile(stem + ".pt2", *record["flags"], "--ranks", str(ranks), "--gradient-accumulation-steps", str(accumulation), "-o", artifact))
    succeed(tools.run(artifact, "--data", stem + ".batches.safetensors", "--steps", "6", "--val-data", stem + ".val.safetensors", "--eval-every", "2", "--log", log))
    _, rows, evaluations = segments(log)[0]
    for key, name in (("losses", "loss"), ("grad_norms", "grad_norm"), ("rates", "lr")):
        for step, want in enumerate(record[key]):
            if far(rows[step][name], want): return f"step {step}: {name} {rows[step][name]}, PyTorch {want}"
    got = {str(e["step"]): e["val_loss"] for e in evaluations}
    if set(got) != set(record["evaluations"]): return f"evaluated after steps {sorted(got)}, expected {sorted(record['evaluations'])}"
    for step, want in record["evaluations"].items():
        if far(got[step], want): return f"after step {step}: evaluation {got[step]}, PyTorch {want}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tools, done, failures = Tools(options.build), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, record in json.load(open(os.path.join(FOLDER, "expected.json"))).items():
            for ranks, accumulation in record["layouts"]:
                if options.only not in name: continue
                wrong = check(tools, folder, record, ranks, accumulation)
                done, failures = done + 1, failures + bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {name} on {ranks} ranks, accumulation {accumulation}: {wrong}", flush=True)
    print(f"{done - failures} of {done} agree with PyTorch")
    return 1 if failures or not done else 0


if __name__ == "__main__":
    sys.exit(main())
