// A part of `parity gate` beyond cases and goldens, in a file of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/record.hpp"

namespace parity::cli {

struct GateStage {
  const char* name = "";
  Lane lane = Lane::Smoke;  // the smallest that has it
  // `golden` is the folder of the goldens; each finished record is added at once.
  void (*run)(const std::filesystem::path& golden,
              const std::function<void(CaseRecord)>& add) = nullptr;
};

// const RegisterStage stage{{.name = "drift", ...}};
struct RegisterStage {
  explicit RegisterStage(GateStage);
};
std::vector<GateStage> gate_stages();  // sorted by name

}  // namespace parity::cli
