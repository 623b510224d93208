// RUN: lockstep-opt %s --lockstep-partition-propagate --lockstep-partition-localize --remarks-filter=lockstep-partition --remark-policy=all -o /dev/null 2>&1 | FileCheck %s

dist.mesh @mesh ["data" = 4]

// CHECK: 'train.sort' needs dimension 0 whole
func.func @sort(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[["data"]]>}) -> tensor<8xf32> {
  %0, %1 = train.sort %x dim 0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
