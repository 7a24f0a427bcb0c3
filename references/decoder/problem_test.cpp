// The debug model (k3.md §1.2) has exactly as many parameters as it is said to have.
#include "references/decoder/problem.hpp"

#include <gtest/gtest.h>

namespace parity::net {
namespace {

std::int64_t trainable(const Case& c) {
  std::int64_t count = 0;
  for (const TensorSpec& spec : decoder_parameters(c))
    if (!spec.name.ends_with("e_score_correction_bias")) count += elements(spec.dims);
  return count;
}

Case debug_case(std::string_view full) {
  Case c;
  c.op = "decoder";
  c.sizes = Sizes::parse("B1,T8,D256,V163840,L13");
  c.options = Options::parse(
      "block=12,conv=4,dense=1,ehid=128,experts=8,ffn=1024,heads=4,kda=32,kl=64,latent=128,"
      "nope=32,ql=128,rope=16,shared=256,topk=2,vd=32,"
      "images=1x2x2,v_L=4,v_D=256,v_H=3,v_Q=384,v_F=1024,v_P=14,v_M=16,v_N=16,v_J=1024");
  c.options.set("full", std::string(full));
  return c;
}

TEST(DebugModel, HasAllItsParameters) {
  EXPECT_EQ(trainable(debug_case("3+7+11")), 100'051'368);
  EXPECT_EQ(trainable(debug_case("3+7+11+12")), 100'032'452);  // the last layer full, too
}

TEST(DebugModel, EmbeddingAndHeadAreTheLargestPart) {
  Case c = debug_case("3+7+11");
  const std::int64_t all = trainable(c);
  c.sizes.set({"V", 512, {}});
  EXPECT_EQ(all - trainable(c), 2 * (163840 - 512) * 256);
}

}  // namespace
}  // namespace parity::net
