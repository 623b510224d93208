#include "test/runtime/device/fake_driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace lockstep::runtime::testing {

using namespace cuda;

FakeGpu fakeGpu;

static Result attributeOf(int *value, int attribute, DeviceNumber) {
  *value = attribute == computeCapabilityMajor   ? fakeGpu.major
           : attribute == computeCapabilityMinor ? fakeGpu.minor
                                                 : 1000;
  return success;
}

static Result allocate(Address *address, size_t bytes) {
  if (bytes > fakeGpu.freeBytes)
    return outOfMemory;
  *address = fakeGpu.address;
  return success;
}

static Result loadModule(Module *module, const void *, unsigned options, int *,
                         void **values) {
  *module = reinterpret_cast<Module>(1);
  if (options)
    snprintf(static_cast<char *>(values[0]), 100, "%s", fakeGpu.jitLog);
  return fakeGpu.loadResult;
}

static Result findFunction(Function *function, Module, const char *name) {
  *function = reinterpret_cast<Function>(1);
  return name == std::string("absent") ? 500 : success;
}

static Result nameOfError(Result, const char **name) {
  *name = "CUDA_ERROR_FAKE";
  return success;
}

static Result allocatePinned(void **memory, size_t bytes, unsigned) {
  if (bytes > fakeGpu.pinnedBytes)
    return outOfMemory;
  fakeGpu.pinnedBytes -= bytes;
  ++fakeGpu.pinned;
  *memory = malloc(bytes);
  return success;
}

static Result freePinned(void *memory) {
  --fakeGpu.pinned;
  free(memory);
  return success;
}

static Result copyLater(Address target, const void *source, size_t bytes,
                        StreamHandle) {
  if (fakeGpu.copyResult == success)
    fakeGpu.copies.push_back({target, source, bytes});
  return fakeGpu.copyResult;
}

/// Makes the first `count` copies.
static void makeCopies(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const FakeCopy &copy = fakeGpu.copies[i];
    size_t at = copy.target - fakeGpu.address;
    if (fakeGpu.memory.size() < at + copy.bytes)
      fakeGpu.memory.resize(at + copy.bytes);
    fakeGpu.memory.replace(at, copy.bytes,
                           static_cast<const char *>(copy.source), copy.bytes);
  }
  fakeGpu.copies.erase(fakeGpu.copies.begin(),
                       fakeGpu.copies.begin() + long(count));
}

/// An event is the number of copies, ever, that were asked for before it was
/// recorded; 0 when it was not.
static std::vector<size_t> eventValues;
static size_t copiesMade = 0;

static Result createEvent(EventHandle *event, unsigned) {
  eventValues.push_back(0);
  *event = reinterpret_cast<EventHandle>(eventValues.size());
  return success;
}

static Result recordEvent(EventHandle event, StreamHandle) {
  eventValues[reinterpret_cast<size_t>(event) - 1] =
      copiesMade + fakeGpu.copies.size();
  return success;
}

static Result awaitEvent(EventHandle event) {
  size_t value = eventValues[reinterpret_cast<size_t>(event) - 1];
  if (value > copiesMade) {
    makeCopies(value - copiesMade);
    copiesMade = value;
  }
  return success;
}

static Result awaitStream(StreamHandle) {
  copiesMade += fakeGpu.copies.size();
  makeCopies(fakeGpu.copies.size());
  return success;
}

/// For the uploads of a test.
static void addCopies(Driver &driver) {
  eventValues.clear();
  copiesMade = 0;
  driver.memHostAlloc = allocatePinned;
  driver.memFreeHost = freePinned;
  driver.memcpyHtoDAsync = copyLater;
  driver.streamCreate = [](StreamHandle *stream, unsigned) {
    *stream = reinterpret_cast<StreamHandle>(1);
    return success;
  };
  driver.streamDestroy = [](StreamHandle) { return success; };
  driver.streamSynchronize = awaitStream;
  driver.eventCreate = createEvent;
  driver.eventDestroy = [](EventHandle) { return success; };
  driver.eventRecord = recordEvent;
  driver.eventSynchronize = awaitEvent;
}

Driver fakeDriver() {
  Driver driver;
  driver.getErrorName = nameOfError;
  driver.getErrorString = [](Result, const char **text) {
    *text = "fake";
    return success;
  };
  driver.init = [](unsigned) { return fakeGpu.initResult; };
  driver.driverGetVersion = [](int *version) {
    *version = fakeGpu.driverVersion;
    return success;
  };
  driver.deviceGetCount = [](int *count) {
    *count = fakeGpu.count;
    return success;
  };
  driver.deviceGet = [](DeviceNumber *device, int ordinal) {
    *device = fakeGpu.opened = ordinal;
    return success;
  };
  driver.deviceGetName = [](char *name, int, DeviceNumber) {
    snprintf(name, 8, "Fake");
    return success;
  };
  driver.deviceGetAttribute = attributeOf;
  driver.primaryContextRetain = [](Context *context, DeviceNumber) {
    *context = reinterpret_cast<Context>(1);
    return success;
  };
  driver.primaryContextRelease = [](DeviceNumber) { return success; };
  driver.contextSetCurrent = [](Context) { return success; };
  driver.memAlloc = allocate;
  driver.memFree = [](Address) { return success; };
  driver.memGetInfo = [](size_t *available, size_t *total) {
    *available = fakeGpu.freeBytes;
    *total = 2 * fakeGpu.freeBytes;
    return success;
  };
  driver.moduleLoadDataEx = loadModule;
  driver.moduleUnload = [](Module) { return success; };
  driver.moduleGetFunction = findFunction;
  driver.functionGetAttribute = [](int *value, int, Function) {
    *value = fakeGpu.threadsPerBlock;
    return success;
  };
  driver.functionSetAttribute = [](Function, int, int) { return 1; };
  driver.memcpyHtoD = [](Address, const void *source, size_t bytes) {
    fakeGpu.copied.assign(static_cast<const char *>(source), bytes);
    return success;
  };
  driver.memsetD8Async = [](Address, unsigned char, size_t bytes,
                            StreamHandle) {
    fakeGpu.cleared = bytes;
    return success;
  };
  addCopies(driver);
  driver.tensorMapEncodeTiled =
      [](TensorMap *map, int type, unsigned rank, void *address,
         const uint64_t *dims, const uint64_t *strides, const unsigned *box,
         const unsigned *, int, int swizzle, int, int) {
        uint64_t parts[] = {uint64_t(type), rank,    uint64_t(address),
                            dims[0],        dims[1], strides[0],
                            box[0],         box[1],  uint64_t(swizzle)};
        std::copy(std::begin(parts), std::end(parts), map->opaque);
        return fakeGpu.mapResult;
      };
  return driver;
}

} // namespace lockstep::runtime::testing
