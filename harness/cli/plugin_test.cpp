// Plug-ins as a kernel developer brings them: the examples, built here and judged, and libraries
// that are wrong in every way that one can be.
#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

class Plugins : public CommandLine {
 protected:
  const std::string header = std::string(test::kSourceDir) + "/harness/plugin";
  const std::string examples = std::string(test::kSourceDir) + "/ci/examples/plugin/";
  const std::string one_case = " 'l2norm/N9,D16/f32/exact_rows/eps=0/s0' -q --force ";

  bool shell(const std::string& line) const {
    return std::system(("cd '" + dir.string() + "' && " + line + " 2>tool.txt").c_str()) == 0;
  }
  bool has(const std::string& tool) const { return shell("command -v " + tool + " >tool.out"); }
  void build(const std::string& compiler, const std::string& source) const {
    ASSERT_TRUE(shell(compiler + " -Wall -Wextra -Werror -shared -fPIC -I '" + header +
                      "' -o k.so '" + source + "' -lm"))
        << text("tool.txt");
  }
  // A plug-in in C++ whose one kernel, of l2norm in f32, has this forward and these other fields.
  void make(const std::string& forward, const std::string& fields = "",
            const std::string& table = "{PARITY_PLUGIN_VERSION, sizeof(parity_kernel), 0, &k, 1}",
            const std::string& symbol = "parity_plugin_kernels") const {
    put("k.cpp",
        "#include \"parity_plugin.h\"\n#include <stdexcept>\n#include <cstdlib>\n"
        "static const char* forward(const parity_launch* l) {\n  (void)l;\n" +
            forward +
            "\n}\n[[maybe_unused]] static const char* no(const parity_case*) "
            "{ return \"only on Sundays\"; }\n"
            "static const char* const f32[] = {\"f32\", nullptr};\n"
            "static parity_kernel k;\n"
            "extern \"C\" PARITY_PLUGIN_EXPORT const parity_plugin* " +
            symbol +
            "() {\n  k.op = \"l2norm\"; k.name = \"l2norm.k\"; k.dtypes = f32; "
            "k.forward = forward;\n  " +
            fields + "\n  static const parity_plugin p = " + table + ";\n  return &p;\n}\n");
    build("c++ -std=c++17", "k.cpp");
  }
  // Refused before anything runs: exit 2, one line.
  void expect_no_plugin(const std::string& words) const {
    expect_refused("run" + one_case + "--plugin k.so", words);
    const std::string said = text("err.txt");
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  void expect_record(int exit, const std::string& words) const {
    const Ran ran = parity("run" + one_case + "--plugin k.so");
    EXPECT_EQ(ran.exit, exit) << ran.out << ran.err;
    EXPECT_NE(text("parity-out/records.jsonl").find(words), std::string::npos)
        << text("parity-out/records.jsonl");
  }
};

TEST_F(Plugins, TheExampleInCIsRightForwardAndBackward) {
  build("cc -std=c99 -pedantic -O2", examples + "l2norm.c");
  const Ran ran = parity("run --plugin k.so -q --force");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("6 pass, 0 fail, 0 unproven, 0 unsupported"), std::string::npos)
      << ran.out;
  EXPECT_NE(text("parity-out/records.jsonl").find("\"direction\":\"both\""), std::string::npos);
}

TEST_F(Plugins, ItsFaultIsFoundExplainedShrunkAndKilled) {
  build("cc -std=c99 -O2", examples + "l2norm.c");
  const std::string faulty = " --plugin k.so --fault P-mine-outside ";
  Ran ran = parity("run 'l2norm/N44,D128/f32/small_rows/s0' -q --force" + faulty);
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("why      parity explain --plugin k.so --fault P-mine-outside "
                         "'l2norm/N44,D128/f32/small_rows/s0@l2norm.plugin_c'"),
            std::string::npos)
      << ran.out;
  ran = parity("explain 'l2norm/N44,D128/f32/small_rows/s0@l2norm.plugin_c'" + faulty);
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("explained   A-NR04: eps outside the root"), std::string::npos) << ran.out;

  ran = parity("shrink 'l2norm/N44,D128/f32/small_rows/s0@l2norm.plugin_c'" + faulty);
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  const std::string file = text("parity-shrunk.txt");
  EXPECT_LE(file.size(), 1024u);
  EXPECT_NE(file.find("D1/f32"), std::string::npos) << file;
  EXPECT_NE(file.find("@l2norm.plugin_c"), std::string::npos) << file;
  EXPECT_EQ(parity("run -q --force --from parity-shrunk.txt" + faulty).exit, 1);
  // Without its fault it has nothing wrong there.
  EXPECT_NE(parity("run -q --force --from parity-shrunk.txt --plugin k.so").exit, 1);
  parity("shrink 'l2norm/N44,D128/f32/small_rows/s0@l2norm.plugin_c'" + faulty);
  EXPECT_EQ(text("parity-shrunk.txt"), file);  // the same one each time

  ran = parity("mutate --plugin k.so --only 'l2norm.plugin_c!*' -q --json");
  EXPECT_NE(ran.out.find("\"id\":\"l2norm.plugin_c!P-mine-outside\""), std::string::npos);
  EXPECT_NE(ran.out.find("\"status\":\"killed\""), std::string::npos) << ran.out;
}

TEST_F(Plugins, TheExampleInCppTakesItsDtypeAndRefusesWideRows) {
  build("c++ -std=c++17 -O2", examples + "l2norm.cpp");
  Ran ran = parity("run --plugin k.so -q --force");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  ran = parity("run 'l2norm/N22,D512/bf16/normal/s0@l2norm.plugin_cpp' --plugin k.so -q --force");
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("rows of more than 128 elements"), std::string::npos) << ran.out;
}

TEST_F(Plugins, TheExampleInRustIsRight) {
  if (!has("rustc")) GTEST_SKIP() << "no rustc here";
  if (!shell("rustc --edition 2021 -O --crate-type cdylib -o k.so '" + examples + "l2norm.rs'"))
    GTEST_SKIP() << "this rustc has no C string literals: " << text("tool.txt");
  const Ran ran = parity("run --plugin k.so -q --force");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
}

TEST_F(Plugins, TheExampleInCudaSaysWhereItCanRun) {
  if (!has("nvcc")) GTEST_SKIP() << "no nvcc here";
  ASSERT_TRUE(shell("nvcc -shared -Xcompiler -fPIC -I '" + header + "' -o k.so '" + examples +
                    "l2norm.cu'"))
      << text("tool.txt");
  const Ran ran = parity("run --plugin k.so -q --force");
  EXPECT_TRUE(ran.exit == 0 || ran.exit == 4) << ran.out << ran.err;  // 4: no GPU
  if (ran.exit == 4) {
    EXPECT_NE(ran.out.find("needs an sm_80+ GPU"), std::string::npos) << ran.out;
  }
}

TEST_F(Plugins, WhatIsNoPluginIsRefusedInOneLine) {
  expect_refused("run --plugin gone.so" + one_case, "--plugin gone.so: no such file");
  put("k.so", "not a library");
  expect_no_plugin("cannot be loaded: ");
  make("return nullptr;", "", "{}", "something_else");
  expect_no_plugin("exports no parity_plugin_kernels()");
  make("return nullptr;", "", "{7, sizeof(parity_kernel), 0, &k, 1}");
  expect_no_plugin("is made for version 7 of parity_plugin.h, and this parity has version 1");
  make("return nullptr;", "", "{PARITY_PLUGIN_VERSION, 16, 0, &k, 1}");
  expect_no_plugin("has kernels of 16 bytes");
  make("return nullptr;", "", "{PARITY_PLUGIN_VERSION, sizeof(parity_kernel), 0, &k, 0}");
  expect_no_plugin("has no kernels");
  make("return nullptr;", "std::abort();");
  expect_no_plugin("while its table was read it killed by SIGABRT");
}

TEST_F(Plugins, AKernelThatSaysNonsenseIsRefusedInOneLine) {
  for (const auto& [field, words] : {std::array{"k.op = \"l2nrom\";", "did you mean 'l2norm'?"},
                                     {"k.op = nullptr;", "names no op"},
                                     {"k.forward = nullptr;", "has no forward"},
                                     {"k.dtypes = nullptr;", "names no data type"},
                                     {"k.accumulate = \"f33\";", "f33"},
                                     {"k.contract = \"q9\";", "has the contract 'q9'"},
                                     {"k.name = \"a b\";", "blanks"},
                                     {"k.name = \"l2norm.rows\";", "there is one of that name"}}) {
    make("return nullptr;", field);
    expect_no_plugin(words);
  }
}

TEST_F(Plugins, WhatGoesWrongInALaunchIsSaidOfThatCase) {
  make("return \"out of registers\";");
  expect_record(3, "forward took the case and then failed: out of registers");
  make("throw std::runtime_error(\"boom\");");
  expect_record(3, "threw: boom");
  make("*static_cast<volatile int*>(nullptr) = 1; return nullptr;");
  expect_record(3, "\"error_kind\":\"crash\"");
  make("return nullptr;");
  expect_record(1, "576 bytes");  // it says that it did, and wrote nothing
  make("static_cast<float*>(const_cast<void*>(parity_in(l, \"x\")))[0] = 7; return nullptr;");
  expect_record(1, "changed input 'x'");
  make("return nullptr;", "k.supports = no;");
  expect_record(4, "only on Sundays");
}

}  // namespace
}  // namespace parity::cli
