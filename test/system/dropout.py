#!/usr/bin/env python3
"""Dropout's random numbers are one function of (seed, operation, step, accumulation step, global element), whoever computes them: generated
code on any number of ranks, and the reference interpreter before and after partition, schedule included.

    dropout.py BUILD_DIR        Standard library only.
"""
import os, random, sys, tempfile

from support import MODELS, Tools, read_safetensors, segments, succeed, write_safetensors

MODEL = f"{MODELS}/recipes/dropout.pt2"
SEED, STEPS, LR = 20251130, 3, 0.25
STAGES = ["2-autodiff", "3-partition", "4-fuse", "5-schedule"]


class Test:
    def __init__(self, tools, folder):
        self.tools, self.folder, self.failures = tools, folder, 0
        self.weights, self.batch = self.path("weights.safetensors"), self.path("batch.safetensors")
        draw = random.Random(1)
        shapes = {"table.weight": [32, 16], "qkv.weight": [48, 16], "qkv.bias": [48], "out.weight": [16, 16], "out.bias": [16], "head.weight": [32, 16], "head.bias": [32]}
        count = lambda shape: shape[0] * (shape[1] if len(shape) > 1 else 1)
        write_safetensors(self.weights, {n: ("F32", s, [draw.gauss(0, 0.3) for _ in range(count(s))]) for n, s in shapes.items()})
        # The same batch every step: what differs between steps is dropout.
        self.ids, self.labels = ([draw.randrange(32) for _ in range(64)] for _ in range(2))
        write_safetensors(self.batch, {"step0.ids": ("I64", [8, 8], self.ids), "step0.y": ("I64", [8, 8], self.labels)})

    def path(self, name): return os.path.join(self.folder, name)

    def check(self, title, good, text=""):
        self.failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {title} {text}", flush=True)

    def compile(self, ranks, accumulation, *more):
        artifact = self.path(f"{ranks}.{accumulation}.lockstep")
        succeed(self.tools.compile(MODEL, "--labels", "y", "--optimizer", "sgd", "--lr", str(LR), "--weights", self.weights, "--seed", str(SEED), "--ranks", str(ranks),
                                   "--gradient-accumulation-steps", str(accumulation), *more, "-o", artifact))
        return artifact

    def train(self, artifact, *more):
        """Losses, gradient norms and evaluations."""
        log = self.path("log.jsonl")
        succeed(self.tools.run(artifact, "--data", self.batch, "--val-data", self.batch, "--eval-every", "1", "--steps", str(STEPS), "--log", log, *more))
        _, rows, evaluations = segments(log)[0]
        return [r["loss"] for r in rows], [r["grad_norm"] for r in rows], [e["val_loss"] for e in evaluations]

    def interpret(self, ir, step, weights, accumulation):
        """The interpreter's loss and gradient norm of one step on these weights."""
        inputs, results = self.path("inputs.safetensors"), self.path("results.safetensors")
        steps = ["--gradient-accumulation-steps", str(accumulation), "--integers-below", "2"]
        succeed(self.tools.tool("lockstep-interpret", ir, "--entry", "step", *steps, "--write-inputs", inputs, "-o", results))
        feeds = read_safetensors(inputs)
        feeds.update(read_safetensors(weights))
        feeds["ids"], feeds["y"] = ("I64", [8, 8], self.ids), ("I64", [8, 8], self.labels)
        feeds["lr"] = ("F32", [], [LR])
        feeds["weight_decay"] = ("F32", [], [0.0])
        assert "rng" in feeds, sorted(feeds)
        kind, shape, _ = feeds["rng"]
        feeds["rng"] = (kind, shape, [n for k in range(max(1, len(feeds["rng"][2]) // 2)) for n in (SEED, step * accumulation + k)])
        write_safetensors(inputs, feeds)
        succeed(self.tools.tool("lockstep-interpret", ir, "--entry", "step", *steps, "--inputs", inputs, "-o", results))
        got = read_safetensors(results)
        return got["loss"][2][0], got["grad_norm"][2][0]


def near(a, b): return all(abs(x - y) <= 3e-6 * abs(y) for x, y in zip(a, b, strict=True))


def main():
    with tempfile.TemporaryDirectory() as folder:
        test = Test(Tools(sys.argv[1]), folder)
        evaluations = []
        for accumulation in (1, 2):
            want = None
            for ranks in (1, 2, 4):
                artifact = test.compile(ranks, accumulation, "--dump-ir-dir", test.path(f"ir.{ranks}.{accumulation}"))
                losses, norms, values = test.train(artifact)
                evaluations.append(values)
                want = want or (losses, norms)
                test.check(f"{ranks} ranks, accumulation {accumulation}: the losses of 1 rank", near(losses, want[0]) and near(norms, want[1]), str(losses))
            # One step at a time, so that the weights of each step are known.
            one = test.path(f"1.{accumulation}.lockstep")
            for step in range(2):
                weights = test.weights
                if step:
                    weights = test.path("after.safetensors")
                    succeed(test.tools.run(one, "--data", test.batch, "--steps", str(step), "--save-weights", weights))
                for ranks in (1, 2, 4):
                    for stage in STAGES if ranks == 2 else STAGES[-1:]:
                        got = test.interpret(test.path(f"ir.{ranks}.{accumulation}/{stage}.mlir"), step, weights, accumulation)
                        test.check(f"{ranks} ranks, accumulation {accumulation}, step {step}: {stage} interpreted", near(got, (want[0][step], want[1][step])), str(got))
        # After step 0 the weights differ by accumulation, since masks do.
        test.check("evaluations are alike on every layout", all(near(v, evaluations[0 if i < 3 else 3]) for i, v in enumerate(evaluations)))
        artifact = test.compile(2, 1)
        still, _, values = test.train(artifact, "--lr", "0")
        test.check("every step has another mask", len(set(still)) == STEPS, str(still))
        test.check("evaluations of the same weights are equal, and not a training loss", len(set(values)) == 1 and values[0] not in still, str(values))
        again, _, _ = test.train(artifact, "--lr", "0")
        test.check("the same seed gives the same bits", again == still)
        other, _, _ = test.train(artifact, "--lr", "0", "--seed", str(SEED + 1))
        test.check("another seed gives other masks", not set(other) & set(still), str(other))
        far, _, _ = test.train(artifact, "--lr", "0", "--seed", str(SEED + (1 << 40)))
        test.check("a seed that differs in its high bits too", not set(far) & set(still), str(far))
        return 1 if test.failures else 0


if __name__ == "__main__":
    sys.exit(main())
