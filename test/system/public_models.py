#!/usr/bin/env python3
"""Small exports of public models of many families train as PyTorch recorded (test/models/make_public.py), on one rank and on two.

    public_models.py BUILD_DIR [--only SUBSTRING]        Standard library only.
"""
import argparse, json, os, sys, tempfile

from support import MODELS, Tools, segments, succeed

FOLDER = os.path.join(MODELS, "public")


def check(tools, folder, name, record, ranks):
    """The first disagreement as text, or ''."""
    stem, artifact, log = os.path.join(FOLDER, name), os.path.join(folder, "m.lockstep"), os.path.join(folder, "log.jsonl")
    succeed(tools.compile(stem + ".pt2", "--labels", "y", "--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.1", *record["flags"], "--ranks", str(ranks), "-o", artifact))
    succeed(tools.run(artifact, "--data", stem + ".batches.safetensors", "--steps", "3", "--log", log))
    _, rows, _ = segments(log)[0]
    for key, column in (("losses", "loss"), ("grad_norms", "grad_norm")):
        for step, want in enumerate(record[key]):
            got = rows[step][column]
            if got is None or not abs(got - want) <= 1e-4 * abs(want): return f"step {step}: {column} {got}, PyTorch {want}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tools, done, failures = Tools(options.build), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, record in json.load(open(os.path.join(FOLDER, "expected.json"))).items():
            for ranks in (1, 2):
                if options.only not in name: continue
                try: wrong = check(tools, folder, name, record, ranks)
                except AssertionError as error: wrong = str(error)
                done, failures = done + 1, failures + bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {name} on {ranks} ranks: {wrong}", flush=True)
    print(f"{done - failures} of {done} agree with PyTorch")
    return 1 if failures or not done else 0


if __name__ == "__main__":
    sys.exit(main())
