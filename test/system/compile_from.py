#!/usr/bin/env python3
"""A compilation that stops after a phase and goes on from its IR gives the artifact of one that does not, byte for byte.

    compile_from.py BUILD_DIR        Standard library only.
"""
import filecmp, os, sys, tempfile

from support import MODELS, Tools, succeed

PHASES = ["import", "precision", "autodiff", "partition", "fuse", "schedule"]
RECIPES = {
    "mlp": ["--optimizer", "sgd", "--momentum", "0.9", "--ranks", "2"],
    "gpt2": ["--labels", "next-token", "--optimizer", "adamw", "--grad-clip", "1", "--gradient-accumulation-steps", "2", "--ranks", "2",
             "--lr-schedule", "cosine", "--warmup-steps", "2", "--total-steps", "9", "--weights", "none", "--seed", "3"],
    "bert": ["--optimizer", "adam", "--labels", "y", "--weight-decay", "0.1", "--weight-decay-exclude", "ndim<2"],
}


def main():
    tools, failures = Tools(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        path = lambda *names: os.path.join(folder, *names)
        for name, flags in RECIPES.items():
            model = f"{MODELS}/{name}.pt2"
            succeed(tools.compile(model, *flags, "--dump-ir-dir", path(name), "-o", path("whole.lockstep")))
            for number, phase in enumerate(PHASES):
                succeed(tools.compile(model, *flags, "--compile-to", phase, "-o", path("stopped.mlir")))
                dumped = path(name, f"{number}-{phase}.mlir")
                succeed(tools.compile(dumped, *flags, "--compile-from", phase, "--model", model, "-o", path("resumed.lockstep")))
                wrong = [] if filecmp.cmp(path("stopped.mlir"), dumped, shallow=False) else ["--compile-to writes other IR than --dump-ir-dir"]
                if not filecmp.cmp(path("whole.lockstep"), path("resumed.lockstep"), shallow=False): wrong.append("another artifact")
                failures += bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {name} from {phase} {'; '.join(wrong)}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
