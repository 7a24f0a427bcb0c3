// Round trips through every format, and files that were made to break a reader.
#include "golden/io/tensor_file.hpp"

#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "golden/io/bytes.hpp"
#include "harness/failure.hpp"
#include "harness/test_paths.hpp"

namespace parity::io {
namespace {

class Dumps : public ::testing::Test {
 protected:
  Dumps() : dir_(fs::temp_directory_path() / ("parity_io_" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~Dumps() override { fs::remove_all(dir_); }

  fs::path put(const std::string& name, const std::string& bytes) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  // What opening (and reading everything) refuses with; "" where nothing is refused.
  static std::string complaint(const fs::path& path) {
    try {
      const TensorFile file = open(path);
      for (std::size_t i = 0; i < file.tensors().size(); ++i) (void)file.read(i);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  static std::string safetensors(const std::string& header, const std::string& data = "") {
    std::string bytes;
    put_little_endian(bytes, header.size(), 8);
    return bytes + header + data;
  }
  static std::string npy(const std::string& dictionary, const std::string& data = "") {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    put_little_endian(bytes, dictionary.size(), 2);
    return bytes + dictionary + data;
  }
  fs::path dir_;
};

// One member, stored or deflated; what the headers claim may be anything.
struct Zip {
  std::string name = "x.npy", content = {};
  bool deflated = false;
  std::int64_t claimed = -1;  // -1: the truth
  std::uint64_t flags = 0, method = 99;
  std::uint32_t crc_change = 0;
  int copies = 1;  // directory entries of the same member

  std::string str() const {
    std::string packed = content;
    if (deflated) {
      z_stream z{};
      deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&z, content.size()));
      std::string in = content;
      z.next_in = reinterpret_cast<Bytef*>(in.data());
      z.avail_in = static_cast<uInt>(in.size());
      z.next_out = reinterpret_cast<Bytef*>(packed.data());
      z.avail_out = static_cast<uInt>(packed.size());
      deflate(&z, Z_FINISH);
      packed.resize(packed.size() - z.avail_out);
      deflateEnd(&z);
    }
    const uLong crc =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    std::string fields;
    put_little_endian(fields, 20, 2);
    put_little_endian(fields, flags, 2);
    put_little_endian(fields, method != 99 ? method : deflated ? 8 : 0, 2);
    put_little_endian(fields, 0, 4);
    put_little_endian(fields, crc ^ crc_change, 4);
    put_little_endian(fields, packed.size(), 4);
    put_little_endian(fields, claimed < 0 ? content.size() : static_cast<std::uint64_t>(claimed),
                      4);
    put_little_endian(fields, name.size(), 2);
    put_little_endian(fields, 0, 2);
    std::string all = "PK\x03\x04" + fields + name + packed;
    const std::size_t directory = all.size();
    for (int i = 0; i < copies; ++i) {
      all += "PK\x01\x02";
      put_little_endian(all, 20, 2);
      all += fields;
      put_little_endian(all, 0, 10);
      put_little_endian(all, 0, 4);
      all += name;
    }
    const std::size_t bytes = all.size() - directory;
    all += "PK\x05\x06";
    put_little_endian(all, 0, 4);
    put_little_endian(all, static_cast<std::uint64_t>(copies), 2);
    put_little_endian(all, static_cast<std::uint64_t>(copies), 2);
    put_little_endian(all, bytes, 4);
    put_little_endian(all, directory, 4);
    put_little_endian(all, 0, 2);
    return all;
  }
};

Tensors samples() {
  Tensors tensors;
  const std::vector<double> values = {0, 1, -2, 3, 0.5, -6};
  for (const Dtype dtype : {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I64, Dtype::I32,
                            Dtype::I16, Dtype::I8, Dtype::U8})
    tensors.add(make_tensor(
        {.name = "t/" + std::string(name(dtype)), .dtype = dtype, .dims = {{"A", 2}, {"B", 3}}},
        format(dtype).is_float ? values : std::vector<double>{0, 1, 2, 3, 4, 5}));
  tensors.add(make_tensor({.name = "scalar", .dtype = Dtype::F32}, std::vector{2.5}));
  tensors.add(make_tensor({.name = "none", .dtype = Dtype::F32, .dims = {{"A", 0}}}));
  return tensors;
}

TEST_F(Dumps, EveryFormatGivesBackWhatWasWritten) {
  const Tensors tensors = samples();
  for (const char* name : {"a.safetensors", "a.npz", "a.h5"}) {
    write(dir_ / name, tensors, {{"id", "kda/x"}, {"sizes", "{\"B\":2}"}});
    const TensorFile file = open(dir_ / name);
    EXPECT_EQ(file.tensors().size(), tensors.list().size()) << name;
    EXPECT_EQ(file.metadata().at("sizes"), "{\"B\":2}") << name;
    for (const Tensor& want : tensors.list()) {
      const std::size_t* at = file.find(want.spec.name);
      ASSERT_TRUE(at) << name << want.spec.name;
      const Tensor got = file.read(*at);
      EXPECT_EQ(got.spec.dtype, want.spec.dtype) << name << want.spec.name;
      EXPECT_EQ(got.bytes, want.bytes) << name << want.spec.name;
      ASSERT_EQ(got.spec.dims.size(), want.spec.dims.size());
      for (std::size_t d = 0; d < got.spec.dims.size(); ++d)
        EXPECT_EQ(got.spec.dims[d].extent, want.spec.dims[d].extent);
    }
  }
}

TEST_F(Dumps, NarrowCodesKeepTheirDtypeInSafetensors) {
  Tensors tensors;
  for (const Dtype dtype : {Dtype::E4M3, Dtype::E5M2, Dtype::E8M0, Dtype::E2M1, Dtype::Bool})
    tensors.add(make_tensor(
        {.name = std::string(name(dtype)), .dtype = dtype, .dims = {{"A", 2}, {"B", 2}}},
        std::vector<double>{1, 1, 0.5, 2}));
  write(dir_ / "a.safetensors", tensors, {});
  const TensorFile file = open(dir_ / "a.safetensors");
  for (const Tensor& want : tensors.list()) {
    const Tensor got = file.read(*file.find(want.spec.name));
    EXPECT_EQ(got.spec.dtype, want.spec.dtype);
    EXPECT_EQ(got.bytes, want.bytes);
  }
}

// Ranges that begin and end anywhere, forwards and backwards.
TEST_F(Dumps, AnyRangeIsReadAsItLies) {
  std::vector<double> values(5 * 7 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor whole = make_tensor(
      {.name = "x", .dtype = Dtype::F32, .dims = {{"A", 5}, {"B", 7}, {"C", 3}}}, values);
  Tensors tensors;
  tensors.add(whole);
  for (const char* name : {"a.safetensors", "a.npz", "a.h5"}) {
    write(dir_ / name, tensors, {});
    const TensorFile file = open(dir_ / name);
    for (std::size_t first = 0; first < values.size(); first += 4)
      for (std::size_t count = 1; first + count <= values.size(); count += 5) {
        std::vector<std::byte> part(4 * count);
        file.read(0, static_cast<std::int64_t>(4 * first), part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(),
                               whole.bytes.begin() + static_cast<std::ptrdiff_t>(4 * first)))
            << name << " " << first << " " << count;
      }
  }
}

TEST_F(Dumps, NumpyWritesWhatIsReadHere) {
  const std::string script =
      "import numpy as n\n"
      "n.savez_compressed('c.npz', a=n.arange(24.).reshape(2,3,4), f=n.asfortranarray(n.arange(6,"
      "dtype='f4').reshape(2,3)), b=n.array([True,False]), s=n.float16(2.5))\n"
      "n.save('one.npy', n.arange(5,dtype='u2'))\n"
      "n.save('big.npy', n.arange(5,dtype='>f4'))\n"
      "n.save('object.npy', n.array([{}],dtype=object), allow_pickle=True)\n"
      "n.save('bf16.npy', n.array([0x3f80,0xc000],dtype='u2').view('V2'))\n";
  put("make.py", script);
  if (std::system(("cd " + dir_.string() + " && /usr/bin/python3 make.py 2>/dev/null").c_str()))
    GTEST_SKIP() << "no NumPy here";
  const TensorFile file = open(dir_ / "c.npz");
  const std::vector<double> a = file.read(*file.find("a")).widened();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(a.at(i), static_cast<double>(i));
  EXPECT_EQ(file.read(*file.find("f")).widened(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.read(*file.find("b")).widened(), (std::vector<double>{1, 0}));
  EXPECT_EQ(file.read(*file.find("s")).widened(), std::vector{2.5});
  EXPECT_EQ(open(dir_ / "one.npy").read(0).widened(), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(open(dir_ / "bf16.npy").read(0).widened(), (std::vector<double>{1, -2}));
  EXPECT_NE(complaint(dir_ / "big.npy").find("big-endian"), std::string::npos);
  EXPECT_NE(complaint(dir_ / "object.npy").find("executed"), std::string::npos);
}

TEST_F(Dumps, HostileSafetensorsAreRefusedInALine) {
  const std::string x = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", eight(8, 'a');
  EXPECT_EQ(complaint(put("good.safetensors", safetensors("{" + x + "}", eight))), "");
  const auto field = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + at + "}}";
  };
  std::string huge;
  put_little_endian(huge, ~0ULL, 8);
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "too short"},
      {huge + "{}", "claims a header"},
      {safetensors("{" + x + "}", "short"), "the file after 5"},
      {safetensors("{" + x + "}", eight + "more"), "last 4 bytes"},
      {safetensors("{" + x + "," + x + "}", eight), "twice"},
      {safetensors(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                   eight),
       "twice"},
      {safetensors("{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
       "overlaps"},
      {safetensors(field("\"F33\"", "[2]", "[0,8]"), eight), "F33"},
      {safetensors(field("7", "[2]", "[0,8]"), eight), "dtype"},
      {safetensors(field("\"F32\"", "[3]", "[0,8]"), eight), "need 12"},
      {safetensors(field("\"F32\"", "[-2]", "[0,8]"), eight), "no size"},
      {safetensors(field("\"F32\"", "[4294967296,4294967296]", "[0,8]"), eight), "overflow"},
      {safetensors(field("\"F32\"", "2", "[0,8]"), eight), "shape"},
      {safetensors(field("\"F32\"", "[2]", "[8,0]"), eight), "offsets"},
      {safetensors(field("\"F32\"", "[2]", "[0,1e3]"), eight), "no size"},
      {safetensors(field("\"F32\"", "[2]", "[0]"), eight), "pair"},
      {safetensors("[]"), "no JSON object"},
      {safetensors("{\"\xff\":1}"), "no JSON"},
      {safetensors("{"), "no JSON"},
      {safetensors(std::string(100000, '[')), "too deeply"},
      {safetensors(R"({"__metadata__":{"a":1}})"), "no string"},
  };
  for (const auto& [bytes, words] : cases) {
    const std::string said = complaint(put("bad.safetensors", bytes));
    EXPECT_NE(said.find(words), std::string::npos) << words << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST_F(Dumps, ShardsFollowTheirIndexAndNothingElse) {
  const auto shard = [&](const std::string& file, const std::string& name) {
    Tensors one;
    one.add(make_tensor({.name = name, .dtype = Dtype::F32, .dims = {{"A", 1}}}, std::vector{1.0}));
    fs::create_directories(dir_ / "m");
    write(dir_ / "m" / file, one, {});
  };
  // Eleven shards: nothing depends on the order of their names (fault A-CK04).
  std::string map;
  for (int i = 0; i < 11; ++i) {
    const std::string file = "s" + std::to_string(i) + ".safetensors";
    shard(file, "w" + std::to_string(i));
    map += (i ? "," : "") + ("\"w" + std::to_string(i) + "\":\"" + file + "\"");
  }
  const std::string index = "m/model.safetensors.index.json";
  put(index, "{\"weight_map\":{" + map + "}}");
  EXPECT_EQ(open(dir_ / "m").tensors().size(), 11u);
  const std::pair<std::string, std::string> cases[] = {
      {map + ",\"v\":\"../../etc/x.safetensors\"", "no .safetensors beside it"},
      {map + ",\"v\":\"s0.safetensors\"", "'v' is not in s0"},
      {map + ",\"v\":\"gone.safetensors\"", "no such file"},
      {"\"w1\":\"s0.safetensors\"", "holds 'w0'"}};
  for (const auto& [entries, words] : cases) {
    put(index, "{\"weight_map\":{" + entries + "}}");
    EXPECT_NE(complaint(dir_ / "m").find(words), std::string::npos) << complaint(dir_ / "m");
  }
}

TEST_F(Dumps, HostileArraysAreRefusedInALine) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  EXPECT_EQ(complaint(put("a.npy", npy(good, "12345678"))), "");
  std::string long_header("\x93NUMPY\x02\x00", 8);
  put_little_endian(long_header, 0xFFFFFFFF, 4);
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "too short"},
      {std::string(64, 'x'), "no .npy"},
      {long_header + "{}", "claims a header"},
      {npy(good, "1234567"), "holds 7 bytes"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "12345678"), "twice"},
      {npy("{'descr': '<f4', 'fortran_order': False}", "12345678"), "needs descr"},
      {npy("{'descr': '<f4', 'fortran_order': 7, 'shape': (2,)}", "12345678"), "True nor False"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "12345678"), "negative"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999,9999999999)}", ""),
       "overflow"},
      {npy("{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}", "12345678"), "<f3"},
      {npy("{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (2,)}", ""), "records"},
      {npy("{'descr': '<f4", ""), "without end"},
      {npy("{'descr': '|V1', 'fortran_order': False, 'shape': (2,)}", "12"), "eight-bit"},
  };
  for (const auto& [bytes, words] : cases)
    EXPECT_NE(complaint(put("bad.npy", bytes)).find(words), std::string::npos)
        << words << ": " << complaint(dir_ / "bad.npy");
}

TEST_F(Dumps, HostileArchivesAreRefusedInALine) {
  const std::string array =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (512,), }\n", std::string(2048, 'a'));
  for (const bool deflated : {false, true})
    EXPECT_EQ(complaint(put("a.npz", Zip{.content = array, .deflated = deflated}.str())), "");
  const std::string whole = Zip{.content = array, .deflated = true}.str();
  const std::pair<std::string, std::string> cases[] = {
      {"PK", "no end record"},
      {whole.substr(0, whole.size() - 30), "no end record"},
      {whole.substr(40), "central directory"},
      {Zip{.content = array, .claimed = 99}.str(), "claims 99"},
      // A bomb: more than deflate can expand to.
      {Zip{.content = array, .deflated = true, .claimed = 1LL << 31}.str(), "claims 2147483648"},
      {Zip{.content = array, .deflated = true, .claimed = 4096}.str(), "its header needs"},
      {Zip{.content = array, .flags = 1}.str(), "encrypted"},
      {Zip{.content = array, .method = 12}.str(), "method 12"},
      {Zip{.content = array, .deflated = true, .crc_change = 1}.str(), "checksum"},
      {Zip{.content = array, .crc_change = 1}.str(), "checksum"},
      {Zip{.content = array, .copies = 2}.str(), "overlaps"},
      {Zip{.name = "\xff.npy", .content = array}.str(), "UTF-8"},
      {Zip{.content = "no array at all"}.str(), "no .npy"},
  };
  for (const auto& [bytes, words] : cases) {
    const std::string said = complaint(put("bad.npz", bytes));
    EXPECT_NE(said.find(words), std::string::npos) << words << ": " << said;
  }
}

TEST_F(Dumps, FoldersPrefixNamesAndEmptyOnesAreRefused) {
  Tensors one;
  one.add(make_tensor({.name = "x", .dtype = Dtype::F32, .dims = {{"A", 1}}}, std::vector{1.0}));
  fs::create_directories(dir_ / "d/rank0");
  write(dir_ / "d/rank0/a.safetensors", one, {});
  put("d/b.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "1234"));
  put("d/notes.txt", "not a tensor");
  const TensorFile file = open(dir_ / "d");
  EXPECT_TRUE(file.find("rank0/a/x"));
  EXPECT_TRUE(file.find("b"));
  fs::create_directories(dir_ / "empty");
  EXPECT_NE(complaint(dir_ / "empty").find("holds no"), std::string::npos);
  EXPECT_NE(complaint(dir_ / "gone.npz").find("no such file"), std::string::npos);
  EXPECT_NE(complaint(put("a.bin", "x")).find("suffix"), std::string::npos);
  EXPECT_NE(complaint(put("a.h5", "no HDF5")).find("not an HDF5 file"), std::string::npos);
}

TEST(Utf8, FollowsRfc3629) {
  for (const char* good :
       {"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82", "\xEF\xBF\xBF"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF5\x80\x80\x80", "\xF4\x90\x80\x80", "\xE2\x82", "a\xFF"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

}  // namespace
}  // namespace parity::io
