//===- TrainOpDefs2.cpp - Generated definitions, part 2 of 4 -------------===//
#include "dialects/train/Train.h"

#define GET_OP_DEFS_2
#include "dialects/train/TrainOps.cpp.inc"
