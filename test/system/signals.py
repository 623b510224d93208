#!/usr/bin/env python3
"""Signals and computing threads: no thread of a rank may run a handler while it computes, in lockstep-run and in a program that uses the C API.

    signals.py BUILD_DIR        Standard library only.
"""
import os, signal, subprocess, sys, tempfile, time

from support import MODELS, Tools, segments, succeed

FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS)
LIBRARY = (32, 33)  # the C library's own, which nobody can block
LETHAL = (signal.SIGTERM, signal.SIGINT)


def mask(line): return {n for n in range(1, 65) if int(line.split()[1], 16) >> (n - 1) & 1}


def threads(process):
    """(signals with a handler, blocked signals) of every thread."""
    for task in os.listdir(f"/proc/{process}/task"):
        lines = {line.split(":")[0]: line for line in open(f"/proc/{process}/task/{task}/status")}
        yield mask(lines["SigCgt"]), mask(lines["SigBlk"])


def children(process): return [int(c) for t in os.listdir(f"/proc/{process}/task") for c in open(f"/proc/{process}/task/{t}/children").read().split()]


def ranks_block(tools, artifact, log, ranks):
    """What is wrong with the masks of the ranks of a run under way, or ''."""
    run = subprocess.Popen(tools.run(artifact, "--data", "synthetic", "--steps", "10000000", "--log", log), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.time() + 60
        while not (os.path.exists(log) and segments(log) and len(segments(log)[0][1]) >= 2):
            if time.time() > deadline or run.poll() is not None: return "the run makes no steps"
            time.sleep(0.05)
        processes = children(run.pid) if ranks > 1 else [run.pid]
        if len(processes) != ranks: return f"{len(processes)} processes, expected {ranks}"
        for process in processes:
            for caught, blocked in threads(process):
                loose = caught - blocked - set(FAULTS) - set(LIBRARY)
                if loose: return f"a thread may run the handlers of {loose}"
                if not blocked.issuperset(LETHAL): return "SIGTERM or SIGINT reaches a thread"
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=60)
        return "" if (run.returncode, errors) == (128 + signal.SIGTERM, "") else f"exit {run.returncode} with {errors!r}"
    finally:
        run.kill()
        run.wait()


def main():
    tools, failures = Tools(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        def report(title, wrong, text=""):
            nonlocal failures
            failures += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '} {title}: {wrong or text}", flush=True)
        for ranks in (1, 2):
            artifact, log = os.path.join(folder, f"gpt2.{ranks}.lockstep"), os.path.join(folder, f"{ranks}.jsonl")
            succeed(tools.compile(f"{MODELS}/gpt2.pt2", "--labels", "next-token", "--ranks", str(ranks), "-o", artifact))
            report(f"gpt2 on {ranks} ranks", ranks_block(tools, artifact, log, ranks))
        artifact, log = os.path.join(folder, "gpt2.1.lockstep"), os.path.join(folder, "whole.jsonl")
        succeed(tools.run(artifact, "--data", "synthetic", "--steps", "60", "--log", log))
        want = [row["loss"] for row in segments(log)[0][1]]
        for count in ("1", "2"):
            ended = subprocess.run([os.path.join(sys.argv[1], "unittests", "signals_test"), artifact, "60"], env={**os.environ, "OMP_NUM_THREADS": count},
                                   capture_output=True, text=True, timeout=120)
            got = [float(line) for line in ended.stdout.split()]
            wrong = "" if ended.returncode == 0 else f"exit {ended.returncode}: {ended.stderr.strip()}"
            report(f"a timer's handler, {count} threads", wrong or ("" if got == want else f"losses {got}, undisturbed {want}"), ended.stderr.strip())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
