// Values that are the same in every run: their evaluation, and tables that a
// rule can say.
#ifndef LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_CONSTANTFOLD_H
#define LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_CONSTANTFOLD_H

#include "compiler/import/aten/Emitter.h"
#include "compiler/reference/HostTensor.h"
#include <optional>

namespace lockstep::recognize {

/// The value, where it depends on no argument and no intermediate has more than
/// `maxElements` elements.
std::optional<HostTensor> evaluateConstant(mlir::Value value,
                                           int64_t maxElements);

/// For a boolean or ui8 table [..., R, C] that is 1 exactly where low <= column
/// - row <= high (a causal mask, a band): the comparison of counts that
/// computes it. Null for other tables, and for small ones.
mlir::Value buildBand(aten::Emitter &emit, const HostTensor &table);

} // namespace lockstep::recognize

#endif // LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_CONSTANTFOLD_H
