#include "references/fsdp/bits.hpp"

#include <algorithm>
#include <cmath>

namespace parity::fsdp {

ExpectedTensor exact(std::string name, Role role, Dtype dtype, std::vector<Dim> dims,
                     std::span<const double> values) {
  Tensor tensor = make_tensor(
      {.name = std::move(name), .role = role, .dtype = dtype, .dims = std::move(dims)}, values);
  ExpectedTensor t{.spec = std::move(tensor.spec), .bits = std::move(tensor.bytes)};
  t.value.assign(values.begin(), values.end());
  for (const double x : values) t.scale.push_back(std::fabs(x));
  return t;
}

ExpectedTensor exact(std::string name, Role role, Dtype dtype, std::vector<Dim> dims,
                     std::span<const float> values) {
  return exact(std::move(name), role, dtype, std::move(dims),
               std::vector<double>(values.begin(), values.end()));
}

ExpectedTensor lines(std::string name, const std::vector<std::string>& text, std::int64_t least) {
  auto width = static_cast<std::size_t>(least);
  for (const std::string& line : text) width = std::max(width, line.size());
  std::vector<double> codes;
  for (const std::string& line : text)
    for (std::size_t i = 0; i < width; ++i)
      codes.push_back(i < line.size() ? static_cast<unsigned char>(line[i]) : 0);
  return exact(std::move(name), Role::Codes, Dtype::U8,
               {{"line", static_cast<std::int64_t>(text.size())},
                {"character", static_cast<std::int64_t>(width)}},
               codes);
}

Bound every_bit(std::string_view why) {
  return {.kind = BoundKind::Exact,
          .rho = 0,
          .c_acc = 0,
          .subnormals = 0,
          .strict_signed_zero = true,
          .why = why};
}

std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> values;
  for (const double x : tensor.widened()) values.push_back(static_cast<float>(x));
  return values;
}

std::vector<std::string> text_lines(const Tensor& tensor) {
  std::vector<std::string> text;
  const auto width = static_cast<std::size_t>(tensor.spec.dims.back().extent);
  for (std::size_t at = 0; at < tensor.bytes.size(); at += width) {
    std::string line(reinterpret_cast<const char*>(tensor.bytes.data()) + at, width);
    if (const std::size_t nul = line.find('\0'); nul != std::string::npos) line.resize(nul);
    text.push_back(std::move(line));
  }
  return text;
}

}  // namespace parity::fsdp
