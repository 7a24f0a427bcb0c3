// gemm.emulated.*: the software tensor core as a candidate, one for each schedule whose contract a
// GPU kernel may claim. It computes 16 columns at a time what the base computes one by one.
#include <algorithm>
#include <deque>

#include "references/gemm/evaluate.hpp"
#include "references/gemm/import.hpp"

namespace parity::gemm {
namespace {

struct Emulated {
  std::string schedule = {}, name = {}, what = {};
  std::vector<Dtype> dtypes = {};
};

std::string why_not(std::string_view schedule, const Case& c) {
  const Problem p = problem_of(c);
  if (!p.bits.empty() && p.bits != schedule)
    return "answers bits=" + std::string(schedule) + " only";
  if (p.x == Dtype::F64) return "accumulates in f32";
  const auto s = schedule_of(p, schedule);
  if (!s) return std::string(schedule) + " takes no such operands or scales";
  return p.c && p.y != s->accumulate ? "starts from its own accumulator" : "";
}

void forward(const Launch& launch, std::string_view schedule) {
  const Problem p = problem_of(launch.problem);
  Tensors inputs;
  for (const TensorView& view : launch.inputs) {
    const std::size_t bytes = bytes_for(view.spec->dtype, elements(view.spec->dims));
    inputs.add({*view.spec, {view.data, view.data + bytes}});
  }
  const Codes codes = by_lanes(p, inputs, *schedule_of(p, schedule), launch.threads);
  std::byte* y = launch.out<std::byte>("y");
  for (std::size_t i = 0; i < codes.size(); ++i)
    store_code(p.y, y, static_cast<std::int64_t>(i), codes[i]);
}

// A function of its own for every schedule: KernelDef holds plain pointers.
constexpr std::size_t kMost = 24;
std::deque<Emulated>& emulated() {
  static std::deque<Emulated> all;
  return all;
}
template <std::size_t kAt>
void forward_at(const Launch& launch) {
  forward(launch, emulated()[kAt].schedule);
}
template <std::size_t kAt>
std::string refuses_at(const Case& c, const Options&) {
  return why_not(emulated()[kAt].schedule, c);
}
struct Pointers {
  void (*forward)(const Launch&) = nullptr;
  std::string (*refuses)(const Case&, const Options&) = nullptr;
};
template <std::size_t... kAt>
std::vector<Pointers> pointers(std::index_sequence<kAt...>) {
  return {{forward_at<kAt>, refuses_at<kAt>}...};
}

const std::vector<Register> kernels = [] {
  using enum Dtype;
  const std::vector<Dtype> all = {F32, BF16, F16, E4M3, E5M2};
  const std::vector<Dtype> narrow = {F32, BF16, F16, E4M3, E5M2, E3M2, E2M3, E2M1};
  const std::vector<Dtype> codes = {E4M3, E5M2, E3M2, E2M3, E2M1};
  const auto functions = pointers(std::make_index_sequence<kMost>());
  std::vector<Register> registered;
  const auto add = [&](const char* schedule, const std::vector<Dtype>& dtypes) {
    Emulated& e = emulated().emplace_back();
    e = {.schedule = schedule,
         .name = std::string("gemm.emulated.") + schedule,
         .what = std::string("software tensor core, ") + schedule + ", 16 columns at a time",
         .dtypes = dtypes};
    Contract contract = contract_of(schedule);
    contract.dtypes = dtypes;
    const Pointers f = functions.at(emulated().size() - 1);
    registered.emplace_back(KernelDef{.op = "gemm",
                                      .name = e.name,
                                      .what = e.what,
                                      .contract = std::move(contract),
                                      .refuses = f.refuses,
                                      .forward = f.forward});
  };
  add("sm_90.wgmma", all);
  add("sm_90.wgmma.f16", {F16, E4M3, E5M2});
  add("sm_90.wgmma.slice128", {E4M3, E5M2});
  add("sm_90.mma", all);
  add("sm_90.mma.k8.nearest.slice64", {F32});
  add("sm_80.mma", {F32, BF16, F16});
  add("sm_89.mma", all);
  add("sm_100.tcgen05", narrow);
  add("sm_100.tcgen05.mxf8f6f4", codes);
  add("sm_100.tcgen05.mxf4", {E2M1});
  add("sm_100.tcgen05.mxf4nvf4", {E2M1});
  add("sm_120.mma", narrow);
  add("sm_120.mma.mxf4nvf4", {E2M1});
  return registered;
}();

}  // namespace
}  // namespace parity::gemm
