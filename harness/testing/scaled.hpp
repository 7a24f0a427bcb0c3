// A small op for tests of the harness itself, in the test binary only.
//   in   x_ND, w_D, cotangents/y_ND   the case's dtype
//   out  y_ND = x w     codes_ND (option codes=1) = 1 where x > 0, else 0     grads/x = dy w
//   grads/w_D = sum_n dy x
// Registered as `test_scaled` (sound kernels, faults), `test_evil` (one kernel per way of
// misbehaving), `test_loose` (a fault that nobody can see) and `test_broken` (wrong without any
// fault).
#pragma once

#include <string_view>
#include <vector>

#include "harness/registry.hpp"
#include "harness/source.hpp"

namespace parity::test {

OpDef scaled_op(std::string_view name);
CaseSet scaled_cases(std::string_view op, Check check = Check::Parity);
BoundDef scaled_bound(std::string_view op);
Contract scaled_contract();

// A kernel of that op: float arithmetic, sums in the order of n, rows split over threads, x saved
// for the backward.
KernelDef scaled_kernel(std::string_view op, std::string_view name);
void forward(const Launch&);
void backward(const Launch&);

// A case of the op: "N5,D7" or the like.
Case scaled_case(std::string_view op, std::string_view sizes, Dtype dtype = Dtype::F32,
                 Check check = Check::Parity, const Options& options = {});

}  // namespace parity::test
