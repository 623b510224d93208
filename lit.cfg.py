# lit configuration: every .mlir file under test/ is a test. Run by tools/check.sh, or: lit -v test
import os
import shutil
import sys
import lit.formats

config.name = "lockstep"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "models", "build", "kernels"]  # kernels: read by kernels_test
root = os.path.dirname(os.path.abspath(__file__))
build = lit_config.params.get("build", os.path.join(root, "build"))
config.test_source_root = root
config.test_exec_root = build
llvm = lit_config.params.get("llvm", "/usr/lib/llvm-22")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), os.path.join(llvm, "bin"), config.environment.get("PATH", "")])
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=all"
config.substitutions.append(("%models", os.path.join(root, "test", "models")))
config.substitutions.append(("%root", root))
config.substitutions.append(("%python", sys.executable))

# Where the compiler looks for the CUDA toolkit's assembler (compiler/emit/nvptx/ptx/Ptxas.h).
ptxas = [os.environ.get("LOCKSTEP_PTXAS"), os.path.join(os.environ.get("CUDA_HOME", ""), "bin", "ptxas"), shutil.which("ptxas"),
         "/usr/local/cuda/bin/ptxas"]
if any(path and os.access(path, os.X_OK) for path in ptxas):
    config.available_features.add("ptxas")
