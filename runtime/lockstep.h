/* Training from a program of one's own, in C: what lockstep-run does, step by
 * step. A thin layer over the object that lockstep-run's training loop drives
 * (runtime/launcher/run.h).
 *
 *   lockstep_options options = {0};
 *   options.size = sizeof(options);
 *   options.data = "train_*.bin";
 *   lockstep_run *run = NULL;
 *   if (lockstep_open("gpt2.lockstep", &options, &run))
 *     die(lockstep_error());
 *   lockstep_metrics metrics;
 *   for (int i = 0; i < 1000; ++i)
 *     if (lockstep_step(run, &metrics))
 *       die(lockstep_error());
 *   lockstep_save_weights(run, "final.safetensors");
 *   lockstep_close(run);
 *
 * Ranks: an artifact for one rank runs in this process. For several, start the
 * program once per rank with torchrun, srun or mpirun; the variables that they
 * set are read here. When a rank is lost, every other process ends with exit
 * code 4 after one line on standard error: its collectives cannot go on.
 *
 * Every function returns 0 or one of lockstep-run's exit codes: 1 an input is
 * wrong, 2 the call is wrong, 3 an internal fault, 4 a rank was lost, 5 the
 * loss is not finite. A run is used by one thread at a time.
 *
 * Signals: on a CPU, handlers of the program wait while a step or an evaluation
 * runs, unless they have a stack of their own (SA_ONSTACK), since kernels may
 * move the stack pointer. What has no handler acts at once, as ever. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_API __attribute__((visibility("default")))

typedef struct lockstep_run lockstep_run;

/* Zero or NULL means the default of the flag of the same name. */
typedef struct lockstep_options {
  size_t size;      /* sizeof(lockstep_options) */
  const char *data; /* NULL: batches come through lockstep_input */
  const char *validation_data;
  const char *checkpoint_dir;
  const char *resume; /* a checkpoint, or "" for the newest */
  const char *weights;
  const uint64_t *seed;
  int64_t keep; /* checkpoints to keep; 0: 3 */
} lockstep_options;

typedef struct lockstep_metrics {
  int64_t step; /* the step that was run, from 0 */
  double loss;
  double grad_norm; /* NaN when the artifact does not compute it */
  double lr;
} lockstep_metrics;

/* Opens an artifact, joins the other ranks and gives the weights their first
 * values. `options` may be NULL. On success *run is to be closed. */
LOCKSTEP_API int lockstep_open(const char *artifact,
                               const lockstep_options *options,
                               lockstep_run **run);

/* This rank's rows of an input of the next step, to be filled before it:
 * *memory points to *bytes bytes, row-major, valid until lockstep_close. */
LOCKSTEP_API int lockstep_input(lockstep_run *run, const char *name,
                                void **memory, size_t *bytes);

/* Sets a hyperparameter (lr, weight_decay, ...) from the next step on; on all
 * ranks alike. */
LOCKSTEP_API int lockstep_set(lockstep_run *run, const char *name,
                              double value);

/* Runs one step. `metrics` may be NULL. Returns 5 for a loss that is not
 * finite; the metrics are filled all the same. */
LOCKSTEP_API int lockstep_step(lockstep_run *run, lockstep_metrics *metrics);

/* Mean loss over validation_data. */
LOCKSTEP_API int lockstep_evaluate(lockstep_run *run, double *loss);

/* Writes a checkpoint to checkpoint_dir. All ranks call it; rank 0 writes. */
LOCKSTEP_API int lockstep_save(lockstep_run *run);

/* Writes the weights as safetensors. All ranks call it; rank 0 writes. */
LOCKSTEP_API int lockstep_save_weights(lockstep_run *run, const char *path);

/* Leaves the run, after all ranks have, and frees it. NULL is allowed. */
LOCKSTEP_API int lockstep_close(lockstep_run *run);

/* What went wrong in this thread's last call, one line; "" after success. */
LOCKSTEP_API const char *lockstep_error(void);

LOCKSTEP_API const char *lockstep_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LOCKSTEP_H */
