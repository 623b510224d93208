#include "test/runtime/device/fake_driver.h"

#include <cstdio>

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
  *address = 4096;
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
  return driver;
}

} // namespace lockstep::runtime::testing
