// The softmax on buffers: means of what is seen, documents, a cache before the queries, gradients.
#include "kernels/mla/attended.hpp"

#include <gtest/gtest.h>

namespace parity::mla_kernel {
namespace {

using Floats = std::vector<float>;
Floats list(std::span<const float> x) { return {x.begin(), x.end()}; }

// Without a query every key that is seen weighs the same.
TEST(MlaAttended, MeansOfWhatIsSeen) {
  const Softmax s{.B = 1, .S = 4, .D = 2, .V = 1, .T = {"T", 4, {3, 1}}};
  const Attended a(s, Floats(8), Floats{1, 2, 3, 4, 5, 6, 7, 8}, Floats{2, 4, 6, 100});
  EXPECT_EQ(list(a.o()), (Floats{2, 3, 4, 100}));  // the second document sees itself alone
}

TEST(MlaAttended, TokensSeeTheCacheBeforeThem) {
  const Softmax s{.B = 1, .S = 4, .D = 1, .V = 1, .T = {"T", 2, {}}};
  const Floats q(2), k(4, 1), v{3, 6, 9, 10};
  EXPECT_EQ(list(Attended(s, q, k, v).o()), (Floats{6, 7}));
  const Softmax all{.B = 1, .S = 4, .D = 1, .V = 1, .T = {"T", 2, {}}, .causal = false};
  EXPECT_EQ(list(Attended(all, q, k, v).o()), (Floats{7, 7}));
}

// Two heads share the keys: gradients of keys and values are summed over them.
TEST(MlaAttended, GradientsOfSharedKeys) {
  const Softmax s{.B = 1, .S = 2, .H = 2, .G = 1, .D = 1, .V = 1, .T = {"T", 2, {}}, .scale = 1};
  Attended a(s, Floats(4), Floats{1, 3}, Floats{2, 6});
  const Attended::Gradients d = a.backward(Floats{0, 0, 1, 1});
  EXPECT_EQ(list(d.v), (Floats{1, 1}));  // 1/2 of two heads
  EXPECT_EQ(list(d.k), (Floats{0, 0}));
  // p (dP - delta) k: 1/2 (2 - 4) 1 + 1/2 (6 - 4) 3
  EXPECT_EQ(list(d.q), (Floats{0, 0, 2, 2}));
}

}  // namespace
}  // namespace parity::mla_kernel
