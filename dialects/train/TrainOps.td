//===- TrainOps.td - All operations of the train dialect ---*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINOPS_TD

include "dialects/train/TrainPointwiseOps.td"
include "dialects/train/TrainDataOps.td"
include "dialects/train/TrainContractionOps.td"
include "dialects/train/TrainModelOps.td"
include "dialects/train/TrainStepOps.td"

#endif
