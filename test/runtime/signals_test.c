/* A program that handles signals of its own trains through the C API:
 * signals_test ARTIFACT STEPS. A timer interrupts it 2000 times a second. Says
 * every step's loss; fails if a handler ever ran on a stack that is none, which
 * is where a kernel's stack pointer may be (runtime/support/signals.h), or if
 * none ran at all. */
#define _GNU_SOURCE
#include "runtime/lockstep.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static _Thread_local char *stackBegin, *stackEnd;
static volatile sig_atomic_t onStack, elsewhere;

static void noteStack(void) {
  pthread_attr_t attributes;
  void *begin;
  size_t bytes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  stackBegin = begin;
  stackEnd = stackBegin + bytes;
}

static void onAlarm(int signal) {
  char here = (char)signal;
  if (&here >= stackBegin && &here < stackEnd)
    onStack = onStack + 1;
  else
    elsewhere = elsewhere + 1;
}

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, lockstep_error());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("an artifact and a number of steps");
  noteStack();
  /* Threads that the program had before it opened a run. */
#pragma omp parallel
  noteStack();
  struct sigaction action = {.sa_handler = onAlarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {{0, 500}, {0, 500}};
  lockstep_options options = {.size = sizeof(options), .data = "synthetic"};
  lockstep_run *run = NULL;
  if (lockstep_open(argv[1], &options, &run))
    return fail("open");
  setitimer(ITIMER_REAL, &timer, NULL);
  for (int step = 0; step < atoi(argv[2]); ++step) {
    lockstep_metrics metrics;
    if (lockstep_step(run, &metrics))
      return fail("step");
    printf("%.17g\n", metrics.loss);
  }
  if (lockstep_close(run))
    return fail("close");
  fprintf(stderr, "%d handlers ran on a stack, %d elsewhere\n", onStack,
          elsewhere);
  return onStack > 0 && elsewhere == 0 ? 0 : 1;
}
