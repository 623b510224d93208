#!/usr/bin/env python3
"""Ranks that others start: the environments of torchrun, Slurm and mpirun give the run of our own launcher, bit for bit; wrong values are one
error line each, within seconds.

    joins.py BUILD_DIR        Standard library only.
"""
import os, random, subprocess, sys, tempfile, time

from support import MODELS, Tools, segments, succeed

CONVENTIONS = {"torchrun": ("RANK", "WORLD_SIZE"), "slurm": ("SLURM_PROCID", "SLURM_NTASKS"), "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
               "mpich": ("PMI_RANK", "PMI_SIZE")}
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_", "SLURM_", "OMPI_", "PMI_", "LOCAL_RANK", "TORCHELASTIC_"))}


class Test:
    def __init__(self, tools, folder):
        self.tools, self.folder, self.failures = tools, folder, 0
        self.artifact = self.path("m.lockstep")
        succeed(tools.compile(f"{MODELS}/mlp.pt2", "--ranks", "2", "-o", self.artifact))
        succeed(tools.run(self.artifact, "--data", "synthetic", "--steps", "3", "--log", self.path("own.jsonl")), env=PLAIN)
        self.want = self.losses("own.jsonl")

    def path(self, name): return os.path.join(self.folder, name)
    def losses(self, name): return [r["loss"] for _, rows, _ in segments(self.path(name)) for r in rows]

    def check(self, title, wrong, text=""):
        self.failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {title}: {wrong or text}", flush=True)

    def start(self, environment, *more, steps=3):
        """The process of one rank."""
        command = self.tools.run(self.artifact, "--data", "synthetic", "--steps", str(steps), "--join-timeout", "4", *more)
        return subprocess.Popen(command, env={**PLAIN, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def end(self, processes):
        """(exit code, error lines) of each."""
        out = []
        for process in processes:
            try: _, errors = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
                errors += "error: hangs\nerror: hangs\n"
            out.append((process.returncode, errors.splitlines()))
        return out

    def joined(self, title, environments):
        log = title + ".jsonl"
        ended = self.end([self.start(e, "--log", self.path(log)) for e in environments])
        wrong = "" if all(e == (0, []) for e in ended) else str(ended)
        self.check(title, wrong or ("" if self.losses(log) == self.want else f"losses {self.losses(log)}, own launcher {self.want}"))

    def refused(self, title, environments, *words, code=1, flags=(), steps=3):
        """Every process that fails says one line; some line has the words."""
        begin = time.time()
        ended = self.end([self.start(e, *flags, steps=steps) for e in environments])
        failed = [e for e in ended if e[0]]
        wrong = "" if failed else "all succeed"
        for got, lines in failed:
            if got != code or len(lines) != 1 or not lines[0].startswith("error: "): wrong = f"exit {got} with {lines}"
        told = " ".join(line for _, lines in failed for line in lines)
        wrong = wrong or "; ".join(f"lacks {word!r}: {told}" for word in words if word not in told)
        if time.time() - begin > 12: wrong = wrong or f"takes {time.time() - begin:.0f} s"
        self.check(title, wrong, told)


def main():
    port = random.randrange(20000, 50000)
    def place():
        nonlocal port
        port += 20
        return {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as folder:
        test = Test(Tools(sys.argv[1]), folder)
        for name, (rank, size) in CONVENTIONS.items():
            where = place()
            test.joined(name, [{rank: str(r), size: "2", **where} for r in (1, 0)])
        where = place()
        test.joined("torchrun within Slurm", [{"RANK": str(r), "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", **where} for r in (0, 1)])
        test.joined("an interactive Slurm shell, where all ranks start here", [{"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}])
        torchrun = lambda rank, size, **more: {"RANK": rank, "WORLD_SIZE": size, **place(), **more}
        test.refused("rank is no number", [torchrun("one", "2")], "RANK=one", "WORLD_SIZE")
        test.refused("rank is negative", [torchrun("-1", "2")], "RANK=-1")
        test.refused("rank too large", [torchrun("2", "2")], "RANK=2", "WORLD_SIZE")
        test.refused("size is 0", [torchrun("0", "0")], "WORLD_SIZE=0")
        test.refused("rank without size", [{"RANK": "0", **place()}], "WORLD_SIZE", "RANK")
        test.refused("size without rank", [{"WORLD_SIZE": "2", **place()}], "WORLD_SIZE", "RANK")
        test.refused("no address", [{"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "MASTER_PORT": "1"}], "MASTER_ADDR", "export")
        test.refused("no port", [{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}], "MASTER_PORT", "export")
        test.refused("port too large", [torchrun("0", "2", MASTER_PORT="70000")], "MASTER_PORT=70000")
        test.refused("a host that does not exist", [torchrun("1", "2", MASTER_ADDR="no-such-host.invalid")], "no-such-host.invalid", "MASTER_ADDR", code=4)
        test.refused("nobody at the port", [torchrun("1", "2")], "rank 0", "localhost", code=4)
        test.refused("rank 1 does not come", [torchrun("0", "2")], "rank 1", code=4)
        test.refused("sizes that the artifact is not for", [torchrun("0", "3")], "2 ranks", "3")
        test.refused("-n against the environment", [torchrun("0", "2")], "-n", flags=["-n", "3"])
        where = place()
        test.refused("two of rank 1", [{"RANK": r, "WORLD_SIZE": "2", **where} for r in ("1", "1")], "rank", code=4)
        where = place()
        test.refused("two of rank 1 with rank 0", [{"RANK": r, "WORLD_SIZE": "2", **where} for r in ("0", "1", "1")], "two processes are rank 1", steps=10_000_000)
        return 1 if test.failures else 0


if __name__ == "__main__":
    sys.exit(main())
