// Checkpoints: a folder per step with the weights and the optimizer's state as
// safetensors of global shapes, and a manifest with their hashes.
//
//   DIR/step_00000200/model.safetensors      parameters and buffers
//   DIR/step_00000200/optimizer.safetensors  optimizer state
//   DIR/step_00000200/manifest.json          step, seed, hashes
//
// A checkpoint is written under a temporary name and renamed when it is whole,
// so a crash or a full disk leaves the earlier ones as they are. The position
// in the data follows from the step (see data/sample_order.h).
#ifndef LOCKSTEP_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define LOCKSTEP_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/executor/session.h"

#include <string>
#include <vector>

namespace lockstep::runtime {

struct CheckpointState {
  int64_t step = 0;  ///< steps done; the next one to run
  uint64_t seed = 0; ///< of weights, dropout and data order
};

/// Writes DIR/step_N and then deletes all but the newest `keep` (0: keeps all).
/// Errors: the folder cannot be written, or the disk is full.
Status saveCheckpoint(const Session &session, const std::string &folder,
                      const CheckpointState &state, int64_t keep);

/// Checkpoint folders in DIR, newest first.
std::vector<std::string> listCheckpoints(const std::string &folder);

/// Loads a checkpoint into the session's arena. Errors: damaged files, or
/// tensors that are not those of the artifact.
StatusOr<CheckpointState> loadCheckpoint(Session &session,
                                         const std::string &path);

/// Writes parameters and buffers as one safetensors file with the names of the
/// model's state_dict; tied weights under each of their names.
Status saveWeights(const Session &session, const std::string &path);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_CHECKPOINT_CHECKPOINT_H
