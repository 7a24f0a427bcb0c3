#include "harness/cli/ranks.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <set>

#include "harness/cli/verb.hpp"
#include "harness/dist/mpi.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/fsdp/ranks.hpp"

namespace parity::cli {
namespace {

std::string ranks, comm;

const MoreOptions run_has{
    "run",
    {{.names = "--ranks",
      .type = "N,N",
      .to = &ranks,
      .what = "Only cases of that many ranks (fsdp, collective)"},
     {.names = "--comm",
      .type = "WORD",
      .to = &comm,
      .what =
          "What ranks are: threads of this process (the usual), or mpi: processes, under mpirun",
      .words = {"threads", "mpi"}}}};

}  // namespace

Arguments with_ranks(const Arguments& given) {
  Arguments args = given;
  if (comm == "threads" && args.kernel.empty()) args.kernel = "*.threads";
  if (comm != "mpi") return args;
  const dist::Communicator& world = dist::mpi_world({.patience_s = args.timeout_s});
  fsdp::register_mpi_kernels();
  if (args.kernel.empty()) args.kernel = "*.mpi";
  args.isolate = false;  // every process walks the same cases, and meets the others in each
  args.jobs = 1;
  if (world.rank() > 0) {
    args.quiet = true;
    if (std::freopen("/dev/null", "w", stdout) == nullptr) throw Failure("stdout cannot be closed");
    args.out = fmt::format("{}.rank{}", args.out.empty() ? "parity-out" : args.out, world.rank());
  }
  return args;
}

void keep_ranks(std::vector<Subject>& subjects) {
  if (ranks.empty()) return;
  std::set<std::int64_t> wanted;
  for (const std::string& word : split(ranks, ',')) {
    const std::int64_t n = to_integer(word, "--ranks");
    if (n < 1) throw UsageError(fmt::format("--ranks {}: ranks are numbers from 1", ranks));
    wanted.insert(n);
  }
  std::erase_if(subjects, [&](const Subject& subject) {
    return !wanted.contains(subject.problem.sizes.get("R", 0));
  });
  if (subjects.empty())
    throw UsageError(fmt::format("--ranks {}: none of these cases has that many ranks", ranks));
}

}  // namespace parity::cli
