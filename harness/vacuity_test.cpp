// Trivial candidates must fail; a case that lets one pass proves nothing, unless mathematics makes
// it right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/compare_fixture.hpp"
#include "harness/registry.hpp"

namespace parity::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Scene {
  Drawn drawn = draw({.dims = {{"T", 32}, {"V", 32}}});
  Subject subject = {};
  Tensors inputs = {};
  CaseSet set = {};

  Scene() {
    subject.bound = [](const Contract&, const TensorSpec&) {
      return Bound{.kind = BoundKind::Estimated, .scale_from = ScaleFrom::Spread, .why = "test"};
    };
    std::vector<double> x(32 * 32);
    Rng{.seed = 77}.fill_normal(0, x);
    inputs.add(make_tensor({.name = "x", .dtype = Dtype::F32, .dims = {{"T", 32}, {"V", 32}}}, x));
    subject.problem.set = &set;
  }
  std::vector<std::string> reasons() {
    return vacuity(subject, nullptr, {}, inputs, Expected{.tensors = {drawn.expected}}, drawn.base);
  }
};

TEST(Vacuity, AnOrdinaryCaseProvesSomething) { EXPECT_THAT(Scene{}.reasons(), IsEmpty()); }

TEST(Vacuity, ABoundAboveTheOutputLetsZerosPass) {
  Scene s;
  s.drawn = draw({.dims = {{"T", 32}, {"V", 32}}, .noise = 30});
  const std::vector<std::string> reasons = s.reasons();
  EXPECT_THAT(reasons, Contains(HasSubstr("o: zeros would pass")));
}

TEST(Vacuity, AnOutputThatIsItsInput) {
  Scene s;
  s.drawn.expected.value = s.inputs.at("x").widened();
  for (Evaluation& run : s.drawn.base.runs) run[0].value = s.drawn.expected.value;
  EXPECT_THAT(s.reasons(), ElementsAre("o: a copy of x would pass"));
  s.set.exempt = [](const Case&, std::string_view, std::string_view trivial) -> std::string_view {
    return trivial == "copy" ? "the identity is the answer" : "";
  };
  EXPECT_THAT(s.reasons(), IsEmpty());
}

TEST(Vacuity, AConstantOutputIsItsMeanAndItsNeighbour) {
  Scene s;
  s.drawn.expected.value.assign(32 * 32, 1.5);
  for (Evaluation& run : s.drawn.base.runs) run[0].value = s.drawn.expected.value;
  EXPECT_THAT(s.reasons(), ElementsAre("o: its own mean everywhere would pass",
                                       "o: its own rows moved by one would pass"));
}

TEST(Vacuity, ZerosBeyondTheDeclaredShare) {
  Scene s;
  for (std::size_t i = 0; i < 400; ++i) s.drawn.expected.value[i] = 0;
  for (Evaluation& run : s.drawn.base.runs)
    for (std::size_t i = 0; i < 400; ++i) run[0].value[i] = 0;
  EXPECT_THAT(s.reasons(), ElementsAre(HasSubstr("39 % of the expected values are zero")));
  s.set.zero_share = 0.5;
  EXPECT_THAT(s.reasons(), IsEmpty());
}

TEST(Vacuity, ExactProbesAndGoldensAreNotTried) {
  for (const Check check : {Check::Exact, Check::Golden}) {
    Scene s;
    s.drawn = draw({.dims = {{"T", 32}, {"V", 32}}, .noise = 30});
    s.subject.check = check;
    EXPECT_THAT(s.reasons(), IsEmpty());
  }
}

TEST(Vacuity, CodesOfZerosMustDiffer) {
  Scene s;
  ExpectedTensor codes{.spec = {.name = "codes",
                                .role = Role::Codes,
                                .dtype = Dtype::E2M1,
                                .dims = {{"T", 1}, {"V", 4}}}};
  codes.bits = make_tensor(codes.spec).bytes;
  s.set.zero_share = 1;
  EXPECT_THAT(vacuity(s.subject, nullptr, {}, {}, Expected{.tensors = {codes}}, {}),
              ElementsAre("codes: zeros would pass"));
}

// An op's own wrong answers, the truth of another seed, and the bases: through a registered op.
std::vector<TensorSpec> one(const Case& c, std::string_view name, Role role) {
  return {{.name = std::string(name),
           .role = role,
           .dtype = Dtype::F32,
           .dims = {{"N", c.sizes["N"]}, {"V", 32}}}};
}
void normal_row(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}
Expected doubled(const Case& c, const Tensors& inputs, bool) {
  ExpectedTensor y{.spec = one(c, "y", Role::Output)[0], .value = inputs.at("x").widened()};
  for (double& v : y.value) v *= c.fill == "constant" ? 0 : 2;
  for (double& v : y.value) v += c.fill == "constant" ? 1 : 0;
  return {.tensors = {y}};
}
Evaluation noisy(const BaseRequest& r) {
  std::vector<double> value = doubled(r.problem, r.inputs, false).tensors[0].value;
  std::vector<double> noise(value.size());
  Rng{.seed = r.seed}.fill_normal(0, noise);
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] = round_to(Dtype::F32, value[i] + 1e-3 * noise[i]);
  return {{.name = "y", .value = value}};
}
std::vector<std::pair<std::string, Evaluation>> known_wrong(const Case& c, const Tensors& inputs) {
  return {{"history", {{.name = "y", .value = doubled(c, inputs, false).tensors[0].value}}}};
}

OpDef op_doubled() {
  return {.name = "test_doubled",
          .inputs = [](const Case& c) { return one(c, "x", Role::Input); },
          .outputs = [](const Case& c) { return one(c, "y", Role::Output); },
          .reference = doubled,
          .base = noisy};
}

TEST(Vacuity, TheTruthOfAnotherSeedAndTheOpsOwn) {
  const OpDef op = op_doubled();
  CaseSet set{
      .op = op.name,
      .fills = {{.name = "normal", .row = normal_row}, {.name = "constant", .row = normal_row}}};
  Subject subject{
      .problem = {.op = "test_doubled", .sizes = {{"N", 16}}, .fill = "normal", .set = &set}};
  subject.bound = Scene{}.subject.bound;
  const auto reasons = [&](const OpDef& tried) {
    const Tensors inputs = generate(subject.problem, tried, 1);
    const Expected expected = doubled(subject.problem, inputs, false);
    return vacuity(subject, &tried, {}, inputs, expected,
                   run_base(tried, subject.problem, {}, inputs, false));
  };
  EXPECT_THAT(reasons(op), IsEmpty());
  OpDef telling = op;
  telling.trivial = known_wrong;
  EXPECT_THAT(reasons(telling), ElementsAre("y: history would pass"));
  subject.problem.fill = "constant";
  EXPECT_THAT(reasons(op), Contains("y: the truth of another seed would pass"));
}

TEST(RunBase, VariantsFollowTheCheckAndHaveTheirOwnDraws) {
  const OpDef op = op_doubled();
  CaseSet set{.op = op.name, .fills = {{.name = "normal", .row = normal_row}}};
  Case c{.op = "test_doubled", .sizes = {{"N", 4}}, .fill = "normal", .set = &set};
  const Tensors inputs = generate(c, op, 1);
  const Base base = run_base(op, c, {}, inputs, false);
  ASSERT_EQ(base.runs.size(), static_cast<std::size_t>(kVariants) + 1);
  EXPECT_NE(base.find(1, "y")->value, base.find(2, "y")->value);
  EXPECT_EQ(base.find(1, "y")->value, run_base(op, c, {}, inputs, false).find(1, "y")->value)
      << "the same every time";
  c.check = Check::Exact;
  EXPECT_EQ(run_base(op, c, {}, inputs, false).runs.size(), 1u);
  OpDef none = op;
  none.base = nullptr;
  EXPECT_TRUE(run_base(none, c, {}, inputs, false).runs.empty());
}

}  // namespace
}  // namespace parity::test
