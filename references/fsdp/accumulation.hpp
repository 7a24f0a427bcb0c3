// Whole gradients of one rank until they are reduced: parts of one backward, then microbatches.
#pragma once

#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

class Accumulation {
 public:
  struct Sum {
    Dtype dtype = Dtype::F32;
    std::vector<float> values = {};
  };
  Accumulation(const Config& config, std::size_t parameters, std::string_view fault)
      : config_(config), fault_(fault), fresh_(parameters), sums_(parameters) {}

  // A parameter that several stages use gets its gradient in parts, which autograd adds in their
  // own dtype.
  void collect(Gradient);
  // Ends a backward for one parameter. Over the microbatches without a sync gradients add up in the
  // dtype of the reduction where that is not the parameters', else in their own.
  void accumulate(std::size_t parameter, bool syncs);
  bool has(std::size_t parameter) const { return sums_[parameter].has_value(); }
  const Sum& at(std::size_t parameter) const { return *sums_[parameter]; }
  void take(std::size_t parameter) { sums_[parameter].reset(); }

 private:
  const Config& config_;
  std::string_view fault_;
  std::vector<std::optional<Sum>> fresh_, sums_;
};

}  // namespace parity::fsdp
