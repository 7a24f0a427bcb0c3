// Cases of attention: sizes around tiles of 16 and 64, documents, grouped heads, unequal lengths.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

void usual(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Logits that grow with the position of the key, so that the running maximum is always stale.
void ascending(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "q") out[0] = 2;
  if (d.spec.name == "k") out[0] = static_cast<double>(d.row % 997) / 32;
}

// Logits around -8: a phantom key of logit zero takes everything.
void negative(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  const double shift = std::sqrt(8 / std::sqrt(static_cast<double>(out.size())));
  if (d.spec.name == "q")
    for (double& x : out) x = x / 4 + shift;
  if (d.spec.name == "k")
    for (double& x : out) x = x / 4 - shift;
}

// Logits of 120 and more: exp overflows unless the maximum is subtracted, and a few keys matter.
void sharp(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "q") {
    for (double& x : out) x *= 4;
    out[0] = 12;
  }
  if (d.spec.name == "k") out[0] = 10 * std::sqrt(static_cast<double>(out.size()));
}

const Fill kUsual{"normal", "the usual case", usual};
const Fill kAscending{"ascending", "the running maximum grows in every tile", ascending};
const Fill kNegative{"negative", "keys that do not exist would take over", negative};
const Fill kSharp{"sharp", "overflow without the maximum; nearly one key", sharp};

// ---- exact probes: weights are 1 or 1/2, everything else integers

constexpr int kBits = 8;  // channels that carry the code of a key's pair
// One differing bit: 2 * 16 * 32 * scale = 256 in logits at D = 16, past what exp of f32 tells from
// zero; fp64 needs 745, and gets 1024.
double coded(const RowDraw& d, double size) {
  return (d.problem.dtype == Dtype::F64 ? 2 : 1) * size;
}
constexpr double kCode = 16, kQuery = 32;

std::int64_t position(const Case& c, std::int64_t token) {  // within its document
  for (const std::int64_t length : c.sizes.find("T")->parts) {
    if (token < length) return token;
    token -= length;
  }
  return token;
}

double code(std::int64_t pair, std::size_t channel) { return pair >> channel & 1 ? 1 : -1; }

double small_integer(const RowDraw& d, std::size_t i) {
  return static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, -4, 4));
}

// Keys 2p and 2p + 1 carry the code of p; a query asks for one pair before it, or for key 0.
void pairs(const RowDraw& d, std::span<double> out) {
  const Case& c = d.problem;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = small_integer(d, i);
  if (d.spec.name != "q" && d.spec.name != "k") return;
  const std::int64_t heads = d.spec.dims[2].extent, tokens = d.spec.dims[1].extent;
  const std::int64_t p = position(c, d.row / heads % tokens);
  const bool query = d.spec.name == "q";
  std::int64_t pair = p / 2;
  if (query) {
    const std::int64_t whole = (p + 1) / 2;  // pairs that it sees both keys of
    pair = whole == 0
               ? 0
               : d.rng.integer(static_cast<std::uint64_t>(d.first + 1'000'000'000), 0, whole - 1);
  }
  for (std::size_t i = 0; i < kBits; ++i) out[i] = coded(d, query ? kQuery : kCode) * code(pair, i);
  for (std::size_t i = kBits; query && i < out.size(); ++i) out[i] = 0;
}

// Every key carries its own code; a query asks for one that it sees. Weights are exact for kernels
// that recompute them from a rounded log sum exp too: it is the key's own logit.
void one_key(const RowDraw& d, std::span<double> out) {
  const Case& c = d.problem;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = small_integer(d, i);
  if (d.spec.name != "q" && d.spec.name != "k") return;
  const std::int64_t heads = d.spec.dims[2].extent, tokens = d.spec.dims[1].extent;
  std::int64_t key = position(c, d.row / heads % tokens);
  const bool query = d.spec.name == "q";
  if (query) key = d.rng.integer(static_cast<std::uint64_t>(d.first + 1'000'000'000), 0, key);
  for (std::size_t i = 0; i < kBits; ++i) out[i] = coded(d, query ? kQuery : kCode) * code(key, i);
  for (std::size_t i = kBits; query && i < out.size(); ++i) out[i] = 0;
}

// Equal logits over a power of two of keys.
void equal(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = d.spec.name == "q" ? 0 : small_integer(d, i);
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (c.fill == "equal" && tensor == "grads/inputs/k" && trivial != "other_seed")
    return "dk = dZ^T q, and q is zero";
  return "";
}

// Sums of D, V, S and T terms one after another, each of which errs like sqrt(n).
Bound bound(const Case& c, const Contract& contract, const TensorSpec&) {
  Bound b{.kind = BoundKind::Estimated, .c_acc = 1, .accumulate = contract.accumulate};
  const auto size = [&](const char* name) { return static_cast<double>(c.sizes.get(name, 0)); };
  const double n = size("D") + size("V") + size("T") + size("S") + 8;
  b.growth = {.kind = Growth::Kind::Probabilistic, .n = n, .lambda = 3};
  if (!contract.roundings.empty()) {  // the companion cannot tell what is stored from what is not
    b.scale_from = ScaleFrom::Spread;
    b.why = "sigma is the spread of the base's variants, which store what the contract says";
    return b;
  }
  b.subnormals = format(contract.accumulate).min_normal / format(contract.accumulate).min_subnormal;
  b.why =
      "the companion adds every first-order term (attention_scale.cpp): logits, weights, their "
      "sum, "
      "delta; each is a sum of at most D + V + T + S terms, which errs like lambda sqrt(n) u "
      "(Higham "
      "and Mary 2019), lambda 3 because the companion takes all terms of all sums by magnitude";
  return b;
}
const Register attention_bound{BoundDef{.op = "attention", .bound = bound}};

const Register smoke{CaseSet{
    .op = "attention",
    .what = "Square and ragged, causal; grouped heads, unequal widths",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T21,H2,D16"), Sizes::parse("T70,H4,G2,D24,V40"),
              Sizes::parse("T5+1+40,H2,G1,D20,V16"), Sizes::parse("T33,S50,H3,D16,V8")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual, kAscending, kNegative, kSharp},
}};

const Register unmasked{CaseSet{
    .op = "attention",
    .what = "Every key; lengths that no tile divides; the other alignment of the causal corner",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T19,S37,H2,D16"), Sizes::parse("T4+30,S20+9,H4,G2,D8,V24")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual, kNegative},
    .options = {{{"causal", "0"}}, {{"align", "top"}}},
    .zero_share = 0.4,
    .zero_share_why = "aligned to the top, keys past the last query get no gradient",
}};

const Register fewer_keys{CaseSet{
    .op = "attention",
    .what = "More queries than keys: the first rows see none and give zero",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B1,T30,S22,H2,D16")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
}};

const Register ragged{CaseSet{
    .op = "attention",
    .what = "A cache before the queries, as fused kernels take it; without log sum exp too",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T20,S37,H2,D16"), Sizes::parse("B1,T1,S70,H4,G2,D24")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{}, {{"lse", "0"}}},
}};

const Register exact{CaseSet{
    .op = "attention",
    .what = "One or two keys of weight 1 or 1/2",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B1,T150,H2,D16"), Sizes::parse("T7+1+70,H4,G2,D16,V24")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"pairs", "which keys a query may see, over tiles and documents", pairs, true}},
    .options = {{{"lse", "0"}}},
}};

const Register exact_keys{CaseSet{
    .op = "attention",
    .what = "One key of weight 1",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B1,T150,H2,D16"), Sizes::parse("T7+1+70,H2,D16")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"one_key", "which key a query sees, in fused kernels too", one_key, true}},
    .options = {{{"lse", "0"}}},
}};

const Register uniform{CaseSet{
    .op = "attention",
    .what = "Equal logits: plain means of integers",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B1,T40,S64,H2,D16"), Sizes::parse("B2,T9,S128,H2,G1,D16,V24")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"equal", "the sum of weights over tiles", equal, true}},
    .options = {{{"causal", "0"}, {"lse", "0"}}},
    .exempt = exempt,
    .zero_share = 0.5,
    .zero_share_why = "dk vanishes with q",
}};

const Register longer{CaseSet{
    .op = "attention",
    .what = "Several tiles, head widths in use",
    .sizes = {Sizes::parse("B1,T130,H1,D128"), Sizes::parse("B1,T66,H1,D192,V128"),
              Sizes::parse("T30+76,H4,G1,D64"), Sizes::parse("B1,T1,S300,H4,D64")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual, kAscending, kSharp},
}};

const Register wide{CaseSet{
    .op = "attention",
    .what = "fp64, for candidates that compute in it",
    .sizes = {Sizes::parse("B2,T21,H4,G2,D16"), Sizes::parse("B1,T33,S50,H3,D16,V8")},
    .dtypes = {Dtype::F64},
    .fills = {kUsual},
}};

}  // namespace
}  // namespace parity
