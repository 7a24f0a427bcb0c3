// Own goldens outside any manifest: one bit of any dataset, or a digest that is not there, is
// found.
#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "harness/failure.hpp"
#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity::golden {
namespace {

class OwnDigests : public ::testing::TestWithParam<bool> {  // contiguous or not
 protected:
  OwnDigests() : dir_(fs::temp_directory_path() / ("parity_own_" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    freeze({.file = file(),
            .cases = {resolve(registry(), parse_id("l2norm/N66,D96/f32/normal/s0"))},
            .contiguous = GetParam()});
  }
  ~OwnDigests() override { fs::remove_all(dir_); }

  fs::path file() const { return dir_ / "own.h5"; }

  std::string complaint() const {
    try {
      static_cast<void>(check_integrity(file()));
    } catch (const GoldenError& error) {
      return error.what();
    } catch (const UsageError& error) {  // a chunk that does not inflate any more
      return error.what();
    }
    return "";
  }

  fs::path dir_;
};

TEST_P(OwnDigests, CoverEveryDataset) {
  const Integrity whole = check_integrity(file());
  EXPECT_EQ(whole.by, "digests of its datasets");
  const h5::File opened(file());
  const std::vector<std::string> datasets = opened.datasets("/");
  EXPECT_EQ(whole.digests, static_cast<std::int64_t>(datasets.size()));
  for (const std::string& name : datasets) {
    const auto piece = opened.info("/" + name).pieces.front();
    const auto at = static_cast<std::streamoff>(piece.first + piece.second / 2);
    const auto flip = [&] {
      std::fstream raw(file(), std::ios::in | std::ios::out | std::ios::binary);
      raw.seekg(at);
      const char flipped = static_cast<char>(raw.get() ^ 1);
      raw.seekp(at);
      raw.put(flipped);
    };
    flip();
    EXPECT_NE(complaint().find("/" + name), std::string::npos) << complaint();
    flip();
    EXPECT_EQ(complaint(), "");
  }
}

TEST_P(OwnDigests, MayNotBeMissing) {
  {
    const h5::FileId raw(H5Fopen(file().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const h5::File opened(file());
    const std::string first = "/" + opened.datasets("/").front();
    ASSERT_GE(H5Adelete_by_name(raw.get(), first.c_str(), "xxh3", H5P_DEFAULT), 0);
  }
  EXPECT_NE(complaint().find("carries no digest"), std::string::npos) << complaint();
}

INSTANTIATE_TEST_SUITE_P(Layouts, OwnDigests, ::testing::Bool(), [](const auto& layout) {
  return layout.param ? "contiguous" : "chunked";
});

}  // namespace
}  // namespace parity::golden
