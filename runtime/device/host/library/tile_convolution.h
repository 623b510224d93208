// Convolutions on AMX tiles: products whose factors are read through tables of
// offsets, so that no matrix of windows is made. What the windows read beyond
// the edges is a zero border around a copy of the operand.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_CONVOLUTION_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_CONVOLUTION_H

#include "runtime/device/host/library/convolution_shape.h"
#include "runtime/device/host/library/library_kernel.h"

namespace lockstep::runtime {

enum class ConvolutionPass { Forward, InputGradient, FilterGradient };

/// Null where tiles are not at hand or not faster.
std::unique_ptr<LibraryKernel>
createTileConvolution(const ConvolutionShape &shape, ConvolutionPass pass);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_CONVOLUTION_H
