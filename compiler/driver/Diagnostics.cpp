//===- Diagnostics.cpp - From MLIR diagnostics to one error line ----------===//
#include "compiler/driver/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// The file position and the node name that a location holds; the first of each
/// wins.
static void findParts(Location location, std::string &file, std::string &name) {
  if (auto position = dyn_cast<FileLineColLoc>(location)) {
    if (file.empty())
      file =
          (position.getFilename().getValue() + ":" + Twine(position.getLine()))
              .str();
  } else if (auto named = dyn_cast<NameLoc>(location)) {
    if (name.empty())
      name = named.getName().str();
    findParts(named.getChildLoc(), file, name);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    findParts(call.getCallee(), file, name);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      findParts(part, file, name);
  }
}

std::string lockstep::describeLocation(Location location) {
  std::string file, name;
  findParts(location, file, name);
  if (file.empty())
    return name;
  return name.empty() ? file : file + " (" + name + ")";
}

lockstep::DiagnosticCollector::DiagnosticCollector(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        collect(diagnostic);
        return success();
      }) {}

void lockstep::DiagnosticCollector::collect(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Warning) {
    std::string place = describeLocation(diagnostic.getLocation());
    llvm::errs() << "warning: " << (place.empty() ? "" : place + ": ")
                 << diagnostic.str() << "\n";
    return;
  }
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !what.empty())
    return;
  what = diagnostic.str();
  where = describeLocation(diagnostic.getLocation());
  // MLIR attaches the operation's text, which says nothing to a user.
  for (Diagnostic &note : diagnostic.getNotes())
    if (std::string text = note.str();
        !StringRef(text).starts_with("see current operation"))
      remedy += (remedy.empty() ? "" : "; ") + text;
}

lockstep::Status
lockstep::DiagnosticCollector::takeError(const std::string &stage) {
  if (what.empty())
    return internalFault("the stage '" + stage + "' failed without saying why")
        .remedy("please report this with the model");
  Status status = inputError(std::move(what));
  if (!where.empty())
    status = std::move(status).at(where);
  if (!remedy.empty())
    status = std::move(status).remedy(std::move(remedy));
  what.clear(), where.clear(), remedy.clear();
  return status;
}
