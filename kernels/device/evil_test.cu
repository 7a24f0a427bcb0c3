// y_ND = x w, done rightly and in every wrong way that the guard rails of a launch are there for.
#include "kernels/device/evil_for_test.hpp"
#include "kernels/device/launch.cuh"

namespace parity::test {
namespace {

enum class Evil {
  None,
  WritesPastTheEnd,
  WritesBeforeTheStart,
  ChangesItsInput,
  LeavesOneOut,
  ReadsTheClock,
  Faults,
  Hangs
};

template <Evil kEvil>
__global__ void scale(const float* x_ND, const float* w_D, float* y_ND, std::int64_t n,
                      std::int64_t D) {
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    if (kEvil == Evil::LeavesOneOut && i == n / 2) continue;
    y_ND[i] = x_ND[i] * w_D[i % D];
  }
  if (threadIdx.x != 0) return;
  if (kEvil == Evil::WritesPastTheEnd) y_ND[n] = 1;
  if (kEvil == Evil::WritesBeforeTheStart) y_ND[-1] = 1;
  if (kEvil == Evil::ChangesItsInput) const_cast<float*>(x_ND)[n - 1] += 1;
  if (kEvil == Evil::ReadsTheClock) y_ND[0] *= 1 + 0x1p-23F * static_cast<float>(clock64() & 1023);
  if (kEvil == Evil::Faults) *reinterpret_cast<volatile float*>(std::uintptr_t{64}) = 1;
  if (kEvil == Evil::Hangs)
    while (*const_cast<const volatile float*>(x_ND) == x_ND[0]) __nanosleep(1000);
}

template <Evil kEvil>
void forward(const Launch& l) {
  const std::int64_t D = l.problem.sizes["D"], n = l.problem.sizes["N"] * D;
  device::launch(l, {1, 64}, scale<kEvil>, l.in<float>("x"), l.in<float>("w"), l.out<float>("y"), n,
                 D);
}

void too_many_threads(const Launch& l) {
  const std::int64_t D = l.problem.sizes["D"];
  device::launch(l, {1, 4096}, scale<Evil::None>, l.in<float>("x"), l.in<float>("w"),
                 l.out<float>("y"), l.problem.sizes["N"] * D, D);
}

KernelDef kernel(std::string_view name, void (*forward)(const Launch&)) {
  return {.op = "test_scaled",
          .name = name,
          .needs = "sm_90+",
          .contract = {.name = "f32", .dtypes = {Dtype::F32}},
          .forward = forward};
}

}  // namespace

const std::vector<EvilOnDevice>& evils_on_device() {
  static const std::vector<EvilOnDevice> all = {
      {kernel("test_scaled.cuda", forward<Evil::None>), "pass", "", "", ""},
      {kernel("test_scaled.cuda_past_end", forward<Evil::WritesPastTheEnd>), "fail", "",
       "accounting", "past the end"},
      {kernel("test_scaled.cuda_before_start", forward<Evil::WritesBeforeTheStart>), "fail", "",
       "accounting", "before the start"},
      {kernel("test_scaled.cuda_changes_input", forward<Evil::ChangesItsInput>), "fail", "",
       "accounting", "changed input 'x'"},
      {kernel("test_scaled.cuda_leaves_one_out", forward<Evil::LeavesOneOut>), "fail", "",
       "accounting", "never written"},
      {kernel("test_scaled.cuda_reads_the_clock", forward<Evil::ReadsTheClock>), "fail", "",
       "determinism", ""},
      {kernel("test_scaled.cuda_faults", forward<Evil::Faults>), "error", "device", "",
       "cudaErrorIllegalAddress"},
      {kernel("test_scaled.cuda_too_many_threads", too_many_threads), "error", "device", "",
       "cudaErrorInvalid"},
      {kernel("test_scaled.cuda_hangs", forward<Evil::Hangs>), "error", "timeout", "", "no answer"},
      {kernel("test_scaled.cuda_again", forward<Evil::None>), "pass", "", "", ""},
  };
  return all;
}

}  // namespace parity::test
