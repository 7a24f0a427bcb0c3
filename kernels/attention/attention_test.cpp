// What the tiles must not change: threads, instruction sets, and what a query cannot see.
#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/walk.hpp"

namespace parity::attention_kernel {
namespace {

struct Answer {
  std::vector<Tensor> tensors = {};
  const Tensor& operator[](std::string_view name) const {
    for (const Tensor& t : tensors)
      if (t.spec.name == name) return t;
    throw Failure("no result " + std::string(name));
  }
};

std::vector<TensorView> views(std::vector<Tensor>& tensors) {
  std::vector<TensorView> list;
  for (Tensor& t : tensors) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
  return list;
}

Answer run(const Case& c, Tensors inputs, int threads, const std::string& isa = "") {
  const KernelDef& kernel = *registry().kernel("attention.online");
  const Options options = isa.empty() ? Options{} : Options{{"isa", isa}};
  std::vector<Tensor> results, gradients, saved;
  for (TensorSpec& spec : registry().op_or_throw("attention").outputs(c))
    (spec.role == Role::Gradient ? gradients : results).push_back(make_tensor(std::move(spec)));
  for (TensorSpec& spec : kernel.saved(c, options)) saved.push_back(make_tensor(std::move(spec)));
  std::vector<std::byte> workspace(kernel.workspace(c, options, Direction::Backward));
  const std::vector<TensorView> in = views(inputs.list()), kept = views(saved),
                                out = views(results), grads = views(gradients);
  kernel.forward({.problem = c,
                  .options = options,
                  .inputs = in,
                  .outputs = out,
                  .saved = kept,
                  .threads = threads});
  kernel.backward({.problem = c,
                   .options = options,
                   .inputs = in,
                   .outputs = grads,
                   .saved = kept,
                   .workspace = workspace,
                   .threads = threads});
  Answer answer{std::move(results)};
  for (Tensor& t : gradients) answer.tensors.push_back(std::move(t));
  return answer;
}

Case problem(const std::string& id) { return resolve(registry(), parse_id(id)); }
Tensors inputs(const Case& c) { return generate(c, registry().op_or_throw("attention"), 1); }

TEST(AttentionOnline, ThreadsAndInstructionSetsDoNotShowInTheBits) {
  for (const char* id :
       {"attention/T70,H4,G2,D24,V40/f32/normal/s0", "attention/B2,T21,H2,D16/bf16/sharp/s0"}) {
    const Case c = problem(id);
    const Tensors in = inputs(c);
    const Answer one = run(c, in, 1), many = run(c, in, 5);
    for (const Tensor& t : one.tensors) EXPECT_EQ(t.bytes, many[t.spec.name].bytes) << t.spec.name;
    if (!missing_capability("avx512").empty()) continue;
    const Answer narrow = run(c, in, 2, "avx2");
    for (const Tensor& t : one.tensors)
      EXPECT_EQ(t.bytes, narrow[t.spec.name].bytes) << t.spec.name;
  }
}

TEST(AttentionOnline, AQueryDoesNotSeeWhatComesAfterIt) {
  const Case c = problem("attention/B1,T130,H2,D16/f32/normal/s0");
  Tensors in = inputs(c);
  const Answer before = run(c, in, 1);
  constexpr std::size_t kSeen = 100, kRow = 32;
  for (const char* name : {"k", "v"})
    for (float& x : in.find(name)->as<float>().subspan(kSeen * kRow)) x = 1000;
  const Answer after = run(c, in, 1);
  const auto head = [&](const Answer& a) {
    const std::span<const float> o = a["o"].as<float>();
    return std::vector<float>(o.begin(), o.begin() + kSeen * kRow);
  };
  EXPECT_EQ(head(before), head(after));
}

TEST(AttentionOnline, ARowWithOneKeyIsItsValueAndHasNoGradient) {
  const Case c = problem("attention/B1,T40,H2,D24,V40/f32/sharp/s0");
  const Tensors in = inputs(c);
  const Answer a = run(c, in, 1);
  for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(a["o"].as<float>()[i], in.at("v").as<float>()[i]);
  for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(a["grads/inputs/q"].as<float>()[i], 0);
}

TEST(AttentionOnline, RowsWithoutKeysAreZero) {
  const Case c = problem("attention/B1,T30,S22,H2,D16/f32/normal/s0");
  const Answer a = run(c, inputs(c), 1);
  for (std::size_t i = 0; i < 8 * 32; ++i) EXPECT_EQ(a["o"].as<float>()[i], 0);
  EXPECT_EQ(a["lse"].as<float>()[0], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace parity::attention_kernel
