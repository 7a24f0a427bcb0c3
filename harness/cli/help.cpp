#include "harness/cli/help.hpp"

#include "harness/failure.hpp"

namespace parity::cli {
namespace {

struct Entry {
  std::string_view verb;
  Help help;
};

constexpr Entry kVerbs[] = {
    {"list",
     {"Ops, kernels, cases and goldens",
      "  parity list                    an overview\n"
      "  parity list --support          which kernel takes which case here, and why not\n"
      "  parity list --coverage         op x direction x dtype x kernel; holes, explained or not\n"
      "  parity list 'kda/*' --lane full  ids, one a line"}},
    {"show",
     {"One case: inputs, contract, bound term by term, waiver, golden; or what a checkpoint holds",
      "  parity show 'kda/T64,H2,K64,V64/f32/uniform/s0@kda.chunked_f32'\n"
      "  parity show --checkpoint Kimi-K3/ --model k3      what is missing, too much, misshapen"}},
    {"run",
     {"Judge kernels: forward, backward, bit equality, exact probes, recordings",
      "  parity run                                 the smoke lane\n"
      "  parity run 'kda/*/bf16/*' --kernel '*chunked*' --direction backward\n"
      "  parity run '<id>' -v                       one case again, everything shown\n"
      "  parity run --lane full --shard 1/4 --out part1\n"
      "  parity run --lane full --resume            after a crash or Ctrl-C: finish what is "
      "left\n"
      "  parity run --repeat 5 --bitwise 'kda/*'    are results bit for bit what the "
      "contract claims?\n"
      "  parity run 'decoder/debug_layers*' --fault P-decoder-scale\n"
      "                                             a planted fault: which layer does the "
      "report name?\n"
      "  parity run 'kda/*/f32/*' --exec 'python3 mine.py {in} {out}'\n"
      "                                             is my kernel right? any program is a "
      "candidate\n"
      "  parity run --recording kernels_h200.h5     judge tensors that a kernel returned "
      "elsewhere"}},
    {"diff",
     {"Two dumps (files of tensors or folders of them), tensor by tensor, in one pass",
      "  parity diff eager.safetensors mine.safetensors\n"
      "  parity diff a/ b/ --rename 'model.*=*' --json\n"
      "  parity diff old.npz new.npz --truth fp64.h5     is B further from the truth than A?\n"
      "  parity diff a.h5 b.h5 --bound 1e-5              largest |B - A| in units of the RMS of "
      "A"}},
    {"mutate",
     {"Proof that the gate can fail: known faults switched on one by one, and false alarms",
      "  parity mutate --lane smoke\n  parity mutate --only 'kda*' -v      how each fault "
      "was caught"}},
    {"gate",
     {"All that CI needs in one folder and one page: goldens, recordings, lanes, mutants",
      "  parity gate --lane full --out results --force"}},
    {"registry", {"", ""}},
    {"golden",
     {"Write, check, compare and describe golden files",
      "  parity golden verify golden/independent/kda.h5\n  parity golden info FILE.h5"}},
    {"golden freeze",
     {"Freeze inputs, fp64 truth, scale and noise floor of cases into a file",
      "  parity golden freeze --file golden/data/kda.h5 'kda/*/f32/uniform/s0'"}},
    {"golden verify",
     {"Judge the reference (and with --kernel a kernel) against stored truth; both "
      "families of files",
      "  parity golden verify golden/independent/*.h5\n"
      "  parity golden verify golden/independent/kda.h5 --kernel kda.chunked_f32\n"
      "  parity golden verify --digests large.h5"}},
    {"golden diff",
     {"Two golden files, case by case, in noise units: toolchain noise or a change of meaning?",
      "  parity golden diff old.h5 new.h5"}},
    {"golden manifest",
     {"Bring golden/MANIFEST.json up to date with the files below golden/",
      "  parity golden manifest"}},
    {"golden info",
     {"Cases, ops, source and digest of golden files",
      "  parity golden info golden/independent/*.h5"}},
};

}  // namespace

const char* const kAbout =
    R"(parity - does this kernel compute what it should, and would we have noticed if it did not?

Every candidate is judged against an fp64 truth of the same stored inputs, forward and backward, by bounds that say
where they come from. A run leaves a folder: records, JUnit, Markdown and one HTML page.)";

const char* const kMore = R"(
Exit codes
  0 pass   1 a kernel is wrong   2 wrong usage or a broken harness   3 crash, timeout, no device
  4 not proven (nothing ran, a case proves nothing, a mutant survived)   5 golden missing or tampered with

Ids   op/sizes/dtype/fill[/options]/sSEED[@kernel[options]]   printed with every verdict and accepted everywhere;
      in a glob, * crosses '/'; op/fill/dtype is a short form for globs: 'decoder/debug*'

Start here
  parity list                          what there is to judge
  parity run 'kda/*/bf16/*'            judge every bf16 case of one op, on all of its kernels
  parity show '<id>'                   inputs, contract and bound of one case, term by term
  parity <verb> --help)";

Help help_of(std::string_view verb) {
  for (const Entry& entry : kVerbs)
    if (entry.verb == verb) return entry.help;
  throw Failure("a verb without help");
}

}  // namespace parity::cli
