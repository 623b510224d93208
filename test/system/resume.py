#!/usr/bin/env python3
"""Stops training runs at random steps, resumes them and compares with an uninterrupted run, bit for bit: every step's loss, gradient norm
and rate, and the saved weights. A killed run must go on from its newest checkpoint and a run that a signal stopped from the step where it
stopped: the log says which checkpoint was read, and the first resumed step must be that checkpoint's. Standard library only.

    resume.py BUILD_DIR
"""
import os, random, signal, subprocess, sys, tempfile, time

from support import MODELS, Tools, segments, succeed

RECIPES = {"mlp": ["--loss", "cross_entropy"], "gpt2": ["--labels", "next-token"], "recipes/dropout": ["--labels", "y", "--gradient-accumulation-steps", "2"]}
STEPS = {"mlp": 400, "gpt2": 40, "recipes/dropout": 300}
EVERY = 5


def values(rows): return {r["step"]: (repr(r["loss"]), repr(r["grad_norm"]), repr(r["lr"])) for r in rows}


def checkpoints(folder):
    """Steps of the checkpoints, oldest first."""
    return sorted(int(name[5:]) for name in os.listdir(folder) if name.startswith("step_")) if os.path.isdir(folder) else []


class Model:
    """One artifact with its uninterrupted run."""

    def __init__(self, tools, folder, name, ranks):
        self.tools, self.name, self.ranks, self.steps = tools, name, ranks, STEPS[name]
        self.stem = os.path.join(folder, f"{os.path.basename(name)}.{ranks}")
        self.artifact = self.stem + ".lockstep"
        succeed(tools.compile(f"{MODELS}/{name}.pt2", *RECIPES[name], "--optimizer", "adamw", "--grad-clip", "1", "--lr-schedule", "cosine",
                              "--warmup-steps", "5", "--total-steps", str(self.steps), "--ranks", str(ranks), "-o", self.artifact))
        whole = self.stem + ".whole"
        succeed(self.command(whole))
        self.want = values(segments(whole + ".jsonl")[0][1])
        assert sorted(self.want) == list(range(self.steps)), "the uninterrupted run lacks steps"
        self.weights = open(whole + ".safetensors", "rb").read()

    def command(self, stem, *more):
        return self.tools.run(self.artifact, "--data", "synthetic", "--steps", str(self.steps), "--log", stem + ".jsonl", "--save-weights", stem + ".safetensors",
                              "--checkpoint-dir", stem + ".ckpt", "--checkpoint-every", str(EVERY), *more)

    def stop(self, stem, number):
        """Sends the signal once a random step is in the log; the exit code. SIGKILL goes to the launcher and all ranks."""
        child = subprocess.Popen(self.command(stem), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        target, deadline = random.randrange(EVERY + 1, self.steps * 3 // 4), time.time() + 60
        while time.time() < deadline and child.poll() is None:
            done = segments(stem + ".jsonl")
            if done and len(done[0][1]) >= target: break
            time.sleep(0.002)
        # SIGKILL reaches no handler, so the ranks find out that their launcher is gone.
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
        if number != signal.SIGKILL: assert not errors.strip(), f"an orderly stop says {errors.strip()!r}"
        return child.returncode

    def check(self, turn, number):
        """Stops and resumes once; what is wrong, or ''."""
        stem = f"{self.stem}.{turn}.{number.name}"
        code = self.stop(stem, number)
        want = -number if number == signal.SIGKILL else 128 + number
        if code != want: return f"exit {code}, expected {want}"
        before, saved = values(segments(stem + ".jsonl")[0][1]), checkpoints(stem + ".ckpt")
        if not saved: return "no checkpoint was left"
        if number != signal.SIGKILL and saved[-1] != max(before) + 1: return f"stopped after step {max(before)}, but the newest checkpoint is of step {saved[-1]}"
        succeed(self.command(stem, "--resume"))
        if len(segments(stem + ".jsonl")) != 2: return "the resumed run did not append to the log"
        header, rows, _ = segments(stem + ".jsonl")[1]
        after = values(rows)
        if header.get("resumed_from") != os.path.join(stem + ".ckpt", f"step_{saved[-1]:08d}"): return f"resumed from {header.get('resumed_from')}, the newest is of step {saved[-1]}"
        if rows[0]["step"] != saved[-1]: return f"first resumed step {rows[0]['step']}, the checkpoint is of step {saved[-1]}"
        if sorted(after) != list(range(saved[-1], self.steps)): return "the resumed run lacks steps"
        for log in (before, after):
            for step, numbers in log.items():
                if numbers != self.want[step]: return f"step {step}: {numbers}, uninterrupted {self.want[step]}"
        if open(stem + ".safetensors", "rb").read() != self.weights: return "the saved weights differ"
        print(f"ok   {self.name} on {self.ranks} ranks: {number.name} after step {max(before)}, resumed at step {rows[0]['step']}", flush=True)
        return ""


def main():
    rounds = 20 if os.environ.get("LOCKSTEP_TEST_ALL", "0") != "0" else 2
    tools, failures = Tools(sys.argv[1]), 0
    plan = [("mlp", 2, [signal.SIGKILL] * rounds + [signal.SIGTERM, signal.SIGINT]), ("mlp", 1, [signal.SIGKILL, signal.SIGTERM]), ("gpt2", 2, [signal.SIGKILL] * rounds + [signal.SIGTERM]),
            ("recipes/dropout", 2, [signal.SIGKILL, signal.SIGTERM])]
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, signals in plan:
            model = Model(tools, folder, name, ranks)
            for turn, number in enumerate(signals):
                try: wrong = model.check(turn, number)
                except AssertionError as error: wrong = str(error)
                failures += bool(wrong)
                if wrong: print(f"FAIL {name} on {ranks} ranks, {number.name}: {wrong}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
