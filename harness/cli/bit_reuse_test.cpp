// Random bits that are used twice, and the command that finds them.
#include "harness/cli/bit_reuse.hpp"

#include <cstring>
#include <gtest/gtest.h>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/command_line_test.hpp"
#include "harness/tensor.hpp"
#include "references/quantize/stream.hpp"

namespace parity::cli {
namespace {

using quantize::random_bytes;
using quantize::Stream;
using quantize::subsequence_of;

NamedBits bits(const std::string& name, const Stream& stream, std::int64_t n) {
  NamedBits b{name, std::vector<std::byte>(static_cast<std::size_t>(n))};
  std::memcpy(b.bytes.data(), random_bytes(stream, n).data(), b.bytes.size());
  return b;
}

TEST(BitReuse, StreamsOfTensorsAndRanksAreDistinct) {
  std::vector<NamedBits> list;
  for (const char* tensor : {"rbits", "rbits_t", "layers.3.dy"})
    for (const std::int64_t rank : {0, 1, 7})
      list.push_back(bits(tensor, {.seed = 1, .subsequence = subsequence_of(tensor, rank)}, 8192));
  list.push_back(
      bits("later", {.seed = 1, .offset = 512, .subsequence = subsequence_of("rbits", 0)}, 8192));
  EXPECT_TRUE(reused(list).empty());
}

TEST(BitReuse, NamesWhatIsShared) {
  const Stream stream{.seed = 3, .subsequence = 5};
  Stream shifted = stream;
  shifted.offset = 4;  // 64 bytes on
  const std::vector<NamedBits> list = {bits("row", stream, 1024), bits("other", {.seed = 4}, 1024),
                                       bits("column", shifted, 512)};
  const std::vector<Reuse> runs = reused(list);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].a, 0U);
  EXPECT_EQ(runs[0].b, 2U);
  EXPECT_EQ(runs[0].at_a, 64);
  EXPECT_EQ(runs[0].at_b, 0);
  EXPECT_EQ(runs[0].bytes, 512);
}

TEST(BitReuse, AConstantRepeatsItself) {
  const std::vector<NamedBits> list = {{"zeros", std::vector<std::byte>(64)}};
  ASSERT_FALSE(reused(list).empty());
  EXPECT_EQ(reused(list)[0].a, reused(list)[0].b);
  EXPECT_TRUE(reused(std::vector<NamedBits>{{"short", std::vector<std::byte>(12)}}).empty());
}

TEST_F(CommandLine, AuditBits) {
  const auto tensor = [](const char* name, const Stream& stream) {
    Tensor t =
        make_tensor({.name = name, .role = Role::Input, .dtype = Dtype::U8, .dims = {{"N", 4096}}});
    std::memcpy(t.bytes.data(), random_bytes(stream, 4096).data(), 4096);
    return t;
  };
  Tensors good;
  good.add(tensor("row", {.seed = 1, .subsequence = 1}));
  good.add(tensor("column", {.seed = 1, .subsequence = 2}));
  good.add(tensor("recomputed", {.seed = 1, .subsequence = 1}));
  io::write(dir / "a.safetensors", good, {});
  EXPECT_EQ(parity("audit-bits a.safetensors").exit, 1);
  EXPECT_NE(parity("audit-bits a.safetensors")
                .out.find("REUSED  4096 bytes: row at 0 and "
                          "recomputed at 0"),
            std::string::npos);
  EXPECT_EQ(parity("audit-bits a.safetensors --same recomputed=row").exit, 0);
  EXPECT_EQ(parity("audit-bits a.safetensors --same row=column --json").exit, 1);
  Tensors other;
  other.add(tensor("row", {.seed = 1, .subsequence = 3}));
  io::write(dir / "b.npz", other, {});
  EXPECT_EQ(parity("audit-bits a.safetensors b.npz --same "
                   "a.safetensors:row=a.safetensors:recomputed")
                .exit,
            0);
  expect_refused("audit-bits a.safetensors --same row=gone", "no tensor 'gone'");
  expect_refused("audit-bits", "files is required");
}

}  // namespace
}  // namespace parity::cli
