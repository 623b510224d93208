#!/usr/bin/env python3
"""Compiles and trains the models of test/models and compares with what PyTorch recorded.

    train_models.py BUILD_DIR [--all] [--only SUBSTRING] [--ranks 1,2] [--precision f32|bf16-mixed] [--keep DIR]

Losses and gradient norms of 20 steps must agree within 1e-4 relative with the recorded float32 run, the final weights within 1e-3
absolute; with bf16-mixed the losses within 2e-2. Without --all a selection runs that covers every file, every rank count, accumulation
and both precisions. Standard library only.
"""
import argparse, array, json, math, os, struct, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "test", "models")
# Exported file -> the record it must reproduce.
RECORD_OF = {"gpt2_transformers4.57": "gpt2", "llama_transformers4.57": "llama", "bert_torch2.9": "bert", "mlp_torch2.6": "mlp", "mlp_torch2.9": "mlp"}
BATCHES_OF = {"gpt2_eager": "gpt2", "gpt2_dynamic": "gpt2"}
# No accumulation: batch statistics are those of a micro batch; gcn is one graph, not a batch.
NOT_ACCUMULATED = {"resnet18", "gcn"}
# Steps that a bf16-mixed run is compared over where they are not all 20: batch norm over few rows magnifies roundings. Under torch.autocast
# the same run leaves the f32 losses by 4 % at step 3, 10 % at step 5.
NARROW_STEPS = {"resnet18": 3}


def cases():
    """(label, file, name of the record, extra compile flags) of every exported graph."""
    out = []
    for folder in ("", "versions"):
        for f in sorted(os.listdir(os.path.join(MODELS, folder))):
            if not f.endswith(".pt2"): continue
            base = f[:-4].removesuffix(".core")
            extra = ["--weights", os.path.join(MODELS, "versions", "mlp.start.safetensors")] if base == "mlp_torch2.6" else []
            out.append((os.path.join(folder, f), os.path.join(MODELS, folder, f), RECORD_OF.get(base, base), extra))
    return out


def compile_flags(record):
    """The flags of lockstep-compile that say what the recorded recipe says."""
    o, flags = record["optimizer"], []
    flags += ["--loss", record["loss"]]
    if "target" in record: flags += ["--labels", record["target"]]
    if "label_smoothing" in record: flags += ["--label-smoothing", str(record["label_smoothing"])]
    flags += ["--optimizer", o["kind"], "--lr", str(o["lr"]), "--weight-decay", str(o["weight_decay"])]
    if o["kind"] == "sgd":
        flags += ["--momentum", str(o["momentum"])] + (["--nesterov"] if o.get("nesterov") else [])
    else:
        flags += ["--betas", ",".join(str(b) for b in o["betas"]), "--eps", str(o["eps"])]
    if record.get("no_decay"): flags += ["--weight-decay-exclude", record["no_decay"]]
    if "grad_clip" in record: flags += ["--grad-clip", str(record["grad_clip"])]
    if "schedule" in record:
        s = record["schedule"]
        flags += ["--lr-schedule", s["kind"], "--warmup-steps", str(s["warmup"]), "--total-steps", str(s["total"]), "--min-lr", str(s["min_lr"])]
    return flags


def read_safetensors(path):
    """name -> (shape, flat values) of the float32 and int64 tensors of a file."""
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    table, out = json.loads(data[8:8 + n]), {}
    for name, t in table.items():
        code = {"F32": "f", "I64": "q"}.get(t.get("dtype"))
        if name == "__metadata__" or code is None: continue
        values = array.array(code); values.frombytes(data[8 + n + t["data_offsets"][0]: 8 + n + t["data_offsets"][1]])
        out[name] = (t["shape"], values)
    return out


def close(a, b, tolerance): return a is not None and math.isfinite(a) and abs(a - b) <= tolerance * max(abs(b), 1e-12)


def check(record, precision, log, final, reference):
    """The first disagreement as text, or ''."""
    rows = [json.loads(line) for line in open(log)]
    rows = [r for r in rows if "step" in r and "loss" in r]
    want = record["f32"]
    if len(rows) != len(want["losses"]): return f"expected {len(want['losses'])} steps in the log, but got {len(rows)}"
    compared = 20 if precision == "f32" else NARROW_STEPS.get(record["model"], 20)
    for i, r in enumerate(rows[:compared]):
        if not close(r["loss"], want["losses"][i], 1e-4 if precision == "f32" else 2e-2): return f"step {i}: loss {r['loss']}, PyTorch {want['losses'][i]}"
        if precision == "f32" and not close(r["grad_norm"], want["grad_norms"][i], 1e-4): return f"step {i}: grad_norm {r['grad_norm']}, PyTorch {want['grad_norms'][i]}"
        if not close(r["lr"], want["learning_rates"][i], 1e-6): return f"step {i}: lr {r['lr']}, PyTorch {want['learning_rates'][i]}"
    ours, theirs = read_safetensors(final), read_safetensors(reference)
    # load_state_dict(strict=True) wants exactly the state_dict's names.
    missing, more = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
    if missing or more: return f"tensors not saved: {missing[:5]}, saved but not in the state_dict: {more[:5]}"
    for name, (shape, values) in theirs.items():
        if ours[name][0] != shape: return f"{name}: shape {ours[name][0]}, PyTorch {shape}"
        worst = max((abs(a - b) for a, b in zip(ours[name][1], values)), default=0)
        if precision == "f32" and not worst <= 1e-3: return f"{name}: differs by {worst}"
    return ""


def run(command, **kw):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **kw)
    return p.returncode, p.stdout


def main():
    parser = argparse.ArgumentParser(); parser.add_argument("build"); parser.add_argument("--all", action="store_true"); parser.add_argument("--only", default="")
    parser.add_argument("--ranks", default=""); parser.add_argument("--keep", default="")
    parser.add_argument("--precision", choices=["f32", "bf16-mixed"], default="")
    args = parser.parse_args()
    tools = os.path.join(args.build, "bin"); failures = done = 0; start = time.time()
    with tempfile.TemporaryDirectory() as scratch:
        out = args.keep or scratch; os.makedirs(out, exist_ok=True)
        for index, (label, path, name, extra) in enumerate(cases()):
            if args.only and args.only not in label: continue
            record = json.load(open(os.path.join(MODELS, name + ".expected.json")))
            precision = args.precision or "f32"
            layouts = [(n, 1, precision) for n in record["ranks"]]
            if name not in NOT_ACCUMULATED: layouts += [(n, 2, precision) for n in record["ranks"] if n <= 4]
            # The selection: one plain and one accumulating layout per file, rotating over the rank counts.
            if not args.all and not args.ranks:
                plain = [l for l in layouts if l[1] == 1]; more = [l for l in layouts if l[1] > 1]
                layouts = [plain[index % len(plain)]] + ([more[(index + 1) % len(more)]] if more else [])
                if not args.precision and label == name + ".pt2": layouts.append((plain[(index + 1) % len(plain)][0], 1, "bf16-mixed"))
            if args.ranks: layouts = [l for l in layouts if str(l[0]) in args.ranks.split(",")]
            for ranks, accumulation, precision in layouts:
                title = f"{label} on {ranks} ranks" + (f", accumulation {accumulation}" if accumulation > 1 else "") + (f", {precision}" if precision != "f32" else "")
                stem = os.path.join(out, f"{label.replace('/', '_')}.{ranks}.{accumulation}.{precision}")
                log, final = stem + ".jsonl", stem + ".safetensors"
                code, text = run([f"{tools}/lockstep-compile", path, *compile_flags(record), *extra, "--ranks", str(ranks), "--gradient-accumulation-steps", str(accumulation), "--precision", precision, "-o", stem + ".lockstep"])
                if code == 0:
                    batches = os.path.join(MODELS, BATCHES_OF.get(name, name) + ".batches.safetensors")
                    code, text = run([f"{tools}/lockstep-run", stem + ".lockstep", "--data", batches, "--steps", "20", "--log", log, "--save-weights", final])
                reference = os.path.join(MODELS, BATCHES_OF.get(name, name) + ".final.safetensors")
                wrong = check(record, precision, log, final, reference) if code == 0 else f"exit {code}: {text.strip().splitlines()[-1] if text.strip() else ''}"
                done += 1; failures += bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {title}{': ' + wrong if wrong else ''}", flush=True)
    print(f"{done - failures} of {done} runs agree with PyTorch ({time.time() - start:.0f} s)")
    return 1 if failures or not done else 0


if __name__ == "__main__":
    sys.exit(main())
