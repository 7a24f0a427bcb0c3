#include "references/quantize/answer.hpp"

#include <algorithm>
#include <cmath>

#include "harness/failure.hpp"

namespace parity::quantize {

Answer::Answer(const std::vector<TensorSpec>& asked) {
  for (const TensorSpec& spec : asked) expected_.tensors.push_back({.spec = spec});
}

ExpectedTensor* Answer::find(std::string_view name) {
  const auto it = std::ranges::find(expected_.tensors, name,
                                    [](const ExpectedTensor& t) { return t.spec.name; });
  return it == expected_.tensors.end() ? nullptr : &*it;
}

bool Answer::asks_for(std::string_view name) const { return expected_.find(name) != nullptr; }

void Answer::codes(std::string_view name, std::span<const std::uint8_t> codes,
                   std::span<const std::uint8_t> open) {
  ExpectedTensor* t = find(name);
  if (t == nullptr) return;
  *t = {.spec = t->spec};
  t->bits.resize(bytes_for(t->spec.dtype, static_cast<std::int64_t>(codes.size())));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    store_code(t->spec.dtype, t->bits.data(), static_cast<std::int64_t>(i), codes[i]);
    t->value.push_back(decode(t->spec.dtype, codes[i]));
    t->scale.push_back(std::fabs(t->value.back()));
  }
  t->ignore.assign(open.begin(), open.end());
}

void Answer::values(std::string_view name, std::span<const float> exact,
                    std::span<const std::uint8_t> open, Rounding mode) {
  ExpectedTensor* t = find(name);
  if (t == nullptr) return;
  for (const float v : exact) {
    t->value.push_back(round_to(t->spec.dtype, static_cast<double>(v), mode));
    t->scale.push_back(std::fabs(t->value.back()));
  }
  t->bits = make_tensor(t->spec, t->value).bytes;
  t->ignore.assign(open.begin(), open.end());
}

void Answer::estimates(std::string_view name, std::span<const double> values,
                       std::span<const double> magnitudes) {
  ExpectedTensor* t = find(name);
  if (t == nullptr) return;
  t->value.assign(values.begin(), values.end());
  t->scale.assign(magnitudes.begin(), magnitudes.end());
}

void Answer::open(std::string_view name, std::span<const std::uint8_t> open) {
  if (ExpectedTensor* t = find(name)) t->ignore.assign(open.begin(), open.end());
}

Expected Answer::take() {
  for (const ExpectedTensor& t : expected_.tensors)
    if (t.value.empty()) throw Failure("the chain computes no '" + t.spec.name + "'");
  return std::move(expected_);
}

TensorSpec matrix_spec(std::string_view name, Role role, Dtype dtype, std::int64_t rows,
                       std::int64_t columns, std::string_view column) {
  return {.name = std::string(name),
          .role = role,
          .dtype = dtype,
          .dims = {{"M", rows}, {std::string(column), columns}}};
}

TensorSpec row_spec(std::string_view name, Role role, Dtype dtype, std::int64_t extent) {
  return {.name = std::string(name), .role = role, .dtype = dtype, .dims = {{"N", extent}}};
}

std::string attribute_of(const StoredCase& stored, const std::string& name) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? "" : it->second;
}

bool flag_of(const StoredCase& stored, const std::string& name) {
  const std::string text = attribute_of(stored, name);
  return text == "1" || text == "True" || text == "true";
}

void take_option(const StoredCase& stored, const std::string& name, const char* option,
                 Options& options) {
  if (const std::string text = attribute_of(stored, name); !text.empty()) options.set(option, text);
}

}  // namespace parity::quantize
