//===- TrainOpDefs1.cpp - Generated definitions, part 1 of 4 -------------===//
#include "dialects/train/Train.h"

#define GET_OP_DEFS_1
#include "dialects/train/TrainOps.cpp.inc"
