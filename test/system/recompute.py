#!/usr/bin/env python3
"""Trains models in less memory than they need without recomputation, and compares.

    recompute.py BUILD_DIR [--only SUBSTRING]

For each model of test/models, the least memory that recomputation reaches (as the error of an impossible limit says), and the middle between that and what
the plan takes without a limit, are given as --memory-limit. The losses and weights of 20 steps must be PyTorch's as without a limit, and the losses those of
the run without a limit within 1e-6 (the same operations on the same numbers; only how a compiler contracts them may differ between kernels). The plan must
fit, the run must take exactly the memory that the plan says, and the interpreter must find the scheduled program equal to what autodiff made, with
accumulation. Standard library only.
"""
import argparse, json, os, re, subprocess, sys, tempfile, time

import interpret_stages
from train_models import BATCHES_OF, MODELS, NOT_ACCUMULATED, cases, check, close, compile_flags, run

MIB = 1 << 20


def peak_mib(text): return float(re.search(r"peak memory ([\d.]+) MiB", text).group(1))


class Case:
    def __init__(self, build, path, name, extra, folder):
        self.build, self.path, self.name, self.extra, self.folder = build, path, name, extra, folder
        self.record = json.load(open(os.path.join(MODELS, name + ".expected.json")))

    def tool(self, name): return os.path.join(self.build, "bin", name)

    def compile(self, stem, *flags):
        return run([self.tool("lockstep-compile"), self.path, *compile_flags(self.record), *self.extra, *flags, "-o", stem + ".lockstep"])

    def train(self, stem):
        """The losses, or what is wrong."""
        data = os.path.join(MODELS, BATCHES_OF.get(self.name, self.name))
        code, text = run([self.tool("lockstep-run"), stem + ".lockstep", "--data", data + ".batches.safetensors", "--steps", "20", "--log", stem + ".jsonl", "--save-weights", stem + ".safetensors"])
        if code: raise AssertionError(f"exit {code}: {text.strip().splitlines()[-1]}")
        if wrong := check(self.record, "f32", stem + ".jsonl", stem + ".safetensors", data + ".final.safetensors"): raise AssertionError(wrong)
        header, *rows = [json.loads(line) for line in open(stem + ".jsonl")]
        return header, [row["loss"] for row in rows if "loss" in row]

    def find_limits(self):
        """Without a limit, MiB that the plan takes; the least that recomputation reaches, and the middle, in bytes."""
        code, text = self.compile(os.path.join(self.folder, "ample"))
        if code: raise AssertionError(text)
        if "recomputed:" in text: raise AssertionError("something is recomputed without a limit")
        ample = peak_mib(text)
        code, text = self.compile(os.path.join(self.folder, "none"), "--memory-limit", "1")
        if code != 1: raise AssertionError(f"expected exit 1 for an impossible limit, but got {code}")
        reached = re.search(r"needs ([\d.]+) MiB per rank(?: \(([\d.]+) MiB without what is computed again by \d+ kernel calls\))?, but the memory limit is 0.0 MiB", text)
        if not reached: raise AssertionError("the error does not say what is needed: " + text)
        least = float(reached.group(1)) + 0.06   # it is rounded
        if ample - least < 0.3: return ample, []   # the summary's digits would not show it
        return ample, [int(least * MIB), int((least + ample) / 2 * MIB)]

    def check_limit(self, limit, ample, losses):
        stem = os.path.join(self.folder, "tight")
        code, text = self.compile(stem, "--memory-limit", str(limit))
        if code: raise AssertionError(text)
        counted = re.search(r"recomputed: (\d+) kernel calls and (\d+) results of kernels that run anyway, ([\d.]+) MiB less at the peak", text)
        if not counted: raise AssertionError("the summary does not say what is recomputed: " + text)
        if abs(peak_mib(text) + float(counted.group(3)) - ample) > 0.2: raise AssertionError(f"{ample} MiB without a limit, but {counted.group(0)} and {peak_mib(text)} MiB")
        if peak_mib(text) * MIB > limit + 0.06 * MIB: raise AssertionError(f"{peak_mib(text)} MiB do not fit {limit} bytes")
        header, found = self.train(stem)
        for step, (a, b) in enumerate(zip(found, losses)):
            if not close(a, b, 1e-6): raise AssertionError(f"step {step}: loss {a}, but {b} without a limit")
        arena = header.get("memory", {}).get("arena")
        if arena is None or abs(arena / MIB - peak_mib(text)) > 0.06: raise AssertionError(f"the run's arena has {arena} bytes, the plan {peak_mib(text)} MiB")
        return int(counted.group(1)) + int(counted.group(2))

    def interpret(self, limit):
        accumulation = 1 if self.name in NOT_ACCUMULATED else 2
        if wrong := interpret_stages.check(self.build, self.path, self.record, [*self.extra, "--memory-limit", str(limit)], 1, accumulation, "1e-4", self.folder): raise AssertionError(wrong)


def main():
    parser = argparse.ArgumentParser(); parser.add_argument("build"); parser.add_argument("--only", default="")
    args = parser.parse_args()
    failures = done = recomputed = 0
    for label, path, name, extra in cases():
        if label != name + ".pt2" or args.only not in label: continue
        start = time.time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                case = Case(args.build, path, name, extra, folder)
                ample, limits = case.find_limits()
                _, losses = case.train(os.path.join(folder, "ample"))
                calls = [case.check_limit(limit, ample, losses) for limit in limits]
                if limits: case.interpret(limits[0])
                recomputed += sum(calls)
                note = f"{ample} MiB, {', '.join(f'{limit / MIB:.1f} with {count} calls' for limit, count in zip(limits, calls))}"
            except AssertionError as error: note, failures = f"FAIL {error}", failures + 1
        done += 1
        print(f"{label}: {note} ({time.time() - start:.1f} s)", flush=True)
    print(f"{done - failures} of {done} models agree, {recomputed} calls")
    return 1 if failures or not recomputed else 0


if __name__ == "__main__":
    sys.exit(main())
