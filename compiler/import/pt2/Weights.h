// Builds the weight store of an exported program.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_WEIGHTS_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_WEIGHTS_H

#include "compiler/import/WeightStore.h"
#include "compiler/import/pt2/Reader.h"

namespace lockstep::pt2 {

/// One entry per parameter, buffer and tensor constant that the graph takes, in
/// that order, tied where the file or the options say so. Errors, each listing
/// all names concerned: pickled or missing values without --weights, names
/// missing from or unexpected in the given files, shapes that differ, buffers
/// without values, dtypes that are not supported.
StatusOr<WeightStore> buildWeightStore(const Pt2File &file,
                                       const WeightOptions &options);

/// For training from scratch, one rule per input of the graph: scales of norms
/// get ones, biases zeros, all other parameters `rule`; None for other inputs.
/// Decided by how the graph uses the parameter, else by its name and rank.
std::vector<InitRule> initRules(const ExportedProgram &program,
                                const InitRule &rule);

/// The same from the name and the rank alone.
InitRule initRuleByName(std::string_view name, size_t rank,
                        const InitRule &rule);

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_WEIGHTS_H
