#!/usr/bin/env python3
"""Bad inputs: each is refused with its exit code (1 input, 2 usage, 4 rank lost, 5 loss not finite) and exactly one line that begins with
`error:` on standard error, says what, where and what to do, and leaves every file as it was. No crash, no hang.

    bad_inputs.py BUILD_DIR [--only SUBSTRING]

The cases follow the list in the order in which a user meets them: the model, the weights, the flags, the artifact, the data, the run.
"""
import argparse, json, os, random, resource, shutil, signal, struct, subprocess, sys, tempfile, time, zipfile

from support import MODELS, Tools, read_safetensors, segments, snapshot, succeed, write_npy, write_safetensors, write_tokens

MLP, GPT2 = f"{MODELS}/mlp.pt2", f"{MODELS}/gpt2.pt2"
CRASH = ["Traceback", "terminate called", "what():", "Assertion", "Segmentation", "core dumped", "Stack dump", "PLEASE submit", "Sanitizer", "internal fault"]


class Cases:
    """Runs cases and counts. `kept` is a folder of things that a refused command must not touch."""

    def __init__(self, folder, only):
        self.folder, self.only, self.done, self.failures = folder, only, 0, 0
        self.kept = os.path.join(folder, "kept")
        os.makedirs(self.kept)
        for name in ("out.lockstep", "final.safetensors"):
            with open(self.keep(name), "w") as f: f.write("what was there before\n")

    def path(self, name): return os.path.join(self.folder, name)
    def keep(self, name): return os.path.join(self.kept, name)
    def chosen(self, title): return self.only in title

    def verdict(self, title, wrong, text):
        self.done += 1
        self.failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {title}: {'; '.join(wrong) + ': ' if wrong else ''}{text}", flush=True)

    def judge(self, title, want, words, code, errors, before):
        lines = [line for line in errors.splitlines() if line]
        told = [line for line in lines if line.startswith("error: ")]
        wrong = [] if code == want else [f"exit {code}, expected {want}"]
        if len(told) != 1: wrong.append(f"{len(told)} lines begin with 'error: '")
        others = [line for line in lines if not line.startswith(("error: ", "warning: "))]
        if others: wrong.append(f"also says {others[0]!r}")
        wrong += [f"lacks {word!r}" for word in words if not any(word in line for line in told)]
        wrong += [f"has {word!r}" for word in CRASH if word in errors]
        after = snapshot(self.kept)
        wrong += [f"{name} was {'written' if name in after else 'lost'}" for name in sorted(set(before) | set(after)) if before.get(name) != after.get(name)]
        self.verdict(title, wrong, told[0] if told else errors.strip()[-300:])

    def refused(self, title, want, command, *words, setup=None):
        if not self.chosen(title): return
        before = snapshot(self.kept)
        try: done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=60, preexec_fn=setup)
        except subprocess.TimeoutExpired: return self.verdict(title, ["hangs"], "")
        self.judge(title, want, words, done.returncode, done.stderr, before)


def rewritten(source, target, change):
    """A copy of a .pt2 whose graph JSON went through `change`."""
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(target, "w") as b:
        for info in a.infolist():
            data = a.read(info)
            if info.filename.endswith("models/model.json"):
                model = json.loads(data)
                change(model["graph_module"])
                data = json.dumps(model).encode()
            b.writestr(info, data)
    return target


def altered(source, target, at, data):
    """A copy of a file with other bytes at an offset."""
    content = bytearray(open(source, "rb").read())
    content[at:at + len(data)] = data
    with open(target, "wb") as f: f.write(content)
    return target


def model_cases(cases, tools):
    def compiling(path): return tools.compile(path, "--optimizer", "adamw", "--ranks", "2", "-o", cases.keep("out.lockstep"))
    whole = open(MLP, "rb").read()
    for part, size in (("half", len(whole) // 2), ("all but the last byte", len(whole) - 1), ("nothing", 0)):
        path = cases.path("cut.pt2")
        with open(path, "wb") as f: f.write(whole[:size])
        cases.refused(f"truncated zip, {part}", 1, compiling(path), "cut.pt2", "export")
    def nodes(graph): graph["graph"]["nodes"] = 7
    cases.refused("wrong JSON type", 1, compiling(rewritten(MLP, cases.path("type.pt2"), nodes)), "type.pt2", "nodes")
    def unknown(graph):
        for i, node in enumerate(graph["graph"]["nodes"][:3]): node["target"] = f"torch.ops.aten.nonesuch{i}.default"
    cases.refused("unknown ops are all told, with their source lines", 1, compiling(rewritten(MLP, cases.path("ops.pt2"), unknown)), "nonesuch0", "nonesuch1", "nonesuch2", ".py:")
    def sampled(graph):
        relu = next(node for node in graph["graph"]["nodes"] if node["target"] == "torch.ops.aten.relu.default")
        relu["target"] = "torch.ops.aten.rand_like.default"
    path = rewritten(MLP, cases.path("sampled.pt2"), sampled)
    cases.refused("an operator in a form that is not supported", 1, compiling(path), "aten.rand_like.default", "give them to the model as an input", ".py:")
    told = succeed(tools.tool("lockstep-inspect", path))
    missing = [word for word in ("not supported", "aten.rand_like.default", "as an input", ".py:") if word not in told]
    cases.verdict("inspect tells of it as well", [f"lacks {word!r}" for word in missing], told.splitlines()[-1])
    for number, name in ((10, "complex64"), (11, "complex128"), (29, "float8_e4m3fn")):
        def inputs(graph): graph["graph"]["tensor_values"]["input"]["dtype"] = number
        cases.refused(f"dtype not supported, {name}", 1, compiling(rewritten(MLP, cases.path("dtype.pt2"), inputs)), name)
    cases.refused("missing model", 1, compiling(cases.path("none.pt2")), "none.pt2")
    cases.refused("a folder for a model", 1, compiling(cases.folder), cases.folder)
    cases.refused("pickled weights", 1, compiling(f"{MODELS}/versions/mlp_torch2.6.pt2"), "pickle", "--weights")


def weight_cases(cases, tools):
    def compiling(weights): return tools.compile(MLP, "--optimizer", "adamw", "--weights", weights, "-o", cases.keep("out.lockstep"))
    good = read_safetensors(f"{MODELS}/versions/mlp.start.safetensors")
    few = {name: value for name, value in good.items() if name not in ("0.weight", "4.bias")}
    cases.refused("weights missing, all told", 1, compiling(write_safetensors(cases.path("few.safetensors"), few)), "few.safetensors", "0.weight", "4.bias", "missing")
    more = {**good, "head.weight": ("F32", [1], [0.0])}
    cases.refused("weights unexpected", 1, compiling(write_safetensors(cases.path("more.safetensors"), more)), "head.weight", "unexpected")
    shapes = {**good, "0.weight": ("F32", [64, 128], good["0.weight"][2]), "4.bias": ("F32", [1, 10], good["4.bias"][2])}
    cases.refused("weights of another shape, all told", 1, compiling(write_safetensors(cases.path("shape.safetensors"), shapes)), "0.weight", "[64, 128]", "[128, 64]", "4.bias")
    types = {**good, "0.bias": ("I64", [128], [0] * 128)}
    cases.refused("weights of another dtype", 1, compiling(write_safetensors(cases.path("types.safetensors"), types)), "0.bias", "I64", "F32")
    cut = cases.path("cut.safetensors")
    with open(cut, "wb") as f: f.write(open(f"{MODELS}/versions/mlp.start.safetensors", "rb").read()[:-1])
    cases.refused("weights cut off", 1, compiling(cut), "cut.safetensors")
    cases.refused("no weights there", 1, compiling(cases.path("none.safetensors")), "none.safetensors")


def flag_cases(cases, tools, artifact):
    def compiling(*more): return tools.compile(MLP, *more, "-o", cases.keep("out.lockstep"))
    cases.refused("batch not divisible by the ranks", 1, compiling("--ranks", "3"), "3")
    cases.refused("batch not divisible by ranks times accumulation", 1, compiling("--ranks", "8", "--gradient-accumulation-steps", "8"), "8")
    cases.refused("unknown flag, the nearest suggested", 2, compiling("--optimiser", "sgd"), "--optimiser", "--optimizer")
    cases.refused("unknown flag of lockstep-run", 2, tools.run(artifact, "--data", "synthetic", "--chekpoint-dir", "x"), "--chekpoint-dir", "--checkpoint-dir")
    cases.refused("unknown value", 2, compiling("--optimizer", "lion"), "lion", "adamw")
    cases.refused("loss without such an output", 1, compiling("--loss", "output:7"), "7")
    cases.refused("output in a folder that is not there", 1, tools.compile(MLP, "-o", cases.path("no/such/out.lockstep")), "no/such/out.lockstep")
    cases.refused("output is a folder", 1, tools.compile(MLP, "-o", cases.kept), cases.kept)
    cases.refused("IR in a folder that is not there", 1, tools.compile(MLP, "--compile-to", "fuse", "-o", cases.path("no/such/out.mlir")), "no/such/out.mlir")
    ir = cases.path("ir.mlir")
    succeed(tools.compile(MLP, "--compile-to", "schedule", "-o", ir))
    resumed = ["--compile-from", "schedule", "-o", cases.keep("out.lockstep")]
    cases.refused("IR without the model that has its weights", 2, tools.compile(ir, *resumed), "weights", "--model")
    cases.refused("IR with another model", 1, tools.compile(ir, *resumed, "--model", GPT2), "0.weight")
    cases.refused("IR that does not parse", 1, tools.compile(MLP, *resumed, "--model", MLP), "mlp.pt2")
    cases.refused("IR of another phase", 1, tools.compile(ir, "--compile-from", "autodiff", "--model", MLP, "-o", cases.keep("out.lockstep")))
    cases.refused("topology not there", 1, compiling("--topology", cases.path("none.json")), "none.json")


def artifact_cases(cases, tools, artifact):
    def running(path): return tools.run(path, "--data", "synthetic", "--steps", "3", "--save-weights", cases.keep("final.safetensors"))
    size = os.path.getsize(artifact)
    cases.refused("missing artifact", 1, running(cases.path("none.lockstep")), "none.lockstep")
    cases.refused("a model for an artifact", 1, running(MLP), "mlp.pt2", "not a lockstep artifact")
    version = struct.unpack("<I", open(artifact, "rb").read(12)[8:])[0]
    other = altered(artifact, cases.path("version.lockstep"), 8, struct.pack("<I", version + 41))
    cases.refused("artifact of another version", 1, running(other), f"version {version + 41}", f"version {version}", "compile", "version.lockstep")
    # Header, hash, section table, plan, code, weights: at the edges and anywhere.
    places = [0, 7, 12, 16, 24, 64, 127, 128, 170, 223, 300, size // 3, size // 2, size - 1] + random.Random(7).sample(range(128, size), 10)
    for at in places:
        byte = open(artifact, "rb").read()[at] ^ (1 << at % 8)
        cases.refused(f"artifact changed at byte {at}", 1, running(altered(artifact, cases.path("changed.lockstep"), at, bytes([byte]))), "changed.lockstep")
    cut = cases.path("cut.lockstep")
    with open(cut, "wb") as f: f.write(open(artifact, "rb").read()[:-1])
    cases.refused("artifact cut off", 1, running(cut), "cut.lockstep", "bytes")
    cases.refused("artifact for other ranks", 1, [*running(artifact), "-n", "3"], "2 ranks", "3")


def data_cases(cases, tools, artifact, tokens_artifact):
    def running(which, *data): return tools.run(which, *[a for d in data for a in ("--data", d)], "--steps", "3", "--save-weights", cases.keep("final.safetensors"))
    length, vocabulary, batch = 64, 512, 32
    one = write_tokens(cases.path("one.bin"), [1] * (length + 1))
    succeed(tools.run(tokens_artifact, "--data", one, "--steps", "1"))  # the shortest file that does
    cases.refused("token file shorter than one window", 1, running(tokens_artifact, write_tokens(cases.path("short.bin"), [1] * length)), "short.bin", "65 tokens", "64")
    cases.refused("empty token file", 1, running(tokens_artifact, write_tokens(cases.path("empty.bin"), [])), "empty.bin")
    header = cases.path("header.bin")
    with open(header, "wb") as f: f.write(struct.pack("<256i", 20240520, 1, 1000, *[0] * 253) + b"\x01\x00" * 500)
    cases.refused("token file shorter than its header says", 1, running(tokens_artifact, header), "header.bin", "1000", "500")
    cases.refused("no file matches", 1, running(tokens_artifact, cases.path("none_*.bin")), "none_*.bin")
    outside = write_tokens(cases.path("outside.bin"), [*[1] * 40, vocabulary] * 50)
    cases.refused("token outside the vocabulary", 1, running(tokens_artifact, outside), "outside.bin", str(vocabulary))
    x, y = bytes(4 * 64 * batch), bytes(8 * batch)
    def arrays(**more):
        given = {"input": write_npy(cases.path("x.npy"), "<f4", [batch, 64], x), "labels": write_npy(cases.path("y.npy"), "<i8", [batch], y), **more}
        return [f"{name}={path}" for name, path in given.items()]
    succeed(tools.run(artifact, *[a for d in arrays() for a in ("--data", d)], "--steps", "1"))
    cases.refused("truncated .npy", 1, running(artifact, *arrays(input=write_npy(cases.path("cut.npy"), "<f4", [batch, 64], x[:-4]))), "cut.npy", "too short")
    head = write_npy(cases.path("head.npy"), "<f4", [batch, 64], x)
    os.truncate(head, 40)
    cases.refused(".npy cut in its header", 1, running(artifact, *arrays(input=head)), "head.npy")
    cases.refused(".npy of another shape", 1, running(artifact, *arrays(input=write_npy(cases.path("shape.npy"), "<f4", [batch, 63], bytes(4 * 63 * batch)))), "shape.npy", "63", "64")
    cases.refused(".npy without samples", 1, running(artifact, *arrays(input=write_npy(cases.path("x0.npy"), "<f4", [0, 64], b""), labels=write_npy(cases.path("y0.npy"), "<i8", [0], b""))), "samples")
    cases.refused(".npy files of different lengths", 1, running(artifact, *arrays(labels=write_npy(cases.path("y1.npy"), "<i8", [batch - 1], y[8:]))), "31", "32")
    labels = write_npy(cases.path("labels.npy"), "<i8", [batch], struct.pack("<q", 10) * batch)
    cases.refused("label outside the classes", 1, running(artifact, *arrays(labels=labels)), "labels.npy", "10")
    names = write_safetensors(cases.path("names.safetensors"), {"nonesuch": ("F32", [batch, 64], [0.0] * 64 * batch)})
    cases.refused("wrong names in the data", 1, running(artifact, names), "nonesuch", "input", "labels")
    short = cases.path("short.safetensors")
    with open(short, "wb") as f: f.write(b"\x08")
    cases.refused("data cut off", 1, running(artifact, short), "short.safetensors")


def run_cases(cases, tools, artifact, plain):
    def running(*more): return tools.run(artifact, "--data", "synthetic", *more)
    kept = ["--save-weights", cases.keep("final.safetensors")]
    for optimizer, which, flag, value in (("adamw", artifact, "--grad-clip", "1"), ("adamw", artifact, "--momentum", "0.9"), ("sgd", plain, "--betas", "0.8,0.9"),
                                          ("sgd", plain, "--eps", "1e-6"), ("sgd", plain, "--momentum", "0.5"), ("sgd", plain, "--grad-clip", "2")):
        cases.refused(f"override of {flag}, which a program with plain {optimizer} lacks", 1,
                      [*tools.run(which, "--data", "synthetic", "--steps", "3", flag, value), *kept], flag, optimizer, "lockstep-compile")
    log = cases.path("diverges.jsonl")
    title = "loss not finite"
    if cases.chosen(title):
        cases.refused(title, 5, [*running("--steps", "50", "--lr", "1e38", "--log", log), *kept], "step 1", "--lr")
        rows = segments(log)[0][1]
        cases.verdict("the log ends with that step and null", [] if [r["loss"] is None for r in rows] == [False, True] else [str(rows)], str(rows[-1]))
    cases.refused("final weights not writable, told before training", 1, running("--steps", "1000000", "--save-weights", cases.path("no/such/final.safetensors")), "no/such/final.safetensors")
    cases.refused("log not writable", 1, running("--steps", "1000000", "--log", cases.path("no/such/log.jsonl")), "no/such/log.jsonl")
    cases.refused("log on a full disk", 1, running("--steps", "1000000", "--log", "/dev/full"), "/dev/full", "space")
    cases.refused("checkpoints not writable, told before training", 1, running("--steps", "1000000", "--checkpoint-every", "100000", "--checkpoint-dir", os.path.join(artifact, "ckpt")), "ckpt")
    cases.refused("nothing to resume from", 1, running("--steps", "3", "--resume", "--checkpoint-dir", cases.path("none")), "none")
    disk_full(cases, tools, artifact)
    rank_killed(cases, tools, artifact)


def disk_full(cases, tools, artifact):
    """The old checkpoint stays, loads, and the run resumed from it ends with the bits of one that was never disturbed."""
    title = "disk full while saving"
    if not cases.chosen(title): return
    def running(steps, checkpoints, *more): return tools.run(artifact, "--data", "synthetic", "--steps", str(steps), "--checkpoint-dir", checkpoints, *more)
    saved, whole, resumed = cases.keep("checkpoints"), cases.path("whole.safetensors"), cases.path("resumed.safetensors")
    succeed(running(6, cases.path("undisturbed"), "--save-weights", whole))
    succeed(running(3, saved))
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    cases.refused(title, 1, running(6, saved, "--resume", "--save-weights", cases.keep("final.safetensors")), "checkpoint", "unharmed", setup=limit)
    log = cases.path("resumed.jsonl")
    succeed(running(6, saved, "--resume", "--save-weights", resumed, "--log", log))
    header, rows, _ = segments(log)[0]
    wrong = [] if header.get("resumed_from", "").endswith("step_00000003") and [r["step"] for r in rows] == [3, 4, 5] else [f"{header.get('resumed_from')}, {[r['step'] for r in rows]}"]
    if open(whole, "rb").read() != open(resumed, "rb").read(): wrong.append("other weights than without the full disk")
    cases.verdict("the old checkpoint loads and resumes", wrong, f"resumed from {header.get('resumed_from', 'nothing')}")
    shutil.rmtree(saved)


def rank_killed(cases, tools, artifact):
    """Any rank, rank 0 too: the others end within seconds."""
    for which in (0, 1):
        title = f"rank {which} killed"
        if not cases.chosen(title): continue
        log = cases.path(f"killed{which}.jsonl")
        child = subprocess.Popen(tools.run(artifact, "--data", "synthetic", "--steps", "1000000", "--log", log), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.time() + 30
        while not (segments(log) and segments(log)[0][1]) and time.time() < deadline: time.sleep(0.05)
        ranks = sorted(int(c) for c in open(f"/proc/{child.pid}/task/{child.pid}/children").read().split())
        start, before = time.time(), snapshot(cases.kept)
        os.kill(ranks[which], signal.SIGKILL)
        try: _, errors = child.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()
            cases.verdict(title, ["hangs"], "")
            continue
        cases.judge(title, 4, [f"rank {which}", str(ranks[which]), "last line"], child.returncode, errors, before)
        took = time.time() - start
        alive = [r for r in ranks if os.path.exists(f"/proc/{r}")]
        cases.verdict(f"{title}: all end within seconds", [f"{took:.1f} s"] if took > 8 else [f"{alive} live on"] if alive else [], f"{took:.1f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tools = Tools(options.build)
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(folder, options.only)
        adam, plain, tokens = (cases.path(name) for name in ("adam.lockstep", "plain.lockstep", "tokens.lockstep"))
        succeed(tools.compile(MLP, "--optimizer", "adamw", "--ranks", "2", "-o", adam))
        succeed(tools.compile(MLP, "--optimizer", "sgd", "-o", plain))
        succeed(tools.compile(GPT2, "--labels", "next-token", "-o", tokens))
        model_cases(cases, tools)
        weight_cases(cases, tools)
        flag_cases(cases, tools, adam)
        artifact_cases(cases, tools, adam)
        data_cases(cases, tools, adam, tokens)
        run_cases(cases, tools, adam, plain)
    print(f"{cases.done} verdicts, {cases.failures} failures")
    return 1 if cases.failures or not cases.done else 0


if __name__ == "__main__":
    sys.exit(main())
