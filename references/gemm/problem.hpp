// What a gemm case is: its options, its tensors, and the products that it consists of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/registry.hpp"
#include "references/tensorcore/schedule.hpp"

namespace parity::gemm {

// Scale factors of the operands.
enum class Scales : std::uint8_t {
  None,
  Tensor,  // scale_x, scale_w: one f32 each
  Row,     // scale_x_M, scale_w_N f32
  Mx,      // e8m0, one for 32 elements of K
  Nvfp4    // e4m3, one for 16
};

struct Problem {
  std::int64_t T = 1, G = 0, M = 0, N = 0, K = 0;
  Dtype x = Dtype::BF16, w = Dtype::BF16, y = Dtype::F32;
  Scales scales = Scales::None;
  bool alpha = false, result_scale = false, c = false;
  std::string bits = {};  // a schedule: y must have its bits

  [[nodiscard]] std::int64_t scale_block() const;  // elements of K; 0: scales are no blocks
  [[nodiscard]] std::int64_t blocks() const;       // of one row
  [[nodiscard]] std::vector<std::int64_t> scale_shape(std::int64_t rows) const;
};

[[nodiscard]] Problem problem_of(const Case&);  // of a case that is not refused
[[nodiscard]] std::string refuses(const Case&);
[[nodiscard]] std::vector<TensorSpec> inputs(const Case&);
[[nodiscard]] std::vector<TensorSpec> outputs(const Case&);
bool derive(const Case&, Tensor&);  // offs of groups: their ends, unequal and one empty

// y[first_y ...] = x[first_x ...] w[first_w ...]^T, rows counted over the tensors: one for each of
// T tiles, or for each group.
struct Part {
  std::int64_t first_x = 0, rows = 0, first_w = 0;
};
[[nodiscard]] std::vector<Part> parts_of(const Problem&, const Tensors&);

// The schedule of a contract or an option for this problem's operands.
[[nodiscard]] std::optional<tensorcore::Schedule> schedule_of(const Problem&,
                                                              std::string_view name);
// A contract's name without the remark that its hardware was never seen.
inline constexpr std::string_view kModelOnly = ", model only";
[[nodiscard]] std::string_view schedule_name(const Contract&);

}  // namespace parity::gemm
