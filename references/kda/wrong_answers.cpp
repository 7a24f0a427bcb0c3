#include "references/kda/invariants.hpp"
#include "references/kda/recurrence.hpp"

namespace parity::kda {
namespace {

constexpr std::int64_t kRemembered = 16;

// Every sequence cut into pieces of at most 16 tokens that start from nothing.
Setup cut(const Setup& s) {
  Setup pieces = s;
  pieces.h0 = pieces.dht = false;
  pieces.starts = {0};
  for (std::size_t n = 0; n + 1 < s.starts.size(); ++n)
    for (std::int64_t row = s.starts[n]; row < s.starts[n + 1]; row += kRemembered)
      pieces.starts.push_back(std::min(row + kRemembered, s.starts[n + 1]));
  pieces.N = static_cast<std::int64_t>(pieces.starts.size()) - 1;
  return pieces;
}

Values rounded(const Case& c, const std::string& name, const Real& x) {
  Values values{.name = name, .value = x, .bits = {}};
  for (const TensorSpec& spec : output_specs(c))
    if (spec.name == name)
      for (double& v : values.value) v = round_to(spec.dtype, v);
  return values;
}

}  // namespace

std::vector<std::pair<std::string, Evaluation>> wrong_answers(const Case& c,
                                                              const Tensors& inputs) {
  const Setup s = setup_of(c), pieces = cut(s);
  if (pieces.N == s.N && !s.h0) return {};  // nothing to forget
  Inputs in = widen_inputs(s, inputs);
  const Activated a = activate(s, in);
  Evaluation forgetful = {rounded(c, "o", forward(pieces, in, a).o.value)};
  if (s.gradients && pieces.N > s.N) {
    const Gradients d = backward(pieces, in, a);
    forgetful.push_back(rounded(c, "grads/q", d.q.value));
    forgetful.push_back(rounded(c, "grads/k", d.k.value));
    forgetful.push_back(rounded(c, "grads/v", d.v.value));
  }
  return {{"history", std::move(forgetful)}};
}

}  // namespace parity::kda
