// Schedules by name, so that contracts, options of cases and what a search found read the same:
//
//   <arch>.<family>[.k<K>][.f16][.nearest][.slice<K>][.descending]
//   sm_90.wgmma.slice128      sm_90.mma.k8.nearest.slice64      sm_100.tcgen05.mxf4nvf4
//
// A name leaves the operand types open: the architecture's unit for them does the work.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "references/tensorcore/gemm.hpp"

namespace parity::tensorcore {

struct ScheduleName {
  std::string arch = {}, family = {};
  int k = 0;  // 0: the architecture's first
  Dtype accumulate = Dtype::F32;
  bool nearest_inputs = false;
  std::int64_t slice = 0;
  bool descending = false;
};

[[nodiscard]] std::optional<ScheduleName> parse_schedule(std::string_view name);
[[nodiscard]] std::string name_of(const Schedule&);  // with its k
// Nothing where the architecture has no such unit.
[[nodiscard]] std::optional<Schedule> schedule_for(const ScheduleName&, Dtype a, Dtype b);
// Whether any unit of that name exists, and whether the hardware was seen to follow the model.
[[nodiscard]] bool is_known(const ScheduleName&);
[[nodiscard]] bool hw_verified(const ScheduleName&);

}  // namespace parity::tensorcore
