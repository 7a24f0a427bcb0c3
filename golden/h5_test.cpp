#include "golden/h5.hpp"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>

#include "golden/digest.hpp"
#include "golden/golden.hpp"
#include "harness/failure.hpp"

namespace parity::golden {
namespace {

class Files : public ::testing::Test {
 protected:
  Files() : dir_(fs::temp_directory_path() / ("parity_h5_" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_ / "data");
  }
  ~Files() override { fs::remove_all(dir_); }

  // A small own golden: three tensors, one of them packed codes.
  fs::path write(const std::string& name, double first = 1.5, bool contiguous = true) const {
    const fs::path path = dir_ / "data" / name;
    h5::Writer writer(path);
    writer.attribute("/", "family", "independent");
    writer.attribute("/c1", "op", "some_op");
    writer.attribute("/c1", "source", "pkg 1.0 f");
    std::vector<double> values(2048, 0.25);
    values[0] = first;
    writer.dataset(
        "/c1/inputs/x",
        make_tensor({.name = "x", .dtype = Dtype::BF16, .dims = {{"N", 32}, {"K", 64}}}, values),
        contiguous);
    writer.dataset(
        "/c1/outputs/y",
        make_tensor({.name = "y", .dtype = Dtype::F64, .dims = {{"N", 32}, {"K", 64}}}, values),
        contiguous);
    writer.dataset(
        "/c1/outputs/codes",
        make_tensor({.name = "codes", .dtype = Dtype::E2M1, .dims = {{"N", 32}, {"K", 64}}},
                    values),
        contiguous);
    writer.close();
    return path;
  }

  template <class E>
  std::string complaint(const std::function<void()>& act) const {
    try {
      act();
    } catch (const E& error) {
      return error.what();
    }
    return "";
  }

  fs::path dir_;
};

TEST_F(Files, RoundTripOfValuesBitsAndAttributes) {
  for (const bool contiguous : {true, false}) {
    const h5::File file(write("a.h5", 1.5, contiguous));
    EXPECT_EQ(file.attributes("/c1").at("op"), "some_op");
    const Tensor x = file.read("/c1/inputs/x");
    EXPECT_EQ(x.spec.dtype, Dtype::BF16);
    EXPECT_EQ(x.widened()[0], 1.5);
    const Tensor codes = file.read("/c1/outputs/codes");
    EXPECT_EQ(codes.spec.dtype, Dtype::E2M1);
    EXPECT_EQ(codes.elements(), 2048);
    EXPECT_EQ(codes.widened()[0], 1.5);
  }
}

TEST_F(Files, SameContentGivesTheSameBytes) {
  const MappedFile a(write("a.h5")), b(write("b.h5"));
  EXPECT_EQ(sha256_hex(a.bytes()), sha256_hex(b.bytes()));
}

TEST_F(Files, EveryTruncationIsRefusedWithTheFilesName) {
  const fs::path path = write("a.h5");
  const auto size = fs::file_size(path);
  for (const auto keep :
       {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{100}, size / 2, size - 1}) {
    const fs::path cut = dir_ / "cut.h5";
    fs::copy_file(path, cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, keep);
    const std::string said = complaint<UsageError>([&] {
      for (const StoredCase& c : stored_cases(cut))
        for (const std::string& dataset : c.paths) static_cast<void>(c.read(dataset));
    });
    EXPECT_NE(said.find("cut.h5"), std::string::npos) << keep;
  }
}

TEST_F(Files, NotHdf5AndNoOp) {
  std::ofstream(dir_ / "text.h5") << "hello";
  EXPECT_NE(complaint<UsageError>([&] {
              static_cast<void>(stored_cases(dir_ / "text.h5"));
            }).find("not an HDF5"),
            std::string::npos);
  {
    h5::Writer writer(dir_ / "no_op.h5");
    writer.attribute("/g", "title", "t");
    writer.close();
  }
  EXPECT_NE(complaint<UsageError>([&] {
              static_cast<void>(stored_cases(dir_ / "no_op.h5"));
            }).find("no group"),
            std::string::npos);
  EXPECT_NE(complaint<UsageError>([&] {
              static_cast<void>(stored_cases(dir_ / "absent.h5"));
            }).find("no such file"),
            std::string::npos);
}

// A header may claim more than the file holds: nothing is allocated for it.
TEST_F(Files, ClaimsBeyondWhatIsStoredAreRefused) {
  const fs::path path = dir_ / "huge.h5";
  {
    const h5::FileId file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const hsize_t extent[2] = {1u << 20, 1u << 20};
    const hsize_t chunk[2] = {64, 64};
    const h5::Space space(H5Screate_simple(2, extent, nullptr));
    const h5::Plist plist(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(plist.get(), 2, chunk);
    const h5::Dataset made(H5Dcreate2(file.get(), "x", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT,
                                      plist.get(), H5P_DEFAULT));
  }
  EXPECT_NE(
      complaint<UsageError>([&] { static_cast<void>(h5::File(path).read("/x")); }).find("claims"),
      std::string::npos);
}

TEST_F(Files, LinksOutOfTheFileAreNotFollowed) {
  const fs::path path = write("a.h5");
  {
    const h5::FileId file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    H5Lcreate_external("/etc/passwd", "/x", file.get(), "/c1/outputs/evil", H5P_DEFAULT,
                       H5P_DEFAULT);
    H5Lcreate_soft("/c1", file.get(), "/c1/outputs/loop", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file.get(), "/c1", file.get(), "/c1/outputs/self", H5P_DEFAULT, H5P_DEFAULT);
  }
  const std::vector<StoredCase> cases = stored_cases(path);
  ASSERT_EQ(cases.size(), 1u);
  for (const std::string& dataset : cases[0].paths)
    EXPECT_EQ(dataset.find("evil"), std::string::npos);
}

TEST_F(Files, ManifestPlacesAChange) {
  const fs::path path = write("a.h5");
  write_manifest(dir_);
  check_integrity(path);
  check_manifest(dir_);
  const std::vector<ManifestEntry> entries = read_manifest(dir_);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].file, "data/a.h5");
  EXPECT_EQ(entries[0].cases, 1);
  EXPECT_EQ(entries[0].family, "independent");
  EXPECT_EQ(entries[0].source, "pkg 1.0");

  // One bit of the data of outputs/y.
  const auto piece = h5::File(path).info("/c1/outputs/y").pieces.front();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(piece.first));
    const char flipped = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(piece.first));
    file.put(flipped);
  }
  const std::string said = complaint<GoldenError>([&] { check_integrity(path); });
  EXPECT_NE(said.find("a.h5"), std::string::npos) << said;
  EXPECT_NE(said.find("/c1/outputs/"), std::string::npos) << said;

  fs::resize_file(path, fs::file_size(path) - 100);
  EXPECT_NE(complaint<GoldenError>([&] { check_integrity(path); }).find("truncated"),
            std::string::npos);
  fs::remove(path);
  EXPECT_NE(complaint<GoldenError>([&] { check_manifest(dir_); }).find("missing"),
            std::string::npos);
}

TEST_F(Files, OtherToolsReadWhatIsWritten) {
  const fs::path path = write("a.h5", 1.5, false);
  if (std::system(
          "h5dump --version >/dev/null 2>&1 && /usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0)
    GTEST_SKIP() << "h5dump or h5py is not installed";
  EXPECT_EQ(
      std::system(("h5dump -d /c1/outputs/y " + path.string() + " | grep -q '1.5, 0.25'").c_str()),
      0);
  EXPECT_EQ(std::system(("/usr/bin/python3 -c \"import h5py; f = h5py.File('" + path.string() +
                         "'); assert f['c1/outputs/y'][0, 0] == 1.5 and f['c1'].attrs['op'] in "
                         "(b'some_op', 'some_op')\"")
                            .c_str()),
            0);
}

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(xxh3_hex({}), "2d06800538d394c2");
}

}  // namespace
}  // namespace parity::golden
