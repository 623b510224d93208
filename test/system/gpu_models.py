#!/usr/bin/env python3
"""Trains the models of test/models on a GPU and compares with what PyTorch recorded.

    gpu_models.py compile BUILD_DIR OUT [--target sm_90a] [--all] [--only SUBSTRING] [--ranks 1,2] [--accumulate 1] [--precision f32|bf16-mixed]
    gpu_models.py run BUILD_DIR OUT [--only SUBSTRING] [--under 'compute-sanitizer --tool memcheck'] [--flags '--poison']

The two steps may happen on different machines: `compile` needs no GPU and writes artifacts into OUT; `run` needs bin/lockstep-run (of a build
or of an installed runtime folder), OUT, and this repository's test/models (unpacked by test/models/unpack.py). Losses and gradient norms
of 20 steps must agree within 1e-4 relative with the recorded float32 run, the final weights within 1e-3 absolute (losses within 2e-2 in
bf16-mixed). More ranks than GPUs share
them, through the network loopback of NCCL: right, but slow. Standard library only.
"""
import argparse, glob, json, os, shlex, socket, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from train_models import BATCHES_OF, MODELS, NOT_ACCUMULATED, cases, check, compile_flags, read_safetensors

# Several NCCL ranks on one GPU: each must look like another host.
SHARED_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def compile_models(args):
    os.makedirs(args.out, exist_ok=True)
    failures = done = 0
    for label, path, name, extra in cases():
        plain = label == name + ".pt2"
        if args.only not in label or not (plain or args.all): continue
        record = json.load(open(os.path.join(MODELS, name + ".expected.json")))
        for ranks in [int(r) for r in args.ranks.split(",") if int(r) in record["ranks"]]:
            for steps in [int(k) for k in args.accumulate.split(",") if int(k) == 1 or name not in NOT_ACCUMULATED]:
                stem = os.path.join(args.out, f"{label.replace('/', '_').removesuffix('.pt2')}.{ranks}.{steps}" + (".bf16" if args.precision != "f32" else ""))
                command = [f"{args.build}/bin/lockstep-compile", path, *compile_flags(record), *extra, "--target", args.target, "--ranks", str(ranks),
                           "--gradient-accumulation-steps", str(steps), "--precision", args.precision, "-o", stem + ".lockstep"]
                start = time.time()
                p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
                lines = p.stdout.strip().splitlines() or [""]
                done += 1; failures += p.returncode != 0
                if p.returncode == 0: json.dump({"record": name, "ranks": ranks, "label": label, "accumulation": steps, "precision": args.precision}, open(stem + ".json", "w"))
                print(f"{'ok  ' if p.returncode == 0 else 'FAIL'} {label} for {ranks} ranks, accumulation {steps} ({time.time() - start:.1f} s): {lines[-1]}", flush=True)
    print(f"{done - failures} of {done} compiled")
    return failures, done


def gpu_count():
    try:
        return len([l for l in subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True).stdout.splitlines() if l.startswith("GPU")])
    except OSError:
        return 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(command, ranks, share):
    """Exit code and output of a run; every rank a process of ours when they share a GPU, since each needs a NCCL_HOSTID of its own."""
    if not share:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return p.returncode, p.stdout
    port, processes = str(free_port()), []
    for rank in range(ranks):
        environment = {**os.environ, **SHARED_GPU, "NCCL_HOSTID": str(rank), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment))
    outputs = [p.communicate(timeout=300)[0] for p in processes]
    codes = [p.returncode for p in processes]
    first = next((i for i, c in enumerate(codes) if c), 0)
    return codes[first], outputs[first]


def figures(record, log, final, reference):
    """Worst relative difference of a loss, worst absolute one of a weight, median step time in ms."""
    rows = [r for r in map(json.loads, open(log)) if "loss" in r and "step" in r]
    loss = max(abs(r["loss"] - w) / abs(w) for r, w in zip(rows, record["f32"]["losses"]))
    ours, theirs = read_safetensors(final), read_safetensors(reference)
    weight = max(max((abs(a - b) for a, b in zip(ours[n][1], v)), default=0) for n, (_, v) in theirs.items())
    return loss, weight, sorted(r["step_ms"] for r in rows)[len(rows) // 2]


def run_models(args):
    gpus, failures, done, begin = gpu_count(), 0, 0, time.time()
    for description in sorted(glob.glob(os.path.join(args.out, "*.lockstep"))):
        stem = description.removesuffix(".lockstep")
        if args.only not in os.path.basename(stem): continue
        case = json.load(open(stem + ".json"))
        record = json.load(open(os.path.join(MODELS, case["record"] + ".expected.json")))
        data = BATCHES_OF.get(case["record"], case["record"])
        log, final, reference = stem + ".jsonl", stem + ".safetensors", os.path.join(MODELS, data + ".final.safetensors")
        command = [*shlex.split(args.under), f"{args.build}/bin/lockstep-run", stem + ".lockstep", "--data", os.path.join(MODELS, data + ".batches.safetensors"),
                   "--steps", "20", "--log", log, "--save-weights", final, *shlex.split(args.flags)]
        for old in (log, final):
            if os.path.exists(old): os.remove(old)
        title, start = f"{case['label']} on {case['ranks']} ranks" + (f", accumulation {case['accumulation']}" if case["accumulation"] > 1 else "") + (", bf16" if case["precision"] != "f32" else ""), time.time()
        try:
            code, text = run_ranks(command, case["ranks"], case["ranks"] > max(gpus, 1))
        except subprocess.TimeoutExpired:
            code, text = 124, "no end after 300 s"
        wrong = check(record, case["precision"], log, final, reference) if code == 0 else f"exit {code}: {(text.strip().splitlines() or [''])[-1]}"
        done += 1; failures += bool(wrong)
        note = "" if code else ": loss within {:.1e}, weights within {:.1e}, {:.2f} ms a step".format(*figures(record, log, final, reference))
        print(f"{'FAIL' if wrong else 'ok  '} {title} ({time.time() - start:.1f} s){note}{': ' + wrong if wrong else ''}", flush=True)
        if args.verbose or (args.under and wrong): print(text, flush=True)
    print(f"{done - failures} of {done} runs agree with PyTorch ({time.time() - begin:.0f} s, {gpus} GPUs)")
    return failures, done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["compile", "run"]); parser.add_argument("build"); parser.add_argument("out")
    parser.add_argument("--target", default="sm_90a"); parser.add_argument("--only", default=""); parser.add_argument("--all", action="store_true")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16-mixed"]); parser.add_argument("--ranks", default="1,2"); parser.add_argument("--accumulate", default="1")
    parser.add_argument("--under", default="", help="command that runs lockstep-run"); parser.add_argument("--flags", default="", help="further flags of lockstep-run")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    failures, done = compile_models(args) if args.step == "compile" else run_models(args)
    return 1 if failures or not done else 0


if __name__ == "__main__":
    sys.exit(main())
