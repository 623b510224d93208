/* Trains the toy model through the C API; the arguments are the artifact and a
 * folder to write to. Compiled as C, which the header must be. */
#include "runtime/lockstep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%d: %s (%s)\n", __LINE__, #condition,                   \
              lockstep_error());                                               \
      return 1;                                                                \
    }                                                                          \
  } while (0)

int main(int argc, char **argv) {
  CHECK(argc == 3);
  lockstep_run *run = NULL;
  CHECK(lockstep_open("/nowhere", NULL, &run) == 1 && !run);
  CHECK(strstr(lockstep_error(), "/nowhere"));
  CHECK(lockstep_open(NULL, NULL, &run) == 2);

  lockstep_options options = {0};
  options.size = sizeof(options);
  options.checkpoint_dir = argv[2];
  CHECK(lockstep_open(argv[1], &options, &run) == 0);
  void *memory;
  size_t bytes;
  CHECK(lockstep_input(run, "z", &memory, &bytes) == 1);
  CHECK(lockstep_set(run, "lr", 0.01) == 0);
  CHECK(lockstep_set(run, "nonsense", 1) == 1);
  lockstep_metrics metrics;
  double first = 0;
  for (int step = 0; step < 20; ++step) {
    for (const char *name = "x"; name; name = *name == 'x' ? "y" : NULL) {
      CHECK(lockstep_input(run, name, &memory, &bytes) == 0);
      for (size_t i = 0; i < bytes / 4; ++i)
        ((float *)memory)[i] = *name == 'x' ? (float)((i * 7) % 5) / 5 : 1;
    }
    CHECK(lockstep_step(run, &metrics) == 0);
    CHECK(metrics.step == step && metrics.lr == 0.01);
    CHECK(metrics.grad_norm > 0);
    if (step == 0)
      first = metrics.loss;
  }
  CHECK(metrics.loss < first);
  CHECK(lockstep_evaluate(run, &first) == 2);
  CHECK(lockstep_save(run) == 0);
  CHECK(lockstep_set(run, "lr", 1e30) == 0);
  CHECK(lockstep_step(run, NULL) == 0);
  CHECK(lockstep_step(run, &metrics) == 5 && !isfinite(metrics.loss));
  CHECK(lockstep_close(run) == 0);

  options.resume = "";
  CHECK(lockstep_open(argv[1], &options, &run) == 0);
  CHECK(lockstep_step(run, &metrics) == 0 && metrics.step == 20);
  CHECK(lockstep_close(run) == 0);
  CHECK(lockstep_close(NULL) == 0);
  return 0;
}
