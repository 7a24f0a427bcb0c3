#include "harness/case.hpp"

#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

TEST(Id, ParsePrintIsIdentity) {
  for (const char* id : {
           "kda/T3+0+1021,H16,K128,V128/bf16/gate_floor/s7@kda.chunked_bf16[chunk=32]",
           "softmax/N8,V1000/f32/peak/s0",
           "kda/B2,T128,H4,HV8,K64,V128/f32/normal/gate=lower,lb=-5/s18446744073",
           "quantize/N1,K16/bf16/ties/chain=nvfp4_te/s3@quantize.rows",
           "kda/T5+,H1,K8,V8/f32/normal/s1",
           "kda/kda_h200_recordings:repeated_keys/B1,T256,H1/bf16/recorded@recording.fla_0_6_0",
           "quantize/lowprecision:nvfp4_te_1x16/ties_4x64/N4,K64/f32/recorded@reference",
           "mla/k3:some_case@reference",
       }) {
    const ParsedId parsed = parse_id(id);
    EXPECT_EQ(print_id(parsed.problem, parsed.kernel, parsed.kernel_options), id);
  }
}

TEST(Id, PackedBatchOfOneStaysPacked) {
  EXPECT_EQ(Sizes::parse("T5+").find("T")->parts, std::vector<std::int64_t>{5});
  EXPECT_TRUE(Sizes::parse("T5").find("T")->parts.empty());
}

TEST(Id, SaysWhatIsWrong) {
  const auto complaint = [](const char* id) -> std::string {
    try {
      static_cast<void>(parse_id(id));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint("kda/T4/bf16").find("3 parts"), std::string::npos);
  EXPECT_NE(complaint("kda/T4/bf17/normal/s0").find("bf17"), std::string::npos);
  EXPECT_NE(complaint("kda/T4/bf16/normal/7").find("'7' is no seed"), std::string::npos);
  EXPECT_NE(complaint("kda/T4,T5/bf16/normal/s0").find("given twice"), std::string::npos);
  EXPECT_NE(complaint("kda/T4/bf16/normal/gate/s0").find("name=value"), std::string::npos);
  EXPECT_NE(complaint("kda/T4/bf16/normal/s0@k[chunk=3").find("']'"), std::string::npos);
  EXPECT_NE(complaint("kda/T-4/bf16/normal/s0").find("T-4"), std::string::npos);
  EXPECT_NE(complaint("kda/T99999999999999999999/bf16/normal/s0").find("integer"),
            std::string::npos);
  EXPECT_NE(complaint("").find("parts"), std::string::npos);
}

TEST(Words, UnknownOnesNameTheNearest) {
  const auto complaint = [](const char* lane) -> std::string {
    try {
      static_cast<void>(parse_lane(lane));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint("smoek").find("did you mean 'smoke'"), std::string::npos);
  EXPECT_NE(complaint("x").find("known: smoke, full"), std::string::npos);
}

TEST(Glob, StarCrossesSlashes) {
  EXPECT_TRUE(glob_match("softmax/*@*_bf16", "softmax/N8,V1000/bf16/peak/s0@softmax.online_bf16"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*b*c", "aXXbYYbZc"));
  EXPECT_FALSE(glob_match("a*b", "aXc"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("s?", "s7"));
}

TEST(Letters, NameEachAxis) {
  const std::vector<Dim> dims = {{"B", 2}, {"T", 3}, {"HV", 4}};
  EXPECT_EQ(letters(dims, 0), "b=0,t=0,hv=0");
  EXPECT_EQ(letters(dims, 23), "b=1,t=2,hv=3");
  EXPECT_EQ(elements(dims), 24);
  EXPECT_EQ(elements({}), 1);
}

}  // namespace
}  // namespace parity
