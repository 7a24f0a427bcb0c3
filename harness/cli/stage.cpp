#include "harness/cli/stage.hpp"

#include <algorithm>
#include <cstring>

namespace parity::cli {
namespace {

// Filled while libraries load, before main: read only afterwards.
std::vector<GateStage>& stages() {
  static std::vector<GateStage> list;
  return list;
}

}  // namespace

RegisterStage::RegisterStage(GateStage stage) { stages().push_back(stage); }

std::vector<GateStage> gate_stages() {
  std::vector<GateStage> list = stages();
  std::ranges::sort(
      list, [](const GateStage& a, const GateStage& b) { return std::strcmp(a.name, b.name) < 0; });
  return list;
}

}  // namespace parity::cli
