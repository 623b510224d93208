// Compiled by gcc with -fopenmp; see parallel.h.
#include "runtime/device/host/parallel.h"

#include <omp.h>

void lockstep_parallel_for(int64_t chunks,
                           void (*body)(void *context, int64_t chunk),
                           void *context) {
  if (chunks <= 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      body(context, chunk);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    body(context, chunk);
}

void lockstep_on_other_threads(void (*body)(void)) {
#pragma omp parallel
  if (omp_get_thread_num() != 0)
    body();
}

int lockstep_max_threads(void) { return omp_get_max_threads(); }
void lockstep_set_threads(int threads) { omp_set_num_threads(threads); }
int lockstep_thread_index(void) { return omp_get_thread_num(); }
