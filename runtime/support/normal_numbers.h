// Standard normal numbers in bulk, for weights drawn at start.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_NORMAL_NUMBERS_H
#define LOCKSTEP_RUNTIME_SUPPORT_NORMAL_NUMBERS_H

#include <cstdint>
#include <vector>

namespace lockstep {

/// target[i] = normalAt(key, stream, first + i) as f32, within 4e-7 of its
/// size. The bits depend on key, stream and index alone: neither on how a range
/// is cut nor on the processor.
void normalNumbers(uint64_t key, uint64_t stream, uint64_t first, int64_t count,
                   float *target);

/// Fills whole blocks of four numbers, the first of them number 4 * block.
using NormalBlocks = void (*)(uint64_t key, uint64_t stream, uint64_t block,
                              int64_t blocks, float *target);

/// The same code compiled for x86-64-v3, where this processor has it, and for
/// any x86-64; the best first. All give the same bits.
std::vector<NormalBlocks> normalBlockVariants();

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_NORMAL_NUMBERS_H
