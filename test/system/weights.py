#!/usr/bin/env python3
"""Weights given beside the graph: names that differ by a prefix are matched and told, the values are the file's, and what is saved after a run
that changes nothing has the graph's names and those values; tied names and names that the graph does not use are saved too.

    weights.py BUILD_DIR        Standard library only.
"""
import os, random, sys, tempfile

from support import MODELS, Tools, read_safetensors, succeed, write_safetensors

TOKENS, GPT2 = f"{MODELS}/recipes/tokens.pt2", f"{MODELS}/gpt2.pt2"
SHAPES = {"table.weight": [20, 8], "norm.weight": [8], "norm.bias": [8], "hidden.weight": [12, 8], "hidden.bias": [12], "head.weight": [5, 12], "head.bias": [5]}


def main():
    tools, failures = Tools(sys.argv[1]), 0
    def check(title, good, text=""):
        nonlocal failures
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {title} {text}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        draw = random.Random(1)
        def values(shape): return [draw.gauss(0, 1) for _ in range(shape[0] * (shape[1] if len(shape) > 1 else 1))]
        given = {name: ("F32", shape, values(shape)) for name, shape in SHAPES.items()}
        def saved(model, *flags):
            """What the compiler says, and the weights after a step of rate 0."""
            said = succeed(tools.compile(model, *flags, "--lr", "0", "-o", path("m.lockstep")))
            succeed(tools.run(path("m.lockstep"), "--data", "synthetic", "--steps", "1", "--save-weights", path("saved.safetensors")))
            return said, read_safetensors(path("saved.safetensors"))
        def same(a, b): return {n: list(t[2]) for n, t in a.items()} == {n: list(t[2]) for n, t in b.items()}
        write_safetensors(path("plain.safetensors"), given)
        said, after = saved(TOKENS, "--labels", "y", "--weights", path("plain.safetensors"))
        rounded = read_safetensors(path("plain.safetensors"))
        check("the file's values", same(after, rounded))
        check("nothing to tell", "weights:" not in said)
        write_safetensors(path("prefixed.safetensors"), {"model.inner." + n: t for n, t in given.items()})
        said, after = saved(TOKENS, "--labels", "y", "--weights", path("prefixed.safetensors"))
        check("a prefix is stripped", same(after, rounded))
        check("and told in the summary", "weights: the model's '*' are 'model.inner.*' in " + path("prefixed.safetensors") in said, said.splitlines()[-1])
        write_safetensors(path("leftover.safetensors"), {**given, "hidden.rotary_emb.inv_freq": ("F32", [4], [0.0] * 4)})
        said, after = saved(TOKENS, "--labels", "y", "--weights", path("leftover.safetensors"))
        check("a buffer that older models saved is left out, and told", same(after, rounded) and "weights: not used by the model: hidden.rotary_emb.inv_freq" in said, said.splitlines()[-1])
        _, tied = saved(GPT2, "--labels", "next-token")
        names = ("m.transformer.wte.weight", "m.lm_head.weight")
        check("both names of tied weights", all(n in tied for n in names) and tied[names[0]][2] == tied[names[1]][2], str(len(tied)))
        said, drawn = saved(TOKENS, "--labels", "y", "--weights", "none", "--init", "normal:0.5", "--seed", "5")
        _, again = saved(TOKENS, "--labels", "y", "--weights", "none", "--init", "normal:0.5", "--seed", "5", "--ranks", "2")
        spread = [v for n, t in drawn.items() if n in ("table.weight", "hidden.weight") for v in t[2]]
        deviation = (sum(v * v for v in spread) / len(spread)) ** 0.5
        check("drawn weights: the same on any number of ranks", same(drawn, again))
        check("norms 1, biases 0, the rest normal", set(drawn["norm.weight"][2]) == {1.0} and set(drawn["head.bias"][2]) == {0.0} and 0.43 < deviation < 0.57, f"deviation {deviation:.3f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
