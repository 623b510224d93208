// lockstep-opt: mlir-opt with our dialects and passes.
#include "compiler/driver/Registration.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  lockstep::registerAllDialects(registry);
  lockstep::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Lockstep optimizer driver\n", registry));
}
