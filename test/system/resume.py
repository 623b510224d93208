#!/usr/bin/env python3
"""Kills training runs at random moments, resumes them and compares with an uninterrupted run, bit for bit: every step's loss, gradient
norm and rate, and the saved weights. The last kill of a model is SIGTERM, which must leave a checkpoint. Standard library only.

    resume.py BUILD_DIR
"""
import json, os, random, shutil, signal, subprocess, sys, tempfile, time

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "test", "models")
RECIPES = {"mlp": ["--loss", "cross_entropy"], "gpt2": ["--labels", "next-token"]}
STEPS = {"mlp": 400, "gpt2": 40}


def rows(path):
    """step -> (loss, grad_norm, lr) as text; a torn last line of a killed run is left out."""
    out = {}
    if not os.path.exists(path): return out
    for line in open(path):
        try: r = json.loads(line)
        except ValueError: continue
        if "step" in r and "loss" in r: out[r["step"]] = (repr(r["loss"]), repr(r["grad_norm"]), repr(r["lr"]))
    return out


def check(tools, folder, name, rounds):
    artifact, steps = os.path.join(folder, name + ".lockstep"), STEPS[name]
    subprocess.run([f"{tools}/lockstep-compile", f"{MODELS}/{name}.pt2", *RECIPES[name], "--optimizer", "adamw", "--ranks", "2", "-o", artifact],
                   check=True, timeout=120, stdout=subprocess.DEVNULL)
    def command(stem, *more):
        return [f"{tools}/lockstep-run", artifact, "--data", "synthetic", "--steps", str(steps), "--log", stem + ".jsonl", "--save-weights", stem + ".safetensors", *more]
    whole = os.path.join(folder, name + ".whole")
    start = time.time()
    subprocess.run(command(whole, "--checkpoint-dir", whole + ".ckpt", "--checkpoint-every", "5"), check=True, timeout=300, stdout=subprocess.DEVNULL)
    duration, want = time.time() - start, rows(whole + ".jsonl")
    if len(want) != steps: return f"the uninterrupted run logged {len(want)} of {steps} steps"
    for turn in range(rounds):
        stem = os.path.join(folder, f"{name}.{turn}"); checkpoints = ["--checkpoint-dir", stem + ".ckpt", "--checkpoint-every", "5"]
        terminate = turn == rounds - 1
        child = subprocess.Popen(command(stem, *checkpoints), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.time() + 60
        while not (os.path.isdir(stem + ".ckpt") and os.listdir(stem + ".ckpt")) and child.poll() is None and time.time() < deadline: time.sleep(0.005)
        time.sleep(random.random() * duration * 0.5)
        killed = child.poll() is None
        if killed: child.terminate() if terminate else os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=60)
        before = rows(stem + ".jsonl"); shutil.copy(stem + ".jsonl", stem + ".before.jsonl")
        if terminate and not [f for f in os.listdir(stem + ".ckpt")]: return "SIGTERM left no checkpoint"
        p = subprocess.run(command(stem, *checkpoints, "--resume"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if p.returncode: return f"round {turn}: resuming exits {p.returncode}: {p.stdout.strip()[-300:]}"
        after = rows(stem + ".jsonl")
        if terminate and killed and before and after and min(s for s in after) > 0 and min(after) != max(before) + 1:
            return f"SIGTERM: stopped after step {max(before)}, resumed at {min(after)}"
        for log in (before, after):
            for step, values in log.items():
                if values != want.get(step): return f"round {turn}: step {step}: {values}, uninterrupted {want.get(step)}"
        if set(before) | set(after) != set(want): return f"round {turn}: steps missing: {sorted(set(want) - set(before) - set(after))[:5]}"
        if open(stem + ".safetensors", "rb").read() != open(whole + ".safetensors", "rb").read(): return f"round {turn}: the saved weights differ"
        print(f"ok   {name}: {'SIGTERM' if terminate else 'SIGKILL'} {'after step ' + str(max(before, default=-1)) if killed else 'came after the end'}", flush=True)
    return ""


def main():
    rounds = 20 if os.environ.get("LOCKSTEP_TEST_ALL", "0") != "0" else 3
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in RECIPES:
            wrong = check(os.path.join(sys.argv[1], "bin"), folder, name, rounds)
            failures += bool(wrong)
            if wrong: print(f"FAIL {name}: {wrong}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
