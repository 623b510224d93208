#!/usr/bin/env python3
"""Bad inputs: each ends with exactly one `error:` line and its exit code (1 input, 2 usage, 4 rank lost, 5 not finite), without crash or hang.

    bad_inputs.py BUILD_DIR        Standard library only.
"""
import json, os, resource, signal, struct, subprocess, sys, tempfile, time, zipfile

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "test", "models")
failures = 0


def verdict(title, code, text, want, words):
    global failures
    lines = [l for l in text.splitlines() if "error:" in l]
    missing = [w for w in words if w not in text]
    ok = code == want and len(lines) == 1 and not missing
    failures += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {title}: exit {code} (expected {want}), {len(lines)} error lines{', lacks ' + str(missing) if missing else ''}: "
          f"{lines[0][:200] if lines else text.strip()[-200:]}", flush=True)


def case(title, want, command, *words, before=None):
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=30, preexec_fn=before)
        verdict(title, p.returncode, p.stdout, want, words)
    except subprocess.TimeoutExpired:
        verdict(title, "hang", "", want, words)


def rewritten(source, target, change):
    """A copy of a .pt2 whose graph JSON went through `change`."""
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(target, "w") as b:
        for info in a.infolist():
            data = a.read(info)
            if info.filename.endswith("models/model.json"): data = json.dumps(change(json.loads(data))).encode()
            b.writestr(info, data)
    return target


def write_weights(path, tensors):
    table, at = {}, 0
    for name, shape in tensors.items():
        n = 4
        for s in shape: n *= s
        table[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}; at += n
    head = json.dumps(table).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + bytes(at))
    return path


def children(pid):
    return [int(c) for c in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def main():
    tools = os.path.join(sys.argv[1], "bin")
    with tempfile.TemporaryDirectory() as d:
        mlp = f"{MODELS}/mlp.pt2"; good = f"{d}/good.lockstep"
        def compiling(path, *more): return [f"{tools}/lockstep-compile", path, "--loss", "cross_entropy", "--optimizer", "adamw", "--ranks", "2", "-o", f"{d}/out.lockstep", *more]
        def running(path, *more): return [f"{tools}/lockstep-run", path, "--data", "synthetic", "--steps", "3", *more]
        subprocess.run(compiling(mlp, "-o", good)[:-4] + ["-o", good], check=True, timeout=60, stdout=subprocess.DEVNULL)
        whole = open(mlp, "rb").read(); open(f"{d}/cut.pt2", "wb").write(whole[:len(whole) // 2])
        case("truncated zip", 1, compiling(f"{d}/cut.pt2"))
        def wrong_type(m): m["graph_module"]["graph"]["nodes"] = 7; return m
        case("wrong JSON type", 1, compiling(rewritten(mlp, f"{d}/type.pt2", wrong_type)))
        def unknown(m):
            for i, n in enumerate(m["graph_module"]["graph"]["nodes"][:2]): n["target"] = f"torch.ops.aten.nonesuch{i}.default"
            return m
        case("unknown ops", 1, compiling(rewritten(mlp, f"{d}/ops.pt2", unknown)), "nonesuch0", "nonesuch1", ".py")
        def dtype(m):
            for v in m["graph_module"]["graph"]["tensor_values"].values(): v["dtype"] = 10
            return m
        case("dtype not supported", 1, compiling(rewritten(mlp, f"{d}/dtype.pt2", dtype)))
        start = open(f"{MODELS}/versions/mlp.start.safetensors", "rb").read()
        table = json.loads(start[8:8 + struct.unpack("<Q", start[:8])[0]]); table.pop("__metadata__", None)
        shapes = {n: t["shape"] for n, t in table.items()}; first = sorted(shapes)[0]
        case("shape mismatch", 1, compiling(mlp, "--weights", write_weights(f"{d}/shape.safetensors", {**shapes, first: [3] * len(shapes[first])})), first)
        case("weights missing", 1, compiling(mlp, "--weights", write_weights(f"{d}/few.safetensors", {n: s for n, s in shapes.items() if n != first})), first)
        case("pickled weights", 1, compiling(f"{MODELS}/versions/mlp_torch2.6.pt2"), "--weights")
        case("batch not divisible", 1, [*compiling(mlp)[:-4], "--ranks", "3", "-o", f"{d}/out.lockstep"], "3")
        case("unknown flag", 2, compiling(mlp, "--optimiser", "sgd"), "--optimizer")
        case("missing file", 1, compiling(f"{d}/none.pt2"), "none.pt2")
        case("folder", 1, compiling(d))
        case("missing artifact", 1, running(f"{d}/none.lockstep"), "none.lockstep")
        case("output not writable", 1, [*compiling(mlp)[:-2], "-o", f"{d}/no/such/out.lockstep"], "out.lockstep")
        data = open(good, "rb").read()
        for at in (0, 5, 9, 40, len(data) // 3, len(data) // 2, len(data) - 1):
            changed = bytearray(data); changed[at] ^= 1; open(f"{d}/changed.lockstep", "wb").write(changed)
            case(f"artifact changed at byte {at}", 1, running(f"{d}/changed.lockstep"))
        case("ranks mismatch", 1, running(good, "-n", "3"), "2")
        open(f"{d}/short.safetensors", "wb").write(b"\x08")
        case("data file too short", 1, [f"{tools}/lockstep-run", good, "--data", f"{d}/short.safetensors", "--steps", "3"], "short.safetensors")
        case("wrong names in the data", 1, [f"{tools}/lockstep-run", good, "--data", write_weights(f"{d}/names.safetensors", {"nonesuch": [32, 4]}), "--steps", "3"], "nonesuch")
        case("loss not finite", 5, [f"{tools}/lockstep-run", good, "--data", "synthetic", "--steps", "50", "--lr", "1e38"], "step")
        saved = f"{d}/ckpt"
        subprocess.run(running(good, "--checkpoint-dir", saved), check=True, timeout=30, stdout=subprocess.DEVNULL)
        old = sorted(os.listdir(saved))
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        case("disk full while saving", 1, [f"{tools}/lockstep-run", good, "--data", "synthetic", "--steps", "6", "--checkpoint-dir", saved, "--resume"], before=limit)
        if [c for c in old if c not in os.listdir(saved)]: verdict("the old checkpoint stays", 0, "it is gone", 1, [])
        child = subprocess.Popen([f"{tools}/lockstep-run", good, "--data", "synthetic", "--steps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(2); ranks = children(child.pid)
        if ranks: os.kill(ranks[-1], signal.SIGKILL)
        try: text, _ = child.communicate(timeout=20); verdict("one rank killed", child.returncode, text, 4, ["rank"])
        except subprocess.TimeoutExpired: child.kill(); verdict("one rank killed", "hang", "", 4, [])
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
