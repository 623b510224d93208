#!/usr/bin/env python3
"""Runs the IR of every stage with the reference interpreter, on one set of inputs, and compares.

    interpret_stages.py BUILD_DIR [--only SUBSTRING] [--ranks 2,4] [--flags='--precision bf16-mixed --target sm_90a' --tolerance 2e-2]

What autodiff made (whole batch, one rank) is the oracle for partition, fuse and schedule (local shapes, all ranks; after schedule in the
memory that the plan gives). Results must agree within 1e-4 (--tolerance) of each tensor's largest value, and ranks to the bit. With --flags the
compiler is given more of them: for a GPU's target the kernels are others. Standard library only.
"""
import argparse, json, os, shlex, subprocess, sys, tempfile, time

import train_models

STAGES = ["3-partition", "4-fuse", "5-schedule"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"exit {done.returncode}"


def check(build, file, record, extra, ranks, accumulation, tolerance, folder):
    """The first failure as text, or ''."""
    tool = lambda name: os.path.join(build, "bin", name)
    compile_command = [tool("lockstep-compile"), file, *train_models.compile_flags(record), *extra, "--ranks", str(ranks),
                       "--gradient-accumulation-steps", str(accumulation), "--dump-ir-dir", folder, "--compile-to", "schedule", "-o", os.path.join(folder, "last.mlir")]
    if error := run(compile_command): return "compile: " + error
    inputs, expected = os.path.join(folder, "inputs.safetensors"), os.path.join(folder, "expected.safetensors")
    for entry in ("step", "eval"):
        oracle = [tool("lockstep-interpret"), os.path.join(folder, "2-autodiff.mlir"), "--entry", entry, "--integers-below", "2",
                  "--gradient-accumulation-steps", str(accumulation), "--write-inputs", inputs, "-o", expected]
        if error := run(oracle): return f"autodiff, {entry}: {error}"
        for stage in STAGES:
            command = [tool("lockstep-interpret"), os.path.join(folder, stage + ".mlir"), "--entry", entry, "--inputs", inputs,
                       "--gradient-accumulation-steps", str(accumulation if entry == "step" else 1), "--expect", expected, "--tolerance", tolerance]
            if error := run(command): return f"{stage}, {entry}: {error}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--flags", default="")
    parser.add_argument("--tolerance", default="1e-4")
    options = parser.parse_args()
    failures, passed = 0, 0
    for label, file, name, extra in train_models.cases():
        if options.only not in label or label.startswith("versions"): continue
        record = json.load(open(os.path.join(train_models.MODELS, name + ".expected.json")))
        for ranks in [int(r) for r in options.ranks.split(",")]:
            ranks = ranks if ranks in record["ranks"] else record["ranks"][0]
            accumulation = 1 if name in train_models.NOT_ACCUMULATED else 2
            start = time.time()
            with tempfile.TemporaryDirectory() as folder:
                error = check(options.build, file, record, [*extra, *shlex.split(options.flags)], ranks, accumulation, options.tolerance, folder)
            print(f"{'FAIL' if error else 'ok'}: {label}, {ranks} ranks, accumulation {accumulation} ({time.time() - start:.1f} s) {error}", flush=True)
            failures, passed = failures + bool(error), passed + (not error)
    print(f"{passed} passed, {failures} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
