// train_serve: a weight from training to serving (pipeline.hpp), judged by its parity class.
//   in   x [M,K], params/weight [N,K], cotangents/y [M,N]
//   out  what the two sides hold after each stage, bit for bit: step/weight, prepare/codes,
//        convert/codes, pack/codes, pack/scales, unpack/codes, unpack/weight, train/y, serve/y
//        differences [6]   elements by which the sides differ: codes, scales, unpacked codes,
//                          unpacked scales, weights, y
//        first [2]         the first stage that differs and the first element there; -1: none
//        violations [1]    of the class's rule
//   class=P0..P5, P7; train=, serve= chains; rate=2^-6
#include <bit>
#include <cmath>
#include <cstdint>

#include "harness/numeric/formats.hpp"
#include "references/chains/chain_op.hpp"
#include "references/linear/evaluate.hpp"
#include "references/train_serve/pipeline.hpp"

namespace parity::train_serve {
namespace {

using linear::Dense;

struct Extents {
  std::int64_t M = 0, N = 0, K = 0;
};
Extents extents(const Case& c) { return {c.sizes["M"], c.sizes["N"], c.sizes["K"]}; }

TensorSpec spec_of(std::string_view name, Role role, Dtype dtype, std::vector<Dim> dims) {
  return {.name = std::string(name), .role = role, .dtype = dtype, .dims = std::move(dims)};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [M, N, K] = extents(c);
  return {spec_of("x", Role::Input, c.dtype, {{"M", M}, {"K", K}}),
          spec_of("params/weight", Role::Input, c.dtype, {{"N", N}, {"K", K}}),
          spec_of("upstream", Role::Input, c.dtype, {{"M", M}, {"N", N}})};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [M, N, K] = extents(c);
  const Side serve = serving_side(c);
  std::vector<TensorSpec> specs = {
      spec_of("step/weight", Role::Output, c.dtype, {{"N", N}, {"K", K}}),
      spec_of("prepare/codes", Role::Codes, Dtype::U8, {{"N", N}, {"K", K}}),
      spec_of("convert/codes", Role::Codes, Dtype::U8, {{"N", N}, {"K", K}}),
      spec_of("pack/codes", Role::Codes, Dtype::U8, {{"N", N}, {"KB", K / 2}}),
      spec_of("unpack/codes", Role::Codes, Dtype::U8, {{"N", N}, {"K", K}}),
      spec_of("unpack/weight", Role::Output, c.dtype, {{"N", N}, {"K", K}}),
      spec_of("train/y", Role::Output, Dtype::F32, {{"M", M}, {"N", N}}),
      spec_of("serve/y", Role::Output, Dtype::F32, {{"M", M}, {"N", N}}),
      spec_of("differences", Role::Ids, Dtype::I64, {{"S", 6}}),
      spec_of("first", Role::Ids, Dtype::I64, {{"S", 2}}),
      spec_of("violations", Role::Ids, Dtype::I64, {{"N", 1}})};
  if (!serve.int4) {
    const std::int64_t bytes = (N + 127) / 128 * 128 * ((K / 16 + 3) / 4 * 4);
    specs.push_back(spec_of("pack/scales", Role::Scales, Dtype::E4M3, {{"B", bytes}}));
  }
  return specs;
}

std::string refuses(const Case& c) {
  for (const char* letter : {"M", "N", "K"})
    if (c.sizes.find(letter) == nullptr) return "x is M x K and w is N x K";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "weights are f32 or bf16";
  if (c.sizes["K"] % 32 != 0) return "K must be a multiple of 32";
  (void)class_of(c);
  return "";
}

// w - rate dw, dw = dy^T x straight through; integers and powers of two make it exact.
Tensor stepped(const Case& c, const Tensors& t, std::string_view fault) {
  const Dense x = linear::dense_of(t.at("x")), dy = linear::dense_of(t.at("upstream"));
  const linear::Product dw =
      linear::times_transposed(linear::transposed(dy), linear::transposed(x));
  std::vector<double> w = t.at("params/weight").widened();
  const double rate = c.options.real("rate", 0x1p-6);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool masked = fault == "P-ts-mask" && i % 16 == 0;  // what clipping would hide
    w[i] -= masked ? 0 : rate * dw.value.values[i];
  }
  TensorSpec spec = t.at("params/weight").spec;
  return make_tensor(spec, w);
}

struct Sides {
  Tensor weight = {};
  Held prepared = {}, converted = {}, loaded = {};
  Packed bytes = {};
  Dense train_y = {}, serve_y = {};
  std::array<std::int64_t, 6> differences = {};
  std::array<std::int64_t, 2> first = {-1, -1};
  std::int64_t violations = 0;
};

template <class T>
void count(Sides& s, std::size_t stage, const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    ++s.differences[stage];
    if (s.first[0] < 0) s.first = {static_cast<std::int64_t>(stage), static_cast<std::int64_t>(i)};
  }
}

// Dequantised weights of the serving side, as its class has them.
std::vector<float> serving_weights(const Case& c, const Side& side, const Held& held,
                                   std::string_view fault) {
  const std::int64_t K = c.sizes["K"];
  const bool scale_first = class_of(c) != Class::P2 && fault != "P-ts-dequant-order";
  std::vector<float> w;
  for (std::size_t i = 0; i < held.codes.size(); ++i) {
    float v = decoded(side, held, i, K, scale_first);
    if (fault == "P-ts-bf16-weights") v = float_from_bf16(bf16_from_float(v));
    w.push_back(v);
  }
  return w;
}

std::int64_t ulps_apart(float a, float b) {
  const auto order = [](float v) {
    const auto bits = std::bit_cast<std::int32_t>(v);
    return static_cast<std::int64_t>(bits < 0 ? std::int32_t{INT32_MIN} - bits : bits);
  };
  return std::abs(order(a) - order(b));
}

// P4: |err| of a sum of K/16 blocks in f32 is at most (K/16 + 16) 2^-24 sum |x w|.
std::int64_t beyond_the_sum(const Dense& x, const std::vector<float>& w, const Sides& s) {
  Dense weights{.rows = s.serve_y.columns, .columns = x.columns, .values = {w.begin(), w.end()}};
  const linear::Product exact = linear::times_transposed(x, weights);
  const double unit = (static_cast<double>(x.columns) / 16 + 17) * 0x1p-24;
  std::int64_t beyond = 0;
  for (std::size_t i = 0; i < exact.size.size(); ++i)
    if (!(std::fabs(s.serve_y.values[i] - exact.value.values[i]) <= unit * exact.size[i])) ++beyond;
  return beyond;
}

// P7: the three products of a training step against bf16: 15 / 14 / 14 dB, and below 25 dB, since
// what is better has not been quantised.
std::int64_t outside_the_band(const Case& c, const Tensors& t, std::string_view fault) {
  Case of_linear = c;
  of_linear.op = "quantized_linear";
  of_linear.options = {{"recipe", "nvfp4_qat"}};
  Tensors inputs;
  for (const Tensor& in : t.list()) {
    Tensor copy = in;
    if (copy.spec.name == "upstream") {
      copy.spec.name = "cotangents/y";
      copy.spec.role = Role::Cotangent;
    }
    inputs.add(std::move(copy));
  }
  const Evaluation got =
      linear::base({.problem = of_linear,
                    .contract = {.name = "f32_sum"},
                    .inputs = inputs,
                    .fault = fault == "P-ts-fallback"    ? std::string_view("P-lin-fallback")
                             : fault == "P-ts-scrambled" ? std::string_view("P-lin-scales")
                                                         : std::string_view(),
                    .gradients = true});
  of_linear.options.set("against", "source");
  const Expected truth = linear::reference(of_linear, inputs, true);
  std::int64_t outside = 0;
  for (const Values& v : got) {
    const double db = sqnr(truth.find(v.name)->value, v.value);
    const double least = v.name == "y" ? 15 : 14;
    outside += db >= least && db <= 25 ? 0 : 1;
  }
  return outside;
}

void judge_class(const Case& c, const Tensors& t, const std::vector<float>& weights,
                 std::string_view fault, Sides& s) {
  const Dense x = linear::dense_of(t.at("x"));
  switch (class_of(c)) {
    case Class::P0:
    case Class::P5:
      for (const std::int64_t n : s.differences) s.violations += n;
      break;
    case Class::P1:
      s.violations = chain_violations(s.weight, s.prepared, s.converted, c.sizes["K"]);
      break;
    case Class::P2:
      for (std::size_t i = 0; i < weights.size(); ++i)
        s.violations +=
            ulps_apart(weights[i], decoded(serving_side(c), s.loaded, i, c.sizes["K"])) > 1 ? 1 : 0;
      break;
    case Class::P3: {
      // bf16 weights in training cost about 53 dB; the serving side, whose scale of the tensor is
      // applied to the product, has none of it.
      const double db = sqnr(s.serve_y.values, s.train_y.values);
      s.violations = db >= 45 && db <= 70 ? 0 : 1;
      break;
    }
    case Class::P4:
      s.violations = beyond_the_sum(x, weights, s);
      break;
    case Class::P7:
      s.violations = outside_the_band(c, t, fault);
      break;
  }
}

Sides run(const Case& c, const Tensors& t, std::string_view fault) {
  Sides s;
  const std::int64_t N = c.sizes["N"], K = c.sizes["K"];
  const Side train = training_side(c, fault), serve = serving_side(c);
  s.weight = stepped(c, t, fault);
  s.prepared = quantised(train, c, s.weight);
  s.converted = quantised(serve, c, fault == "P-ts-stale" ? t.at("params/weight") : s.weight);
  s.bytes = packed(serve, s.converted, N, K, fault);
  s.loaded = unpacked(serve, s.bytes, s.converted, N, K, fault);
  const std::vector<float> weights = serving_weights(c, serve, s.loaded, fault);
  for (const float v : weights)
    s.loaded.values.push_back(static_cast<float>(round_to(c.dtype, static_cast<double>(v))));
  const Dense x = linear::dense_of(t.at("x"));
  std::vector<float> trained;
  for (std::size_t i = 0; i < s.prepared.codes.size(); ++i) {
    const float v = decoded(train, s.prepared, i, K);
    trained.push_back(class_of(c) == Class::P3 ? float_from_bf16(bf16_from_float(v)) : v);
  }
  s.train_y = served(x, trained, N, 1, "");
  s.serve_y = served(x, weights, N, 1, fault);
  count(s, 0, s.prepared.codes, s.converted.codes);
  count(s, 1, s.prepared.scales, s.converted.scales);
  count(s, 2, s.converted.codes, s.loaded.codes);
  count(s, 3, s.converted.scales, s.loaded.scales);
  count(s, 4, s.prepared.values, s.loaded.values);
  count(s, 5, s.train_y.values, s.serve_y.values);
  judge_class(c, t, weights, fault, s);
  return s;
}

Expected evaluate(const Case& c, const Tensors& t, std::string_view fault) {
  const Sides s = run(c, t, fault);
  const auto wide = [](const auto& list) { return std::vector<double>(list.begin(), list.end()); };
  Expected expected;
  for (const TensorSpec& spec : outputs(c)) {
    std::vector<double> values;
    if (spec.name == "step/weight") values = s.weight.widened();
    if (spec.name == "prepare/codes") values = wide(s.prepared.codes);
    if (spec.name == "convert/codes") values = wide(s.converted.codes);
    if (spec.name == "pack/codes") values = wide(s.bytes.codes);
    if (spec.name == "unpack/codes") values = wide(s.loaded.codes);
    if (spec.name == "unpack/weight") values = wide(s.loaded.values);
    if (spec.name == "train/y") values = s.train_y.values;
    if (spec.name == "serve/y") values = s.serve_y.values;
    if (spec.name == "differences") values = wide(s.differences);
    if (spec.name == "first") values = wide(s.first);
    if (spec.name == "violations") values = {static_cast<double>(s.violations)};
    if (spec.name == "pack/scales")
      for (const std::uint8_t byte : s.bytes.scales)
        values.push_back(static_cast<double>(float_from_e4m3(byte)));
    expected.tensors.push_back(chains::exact(spec, std::move(values)));
  }
  return expected;
}

Expected reference(const Case& c, const Tensors& t, bool) { return evaluate(c, t, ""); }

Evaluation base(const BaseRequest& r) {
  Evaluation evaluation;
  for (ExpectedTensor& t : evaluate(r.problem, r.inputs, r.fault).tensors)
    evaluation.push_back({std::move(t.spec.name), std::move(t.value), std::move(t.bits)});
  return evaluation;
}

const Register op{OpDef{
    .name = "train_serve",
    .what = "prepare, step, convert, pack, unpack, serve: where the sides first differ",
    .directions = {Direction::Forward},
    .sources = {"https://github.com/pytorch/ao"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = chains::exact_contract,
    .faults = {{"P-ts-chain", "", "training and serving quantise by two chains (torchao #3050)"},
               {"P-ts-stale", "", "the weight before the step is converted"},
               {"P-ts-mask", "", "elements left out of the step: a clip mask that is none"},
               {"P-ts-nibbles", "", "even element packed in the high nibble (sglang #23625)"},
               {"P-ts-unsigned", "", "int4 nibbles unpacked without their sign"},
               {"P-ts-padding", "", "padding of the packed scales never written (vLLM #45741)"},
               {"P-ts-swizzled-twice", "", "scales permuted twice (modular #6600)"},
               {"P-ts-linear-scales", "", "blocked scales read as plain rows (vLLM #50084)"},
               {"P-ts-inverted", "",
                "the tensor's divisor taken as its multiplier (modular #6600)"},
               {"P-ts-dequant-order", "",
                "(code scale) tensor scale in place of code (scale tensor scale)"},
               {"P-ts-bf16-weights", "", "the serving side rounds its weights to bf16"},
               {"P-ts-order", "", "blocks of K summed backwards"},
               {"P-ts-bf16-sum", "", "the serving side sums in bf16"},
               {"P-ts-fallback", "", "the training step was never quantised: better than the band"},
               {"P-ts-scrambled", "", "scales of one operand scrambled: below the band"}},
}};

const Register bound{BoundDef{.op = "train_serve", .bound = chains::exact_bound}};

}  // namespace
}  // namespace parity::train_serve
