#!/usr/bin/env python3
"""GPU training steps of Lockstep beside PyTorch's and JAX's, in the same run.

    step_bench.py compile DIR [gpt2] [llama] [bert] [--build BUILD] [--models FOLDER] [--variant NAME='FLAGS']... [--no-runtime]
    step_bench.py run DIR [gpt2] [llama] [bert] [--only VARIANT,...] [--peers torch,fsdp,jax,eager|none] [--rounds 3] [--steps 10] [--kernels] [--json FILE]

The two steps may happen on different machines: `compile` needs no GPU and writes DIR/MODEL.lockstep, one more artifact for each variant (for example
--variant tight='--memory-limit 9GiB' makes DIR/MODEL+tight.lockstep) and the launcher with its libraries (DIR/runtime.tar.gz, about 35 MB); `run` needs DIR, this repository's
tools/bench, and a Python with torch and transformers (jax and optax for jax) on a machine with a GPU. Models, batches and optimizer are those of
tools/bench/peers.

Everybody takes turns for `rounds` rounds, since a GPU's clock moves: a turn is four steps of warm-up and `steps` that count. Medians over all steps are
compared, and the ratios of each round's medians show how far to trust them. Ratio: ours / the peer, below 1 is better. Peers compile once and stay, and give
their memory back between turns; ours starts anew.

  peak      ours: the arena and everything else that the log's header lists; peers: the most that the allocator had given out in steps after the first
  card      bytes that the card had in use in the first turn, less those before: contexts, workspaces and unused memory of allocators included
  first     seconds from the start of the process until the first step is done; ours adds the seconds that lockstep-compile took (perhaps on another machine)
"""
import argparse, json, os, shlex, statistics, subprocess, sys, tarfile, tempfile, time

TOOLS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(TOOLS, "bench", "peers")
FILES = {"gpt2": "gpt2_124m", "llama": "llama_1.1b", "bert": "bert_base"}
LABELS = {"gpt2": "next-token", "llama": "next-token", "bert": "labels"}
# What the exported graph does not say: the peers' head and embedding are one parameter.
TIES = {"gpt2": ["--tie", "m.lm_head.weight=m.transformer.wte.weight"]}
DEFAULT_PEERS = {"gpt2": "torch,jax", "llama": "torch,fsdp", "bert": "torch"}
WARMUP = 4
GIB = 1 << 30


# ---------------------------------------------------------------------------
# Compile
# ---------------------------------------------------------------------------

def compile_models(args):
    os.makedirs(args.folder, exist_ok=True)
    variants = {"": ""}
    for text in args.variant:
        name, _, flags = text.partition("=")
        variants[name] = flags
    failures = 0
    for model in args.models:
        for variant, flags in variants.items():
            stem = os.path.join(args.folder, model + (f"+{variant}" if variant else ""))
            flags = ["--labels", LABELS[model], "--optimizer", "adamw", "--lr", "1e-4", "--weights", "none", "--init", "normal:0.02", "--target", args.target,
                     "--precision", "bf16-mixed", *TIES.get(model, []), *shlex.split(flags)]
            for old in (stem + ".lockstep", stem + ".json"):
                if os.path.exists(old): os.remove(old)
            start = time.time()
            p = subprocess.run([f"{args.build}/bin/lockstep-compile", f"{args.graphs}/{FILES[model]}.pt2", *flags, "-o", stem + ".lockstep"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            seconds, lines = time.time() - start, p.stdout.strip().splitlines() or [""]
            print(f"{os.path.basename(stem)} ({seconds:.1f} s): " + ("; ".join(l for l in lines if l.startswith(("plan:", "recomputed:"))) if p.returncode == 0 else "FAILED: " + lines[-1]), flush=True)
            failures += p.returncode != 0
            if p.returncode == 0: json.dump({"model": model, "variant": variant, "flags": flags, "seconds": seconds, "summary": lines}, open(stem + ".json", "w"))
    if not args.no_runtime:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(os.path.join(args.folder, "runtime.tar.gz"), "w:gz") as archive:
            subprocess.run(["cmake", "--install", args.build, "--prefix", folder, "--strip"], check=True, stdout=subprocess.DEVNULL)
            archive.add(folder, "runtime")
    return 1 if failures else 0


# ---------------------------------------------------------------------------
# Contenders
# ---------------------------------------------------------------------------

def card_bytes():
    """In use on the card, by whomever."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"], stdout=subprocess.PIPE, text=True).stdout
    return int(text.split()[0]) << 20


class Contender:
    def __init__(self, name):
        self.name, self.rounds, self.peak, self.card, self.first, self.notes = name, [], None, None, None, {}

    def times(self): return [t for r in self.rounds for t in r]
    def median(self): return statistics.median(self.times())


class Ours(Contender):
    def __init__(self, name, stem, launcher, flags):
        super().__init__(name)
        self.stem, self.command = stem, [launcher, stem + ".lockstep", "--data", "synthetic", *flags]
        self.compile_seconds = json.load(open(stem + ".json"))["seconds"]

    def turn(self, steps):
        with tempfile.TemporaryDirectory() as folder:
            log, output = os.path.join(folder, "log.jsonl"), open(os.path.join(folder, "output"), "w+")
            before, start = None if self.rounds else card_bytes(), time.time()
            process = subprocess.Popen([*self.command, "--steps", str(WARMUP + steps), "--log", log], stdout=output, stderr=subprocess.STDOUT)
            while self.first is None and process.poll() is None:
                time.sleep(0.005)
                if os.path.exists(log) and any('"step_ms"' in line for line in open(log)): self.first = time.time() - start
            if before is not None: self.card = card_bytes() - before
            if process.wait():
                output.seek(0)
                sys.exit(f"error: {self.name}: exit {process.returncode}: {(output.read().strip().splitlines() or [''])[-1]}")
            header, *rows = [json.loads(line) for line in open(log)]
        self.peak = sum(header.get("memory", {}).values())
        self.notes = {"memory": header.get("memory", {}), "first_loss": rows[0]["loss"], "loss": rows[-1]["loss"]}
        self.rounds.append([r["step_ms"] for r in rows if "step_ms" in r][WARMUP:])

    def kernels(self):
        p = subprocess.run([*self.command, "--steps", "4", "--profile"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return p.stdout

    def close(self): pass


class Peer(Contender):
    SCRIPTS = {"torch": ("torch_gpu.py", "compile"), "eager": ("torch_gpu.py", "eager"), "fsdp": ("torch_gpu.py", "fsdp"), "jax": ("jax_gpu.py", "cudnn")}
    NAMES = {"torch": "torch.compile", "eager": "PyTorch eager", "fsdp": "FSDP2 + compile", "jax": "JAX"}

    def __init__(self, kind, model, python):
        super().__init__(self.NAMES[kind])
        script, mode = self.SCRIPTS[kind]
        self.before, self.errors = card_bytes(), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([python, os.path.join(PEERS, script), model, mode, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def ask(self, steps):
        line = ""
        try:
            self.process.stdin.write(f"{steps}\n"); self.process.stdin.flush()
            while not line.startswith("{"):
                line = self.process.stdout.readline()
                if not line: break
        except BrokenPipeError: pass
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"{self.name}: exit {self.process.wait()}: {(self.errors.read().strip().splitlines() or [''])[-1]}")
        return json.loads(line)

    def turn(self, steps):
        row = self.ask(WARMUP + steps)
        if not self.rounds:
            self.card = row.get("card_bytes") or card_bytes()
            self.card -= self.before
        self.rounds.append(row.pop("all_ms")[WARMUP:])
        self.peak, self.first, self.notes = row["peak_bytes"], row["first_step_s"], row

    def close(self):
        if self.process.poll() is None: self.process.stdin.close(); self.process.wait()


# ---------------------------------------------------------------------------
# Run
# ---------------------------------------------------------------------------

def find_launcher(args, folder):
    """The one that was asked for, else that of DIR, unpacked into `folder`, else the build's."""
    packed = os.path.join(args.folder, "runtime.tar.gz")
    if args.launcher: return args.launcher
    if not os.path.exists(packed): return os.path.join(args.build, "bin", "lockstep-run")
    with tarfile.open(packed) as archive: archive.extractall(folder)
    return os.path.join(folder, "runtime", "bin", "lockstep-run")


def find_ours(args, model):
    ours = []
    for file in sorted(os.listdir(args.folder), key=os.path.splitext):
        stem, extension = os.path.splitext(file)
        name, _, variant = stem.partition("+")
        if extension == ".lockstep" and name == model and (not args.only or (variant or "plain") in args.only.split(",")):
            ours.append(Ours("lockstep" + (f" {variant}" if variant else ""), os.path.join(args.folder, stem), args.launcher, shlex.split(args.flags)))
    if not ours: sys.exit(f"error: {args.folder} has no artifact of {model}; make it with `step_bench.py compile`")
    return ours


def start_peers(args, model):
    """One after the other, so that first steps are comparable; a peer that cannot run is told and left out."""
    kinds = DEFAULT_PEERS[model] if args.peers is None else args.peers
    peers = []
    for kind in [k for k in kinds.split(",") if k and k != "none" and not (k == "jax" and model != "gpt2")]:
        if kind not in Peer.SCRIPTS: sys.exit(f"error: there is no peer '{kind}'; there are {', '.join(Peer.SCRIPTS)}")
        peer = Peer(kind, model, args.python)
        try:
            peer.turn(args.steps)
            peers.append(peer)
        except RuntimeError as error: print(f"left out: {error}", flush=True)
    return peers


def gib(value): return f"{value / GIB:.2f}" if value is not None else ""


def print_table(model, ours, peers):
    print(f"\n{model}: medians of {len(ours[0].times())} steps in {len(ours[0].rounds)} turns\n\n| | ms | peak GiB | card GiB | first s | first loss | loss |\n|---|---|---|---|---|---|---|")
    for c in [*ours, *peers]:
        first = f"{c.first:.1f}" + (f" + {c.compile_seconds:.1f}" if isinstance(c, Ours) else "")
        print(f"| {c.name} | {c.median():.2f} | {gib(c.peak)} | {gib(c.card)} | {first} | {c.notes['first_loss']:.4f} | {c.notes['loss']:.4f} |")
    if peers: print("\n| ratio | time | (turns) | peak | card | first, compile included |\n|---|---|---|---|---|---|")
    for c in ours:
        for p in peers:
            turns = [statistics.median(a) / statistics.median(b) for a, b in zip(c.rounds, p.rounds)]
            print(f"| {c.name} / {p.name} | {c.median() / p.median():.3f} | {min(turns):.3f} to {max(turns):.3f} | {c.peak / p.peak:.3f} | {c.card / p.card:.3f} | {(c.first + c.compile_seconds) / p.first:.3f} |")
    for c in ours: print(f"{c.name}: " + ", ".join(f"{purpose} {gib(size)} GiB" for purpose, size in c.notes["memory"].items()))
    sys.stdout.flush()


def run_model(args, model):
    ours, peers = find_ours(args, model), start_peers(args, model)
    everybody = [*ours, *peers]
    for number in range(args.rounds):
        for c in everybody[number % len(everybody):] + everybody[:number % len(everybody)]:
            if len(c.rounds) <= number: c.turn(args.steps)
    for peer in peers: peer.close()
    print_table(model, ours, peers)
    if args.kernels:
        for c in ours: print(f"\n{c.name}, by kernel:\n{c.kernels()}", flush=True)
    return {c.name: {"median_ms": c.median(), "rounds_ms": c.rounds, "peak_bytes": c.peak, "card_bytes": c.card, "first_step_s": c.first,
                     "compile_s": getattr(c, "compile_seconds", 0), **c.notes} for c in everybody}


def run_models(args):
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,power.limit", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True).stdout.strip(), flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        args.launcher = find_launcher(args, folder)
        for model in args.models:
            start = time.time()
            results[model] = run_model(args, model)
            print(f"({model}: {time.time() - start:.0f} s)", flush=True)
            if args.json: json.dump(results, open(args.json, "w"), indent=1)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["compile", "run"]); parser.add_argument("folder"); parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(TOOLS), "build"))
    compiling, running = parser.add_argument_group("compile"), parser.add_argument_group("run")
    compiling.add_argument("--models", dest="graphs", default=os.path.join(os.path.dirname(TOOLS), "test", "models", "full"), help="folder of the exported graphs")
    compiling.add_argument("--variant", action="append", default=[], help="NAME=FLAGS: a further artifact of every model"); compiling.add_argument("--target", default="sm_90a")
    compiling.add_argument("--no-runtime", action="store_true", help="leave DIR/runtime.tar.gz as it is")
    running.add_argument("--only", default="", help="of the variants only these ('plain' is the one without a name)"); running.add_argument("--peers"); running.add_argument("--python", default=sys.executable)
    running.add_argument("--rounds", type=int, default=3); running.add_argument("--steps", type=int, default=10); running.add_argument("--flags", default="", help="further flags of lockstep-run")
    running.add_argument("--launcher", help="lockstep-run; default: DIR's, else the build's"); running.add_argument("--kernels", action="store_true", help="print the time of every kernel"); running.add_argument("--json")
    args = parser.parse_args()
    for model in args.models:
        if model not in FILES: parser.error(f"there is no model '{model}'; there are {', '.join(FILES)}")
    args.models = args.models or list(FILES)
    return compile_models(args) if args.step == "compile" else run_models(args)


if __name__ == "__main__":
    sys.exit(main())
