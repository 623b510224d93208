//===- TrainOpDefs0.cpp - Generated definitions, part 0 of 4 -------------===//
#include "dialects/train/Train.h"

#define GET_OP_DEFS_0
#include "dialects/train/TrainOps.cpp.inc"
