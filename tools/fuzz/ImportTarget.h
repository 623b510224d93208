// The importer as part of the fuzzer's target.
#ifndef LOCKSTEP_TOOLS_FUZZ_IMPORTTARGET_H
#define LOCKSTEP_TOOLS_FUZZ_IMPORTTARGET_H

#include "compiler/import/WeightStore.h"
#include "compiler/import/pt2/ExportedProgram.h"

namespace lockstep::fuzz {

/// Imports the program; the first diagnostic is the error. A failure without a
/// diagnostic is an internal fault.
Status importWholly(const pt2::ExportedProgram &program,
                    const WeightStore &weights);

} // namespace lockstep::fuzz

#endif // LOCKSTEP_TOOLS_FUZZ_IMPORTTARGET_H
