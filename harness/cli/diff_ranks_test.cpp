// `parity diff --ranks` from its command line on.
#include "golden/io/tensor_file.hpp"
#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

// Three ranks of a gradient of three elements, each with its local gradient, added in order 1, 2,
// 0.
class DiffRanks : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    fs::create_directory(dir / "a");
    const std::vector<std::vector<double>> local = {{1, 3, 5}, {3e7, 2, 6}, {-3e7, 1, 4}};
    for (std::size_t r = 0; r < 3; ++r) {
      float sum = 0;
      for (const std::size_t q : {1u, 2u, 0u}) sum += static_cast<float>(local[q][r]);
      Tensors tensors;
      tensors.add(make_tensor({.name = "w", .dims = {{"O", 1}}}, std::vector<double>{sum / 3.f}));
      tensors.add(make_tensor({.name = "local/w", .dims = {{"O", 3}}}, local[r]));
      io::write(dir / "a" / ("rank_" + std::to_string(r) + ".npz"), tensors, {});
    }
  }
  void whole(float first) const {
    Tensors tensors;
    tensors.add(make_tensor({.name = "w", .dims = {{"O", 3}}}, std::vector<double>{first, 2, 5}));
    io::write(dir / "b.npz", tensors, {});
  }
};

TEST_F(DiffRanks, EqualRunsAreGreen) {
  whole(1.f / 3.f);
  const Ran ran = parity("diff --ranks a b.npz");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("Shard(0)"), std::string::npos) << ran.out;
}

TEST_F(DiffRanks, ADifferenceOfTheOrderIsSaidToBeOne) {
  whole(((1.f + 3e7f) - 3e7f) / 3.f);  // rank order
  const Ran ran = parity("diff --ranks a b.npz");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("first rank 0, [0]"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("reduction order explains all bits"), std::string::npos) << ran.out;
}

TEST_F(DiffRanks, TracesThatDifferAreShown) {
  whole(1.f / 3.f);
  for (int r = 0; r < 3; ++r)
    put("a/rank_" + std::to_string(r) + ".trace", r == 1 ? "all_gather vis\n" : "all_gather tok\n");
  const Ran ran = parity("diff --ranks a b.npz");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("call 1: rank 1 calls 'all_gather vis', rank 0 'all_gather tok'"),
            std::string::npos)
      << ran.out;
}

// Ranks as processes, where a launcher is there.
class Mpi : public CommandLine {
 protected:
  // OpenMPI leaves what it has allocated to the end of a process, which LeakSanitizer calls a leak.
  Ran under_mpirun(int ranks, const std::string& arguments) const {
    const std::string command = "cd '" + dir.string() +
                                "' && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                                "ASAN_OPTIONS=detect_leaks=0 mpirun --oversubscribe -n " +
                                std::to_string(ranks) + " '" + test::kBinaryDir + "/parity' " +
                                arguments + " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {text("out.txt"), text("err.txt"),
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
  }
  static bool absent() {
    return !fs::exists(fs::path(test::kBinaryDir) / "libparity_mpi.so") ||
           std::system("command -v mpirun >/dev/null") != 0;
  }
};

TEST_F(Mpi, ProcessesGiveTheBitsOfOneProcess) {
  if (absent()) GTEST_SKIP() << "no MPI in this build";
  const Ran ran = under_mpirun(3, "run 'collective/T2*unequal*' --ranks 2,3 --comm mpi");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("24 pass, 0 fail"), std::string::npos) << ran.out;
}

TEST_F(Mpi, ARankThatSkipsABranchIsNamed) {
  if (absent()) GTEST_SKIP() << "no MPI in this build";
  const Ran ran = under_mpirun(
      2, "run 'fsdp/R2*/f32/*text_rank=dummy*' --comm mpi --fault P-fsdp-skipped-branch");
  EXPECT_EQ(ran.exit, 3) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("the ranks do not call the same: rank 1 calls"), std::string::npos)
      << ran.out;
}

}  // namespace
}  // namespace parity::cli
