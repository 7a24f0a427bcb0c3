// The results of a chain, put together by name: what a chain computes, against the tensors that a
// case asks for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::quantize {

class Answer {
 public:
  explicit Answer(const std::vector<TensorSpec>& asked);

  // Each is kept where the case asks for a tensor of that name. `open` marks elements that the
  // chain leaves undefined.
  void codes(std::string_view name, std::span<const std::uint8_t> codes,
             std::span<const std::uint8_t> open = {});
  void values(std::string_view name, std::span<const float> exact,
              std::span<const std::uint8_t> open = {}, Rounding mode = Rounding::NearestEven);
  // Known to a bound only: no bits.
  void estimates(std::string_view name, std::span<const double> values,
                 std::span<const double> magnitudes);

  // Leaves elements of a tensor open that was given without.
  void open(std::string_view name, std::span<const std::uint8_t> open);
  bool asks_for(std::string_view name) const;
  Expected take();  // throws Failure naming a tensor that nobody gave

 private:
  ExpectedTensor* find(std::string_view name);
  Expected expected_ = {};
};

// A tensor of M x `column` ("K", "KB"), as the chains' cases have them.
// A case is a matrix M x K, or a row.
inline std::int64_t rows_of(const Case& c) { return c.sizes.get("M", 1); }
inline std::int64_t columns_of(const Case& c) { return c.sizes["K"]; }
TensorSpec matrix_spec(std::string_view name, Role, Dtype, std::int64_t rows, std::int64_t columns,
                       std::string_view column = "K");
TensorSpec row_spec(std::string_view name, Role, Dtype, std::int64_t extent);

// What a stored case says about itself; "" where it does not.
std::string attribute_of(const StoredCase&, const std::string& name);
bool flag_of(const StoredCase&, const std::string& name);  // "1" or "True"
// Sets `option` to the text of an attribute, where the case has it.
void take_option(const StoredCase&, const std::string& name, const char* option, Options&);

}  // namespace parity::quantize
