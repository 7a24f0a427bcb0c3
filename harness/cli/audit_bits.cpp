// parity audit-bits FILE...: random bits that two sites of stochastic rounding share.
#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/bit_reuse.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

// What the command line gave.
struct Given {
  std::vector<std::string> files = {}, same = {};
} given;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;  // of all tensors: the index takes 10x
constexpr std::size_t kMostRuns = 20;                       // on a terminal; -v shows all

std::vector<NamedBits> bits_of(const std::vector<std::string>& files) {
  std::vector<NamedBits> list;
  std::int64_t bytes = 0;
  for (const std::string& path : files) {
    const io::TensorFile file = io::open(path);
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      const io::TensorInfo& info = file.tensors()[i];
      bytes += info.bytes;
      if (bytes > kMostBytes)
        throw UsageError(
            fmt::format("{}: more than {} of random bits", path, reports::bytes_of(kMostBytes)));
      list.push_back({files.size() == 1 ? info.name : path + ":" + info.name, file.read(i).bytes});
    }
  }
  return list;
}

// "A=B": a recompute, which must draw the same bits.
struct Same {
  std::size_t a = 0, b = 0;
};
std::vector<Same> pairs_of(const std::vector<std::string>& texts,
                           const std::vector<NamedBits>& list) {
  std::vector<Same> pairs;
  const auto index = [&](const std::string& name) {
    const auto it = std::ranges::find(list, name, &NamedBits::name);
    if (it == list.end()) throw UsageError(fmt::format("--same: no tensor '{}'", name));
    return static_cast<std::size_t>(it - list.begin());
  };
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--same {}: NAME=NAME is needed", text));
    const std::size_t a = index(text.substr(0, equals));
    const std::size_t b = index(text.substr(equals + 1));
    pairs.push_back({std::min(a, b), std::max(a, b)});
  }
  return pairs;
}

struct Audit {
  std::vector<NamedBits> list = {};
  std::vector<Same> same = {}, unequal = {};
  std::vector<Reuse> runs = {};
  int exit() const { return list.empty() ? 4 : runs.empty() && unequal.empty() ? 0 : 1; }
};

Audit audit_of() {
  Audit audit{.list = bits_of(given.files)};
  audit.same = pairs_of(given.same, audit.list);
  std::vector<NamedBits> distinct;  // without the second of each pair
  std::set<std::size_t> repeats;
  for (const Same& pair : audit.same) {
    repeats.insert(pair.b);
    if (audit.list[pair.a].bytes != audit.list[pair.b].bytes) audit.unequal.push_back(pair);
  }
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < audit.list.size(); ++i) {
    if (repeats.contains(i)) continue;
    index.push_back(i);
    distinct.push_back(audit.list[i]);
  }
  audit.runs = reused(distinct);
  for (Reuse& run : audit.runs) {
    run.a = index[run.a];
    run.b = index[run.b];
  }
  return audit;
}

std::string text_of(const Audit& audit, bool all) {
  std::string text;
  for (const Same& pair : audit.unequal)
    text += fmt::format("NOT THE SAME  {} and {}: a recompute draws other bits\n",
                        reports::visible(audit.list[pair.a].name),
                        reports::visible(audit.list[pair.b].name));
  for (std::size_t i = 0; i < audit.runs.size() && (all || i < kMostRuns); ++i) {
    const Reuse& run = audit.runs[i];
    text += fmt::format("REUSED  {} bytes: {} at {} and {} at {}\n", run.bytes,
                        reports::visible(audit.list[run.a].name), run.at_a,
                        reports::visible(audit.list[run.b].name), run.at_b);
  }
  if (!all && audit.runs.size() > kMostRuns)
    text += fmt::format("and {} more runs; -v shows them\n", audit.runs.size() - kMostRuns);
  return text + fmt::format("{}, {} shared, {} of {} repeats equal\n",
                            reports::count_of(std::ssize(audit.list), "tensor"),
                            reports::count_of(std::ssize(audit.runs), "run"),
                            audit.same.size() - audit.unequal.size(), audit.same.size());
}

std::string json_of(const Audit& audit) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).field("tensors", audit.list.size()).key("reused");
  out.begin_array();
  for (const Reuse& run : audit.runs)
    out.begin_object()
        .field("a", audit.list[run.a].name)
        .field("b", audit.list[run.b].name)
        .field("at_a", run.at_a)
        .field("at_b", run.at_b)
        .field("bytes", run.bytes)
        .end_object();
  out.end_array().key("unequal").begin_array();
  for (const Same& pair : audit.unequal)
    out.begin_object()
        .field("a", audit.list[pair.a].name)
        .field("b", audit.list[pair.b].name)
        .end_object();
  out.end_array().field("exit", audit.exit()).end_object();
  return out.text() + "\n";
}

int audit_bits(const Arguments& args) {
  const Audit audit = audit_of();
  print(args.json ? json_of(audit) : text_of(audit, args.verbose));
  return audit.exit();
}

const RegisterVerb verb{{
    .path = "audit-bits",
    .what = "Random bits of stochastic rounding that two sites, ranks or steps share",
    .examples =
        "  parity audit-bits rank0.safetensors rank1.safetensors\n"
        "  parity audit-bits rbits.npz --same forward=recompute    a recompute draws the same",
    .options = {{.names = "files",
                 .type = "FILE",
                 .to = &given.files,
                 .what = "Dumps of the random bits that each site drew, one tensor each",
                 .required = true},
                {.names = "--same",
                 .type = "NAME=NAME",
                 .to = &given.same,
                 .what = "A recompute: these two tensors must be equal, and may be"}},
    .call = audit_bits,
}};

}  // namespace

}  // namespace parity::cli
