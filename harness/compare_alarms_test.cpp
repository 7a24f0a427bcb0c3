// False alarms: thousands of clean tensors, drawn from the same noise as their base, of many
// shapes, formats and structures of noise. At 1e-10 a view and tensor none may be raised here.
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>
#include <map>

#include "harness/compare_fixture.hpp"

namespace parity::test {
namespace {

struct Kind {
  const char* what;
  Synthetic of;
};

double channel(std::int64_t i) {
  return std::exp2(static_cast<double>(i % 16) / 2 - 4);
}  // four binades
double late(std::int64_t i) { return i % 4096 < 2048 ? 1 : 8; }

std::vector<Kind> kinds() {
  const std::vector<Dim> output = {{"T", 48}, {"H", 2}, {"V", 32}},
                         state = {{"N", 1}, {"H", 2}, {"K", 32}, {"V", 32}};
  return {
      {"f32 output", {.dims = output}},
      {"bf16 output", {.dims = output, .dtype = Dtype::BF16}},
      {"bf16 output, rounding alone", {.dims = output, .dtype = Dtype::BF16, .noise = 1e-5}},
      {"f16 output", {.dims = output, .dtype = Dtype::F16, .noise = 1e-3}},
      {"e4m3 output", {.dims = output, .dtype = Dtype::E4M3, .noise = 2e-2}},
      {"f32 state", {.dims = state}},
      {"f32 state, noise of f32", {.dims = state, .noise = 1e-7}},
      {"channels of different noise", {.dims = state, .scale = channel}},
      {"noise that grows", {.dims = output, .scale = late}},
      {"errors shared by rows", {.dims = output, .shared = 0.5}},
      {"ill conditioned", {.dims = output, .noise = 8e-2, .shared = 0.3}},
      {"few rows that share", {.dims = {{"T", 8}, {"V", 512}}, .shared = 0.7}},
      {"short rows", {.dims = {{"B", 1}, {"T", 80}, {"H", 2}}, .dtype = Dtype::BF16}},
      {"short rows, f32", {.dims = {{"B", 1}, {"T", 80}, {"H", 2}}}},
      {"a vector", {.dims = {{"C", 256}}}},
      {"a vector of different noise", {.dims = {{"C", 256}}, .scale = channel}},
      {"a short vector", {.dims = {{"C", 24}}}},
      {"two elements", {.dims = {{"H", 2}}}},
      {"a scalar", {.dims = {}}},
      {"17 tokens", {.dims = {{"B", 1}, {"T", 17}, {"H", 3}, {"V", 32}}, .dtype = Dtype::BF16}},
      {"contract known in part", {.dims = output, .fidelity = Fidelity::Partial}},
  };
}

TEST(FalseAlarms, NoViewRaisesOneOnThousandsOfCleanTensors) {
  constexpr std::uint64_t kEach = 110;
  std::map<std::string, int> alarms;
  std::map<std::string, double> closest;  // largest value / limit seen
  int tensors = 0;
  for (const Kind& kind : kinds())
    for (std::uint64_t seed = 0; seed < kEach; ++seed) {
      Synthetic s = kind.of;
      s.seed = seed + 1;
      Drawn d = draw(s);
      d.details = false;
      const TensorRecord r = d.judged();
      ++tensors;
      // A single draw may lie so near zero that its noise drowns it.
      if (r.elements >= 16) {
        EXPECT_EQ(r.unproven, "") << kind.what;
      }
      for (const ViewResult& v : r.views) {
        double& c = closest[v.view];
        const double used = v.limit > 0 ? v.value / v.limit : v.value;
        if (used > c) c = used;
        if (v.ok) continue;
        ++alarms[v.view];
        ADD_FAILURE() << kind.what << ", seed " << s.seed << ": " << v.view << " " << v.value
                      << " > " << v.limit << "  " << v.detail;
      }
    }
  EXPECT_GE(tensors, 2000);
  for (const auto& [view, used] : closest) {
    RecordProperty("closest_" + view, std::to_string(used));
    std::cout << "  " << view << ": " << alarms[view] << " alarms in " << tensors
              << " tensors, closest " << used << " of its limit\n";
  }
}

}  // namespace
}  // namespace parity::test
