//===- TrainOpDefs3.cpp - Generated definitions, part 3 of 4 -------------===//
#include "dialects/train/Train.h"

#define GET_OP_DEFS_3
#include "dialects/train/TrainOps.cpp.inc"
