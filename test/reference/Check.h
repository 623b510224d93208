//===- Check.h - Compares evaluations with expected values --------------*- C++
//-*-===//
#ifndef LOCKSTEP_TEST_REFERENCE_CHECK_H
#define LOCKSTEP_TEST_REFERENCE_CHECK_H

#include "test/reference/Evaluate.h"
#include <catch2/catch.hpp>
#include <limits>

namespace lockstep::test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Checks the results of the last operation of `body`, one list per result.
inline void checkValues(const std::string &body,
                        const std::vector<Tensor> &operands,
                        const std::vector<std::vector<double>> &expected,
                        double tolerance = 0) {
  INFO(body);
  std::vector<Tensor> results = evaluate(body, operands);
  REQUIRE(results.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(results[i].values.size() == expected[i].size());
    for (size_t j = 0; j < expected[i].size(); ++j) {
      INFO("result " << i << " element " << j << ": expected " << expected[i][j]
                     << ", got " << results[i].values[j]);
      CHECK(isClose(results[i].values[j], expected[i][j], tolerance));
    }
  }
}

} // namespace lockstep::test

#endif
