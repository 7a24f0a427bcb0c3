// gemm.rows: operands widened to f32, block scales multiplied in, then one chain of f32
// multiply-adds along K for each output (kernels/kda/micro.hpp), K ascending; scales, alpha and
// scale_result afterwards, one rounding. Any M, N, K; rows to threads.
#include <cstring>

#include "harness/kernel.hpp"
#include "kernels/moe/matrix.hpp"

namespace parity::gemm_kernel {
namespace {

using moe_kernel::Matrix;

struct View {
  const TensorView* tensor = nullptr;
  std::vector<double> values() const {
    const TensorSpec& spec = *tensor->spec;
    std::vector<double> wide(static_cast<std::size_t>(elements(spec.dims)));
    widen(spec.dtype, tensor->data, 0, wide);
    return wide;
  }
};

const TensorView* find(const Launch& launch, std::string_view name) {
  for (const TensorView& view : launch.inputs)
    if (view.spec->name == name) return &view;
  return nullptr;
}

std::vector<double> values(const Launch& launch, std::string_view name) {
  const TensorView* view = find(launch, name);
  return view == nullptr ? std::vector<double>{} : View{view}.values();
}

// Every row of an operand as f32; scales with a last axis of blocks are its own.
Matrix operand(const Launch& launch, const char* name, const char* scale_name) {
  const std::int64_t K = launch.problem.sizes["K"];
  const std::vector<double> x = values(launch, name);
  const TensorView* scale = find(launch, scale_name);
  const bool blocks = scale != nullptr && scale->spec->dims.back().name == "KB";
  const std::vector<double> scales = blocks ? View{scale}.values() : std::vector<double>{};
  const std::int64_t per_row = blocks ? scale->spec->dims.back().extent : 0;
  const std::int64_t block =
      blocks ? (launch.problem.options.get("scale", "") == "mx" ? 32 : 16) : 1;
  Matrix m(static_cast<std::int64_t>(x.size()) / K, K);
  for (std::int64_t row = 0; row < m.rows; ++row)
    for (std::int64_t k = 0; k < K; ++k) {
      float v = static_cast<float>(x[static_cast<std::size_t>(row * K + k)]);
      if (blocks) {
        const auto at = static_cast<std::size_t>(row * per_row + k / block);
        v *= static_cast<float>(block == 16 ? std::abs(scales[at]) : scales[at]);
      }
      m.row(row)[k] = v;
    }
  return m;
}

Matrix rows_of(const Matrix& from, std::int64_t first, std::int64_t rows) {
  Matrix part(rows, from.cols);
  std::memcpy(part.data.data(), from.row(first),
              sizeof(float) * static_cast<std::size_t>(rows * from.ld));
  return part;
}

struct Epilogue {
  std::vector<double> x = {}, w = {}, alpha = {}, result = {}, c = {};
  std::string_view fault = {};

  float operator()(float sum, std::int64_t at, std::int64_t m, std::int64_t n) const {
    if (!c.empty()) sum += static_cast<float>(c[static_cast<std::size_t>(at)]);
    const auto factor = [](const std::vector<double>& list, std::int64_t i) {
      return list.empty()
                 ? 1.0F
                 : static_cast<float>(list[list.size() == 1 ? 0 : static_cast<std::size_t>(i)]);
    };
    sum = sum * factor(x, fault == "P-gemm-scale-rows" ? 0 : m) * factor(w, n);
    if (fault != "P-gemm-alpha-missing") sum *= factor(alpha, 0);
    return fault == "P-gemm-result-scale" ? sum : sum * factor(result, 0);
  }
};

Epilogue epilogue_of(const Launch& launch) {
  Epilogue e{.alpha = values(launch, "alpha"),
             .result = values(launch, "scale_result"),
             .c = values(launch, "c"),
             .fault = launch.fault};
  const std::string scale = launch.problem.options.get("scale", "none");
  if (scale == "tensor" || scale == "row") {
    e.x = values(launch, "scale_x");
    e.w = values(launch, "scale_w");
  }
  return e;
}

void forward(const Launch& launch) {
  const Sizes& sizes = launch.problem.sizes;
  const std::int64_t M = sizes["M"], N = sizes["N"], T = sizes.get("T", 1), G = sizes.get("G", 0);
  const Matrix x = operand(launch, "x", "scale_x"), w = operand(launch, "w", "scale_w");
  const Epilogue epilogue = epilogue_of(launch);
  const auto* offs = launch.in<std::int32_t>("offs");
  const Dtype dtype = launch.outputs.front().spec->dtype;
  const Conversion stored{.overflow =
                              format(dtype).bits > 8 ? Overflow::Infinity : Overflow::Saturate};
  std::byte* y = launch.out<std::byte>("y");
  std::int64_t first = 0;
  for (std::int64_t part = 0; part < std::max(T, G); ++part) {
    const std::int64_t end = G > 0 ? offs[part] : (part + 1) * M;
    if (end == first) continue;
    const Matrix sums =
        times_transposed(launch.threads, rows_of(x, first, end - first), rows_of(w, part * N, N));
    for (std::int64_t m = first; m < end; ++m)
      for (std::int64_t n = 0; n < N; ++n)
        store_code(
            dtype, y, m * N + n,
            encode(dtype, static_cast<double>(epilogue(sums.row(m - first)[n], m * N + n, m, n)),
                   stored));
    first = end;
  }
}

std::string refuses(const Case& c, const Options&) {
  return c.options.get("bits", "").empty() ? "" : "promises no bits of a matrix unit";
}

const Register kernel{KernelDef{
    .op = "gemm",
    .name = "gemm.rows",
    .what = "f32 multiply-adds, K ascending, any operands",
    .contract = {.name = "f32",
                 .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::E4M3, Dtype::E5M2,
                            Dtype::E3M2, Dtype::E2M3, Dtype::E2M1},
                 .accumulate = Dtype::F32,
                 .invariant = {"threads"}},
    .refuses = refuses,
    .forward = forward,
    .faults = {{"P-gemm-scale-rows", "", "scale_x is that of row 0 for every row"},
               {"P-gemm-alpha-missing", "", "alpha is not applied"},
               {"P-gemm-result-scale", "", "scale_result is ignored (PyTorch 190449)"}},
}};

}  // namespace
}  // namespace parity::gemm_kernel
