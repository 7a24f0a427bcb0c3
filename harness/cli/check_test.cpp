#include "harness/cli/check.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "harness/cli/bound_text.hpp"

namespace parity::cli {
namespace {

Expected reference(const Case&, const Tensors&, bool) { return {}; }
Evaluation base(const BaseRequest&) { return {}; }
std::vector<TensorSpec> inputs(const Case&) { return {{.name = "x"}}; }
std::vector<TensorSpec> outputs(const Case&) { return {{.name = "y", .role = Role::Output}}; }
void draw(const RowDraw&, std::span<double>) {}
void forward(const Launch&) {}
Bound bound(const Case&, const Contract&, const TensorSpec&) {
  return {.roundings = {{.what = "P"}}, .why = "derived"};
}

// A registry without a finding; each test spoils one thing.
Registry sound() {
  Registry all;
  all.ops.push_back({.name = "op",
                     .what = "y = x",
                     .sources = {"a book"},
                     .inputs = inputs,
                     .outputs = outputs,
                     .reference = reference,
                     .base = base});
  all.kernels.push_back({.op = "op",
                         .name = "op.plain",
                         .what = "plain loops",
                         .contract = {.dtypes = {Dtype::F32}},
                         .forward = forward,
                         .faults = {{.id = "F-1", .what = "off by one"}}});
  all.case_sets.push_back({.op = "op",
                           .what = "small",
                           .sizes = {Sizes::parse("N3")},
                           .dtypes = {Dtype::F32},
                           .fills = {{.name = "uniform", .what = "ordinary", .row = draw}}});
  all.bounds.push_back({.op = "op", .bound = bound});
  all.waivers.push_back(
      {.id = "op/*", .reason = "r", .url = "u", .owner = "o", .expires = "2026-06-30"});
  return all;
}

constexpr const char* kToday = "2026-01-31";

void expect_found(const Registry& all, const std::string& rule, const std::string& words) {
  const auto findings = lint(all, kToday);
  EXPECT_TRUE(std::ranges::any_of(
      findings,
      [&](const Finding& f) { return f.rule == rule && f.what.find(words) != std::string::npos; }))
      << rule << ": " << words;
}

TEST(Check, ASoundRegistryHasNoFinding) {
  for (const Finding& finding : lint(sound(), kToday))
    ADD_FAILURE() << finding.rule << ": " << finding.what;
}

TEST(Check, AnEmptyRegistryIsAFinding) { expect_found({}, "case", "tests nothing"); }

TEST(Check, OpsNeedAReferenceACaseAndAMutant) {
  Registry all = sound();
  all.ops[0].reference = nullptr;
  expect_found(all, "reference", "op op has no reference");
  all = sound();
  all.ops[0].base = nullptr;
  expect_found(all, "reference", "op op has no base");
  all = sound();
  all.case_sets.clear();
  expect_found(all, "case", "op op has no case");
  all = sound();
  all.kernels[0].faults.clear();
  expect_found(all, "mutant", "op op has no mutant");
  all.ops[0].faults = {{.id = "F-2", .what = "w"}};  // a fault of the base serves too
  for (const Finding& finding : lint(all, kToday)) EXPECT_NE(finding.rule, "mutant");
}

TEST(Check, BoundsNeedADerivation) {
  Registry all = sound();
  all.bounds[0].bound = [](const Case&, const Contract&, const TensorSpec&) { return Bound{}; };
  expect_found(all, "bound", "the bound of y of op (f32, op.plain, parity) has no derivation");
  all.bounds[0].bound = [](const Case&, const Contract&, const TensorSpec&) {
    return Bound{.roundings = {{}}, .why = "w"};
  };
  expect_found(all, "bound", "a rounding term without a name");
  all.bounds.clear();
  expect_found(all, "bound", "case set op 'small' has no bound");
}

TEST(Check, NamesDoNotCollide) {
  Registry all = sound();
  all.kernels.push_back(all.kernels[0]);
  expect_found(all, "collision", "the kernel 'op.plain' is there twice");
  all = sound();
  all.case_sets.push_back(all.case_sets[0]);
  expect_found(all, "collision", "two case sets of op say 'small'");
  all = sound();
  all.kernels[0].faults.push_back(all.kernels[0].faults[0]);
  expect_found(all, "collision", "the fault of op.plain 'F-1' is there twice");
}

TEST(Check, KernelsAndCaseSetsFitTheirOp) {
  Registry all = sound();
  all.kernels[0].op = "po";
  expect_found(all, "kernel", "kernel op.plain is of op 'po', which does not exist");
  all = sound();
  all.case_sets[0].fills.clear();
  expect_found(all, "case", "declares no case");
  all = sound();
  all.case_sets[0].zero_share = 0.9;
  expect_found(all, "case", "allows 0.9 zeros and does not say why");
  all = sound();
  all.case_sets[0].kernels = "op.fancy*";
  expect_found(all, "case", "is for kernels 'op.fancy*', and there are none");
}

TEST(Check, ChainsHaveACase) {
  Registry all = sound();
  all.chains.push_back({.name = "mine", .what = "halves"});
  expect_found(all, "case", "chain mine has no case");
  all.case_sets[0].options = {{{"chain", "mine"}}};
  for (const Finding& finding : lint(all, kToday)) EXPECT_NE(finding.rule, "case") << finding.what;
}

TEST(Check, WaiversHaveAnOwnerAndAnEnd) {
  Registry all = sound();
  all.waivers[0].expires = "2026-01-30";
  expect_found(all, "waiver", "expired on 2026-01-30 (o)");
  all.waivers[0].expires = "soon";
  expect_found(all, "waiver", "'soon' is no date");
  all = sound();
  all.waivers[0].owner = "";
  expect_found(all, "waiver", "needs a reason, a URL, an owner and an expiry");
  all = sound();
  all.waivers[0].id = "other/*";
  expect_found(all, "waiver", "waiver 'other/*' matches no case");
}

TEST(BoundText, TermsAreThoseOfTheInequality) {
  const Bound bound{.rho = 1,
                    .c_acc = 3,
                    .growth = {.kind = Growth::Kind::WorstCase, .n = 4},
                    .roundings = {{2, Dtype::BF16, "P"}},
                    .subnormals = 1};
  const auto terms = terms_of(bound, Dtype::BF16);
  ASSERT_EQ(terms.size(), 4U);
  constexpr double u16 = 0x1p-8, u32 = 0x1p-24;
  EXPECT_EQ(terms[0].factor, u16);
  EXPECT_EQ(terms[0].of, "|x*|");
  EXPECT_DOUBLE_EQ(terms[1].factor, (1 + u16) * 3 * 4 * u32 / (1 - 4 * u32));
  EXPECT_EQ(terms[2].factor, (1 + u16) * 2 * u16);
  EXPECT_EQ(terms[3].factor, 0x1p-133);
  EXPECT_EQ(terms_of({.kind = BoundKind::Exact}, Dtype::F32).at(0).what, "exact: every bit");
  EXPECT_EQ(terms_of({.scale_from = ScaleFrom::Spread, .c_sigma = 9}, Dtype::F32).at(1).of,
            "sigma");
}

}  // namespace
}  // namespace parity::cli
