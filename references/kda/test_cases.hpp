// Small cases with inputs of their own for the tests of kda.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "harness/numeric/philox.hpp"
#include "references/kda/recurrence.hpp"

namespace parity::kda::test {

inline Case small_case(std::string_view sizes, std::string_view options, Dtype dtype = Dtype::F64) {
  return {.op = "kda",
          .sizes = Sizes::parse(sizes),
          .dtype = dtype,
          .options = Options::parse(options)};
}

// Normal values; unit keys where nothing normalises them, gates of about -0.3, beta in (0, 1).
inline Tensors draw_inputs(const Case& c, std::uint64_t seed = 1) {
  Tensors inputs;
  std::uint64_t stream = 0;
  for (const TensorSpec& spec : input_specs(c)) {
    Tensor tensor = make_tensor(spec);
    if (derive(c, tensor)) {
      inputs.add(std::move(tensor));
      continue;
    }
    const Rng rng{seed, stream++};
    std::vector<double> x(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = rng.normal(i);
      if (spec.name == "g") x[i] = -0.3 * x[i] * x[i];
      if (spec.name == "beta") x[i] = 0.5 + 0.4 * std::tanh(x[i]);
    }
    const bool unit = (spec.name == "k" || spec.name == "q") && !c.options.flag("l2norm");
    const auto K = static_cast<std::size_t>(c.sizes["K"]);
    for (std::size_t r = 0; unit && r < x.size(); r += K) {
      double sum = 0;
      for (std::size_t i = r; i < r + K; ++i) sum += x[i] * x[i];
      for (std::size_t i = r; i < r + K; ++i) x[i] /= std::sqrt(sum);
    }
    inputs.add(make_tensor(spec, x));
  }
  return inputs;
}

struct Answer {
  Setup setup;
  Inputs in;
  Activated a;
  Outputs out;
  Gradients d;
};

inline Answer solve(const Case& c, const Tensors& inputs) {
  Answer x{.setup = setup_of(c), .in = {}, .a = {}, .out = {}, .d = {}};
  x.in = widen_inputs(x.setup, inputs);
  x.a = activate(x.setup, x.in);
  x.out = forward(x.setup, x.in, x.a);
  if (x.setup.gradients) x.d = backward(x.setup, x.in, x.a);
  return x;
}

// sum of outputs times their cotangents.
inline double loss(const Case& c, const Tensors& inputs) {
  const Setup s = setup_of(c);
  const Inputs in = widen_inputs(s, inputs);
  const Outputs out = forward(s, in, activate(s, in));
  double sum = 0;
  for (std::size_t i = 0; i < in.d_o.size(); ++i) sum += out.o.value[i] * in.d_o[i];
  for (std::size_t i = 0; i < in.d_ht.size(); ++i) sum += out.final_state.value[i] * in.d_ht[i];
  return sum;
}

}  // namespace parity::kda::test
